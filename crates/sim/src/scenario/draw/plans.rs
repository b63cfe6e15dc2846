//! Plans of days that last for seconds: made for the rules in force and for others, in time and late, sound and not.

use punctual_core::event::Event;
use punctual_core::id::{PlanId, Units};
use punctual_core::mode::Mode;
use punctual_core::plan::{Knobs, Plan, Spinup};
use punctual_core::policy::Policy;
use punctual_core::route::Counting;
use punctual_core::time::{Span, Time};

use super::Dice;

/// Has plans followed, and adopts some now and then; the rules turn their knobs meanwhile, and sometimes more.
pub(super) fn draw(dice: &mut Dice, horizon: Span, policy: &mut Policy, script: &mut Vec<(Time, Event)>) {
    if dice.sometimes(0.5) {
        return;
    }
    policy.planning = mode(dice);
    if policy.scaling.offers.is_empty() && dice.sometimes(0.7) {
        policy.scaling.offers = [1, 4].into_iter().map(|units| super::offer(dice, units)).collect();
    }
    // Budgets that are nearly spent with what is planned for the time that a cluster lives.
    if policy.scaling.mode == Mode::On {
        (policy.scaling.lifetime, policy.max_clusters) = (dice.span(20.0, 200.0), 8);
        if dice.sometimes(0.7) {
            (policy.scaling.most, policy.scaling.most_per_hour) = (10, Some(dice.between(30.0, 150.0)));
        } else {
            (policy.scaling.most, policy.scaling.most_per_hour) = (dice.one_of(&[3, 4, 5, 6]), None);
        }
    }
    for (_, event) in &mut *script {
        if let Event::PolicyAdopted(policy) = event {
            policy.planning = mode(dice);
        }
    }
    for number in 0..=dice.0.below(5) {
        let at = if dice.sometimes(0.5) { Time::ZERO } else { dice.at(horizon) };
        let plan = plan(dice, number, horizon, policy);
        script.push((at, Event::PlanAdopted(Box::new(plan))));
    }
    if dice.sometimes(0.3) {
        let mut other = knobs(dice, policy).turned(policy);
        if dice.sometimes(0.3) {
            other.planning = mode(dice);
        }
        if dice.sometimes(0.3) {
            other.violation_target = 0.1;
        }
        script.push((dice.at(horizon), Event::PolicyAdopted(Box::new(other))));
    }
    if dice.sometimes(0.2) {
        script.push((dice.at(horizon), Event::PlanDropped));
    }
}

fn mode(dice: &mut Dice) -> Mode {
    dice.one_of(&[Mode::On, Mode::On, Mode::On, Mode::On, Mode::Shadow, Mode::Suggest, Mode::Off])
}

fn plan(dice: &mut Dice, number: u64, horizon: Span, policy: &Policy) -> Plan {
    let from = if dice.sometimes(0.2) { Time::ZERO } else { dice.at(horizon) };
    let length = dice.span(horizon.secs_f64() / 20.0, horizon.secs_f64() * 2.0);
    let mut offers: Vec<Units> = policy.scaling.offers.iter().map(|offer| offer.units).collect();
    if offers.is_empty() || dice.sometimes(0.05) {
        offers.push(Units(3));
    }
    let mut fleet: Vec<Units> = (0..dice.0.below(3)).map(|_| dice.one_of(&offers)).collect();
    fleet.sort_unstable();
    let spinup = |dice: &mut Dice| Spinup { at: dice.at(length).since(Time::ZERO), size: dice.one_of(&offers) };
    let mut spinups: Vec<Spinup> = (0..dice.0.below(7)).map(|_| spinup(dice)).collect();
    if dice.sometimes(0.95) {
        spinups.sort_unstable();
    }
    // Once in a while the same again.
    let id = PlanId(if dice.sometimes(0.1) { 0 } else { number });
    let made_for = policy.ground() ^ u64::from(dice.sometimes(0.05));
    Plan { id, from, until: from + length, fleet, spinups, knobs: knobs(dice, policy), made_for }
}

fn knobs(dice: &mut Dice, policy: &Policy) -> Knobs {
    Knobs {
        lifetime: dice.span(0.1, 20.0),
        idle: dice.span(0.1, 20.0),
        observations: dice.one_of(&[0, 1, 3, 10]),
        late_share: dice.one_of(&[0.0, 0.05, 0.5]),
        counting: dice.one_of(&Counting::ALL),
        ..Knobs::of(policy)
    }
}
