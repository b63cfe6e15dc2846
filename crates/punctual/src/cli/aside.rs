//! What is set aside to measure on, as flags: the same for training, evaluating and reproducing.

use clap::Args;

use crate::model::pattern::Pattern;
use crate::model::seen::{Fold, Split};

/// Flags that say what is set aside.
#[derive(Debug, Args)]
pub(super) struct Aside {
    /// How what is measured on is set aside; without it, as the model that is measured was trained, else by the column split if there is one, else the last fifth of the time
    #[arg(long, value_enum)]
    split: Option<Split>,
    /// Which fifth is set aside, with --split run or random
    #[arg(long, value_name = "0-4", value_parser = clap::value_parser!(u64).range(0..5))]
    fold: Option<u64>,
    /// Set aside the clusters of this name, whole; * and ? stand for any text and any character. May be given more than once
    #[arg(long, value_name = "PATTERN", conflicts_with_all = ["split", "fold"])]
    hold_out: Vec<Pattern>,
}

impl Aside {
    /// How it is set aside, if that was said.
    pub(super) fn split(&self) -> Option<Split> {
        if self.hold_out.is_empty() { self.split.clone() } else { Some(Split::Named(self.hold_out.clone())) }
    }

    /// Which fifth, by this chance.
    pub(super) fn fold(&self, seed: u64) -> Fold {
        Fold { number: self.fold.unwrap_or(0), seed }
    }

    /// As a model of this record was trained, where nothing else was said.
    pub(super) fn or_recorded(&self, record: &str, seed: u64) -> (Option<Split>, Fold) {
        let (split, fold) = Split::recorded(record).filter(|(split, _)| *split != Split::None).unzip();
        let (said, number) = (self.split(), self.fold.or(fold.flatten()).unwrap_or(0));
        // Another split than the model's has no fifth of the model's.
        let number = if said.is_some() && said != split { self.fold.unwrap_or(0) } else { number };
        (said.or(split), Fold { number, seed })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_typed_goes_before_how_a_model_was_trained() {
        let aside = |split, fold, hold_out: &[&str]| Aside {
            split,
            fold,
            hold_out: hold_out.iter().flat_map(|pattern| pattern.parse()).collect(),
        };
        let read = |aside: Aside, record: &str| {
            let (split, fold) = aside.or_recorded(record, 7);
            (split, fold.number)
        };
        assert_eq!(read(aside(None, None, &[]), "run 3"), (Some(Split::Run), 3));
        assert_eq!(read(aside(Some(Split::Run), None, &[]), "run 3"), (Some(Split::Run), 3));
        assert_eq!(read(aside(None, Some(1), &[]), "run 3"), (Some(Split::Run), 1));
        assert_eq!(read(aside(Some(Split::Random), None, &[]), "run 3"), (Some(Split::Random), 0));
        assert_eq!(read(aside(None, None, &[]), "none"), (None, 0));
        let (split, _) = aside(None, None, &["x*"]).or_recorded("time", 7);
        assert_eq!(split, Some(Split::Named("x*".parse().into_iter().collect())));
    }
}
