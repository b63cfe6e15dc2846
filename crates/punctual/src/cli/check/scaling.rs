//! What `[scaling]` means: how many clusters there are, what they cost at the start and at most, and what is in vain.

use punctual_core::billing::dollars;
use punctual_core::fleet::Tokens;
use punctual_core::mode::Mode;
use punctual_core::route::Routing;
use punctual_core::scale::Selector;

use crate::config::scaling::{Numbers, hourly, is_scaled, numbers, per_hour};
use crate::model::absent;
use crate::print::counted;
use crate::settings::{Cluster, Settings};

/// What is said of it, a sentence each; nothing where no cluster is ever started or stopped.
pub(super) fn sentences(settings: &Settings) -> Vec<String> {
    let rules = &settings.policy.scaling;
    let scaled: Vec<&Cluster> = settings.clusters.iter().filter(|cluster| is_scaled(cluster)).collect();
    if scaled.is_empty() && rules.mode == Mode::Off {
        return Vec::new();
    }
    let tokens = by_tokens(settings);
    let decides = match tokens {
        Some(routing) => format!("by {routing}: whenever a query finds none idle, one like the largest"),
        None => format!("by {}, what by {}", rules.trigger, rules.selector),
    };
    let mut said = vec![match rules.mode {
        Mode::On => format!("When a cluster is started is decided {decides}."),
        Mode::Off => "Nothing is started or stopped: `mode` is off.".to_owned(),
        Mode::Shadow | Mode::Suggest => format!(
            "Nothing is started or stopped: `mode` is {}. What would be is recorded: when a cluster is started {decides}.",
            rules.mode
        ),
    }];
    for cluster in scaled {
        let (name, there) = (&cluster.spec.name, at_the_start(cluster.initial));
        said.push(format!("\"{name}\" is scaled: {there}, each called {name} and a number."));
    }
    let Numbers { kept, .. } = numbers(&settings.clusters);
    if rules.mode == Mode::Off {
        return said;
    }
    let budget = rules.most_per_hour.map_or_else(
        || "whatever they cost".to_owned(),
        |most| format!("as long as all of them awake cost at most ${} an hour", dollars(most)),
    );
    said.push(format!(
        "There {} at most {}, the {kept} that {} there for good included, {budget}.",
        if most(settings) == 1 { "is" } else { "are" },
        counted(most(settings), "cluster", "clusters"),
        if kept == 1 { "is" } else { "are" },
    ));
    if tokens.is_some() {
        let (standby, least) = (rules.standby, rules.least);
        said.push(format!("One that has been idle for {standby} is stopped, while more than {least} are ready."));
        return said;
    }
    said.push(format!(
        "One that has been idle for {} is stopped, {} after its start at the earliest, while more than {} are ready.",
        rules.idle, rules.lifetime, rules.least
    ));
    said.push(format!("A start is expected to take {}.", rules.start_takes));
    let studies = matches!(rules.selector, Selector::AddCluster | Selector::Vertical);
    if studies && absent::is_absent(&settings.prediction.model) {
        said.push(format!("Until there is a model, what is started is as by horizontal, not by {}.", rules.selector));
    }
    said
}

/// The token policy that starts and stops clusters, if one routes.
fn by_tokens(settings: &Settings) -> Option<Routing> {
    let routing = settings.policy.routes_by();
    routing.tokens().is_some_and(Tokens::turns_off).then_some(routing)
}

/// `2 are there at the start`
pub(super) fn at_the_start(number: u32) -> String {
    match number {
        0 => "none is there at the start".to_owned(),
        1 => "1 is there at the start".to_owned(),
        more => format!("{more} are there at the start"),
    }
}

/// How many clusters there may be.
fn most(settings: &Settings) -> u64 {
    settings.policy.scaling.most.min(settings.policy.max_clusters).into()
}

/// Dollars for an hour in which all clusters are awake that are there at the start, and for one with as many as may be
/// started.
pub(super) fn usd_per_hour(settings: &Settings) -> (f64, f64) {
    let (rules, clusters) = (&settings.policy.scaling, &settings.clusters);
    let at_the_start = per_hour(clusters);
    if rules.mode != Mode::On {
        return (at_the_start, at_the_start);
    }
    let kept: f64 = clusters.iter().filter(|one| !is_scaled(one)).map(hourly).sum();
    let dearest = clusters.iter().filter(|one| is_scaled(one)).map(hourly).fold(0.0, f64::max);
    let more = most(settings).saturating_sub(numbers(clusters).kept) as f64;
    let budget = rules.most_per_hour.unwrap_or(f64::INFINITY);
    (at_the_start, (kept + more * dearest).min(budget).max(at_the_start))
}

/// Why no cluster is ever there, if so.
pub(super) fn never(settings: &Settings) -> Option<String> {
    let (mode, wait_limit) = (settings.policy.scaling.mode, settings.policy.wait_limit);
    (mode != Mode::On && numbers(&settings.clusters).all() == 0).then(|| {
        format!(
            "no cluster is started at the start, and `scaling.mode` is \"{mode}\", so none ever is: every query is refused when it \
             has waited for {wait_limit}; write `initial = 1` in a [[cluster]], or `mode = \"on\"`"
        )
    })
}

/// What is allowed and in vain.
pub(super) fn warnings(settings: &Settings) -> Vec<String> {
    let (rules, clusters) = (&settings.policy.scaling, &settings.clusters);
    let mut warnings = by_like(settings);
    let scaled = clusters.iter().filter(|cluster| is_scaled(cluster));
    let cheapest = scaled.min_by(|one, other| hourly(one).total_cmp(&hourly(other)));
    let Some(cheapest) = cheapest.filter(|_| rules.mode != Mode::Off) else { return warnings };
    let Numbers { kept, .. } = numbers(clusters);
    if kept >= most(settings) {
        warnings.push(format!(
            "nothing can ever be started: {} there for good, and there may be {} (`scaling.most`, `policy.max_clusters`)",
            counted(kept, "cluster is", "clusters are"),
            most(settings)
        ));
    }
    let for_good: f64 = clusters.iter().filter(|one| !is_scaled(one)).map(hourly).sum();
    let would = for_good + hourly(cheapest);
    if let Some(most) = rules.most_per_hour.filter(|most| would > *most) {
        warnings.push(format!(
            "nothing can ever be started: with the cheapest that may be, \"{}\", the clusters would cost ${} an hour, and \
             `scaling.most_per_hour` is {}",
            cheapest.spec.name,
            dollars(would),
            dollars(most)
        ));
    }
    warnings
}

/// What token policies are not made for.
fn by_like(settings: &Settings) -> Vec<String> {
    let (policy, clusters) = (&settings.policy, &settings.clusters);
    let Some(routing) = Some(policy.routes_by()).filter(|routing| routing.tokens().is_some()) else {
        return Vec::new();
    };
    let mut warnings = Vec::new();
    let unlike = clusters.iter().find(|one| one.spec.units != clusters[0].spec.units);
    if let Some(other) = unlike {
        warnings.push(format!(
            "{routing} takes all clusters for alike, and \"{}\" and \"{}\" are of different size",
            clusters[0].spec.name, other.spec.name
        ));
    }
    if by_tokens(settings).is_some() && policy.scaling.mode == Mode::Off {
        warnings.push(format!("{routing} starts and stops nothing: `scaling.mode` is off"));
    }
    warnings
}
