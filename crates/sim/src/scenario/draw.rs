//! Scenarios out of seeds. Sizes are small, so that there are many; limits are drawn near and at their edges (no
//! waiting at all, one slot, an idle limit shorter than a think time), since that is where mistakes live.

mod admission;
mod plans;

use punctual_core::billing::Price;
use punctual_core::class::Class;
use punctual_core::cluster::Spec;
use punctual_core::event::Event;
use punctual_core::id::{ClassId, ClusterId, Generation, Units};
use punctual_core::math;
use punctual_core::mode::Mode;
use punctual_core::policy::Policy;
use punctual_core::rng::Rng;
use punctual_core::route::{Counting, Routing};
use punctual_core::scale::{Scaling, Selector, Studies, Trigger};
use punctual_core::time::{Span, Time};

use super::{Scenario, models};
use crate::workload::{Batched, Mix, Pattern, Phase, Share, Size};
use crate::world::Conditions;

/// The scenario of a seed.
pub fn random(seed: u64) -> Scenario {
    let [mut dice, mut others, mut admits, mut plans] =
        [SCENARIOS, SCALING, ADMISSION, PLANS].map(|stream| Dice(Rng::numbered(seed, stream)));
    let mut policy = Policy { scaling: scaling(&mut others), ..policy(&mut dice) };
    let horizon = dice.span(1.0, 60.0);
    let expected = dice.between(1.0, 120.0);
    let pattern = pattern(&mut dice, expected / horizon.secs_f64(), horizon);
    let mut mix = mix(&mut dice, policy.classes.len() as u32, horizon.secs_f64() / expected);
    let conditions = conditions(&mut dice);
    let mut script = script(&mut dice, horizon, &policy);
    scale(&mut others, horizon, &policy, &mut script);
    admission::rules(&mut admits, &mut policy);
    admission::claims(&mut admits, &mut mix);
    for (_, event) in &mut script {
        if let Event::PolicyAdopted(policy) = event {
            admission::rules(&mut admits, policy);
        }
    }
    plans::draw(&mut plans, horizon, &mut policy, &mut script);
    Scenario { seed, policy, pattern, mix, horizon, conditions, script }
}

/// The streams that scenarios are drawn from, what scales in them, who is admitted and what is planned: beside those that core and the world
/// use.
const SCENARIOS: u64 = 2 << 32;
const SCALING: u64 = 4 << 32;
const ADMISSION: u64 = 5 << 32;
const PLANS: u64 = 6 << 32;

struct Dice(Rng);

impl Dice {
    fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.0.index(choices.len())]
    }

    /// From `low` to `high`, each order of magnitude alike.
    fn between(&mut self, low: f64, high: f64) -> f64 {
        low * math::exp(self.0.unit() * math::ln(high / low))
    }

    /// The same, in seconds.
    fn span(&mut self, low: f64, high: f64) -> Span {
        Span::from_secs_f64(self.between(low, high))
    }

    /// Nothing, or with that probability something.
    fn sometimes(&mut self, p: f64) -> bool {
        self.0.chance(p)
    }

    /// A probability: mostly zero, so that each fault is also seen without the others.
    fn fault(&mut self, most: f64) -> f64 {
        if self.sometimes(0.4) { self.0.unit() * most } else { 0.0 }
    }

    /// A delay: half the time none.
    fn delay(&mut self, most: f64) -> Span {
        if self.sometimes(0.5) { Span::ZERO } else { self.span(most / 1_000.0, most) }
    }

    fn at(&mut self, horizon: Span) -> Time {
        Time::from_micros(self.0.below(horizon.micros() + 1))
    }
}

fn policy(dice: &mut Dice) -> Policy {
    let mut classes = Class::built_in();
    for number in 0..dice.0.below(4) {
        classes.push(Class { name: format!("class{number}"), ..Class::default() });
    }
    Policy {
        routing: dice.one_of(&Routing::ALL),
        routing_mode: dice.one_of(&Mode::ALL),
        baseline: dice.one_of(&[Routing::RoundRobin, Routing::LeastOutstanding, Routing::P2c]),
        counting: dice.one_of(&Counting::ALL),
        classes,
        violation_target: 0.05,
        max_waiting: dice.one_of(&[0, 1, 3, 20, 100, 1_000]),
        wait_limit: dice.span(0.05, 300.0),
        control_slots: dice.one_of(&[0, 1, 2, 4]),
        pin_idle: dice.span(0.01, 20.0),
        cancel_grace: dice.span(0.01, 5.0),
        drain_limit: dice.span(0.01, 30.0),
        start_limit: dice.span(0.5, 60.0),
        retry_first: dice.span(0.01, 2.0),
        retry_most: dice.span(0.1, 10.0),
        decisions_kept: dice.one_of(&[0, 1, 10, 100]),
        min_modelled: dice.one_of(&[Span::ZERO, Span::from_millis(50), Span::from_secs(1)]),
        max_clusters: dice.one_of(&[1, 4, 8]),
        scaling: Scaling::default(),
        ..Policy::default()
    }
}

