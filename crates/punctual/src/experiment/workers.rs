//! Many runs on all cores, whose results come in the order of the runs whatever the order in which they end.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Does `work` for each number below `of`. `tell` hears of each that is done, of how many; None if `stop` was set before all were,
/// or one of them panicked.
pub fn all<T: Send>(
    of: usize,
    stop: &AtomicBool,
    tell: &(dyn Fn(usize, usize) + Sync),
    work: impl Fn(usize) -> T + Sync,
) -> Option<Vec<T>> {
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let one_thread = || {
        let mut mine: Vec<(usize, T)> = Vec::new();
        while !stop.load(Ordering::Relaxed) {
            let at = next.fetch_add(1, Ordering::Relaxed);
            if at >= of {
                break;
            }
            mine.push((at, work(at)));
            tell(done.fetch_add(1, Ordering::Relaxed) + 1, of);
        }
        mine
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut results: Vec<(usize, T)> = std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(one_thread)).collect();
        running.into_iter().flat_map(|thread| thread.join().unwrap_or_default()).collect()
    });
    results.sort_by_key(|(at, _)| *at);
    (results.len() == of).then(|| results.into_iter().map(|(_, result)| result).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_the_order_of_the_runs_and_not_at_all_once_it_was_stopped() {
        let stop = AtomicBool::new(false);
        let heard = AtomicUsize::new(0);
        let tell = |_: usize, _: usize| {
            heard.fetch_add(1, Ordering::Relaxed);
        };
        assert_eq!(all(50, &stop, &tell, |at| at * at), Some((0..50).map(|at| at * at).collect::<Vec<_>>()));
        assert_eq!(heard.load(Ordering::Relaxed), 50);
        assert_eq!(all(0, &stop, &tell, |at| at), Some(Vec::new()));
        stop.store(true, Ordering::Relaxed);
        assert_eq!(all(50, &stop, &tell, |at| at), None);
    }
}
