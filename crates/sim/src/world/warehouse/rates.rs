//! How fast queries go that share a cluster's processors and its I/O.
//!
//! Each resource is divided max-min fairly: everyone gets the same level of it, except that who can use less takes no
//! more than that, and what is left goes to the others. A query's progress is set by the resource that is scarcer for
//! it, so of the other one it can use no more than that progress needs. The two hang together; a few rounds, one
//! resource after the other, each only ever taking from who has more than its level, come close to where nobody can go
//! faster without someone slower going slower. No resource is ever given away twice.

/// What a query needs from beginning to end, and the most of either resource that it can take at once.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Need {
    /// Seconds of one unit.
    pub(super) cpu: f64,
    /// Seconds of one unit's bandwidth.
    pub(super) io: f64,
    /// Units.
    pub(super) most: f64,
}

/// Rounds over both resources. After the third, what is still left over is below a percent.
const ROUNDS: usize = 3;

/// The share of itself that each query gets done in a second, on a cluster of `units`.
pub(super) fn rates(units: f64, needs: &[Need]) -> Vec<f64> {
    let alone = |need: &Need| need.most.min(units) / need.cpu.max(need.io).max(LEAST);
    let mut rates: Vec<f64> = needs.iter().map(alone).collect();
    let mut wanted = Vec::with_capacity(needs.len());
    for _ in 0..ROUNDS {
        for of in [|need: &Need| need.cpu, |need: &Need| need.io] {
            wanted.clear();
            wanted.extend(needs.iter().zip(&rates).map(|(need, rate)| of(need) * rate));
            let level = level(units, &mut wanted);
            for (need, rate) in needs.iter().zip(&mut rates) {
                if of(need) * *rate > level {
                    *rate = level / of(need);
                }
            }
        }
    }
    rates
}

/// Work below this many seconds is done at once, and divides nothing by zero.
const LEAST: f64 = 1e-9;

/// The level at which max-min fairness gives `units` away. Sorts what is wanted.
fn level(units: f64, wanted: &mut [f64]) -> f64 {
    wanted.sort_by(f64::total_cmp);
    let mut left = units;
    for (at, want) in wanted.iter().enumerate() {
        let share = left / (wanted.len() - at) as f64;
        if *want > share {
            return share;
        }
        left -= want;
    }
    units
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn need(cpu: f64, io: f64, most: f64) -> Need {
        Need { cpu, io, most }
    }

    #[test]
    fn alone_the_scarcer_resource_sets_the_pace() {
        assert_eq!(rates(8.0, &[need(16.0, 4.0, 64.0)]), [0.5]);
        assert_eq!(rates(8.0, &[need(4.0, 16.0, 64.0)]), [0.5]);
        assert_eq!(rates(8.0, &[need(16.0, 4.0, 2.0)]), [0.125]);
    }

    #[test]
    fn what_one_cannot_use_goes_to_the_others() {
        // Two of eight units for the first, three for each of the others.
        let rates = rates(8.0, &[need(2.0, 0.0, 2.0), need(3.0, 0.0, 64.0), need(6.0, 0.0, 64.0)]);
        assert_eq!(rates, [1.0, 1.0, 0.5]);
    }

    #[test]
    fn queries_that_want_different_things_do_not_slow_each_other_down() {
        let rates = rates(8.0, &[need(16.0, 0.1, 64.0), need(0.1, 16.0, 64.0)]);
        assert!(rates.iter().all(|rate| *rate > 0.49), "{rates:?}");
    }

    proptest! {
        #[test]
        fn no_resource_is_given_away_twice_and_one_is_used_up_or_everyone_goes_at_full_speed(
            needs in prop::collection::vec((0.1f64..100.0, 0.1f64..100.0, 1.0f64..40.0), 1..40),
            units in 1.0f64..64.0,
        ) {
            let needs: Vec<Need> = needs.iter().map(|&(cpu, io, most)| need(cpu, io, most)).collect();
            let given = rates(units, &needs);
            let used = |of: fn(&Need) -> f64| needs.iter().zip(&given).map(|(need, rate)| of(need) * rate).sum::<f64>();
            let (cpu, io) = (used(|need| need.cpu), used(|need| need.io));
            prop_assert!(cpu <= units * 1.000_001 && io <= units * 1.000_001, "{cpu} {io} of {units}");
            let full = needs.iter().zip(&given).all(|(need, rate)| {
                *rate > 0.999 * need.most.min(units) / need.cpu.max(need.io)
            });
            prop_assert!(full || cpu.max(io) > 0.9 * units, "{cpu} {io} of {units}");
        }
    }
}