/// What is started after a study.
const STUDIED: [Selector; 2] = [Selector::Vertical, Selector::AddCluster];

/// Rules of scaling: half the time none.
fn scaling(dice: &mut Dice) -> Scaling {
    if dice.sometimes(0.5) {
        return Scaling::default();
    }
    let offers = [1, 2, 4, 8].into_iter().filter(|_| dice.sometimes(0.4)).collect::<Vec<_>>();
    let mode = dice.one_of(&[Mode::On, Mode::On, Mode::On, Mode::Shadow, Mode::Suggest]);
    let trigger = dice.one_of(&Trigger::ALL);
    let selector = dice.one_of(&[Selector::None, Selector::Horizontal, STUDIED[0], STUDIED[1], STUDIED[0], STUDIED[1]]);
    let offers = offers.into_iter().map(|units| offer(dice, units)).collect();
    let (window, study_window) = (dice.span(0.5, 30.0), dice.span(0.5, 30.0));
    let (observations, completions) = (dice.one_of(&[0, 1, 3, 10]), dice.one_of(&[1, 5, 20]));
    Scaling {
        mode,
        trigger,
        selector,
        offers,
        window,
        study_window,
        observations,
        completions,
        late_share: dice.one_of(&[0.0, 0.05, 0.5]),
        queue_depth: dice.one_of(&[0, 1, 3, 10]),
        idle: dice.span(0.1, 20.0),
        standby: dice.span(0.05, 20.0),
        lifetime: dice.span(0.1, 20.0),
        start_takes: dice.delay(10.0),
        least: dice.one_of(&[0, 1, 2]),
        most: dice.one_of(&[0, 2, 5, 10, 10]),
        most_per_hour: if dice.sometimes(0.3) { Some(dice.between(1.0, 100.0)) } else { None },
        // What a throw that is there anyway says: one more would be luck of everything after it.
        studies: if completions == 5 { Studies::Sharing } else { Studies::Network },
    }
}

fn offer(dice: &mut Dice, units: u32) -> Spec {
    let name = format!("spare{units}");
    let (slots, price) = (dice.one_of(&[1, 2, 4, 8]), Price { per_unit_hour: 3.6, minimum: dice.delay(60.0) });
    Spec {
        offer: Some(name.clone()),
        name,
        units: Units(units),
        slots,
        price,
        killable: dice.sometimes(0.7),
        writer: false,
    }
}

/// Some clusters of the script may be stopped, other rules scale in another way, there are models to study by, and operators
/// ask for a look.
fn scale(dice: &mut Dice, horizon: Span, policy: &Policy, script: &mut Vec<(Time, Event)>) {
    for (_, event) in &mut *script {
        match event {
            Event::ClusterWanted(spec) if dice.sometimes(0.3) => spec.offer = Some(spec.name.clone()),
            Event::PolicyAdopted(policy) => policy.scaling = scaling(dice),
            _ => {}
        }
    }
    if policy.scaling.mode != Mode::Off && dice.sometimes(0.7) {
        script.push((Time::ZERO, Event::ModelAdopted(dice.one_of(&models::KNOWN))));
    }
    if dice.sometimes(0.3) {
        script.extend((0..=dice.0.below(2)).map(|_| (dice.at(horizon), Event::ScalingWanted)));
    }
}

fn pattern(dice: &mut Dice, rate: f64, horizon: Span) -> Pattern {
    let within = Span::from_secs_f64(0.05 / rate);
    let batched = Pattern::Batched(Batched { rate, cv: dice.between(1.0, 5.0), within });
    match dice.0.below(3) {
        0 => Pattern::Poisson { rate },
        1 => batched,
        _ => {
            let length = Span::from_micros(horizon.micros() / 4);
            let calm = Phase { length, pattern: Pattern::Poisson { rate: rate / 4.0 } };
            Pattern::Phased(vec![Phase { length, pattern: batched }, calm])
        }
    }
}

