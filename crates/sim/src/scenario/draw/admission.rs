//! Rules of admission out of seeds, and queries that are somebody's: with limits at their edges (nothing may run, nothing
//! may wait, nobody may wait at all), lanes that do not exist, and classes that hand what runs to each other.
//!
//! Where everything is limited, nearly all is refused and nobody's turn ever comes. So some scenarios have few limits, and some
//! many caps.

use punctual_core::admit::Order;
use punctual_core::admit::claim::{Claim, Scan};
use punctual_core::admit::gradient::Adaptive;
use punctual_core::admit::lanes::{Lane, Lanes, Limit};
use punctual_core::admit::terms::{Cap, Quota, Terms, Then, Thresholds, Weight};
use punctual_core::id::UserId;
use punctual_core::policy::Policy;
use punctual_core::time::Span;

use super::Dice;
use crate::workload::Mix;

/// Whose queries are, and what they ask for; a third of the time nobody's.
pub(super) fn claims(dice: &mut Dice, mix: &mut Mix) {
    if dice.sometimes(0.3) {
        return;
    }
    for share in &mut mix.shares {
        let priority = some(dice, 0.5, |dice| dice.one_of(&[-7, -1, 0, 2, 9]));
        share.claim = Claim { user: UserId(dice.0.below(3)), priority, scan: some(dice, 0.6, scan), writes: false };
        share.users = dice.one_of(&[1, 1, 2, 5]);
    }
}

/// How likely rules are in a scenario.
#[derive(Clone, Copy)]
struct Likely {
    limits: f64,
    caps: f64,
}

/// Puts rules of admission into a policy; a third of the time none.
pub(super) fn rules(dice: &mut Dice, policy: &mut Policy) {
    if dice.sometimes(0.3) {
        return;
    }
    policy.order = dice.one_of(&[Order::Fifo, Order::Fair]);
    policy.half_life = dice.span(0.05, 300.0);
    let likely = Likely { limits: dice.one_of(&[0.05, 0.25]), caps: dice.one_of(&[0.1, 0.7]) };
    policy.lanes = lanes(dice, likely);
    policy.max_running = some(dice, likely.limits, |dice| dice.one_of(&[0, 1, 2, 3, 5, 10]));
    policy.adaptive = some(dice, 0.2, |dice| Adaptive {
        least: dice.one_of(&[0, 1, 2, 20]),
        tolerance: dice.one_of(&[1.0, 1.5, 4.0]),
    });
    // Those of the class for housekeeping say nothing.
    for class in &mut policy.classes {
        if dice.sometimes(0.7) {
            class.terms = terms(dice, likely);
        }
    }
}

/// Something with that probability.
fn some<T>(dice: &mut Dice, p: f64, draw: impl Fn(&mut Dice) -> T) -> Option<T> {
    if dice.sometimes(p) { Some(draw(dice)) } else { None }
}

fn long(dice: &mut Dice) -> Span {
    dice.span(1.0, 100.0)
}

fn scan(dice: &mut Dice) -> Scan {
    Scan {
        reach: some(dice, 0.7, long),
        duration: some(dice, 0.7, long),
        segments: some(dice, 0.5, |dice| dice.0.below(100) as u32),
        segment_range: some(dice, 0.5, long),
    }
}

fn lanes(dice: &mut Dice, likely: Likely) -> Lanes {
    match dice.0.below(5) {
        0 => Lanes::none(),
        1 | 2 => Lanes::hilo(dice.one_of(&[0.0, 1.0, 25.0, 50.0, 99.0])),
        _ => {
            let lanes = 1 + dice.0.below(3);
            Lanes::manual((0..lanes).map(|number| lane(dice, number, likely)).collect())
        }
    }
}

fn lane(dice: &mut Dice, number: u64, likely: Likely) -> Lane {
    let limit = |dice: &mut Dice, counts: &[u32]| {
        let (count, percent) = (dice.one_of(counts), dice.one_of(&[10.0, 33.3, 50.0, 75.0]));
        dice.one_of(&[Limit::Count(count), Limit::Percent(percent)])
    };
    Lane {
        name: format!("lane{number}"),
        limit: some(dice, 2.0 * likely.limits, |dice| limit(dice, &[0, 1, 1, 2, 4])),
        guarantee: some(dice, 0.5, |dice| limit(dice, &[1, 2, 4])),
        max_queued: some(dice, likely.limits, |dice| dice.one_of(&[0, 1, 3, 10])),
        queue_timeout: some(dice, likely.limits, timeout),
    }
}

fn timeout(dice: &mut Dice) -> Span {
    if dice.sometimes(0.2) { Span::ZERO } else { dice.span(0.01, 30.0) }
}

fn terms(dice: &mut Dice, likely: Likely) -> Terms {
    Terms {
        priority: dice.one_of(&[-5, -1, 0, 0, 3]),
        may_ask: dice.one_of(&[(0, 0), (-10, 10), (-3, 2), (5, -5)]),
        thresholds: thresholds(dice),
        adjustment: dice.one_of(&[5, 5, 1, 0, -4]),
        lane: some(dice, 0.7, |dice| dice.one_of(&["lane0", "lane0", "lane1", "lane2", "nowhere"]).to_owned()),
        share: dice.between(0.1, 10.0),
        weight: weight(dice),
        max_running: some(dice, likely.limits, |dice| dice.one_of(&[0, 1, 1, 2, 4])),
        max_queued: some(dice, likely.limits, |dice| dice.one_of(&[0, 1, 3, 10])),
        queue_timeout: some(dice, likely.limits, timeout),
        refuse_late: dice.sometimes(0.25),
        cap: some(dice, likely.caps, cap),
        ..Terms::default()
    }
}

fn thresholds(dice: &mut Dice) -> Thresholds {
    Thresholds {
        period: some(dice, 0.2, long),
        duration: some(dice, 0.2, long),
        segments: some(dice, 0.2, |dice| dice.one_of(&[0, 20, 90])),
        segment_range: some(dice, 0.2, long),
        work: some(dice, 0.15, |dice| dice.between(0.01, 100.0)),
        latency: some(dice, 0.15, |dice| dice.span(0.01, 100.0)),
    }
}

fn weight(dice: &mut Dice) -> Weight {
    Weight {
        constant: dice.one_of(&[0.0, 0.1, 1.0, 8.0]),
        priority_doubles: dice.one_of(&[0.0, 1.0, 5.0]),
        work: dice.one_of(&[0.0, 0.0, 1.0]),
        load: dice.one_of(&[0.0, 0.0, 1.0]),
        cached: dice.one_of(&[0.0, 0.0, 2.0]),
        used: dice.one_of(&[0.0, 0.5, 1.0, 1.0]),
        quota: some(dice, 0.2, |dice| Quota { work: dice.between(0.1, 100.0), per: dice.span(0.1, 60.0) }),
    }
}

fn cap(dice: &mut Dice) -> Cap {
    let to = dice.one_of(&["class0", "class1", "class2", "default", "control", "nobody"]).to_owned();
    let then = match dice.0.below(3) {
        0 => Then::Cancel,
        1 => Then::Cascade(to),
        _ => Then::Resubmit(to),
    };
    let most = dice.one_of(&[0.2, 2.0, 20.0]);
    Cap { runtime: if dice.sometimes(0.05) { Span::ZERO } else { dice.span(0.02, most) }, then }
}
