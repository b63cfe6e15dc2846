//! What a model is worth, as people and programs read it.

use std::collections::BTreeMap;
use std::fmt;

use punctual_core::predict::model::Model;
use punctual_learn::accuracy::{Accuracy, Judged};
use punctual_learn::contexts::Sight;
use punctual_learn::evaluation::{Expected, Medians, evaluate, judged};
use punctual_learn::observation::Observation;
use punctual_learn::variant::{Variant, WHOLE};
use serde::Serialize;

/// Quantiles of the Q-error.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Quantiles {
    p50: f64,
    p90: f64,
    p95: f64,
}

/// A model's predictions in one sight.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct InSight {
    /// How many.
    n: usize,
    /// How far off the median was.
    q_error: Quantiles,
    /// The share that ended below the 90 % quantile.
    coverage_p90: f64,
}

/// One estimate beside others over the same queries.
#[derive(Clone, Debug, Serialize)]
pub struct Worth {
    /// Queries that finished.
    pub n: usize,
    hindsight: InSight,
    at_arrival: InSight,
    /// Processor sharing from isolated latencies, nothing learnt, in both sights.
    sharing_hindsight: Quantiles,
    sharing_at_arrival: Quantiles,
    /// As if each ran alone.
    stage: Quantiles,
    /// The median of the fingerprint, and of the fingerprint on the size.
    fingerprint_median: Quantiles,
    fingerprint_size_median: Quantiles,
    /// Somebody else's predictions, of the rows that have them.
    #[serde(skip_serializing_if = "Option::is_none")]
    published: Option<Published>,
    /// At arrival, by the size of the cluster and by how many ran there.
    by_size: BTreeMap<u32, InSight>,
    by_concurrency: BTreeMap<&'static str, InSight>,
}

#[derive(Clone, Copy, Debug, Serialize)]
struct Published {
    n: usize,
    #[serde(flatten)]
    q_error: Quantiles,
}

impl From<Accuracy> for Quantiles {
    fn from(accuracy: Accuracy) -> Quantiles {
        let [p50, p90, p95] = accuracy.q_error;
        Quantiles { p50, p90, p95 }
    }
}

impl From<Accuracy> for InSight {
    fn from(accuracy: Accuracy) -> InSight {
        InSight { n: accuracy.n, q_error: accuracy.into(), coverage_p90: accuracy.coverage }
    }
}

/// Judges a model on the part of the observations that is set aside; None if there is none that finished.
pub fn worth(model: &Model, observations: &[Observation]) -> Option<Worth> {
    let expected = evaluate(model, observations, &WHOLE);
    let arrivals: Vec<&Expected> = expected.iter().filter(|one| one.sight == Sight::AtArrival).collect();
    if arrivals.is_empty() {
        return None;
    }
    let medians = Medians::of(observations);
    let of = |sight: Sight, what: fn(&Expected) -> Judged| {
        Accuracy::of(expected.iter().filter(|one| one.sight == sight).map(what))
    };
    let plain = |ln: &dyn Fn(&Observation) -> f64| -> Quantiles {
        let seen = arrivals.iter().map(|one| &observations[one.observation]);
        Accuracy::of(seen.map(|seen| judged(ln(seen), seen))).into()
    };
    let published = arrivals.iter().filter_map(|one| {
        let seen = &observations[one.observation];
        Some(judged(punctual_core::math::ln(seen.published?.max(1e-3)), seen))
    });
    let published = Accuracy::of(published);
    Some(Worth {
        n: arrivals.len(),
        hindsight: of(Sight::Hindsight, |one| one.model).into(),
        at_arrival: of(Sight::AtArrival, |one| one.model).into(),
        sharing_hindsight: of(Sight::Hindsight, |one| one.sharing).into(),
        sharing_at_arrival: of(Sight::AtArrival, |one| one.sharing).into(),
        stage: of(Sight::AtArrival, |one| one.stage).into(),
        fingerprint_median: plain(&|seen| medians.shape(seen)),
        fingerprint_size_median: plain(&|seen| medians.sized(seen)),
        published: (published.n > 0).then(|| Published { n: published.n, q_error: published.into() }),
        by_size: grouped(&arrivals, |one| observations[one.observation].size.0),
        by_concurrency: grouped(&arrivals, |one| crowd(one.neighbours)),
    })
}