/// Shares whose sizes lie around the mean gap between arrivals, so that there is contention.
fn mix(dice: &mut Dice, classes: u32, gap: f64) -> Mix {
    let share = |dice: &mut Dice| {
        let mean = dice.span(gap / 20.0, gap * 8.0);
        let cv = dice.between(1.0, 4.0);
        let sizes = [
            Size::Fixed(mean),
            Size::Exponential(mean),
            Size::Hyperexponential { mean, cv },
            Size::LogNormal { median: mean, sigma: 1.0 },
        ];
        Share {
            weight: dice.between(0.1, 1.0),
            // Once in a while a class that there is not.
            class: ClassId(dice.0.below(u64::from(classes) + 1) as u32),
            slo: dice.sometimes(0.7).then(|| dice.span(gap / 10.0, gap * 100.0)),
            size: dice.one_of(&sizes),
            most_units: dice.one_of(&[1, 2, 8]),
            statements: dice.one_of(&[1, 1, 3, 8]),
            think: dice.span(0.001, 5.0),
            ..Share::default()
        }
    };
    let shares = (0..=dice.0.below(3)).map(|_| share(dice)).collect();
    let clients = if dice.sometimes(0.3) { Some(dice.one_of(&[1, 3, 10])) } else { None };
    Mix { shares, clients }
}

fn conditions(dice: &mut Dice) -> Conditions {
    Conditions {
        start_least: dice.delay(5.0),
        start_more: dice.delay(5.0),
        start_failures: dice.fault(0.7),
        stop: dice.delay(5.0),
        life: if dice.sometimes(0.3) { Some(dice.span(1.0, 100.0)) } else { None },
        connect: dice.delay(0.5),
        transit: dice.delay(0.5),
        wakes_late: dice.delay(0.2),
        study: dice.delay(5.0),
        bounces: dice.fault(0.5),
        errors: dice.fault(0.3),
        cancel: dice.delay(1.0),
        stubborn: dice.fault(0.5),
        client_cancels: dice.fault(0.5),
        disconnects: dice.fault(0.3),
        patience: dice.span(0.01, 10.0),
        ..Conditions::default()
    }
}

/// Clusters at the start and later, some drained, perhaps other rules, in the end a shutdown.
fn script(dice: &mut Dice, horizon: Span, policy: &Policy) -> Vec<(Time, Event)> {
    let mut script = Vec::new();
    let clusters = if dice.sometimes(0.05) { 0 } else { 1 + dice.0.below(4) };
    for number in 0..clusters {
        let at = if dice.sometimes(0.8) { Time::ZERO } else { dice.at(horizon) };
        let spec = Spec {
            name: format!("cluster{number}"),
            units: Units(dice.one_of(&[1, 2, 4, 8])),
            slots: dice.one_of(&[1, 1, 2, 4, 8]),
            price: Price { per_unit_hour: 3.6, minimum: dice.delay(60.0) },
            killable: dice.sometimes(0.7),
            offer: None,
            writer: false,
        };
        script.push((at, Event::ClusterWanted(spec)));
    }
    if dice.sometimes(0.4) {
        for _ in 0..=dice.0.below(3) {
            let cluster = ClusterId(dice.0.below(5) as u32);
            script.push((dice.at(horizon), Event::DrainWanted { cluster }));
            let generation = Generation(0);
            let (one, other) = (dice.at(horizon), dice.at(horizon));
            script.push((one.min(other), Event::ClusterBurns { cluster, generation, burns: true }));
            script.push((one.max(other), Event::ClusterRanAway { cluster, generation }));
        }
    }
    if dice.sometimes(0.2) {
        let mut other = self::policy(dice);
        other.classes.truncate(policy.classes.len());
        script.push((dice.at(horizon), Event::PolicyAdopted(Box::new(other))));
    }
    if dice.sometimes(0.4) {
        for _ in 0..=dice.0.below(2) {
            let at = if dice.sometimes(0.5) { Time::ZERO } else { dice.at(horizon) };
            let model = if dice.sometimes(0.1) { models::UNKNOWN } else { dice.one_of(&models::KNOWN) };
            script.push((at, Event::ModelAdopted(model)));
        }
    }
    // Some are shut down in the middle, the others once all has long been quiet: clusters that keep dying are started
    // again for ever.
    let at = if dice.sometimes(0.3) { dice.at(horizon) } else { Time::ZERO + horizon + dice.span(60.0, 300.0) };
    script.push((at, Event::ShutdownWanted { within: dice.span(0.01, 30.0) }));
    script
}
