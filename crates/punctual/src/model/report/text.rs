//! What a model is worth, in a table for people.

use std::fmt;

use super::{InSight, Quantiles, Worth};

/// Width of the names.
const NAMES: usize = 52;

impl fmt::Display for Worth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let title = format!("on {} queries that were set aside and finished", self.n);
        writeln!(f, "{title:<54} {:>8} {:>8} {:>8}   below p50   below p90", "p50", "p90", "p95")?;
        sight(f, "the model, at arrival", &self.at_arrival)?;
        sight(f, "the model, at arrival, corrected by what had ended", &self.corrected_at_arrival)?;
        sight(f, "the model, in hindsight", &self.hindsight)?;
        plain(f, "sharing alone, at arrival", &self.sharing_at_arrival)?;
        plain(f, "sharing alone, in hindsight", &self.sharing_hindsight)?;
        plain(f, "each as if alone (Stage)", &self.stage)?;
        plain(f, "median of the fingerprint", &self.fingerprint_median)?;
        plain(f, "median of the fingerprint on the size", &self.fingerprint_size_median)?;
        if let Some(published) = &self.published {
            plain(f, &format!("published predictions ({} queries)", published.n), &published.q_error)?;
        }
        self.cut_off(f)?;
        writeln!(f, "at arrival, by size and by how many others ran")?;
        let sizes = self.by_size.iter().map(|(size, one)| (format!("size {size}"), one));
        let crowds = self.by_concurrency.iter().map(|(crowd, one)| (crowd.in_words().to_owned(), one));
        for (name, one) in sizes.chain(crowds) {
            sight(f, &format!("{name} ({} queries)", one.n), one)?;
        }
        write!(f, "p50, p90 and p95 are quantiles of the Q-error, the larger of predicted/true and true/predicted")
    }
}

impl Worth {
    fn cut_off(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(one) = &self.by_status.cut_off else { return Ok(()) };
        writeln!(f, "{} more were cut off: what they took is a lower bound", one.n)?;
        plain(f, "the model, at arrival: Q-error at least", &one.q_error_at_least)?;
        writeln!(f, "  bound above the predicted median: {:.1} %", 100.0 * one.bound_above_p50)?;
        writeln!(f, "  bound above the 90 % quantile, misses for sure: {:.1} %", 100.0 * one.bound_above_p90)?;
        let [least, most] = one.coverage_p90_of_all.map(|share| 100.0 * share);
        writeln!(f, "  so of all, finished or not, {least:.1} to {most:.1} % stay below the 90 % quantile")
    }
}

fn sight(f: &mut fmt::Formatter<'_>, name: &str, one: &InSight) -> fmt::Result {
    let Quantiles { p50, p90, p95 } = one.q_error;
    let [half, nine] = [one.coverage_p50, one.coverage_p90].map(|share| 100.0 * share);
    writeln!(f, "  {name:<NAMES$} {p50:>8.3} {p90:>8.3} {p95:>8.3} {half:>9.1} % {nine:>9.1} %")
}

fn plain(f: &mut fmt::Formatter<'_>, name: &str, one: &Quantiles) -> fmt::Result {
    writeln!(f, "  {name:<NAMES$} {:>8.3} {:>8.3} {:>8.3}", one.p50, one.p90, one.p95)
}