/// How far off a variant of the predictor was, in both sights.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Step {
    /// What it is called.
    pub name: &'static str,
    /// Parameters of its network.
    pub parameters: usize,
    /// All neighbours known.
    pub hindsight: InSight,
    /// Those that ran when the query arrived.
    pub at_arrival: InSight,
}

/// Judges a model of a variant on the part of the observations that is set aside.
pub fn step(model: &Model, observations: &[Observation], variant: &Variant) -> Step {
    let expected = evaluate(model, observations, variant);
    let of = |sight: Sight| Accuracy::of(expected.iter().filter(|one| one.sight == sight).map(|one| one.model));
    Step {
        name: variant.name,
        parameters: model.net().weights().len(),
        hindsight: of(Sight::Hindsight).into(),
        at_arrival: of(Sight::AtArrival).into(),
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "  {:<28}", self.name)?;
        for one in [&self.hindsight, &self.at_arrival] {
            let Quantiles { p50, p90, p95 } = one.q_error;
            write!(f, "{p50:>8.3} {p90:>8.3} {p95:>8.3} {:>7.1} %", 100.0 * one.coverage_p90)?;
        }
        Ok(())
    }
}

fn grouped<K: Ord>(arrivals: &[&Expected], key: impl Fn(&Expected) -> K) -> BTreeMap<K, InSight> {
    let mut groups: BTreeMap<K, Vec<Judged>> = BTreeMap::new();
    arrivals.iter().for_each(|one| groups.entry(key(one)).or_default().push(one.model));
    groups.into_iter().map(|(key, judged)| (key, Accuracy::of(judged).into())).collect()
}

/// How many others ran, in words that sort.
fn crowd(neighbours: usize) -> &'static str {
    match neighbours {
        0 => "00 none",
        1..=3 => "01 to 3",
        4..=15 => "04 to 15",
        16..=63 => "16 to 63",
        _ => "64 or more",
    }
}

impl fmt::Display for Worth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "on {} queries that were set aside                 Q-error  p50      p90      p95   below p90",
            self.n
        )?;
        let mut sight = |name: &str, one: &InSight| {
            let Quantiles { p50, p90, p95 } = one.q_error;
            writeln!(f, "  {name:<52} {p50:>8.3} {p90:>8.3} {p95:>8.3} {:>9.1} %", 100.0 * one.coverage_p90)
        };
        sight("the model, at arrival", &self.at_arrival)?;
        sight("the model, in hindsight", &self.hindsight)?;
        let mut plain = |name: &str, one: &Quantiles| {
            writeln!(f, "  {name:<52} {:>8.3} {:>8.3} {:>8.3}", one.p50, one.p90, one.p95)
        };
        plain("sharing alone, at arrival", &self.sharing_at_arrival)?;
        plain("sharing alone, in hindsight", &self.sharing_hindsight)?;
        plain("each as if alone (Stage)", &self.stage)?;
        plain("median of the fingerprint", &self.fingerprint_median)?;
        plain("median of the fingerprint on the size", &self.fingerprint_size_median)?;
        if let Some(published) = &self.published {
            plain(&format!("published predictions ({} queries)", published.n), &published.q_error)?;
        }
        writeln!(f, "at arrival, by size and by how many others ran")?;
        let sizes = self.by_size.iter().map(|(size, one)| (format!("size {size}"), one));
        let crowds =
            self.by_concurrency.iter().map(|(crowd, one)| (crowd.trim_start_matches('0').trim().to_owned(), one));
        for (name, one) in sizes.chain(crowds) {
            let Quantiles { p50, p90, p95 } = one.q_error;
            let name = format!("{name} ({} queries)", one.n);
            writeln!(f, "  {name:<52} {p50:>8.3} {p90:>8.3} {p95:>8.3} {:>9.1} %", 100.0 * one.coverage_p90)?;
        }
        Ok(())
    }
}
