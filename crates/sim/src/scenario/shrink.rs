//! A failing scenario made smaller: what can be left out and it still fails the same way is left out. What remains is
//! short enough to be read, and to be written down as a story.

use punctual_core::admit::Order;
use punctual_core::admit::claim::Claim;
use punctual_core::admit::lanes::Lanes;
use punctual_core::admit::terms::{Terms, Thresholds, Weight};
use punctual_core::event::Event;
use punctual_core::policy::Policy;
use punctual_core::scale::Scaling;
use punctual_core::time::Span;

use super::{Failure, Scenario, run};

/// The smallest scenario that it comes to by leaving things out one at a time, and how that one fails. None if the
/// scenario does not fail.
pub fn shrink(scenario: &Scenario) -> Option<(Scenario, Failure)> {
    let mut failure = *run(scenario).err()?;
    let mut smallest = scenario.clone();
    loop {
        let smaller = simpler(&smallest).into_iter().find_map(|candidate| {
            let fails = *run(&candidate).err()?;
            (kind(&fails) == kind(&failure)).then_some((candidate, fails))
        });
        match smaller {
            Some((candidate, fails)) => (smallest, failure) = (candidate, fails),
            None => return Some((smallest, failure)),
        }
    }
}

/// What went wrong, without the numbers in it.
fn kind(failure: &Failure) -> String {
    failure.what.chars().take_while(|c| *c != '[').filter(|c| !c.is_ascii_digit()).take(60).collect()
}

/// Every scenario with one thing less, those with much less first.
fn simpler(scenario: &Scenario) -> Vec<Scenario> {
    let mut simpler = Vec::new();
    let mut without = |change: &dyn Fn(&mut Scenario)| {
        let mut candidate = scenario.clone();
        change(&mut candidate);
        if candidate != *scenario {
            simpler.push(candidate);
        }
    };
    for percent in [25, 50, 90] {
        without(&|s| s.horizon = Span::from_micros(s.horizon.micros() * percent / 100));
    }
    for index in 0..scenario.script.len() {
        if !matches!(scenario.script[index].1, Event::ShutdownWanted { .. }) {
            without(&|s| {
                s.script.remove(index);
            });
        }
    }
    for index in 0..scenario.mix.shares.len() {
        without(&|s| {
            s.mix.shares.remove(index);
        });
        without(&|s| s.mix.shares[index].statements = 1);
    }
    without(&|s| s.mix.clients = None);
    for index in 0..scenario.script.len() {
        without(&|s| {
            if let Event::PlanAdopted(plan) = &mut s.script[index].1 {
                plan.fleet.clear();
            }
        });
        without(&|s| {
            if let Event::PlanAdopted(plan) = &mut s.script[index].1 {
                plan.spinups.clear();
            }
        });
    }
    without(&|s| s.policy.scaling = Scaling::default());
    without(&|s| s.policy.scaling.offers.truncate(1));
    without(&|s| s.policy.scaling.most_per_hour = None);
    without(&|s| plain(&mut s.policy));
    without(&|s| s.policy.order = Order::Fifo);
    without(&|s| s.policy.lanes = Lanes::none());
    without(&|s| (s.policy.max_running, s.policy.adaptive) = (None, None));
    for index in 0..scenario.policy.classes.len() {
        without(&|s| s.policy.classes[index].terms = Terms::default());
        without(&|s| s.policy.classes[index].terms.thresholds = Thresholds::default());
        without(&|s| s.policy.classes[index].terms.weight = Weight::default());
    }
    for index in 0..scenario.mix.shares.len() {
        without(&|s| (s.mix.shares[index].claim, s.mix.shares[index].users) = (Claim::default(), 1));
    }
    for index in 0..scenario.script.len() {
        without(&|s| {
            if let Event::PolicyAdopted(policy) = &mut s.script[index].1 {
                plain(policy);
            }
        });
    }
    without(&|s| s.conditions.start_failures = 0.0);
    without(&|s| s.conditions.life = None);
    without(&|s| s.conditions.bounces = 0.0);
    without(&|s| s.conditions.errors = 0.0);
    without(&|s| s.conditions.stubborn = 0.0);
    without(&|s| s.conditions.client_cancels = 0.0);
    without(&|s| s.conditions.disconnects = 0.0);
    without(&|s| s.conditions.start_least = Span::ZERO);
    without(&|s| s.conditions.start_more = Span::ZERO);
    without(&|s| s.conditions.stop = Span::ZERO);
    without(&|s| s.conditions.connect = Span::ZERO);
    without(&|s| s.conditions.transit = Span::ZERO);
    without(&|s| s.conditions.wakes_late = Span::ZERO);
    without(&|s| s.conditions.cancel = Span::ZERO);
    simpler
}

/// Leaves out all rules of admission.
fn plain(policy: &mut Policy) {
    policy.classes.iter_mut().for_each(|class| class.terms = Terms::default());
    (policy.order, policy.lanes, policy.max_running, policy.adaptive) = (Order::Fifo, Lanes::none(), None, None);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::random;

    #[test]
    fn a_scenario_in_which_all_is_well_is_not_made_smaller() {
        assert_eq!(shrink(&random(1)), None);
    }

    #[test]
    fn what_does_not_matter_for_the_failure_is_left_out() {
        // Without its shutdown a scenario fails in the end, whatever else there is in it.
        let mut scenario = random(1);
        scenario.script.retain(|(_, event)| !matches!(event, Event::ShutdownWanted { .. }));
        scenario.conditions.life = None;
        let (smallest, failure) = shrink(&scenario).expect("it fails");
        assert!(failure.what.contains("shut down"), "{failure}");
        assert!(smallest.script.is_empty() && smallest.mix.shares.is_empty(), "{smallest:?}");
        assert!(smallest.horizon < Span::from_millis(1), "{smallest:?}");
    }
}
