//! A day is planned from the history before it, in the planner's own world.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use punctual_core::admit::claim::Claim;
use punctual_core::class::DEFAULT;
use punctual_core::id::Units;
use punctual_core::math;
use punctual_core::route::Routing;
use punctual_core::scale::Trigger;
use punctual_core::time::{Span, Time};
use punctual_sim::rehearsal::{Rehearsal, Troubles};
use punctual_sim::workload::{Arrival, Ask, Asked, Recorded, Remembered, again, trace};
use punctual_sim::world::compute::Make;
use punctual_sim::world::warehouse::{Table, Template};
use punctual_tuner::batch::{Batch, Common};
use punctual_tuner::configuration::{Aggregate, Configuration, Knobs};
use punctual_tuner::forecast::{Forecast, Wanted, Weekly, Workload};
use punctual_tuner::planning::{Asked as Sought, Planned, plan};
use punctual_tuner::search::{Strategy, Tuning};
use punctual_tuner::spinups::Search;
use punctual_tuner::{Reservoir, forecast};

use super::days::{self, Source};
use super::{COMPRESS, Ground, MOST, SIZES, TARGET};
use crate::experiment::run::{START, offer};

/// A day as it is forecast, whatever its SLOs.
pub struct Foreseen {
    reservoir: Reservoir,
    forecast: Forecast,
}

/// What is asked for of a template in the planner's world.
struct Known {
    ask: Ask,
    alone: Vec<(Units, Span)>,
    noise: f64,
}

/// Forecasts a day from so many days before it.
pub fn foresee(source: &Source, day: days::Planned, history: u32, seed: u64, token: bool) -> Foreseen {
    let (reservoir, date) = source.history(seed, day, history);
    let counts = if token { (2, 2, 2) } else { (12, 8, 8) };
    let wanted = Wanted { seed, train: counts.0, validation: counts.1, promise: counts.2, ..Wanted::of(date) };
    let forecast = forecast(&reservoir, &Weekly::default(), &wanted);
    Foreseen { reservoir, forecast }
}

/// What is there without a plan: the paper's defaults, with one cluster of 16.
pub fn unplanned(ground: &Ground<'_>) -> Configuration {
    let knobs = Knobs::of(&ground.policy(Routing::Slo, Trigger::Combined));
    Configuration { fleet: vec![Units(SIZES[0])], spinups: Vec::new(), knobs }
}

/// Plans it. None if it was stopped.
pub fn planned(
    ground: &Ground<'_>,
    foreseen: &Foreseen,
    (kappa, seed): (f64, u64),
    stop: &AtomicBool,
    tell: &(dyn Fn(usize, usize) + Sync),
) -> Option<Planned> {
    let known: Vec<Known> = Template::all().filter_map(|template| known(ground, template, kappa)).collect();
    let split = |workloads: &[Workload]| -> Vec<Vec<Arrival>> {
        workloads.iter().map(|workload| arrivals(workload, foreseen, &known, ground.queries())).collect()
    };
    let mut policy = ground.policy(Routing::Slo, Trigger::Combined);
    policy.scaling.studies = ground.studies;
    let (model, troubles) = (Some(Arc::clone(&ground.lessons.model)), Troubles::default());
    let common = Common {
        rehearsal: Rehearsal {
            seed,
            policy,
            fleet: Vec::new(),
            model,
            make: Make::Predicted { seed },
            clients: None,
            troubles,
        },
        sizes: SIZES.map(offer).into(),
        train: split(&foreseen.forecast.train),
        validation: split(&foreseen.forecast.validation),
        promise: split(&foreseen.forecast.promise),
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut batch = Batch { common: &common, threads, stop, tell };
    let most = MOST as usize;
    let mut search = Search { most, ..Search::of(TARGET, SIZES.map(Units).into(), START) };
    let mut tuning = Tuning { seed, ..Tuning::of(TARGET) };
    // As in the paper's runs: what one workload of twenty exceeds.
    (search.aggregate, tuning.aggregate) = (Aggregate::P95, Aggregate::P95);
    if ground.token {
        (search.rounds, search.attempts, tuning.strategy) = (1, 1, Strategy::Random(1));
    }
    let sought = Sought { today: unplanned(ground), fixed: 0, search, tuning: Some(tuning) };
    plan(&sought, &mut batch)
}

/// What is known of a template: what it asks for, and what its Stage says.
fn known(ground: &Ground<'_>, template: Template, kappa: f64) -> Option<Known> {
    let asked = Asked { template, class: DEFAULT, slo: Some(ground.slo(template, kappa)) };
    let ask = trace(vec![(Time::ZERO, asked)], Table::shipped()).next()?.ask;
    let traits = ask.traits();
    let stage = ground.lessons.model.stage();
    let alone = |size: u32| stage.alone(&traits.features, ask.fingerprint, traits.text, Units(size));
    let noise = alone(SIZES[0]).spread;
    let alone = SIZES.iter().map(|size| (Units(*size), Span::from_secs_f64(math::exp(alone(*size).ln)))).collect();
    Some(Known { ask, alone, noise })
}

/// A forecast workload in the planner's world.
fn arrivals(workload: &Workload, foreseen: &Foreseen, known: &[Known], most: usize) -> Vec<Arrival> {
    let remembered = workload.queries.iter().take(most).filter_map(|query| {
        let shape = foreseen.reservoir.shape(query.shape)?;
        let of = known.iter().find(|known| known.ask.fingerprint == shape.fingerprint)?;
        Some(Remembered {
            at: Time::ZERO + Span::from_secs_f64(query.at.secs_f64() / COMPRESS),
            class: DEFAULT,
            slo: of.ask.slo,
            claim: Claim::default(),
            fingerprint: shape.fingerprint,
            recorded: Recorded { traits: of.ask.traits(), alone: of.alone.clone() },
            noise: of.noise,
        })
    });
    again(&remembered.collect::<Vec<_>>(), workload.seed).collect()
}
