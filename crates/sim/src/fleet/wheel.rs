//! When services end, if they remember how long they have taken: buckets of time on a wheel.
//!
//! ```text
//!           near (sorted): 3.01 3.04 3.07
//!                            │
//!   │ 2.9 │ 3.0 │ 3.1 │ 3.2 │ …     a bucket is a list of servers, in no order;
//!             turn ──▶               what is due a round later is in the same list, and stays when its bucket comes
//! ```
//!
//! A heap of all the services touches as many cache lines as it has levels, for each end. Here a server is linked into
//! the bucket of its instant and sorted among the few of its bucket when that comes: O(1), three cache lines. A bucket
//! is as wide as one or two ends need; one round is [`ROUND`] mean service times, so that nearly all ends are in this
//! round.
//!
//! The wheel is never turned beyond the instant up to which the caller asks, so that what is put down later never comes
//! before the buckets that were turned already, except within the present one, where it is sorted in.

use super::timers::{Due, NONE};

/// How many mean service times one round is.
const ROUND: f64 = 4.0;

/// Services by their end.
#[derive(Clone, Debug)]
pub(super) struct Wheel {
    /// The first server of each bucket.
    heads: Box<[u32]>,
    /// Buckets per mean service time.
    per_time: f64,
    /// The bucket, counted from the start of time, that `near` was taken from.
    turn: u64,
    /// What is due in that bucket or before, the next one last.
    near: Vec<(f64, u32)>,
    /// How many are in the buckets.
    far: usize,
}

impl Wheel {
    /// A wheel for so many servers.
    pub(super) fn new(servers: u32) -> Wheel {
        let buckets = (servers as usize).clamp(16, 1 << 26).next_power_of_two();
        let heads = vec![NONE; buckets].into();
        Wheel { heads, per_time: buckets as f64 / ROUND, turn: 0, near: Vec::new(), far: 0 }
    }

    /// The service of a server ends at `at`, which is written into its seat.
    #[inline]
    pub(super) fn add(&mut self, seats: &mut [Due], server: u32, at: f64) {
        seats[server as usize].at = at;
        let bucket = self.bucket(at);
        if bucket <= self.turn {
            let place = self.near.partition_point(|near| *near > (at, server));
            self.near.insert(place, (at, server));
        } else {
            let head = &mut self.heads[bucket as usize & (self.heads.len() - 1)];
            seats[server as usize].next = *head;
            *head = server;
            self.far += 1;
        }
    }

    /// When the next service ends, if it does by `until`; turns the wheel up to there at most.
    #[inline]
    pub(super) fn next_at(&mut self, seats: &mut [Due], until: f64) -> Option<f64> {
        if self.near.is_empty() {
            self.turn_to(seats, until);
        }
        self.near.last().map(|(at, _)| *at).filter(|at| *at <= until)
    }

    /// Takes off the server whose service ends next, after [`Wheel::next_at`] has said that there is one.
    #[inline]
    pub(super) fn take(&mut self) -> Option<u32> {
        self.near.pop().map(|(_, server)| server)
    }

    /// Bytes in use.
    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.heads) + self.near.capacity() * size_of::<(f64, u32)>()
    }

    fn turn_to(&mut self, seats: &mut [Due], until: f64) {
        let last = self.bucket(until);
        while self.near.is_empty() && self.turn < last {
            if self.far == 0 {
                self.turn = last;
                return;
            }
            self.turn += 1;
            self.gather(seats);
        }
    }

    /// Moves what is due in the present bucket to `near`, and leaves what is due a round later.
    fn gather(&mut self, seats: &mut [Due]) {
        let slot = self.turn as usize & (self.heads.len() - 1);
        let mut server = std::mem::replace(&mut self.heads[slot], NONE);
        while server != NONE {
            let Due { at, next, .. } = seats[server as usize];
            if self.bucket(at) <= self.turn {
                self.near.push((at, server));
                self.far -= 1;
            } else {
                seats[server as usize].next = self.heads[slot];
                self.heads[slot] = server;
            }
            server = next;
        }
        self.near.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(b.1.cmp(&a.1)));
    }

    #[inline]
    fn bucket(&self, at: f64) -> u64 {
        (at * self.per_time) as u64
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn ends_come_in_the_order_of_time(
            steps in prop::collection::vec((0.0..30.0f64, 0.0..0.5f64), 1..200),
        ) {
            let servers = steps.len() as u32;
            let mut seats = vec![Due::default(); servers as usize];
            let mut wheel = Wheel::new(servers);
            let mut naive: Vec<(f64, u32)> = Vec::new();
            let mut now = 0.0;
            let drain = |wheel: &mut Wheel, seats: &mut [Due], naive: &mut Vec<(f64, u32)>, until: f64| {
                naive.sort_by(|a, b| a.partial_cmp(b).expect("they are numbers"));
                while let Some(at) = wheel.next_at(seats, until) {
                    let server = wheel.take().expect("it was announced");
                    assert_eq!((at, server), naive.remove(0));
                }
                assert!(naive.first().is_none_or(|first| first.0 > until));
            };
            for ((lasts, gap), server) in steps.into_iter().zip(0..) {
                wheel.add(&mut seats, server, now + lasts);
                naive.push((now + lasts, server));
                now += gap;
                drain(&mut wheel, &mut seats, &mut naive, now);
            }
            drain(&mut wheel, &mut seats, &mut naive, 1e9);
            prop_assert!(naive.is_empty());
        }
    }
}
