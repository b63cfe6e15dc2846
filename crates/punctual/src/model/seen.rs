//! History as what there is to learn from: which rows tell something, and what each may be used for.
//!
//! A row tells how long a query took on a cluster if it ran on one. Refused queries did not; keepalives and their like
//! (class `control`) are answered before they could meet anyone. A query that did not finish took at least as long as
//! it ran. A row that does not say how it ended is taken for finished.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;

use clap::ValueEnum;
use punctual_core::id::Units;
use punctual_core::predict::features::{FEATURES, Features, features};
use punctual_core::query::Status;
use punctual_core::rng::{Rng, Stream};
use punctual_core::time::Time;
use punctual_learn::observation::{Observation, Part};

use super::pattern::Pattern;
use crate::history::Row;

/// The class of keepalives and drivers' housekeeping.
const CONTROL: &str = "control";

/// What is set aside: one in so many.
const ONE_IN: u64 = 5;

/// The most texts whose features are kept while history is read.
const TEXTS: usize = 1 << 16;

/// How what a model is measured on is set aside.
#[derive(Clone, Debug, PartialEq, Eq, ValueEnum)]
pub enum Split {
    /// As the rows say in their column `split`: train, val or test
    Column,
    /// One cluster in five, whole
    Run,
    /// The last fifth of the time
    Time,
    /// The last fifth of each cluster's queries: for runs that were made one after the other
    Tail,
    /// One query in five; copies of a query stand on both sides
    Random,
    /// Nothing: learn from everything
    None,
    /// All clusters whose name is as one of the patterns says, whole.
    #[value(skip)]
    Named(Vec<Pattern>),
}

impl Split {
    /// What a model's file says of how it was trained, with the fifth where there are fifths.
    pub fn record(&self, fold: u64) -> String {
        let fifths = matches!(self, Split::Run | Split::Random);
        if fifths { format!("{self} {fold}") } else { self.to_string() }
    }

    /// What [`Split::record`] said, and the fifth if it said one; None if it is nothing that a split says.
    pub fn recorded(text: &str) -> Option<(Split, Option<u64>)> {
        if let Some(patterns) = text.strip_prefix(NAMED) {
            return Some((Split::Named(patterns.split('\n').flat_map(str::parse).collect()), None));
        }
        let (name, fold) = text.split_once(' ').map_or((text, None), |(name, fold)| (name, fold.parse().ok()));
        Split::from_str(name, false).ok().map(|split| (split, fold))
    }
}

impl Split {
    /// What is set aside, in words.
    pub fn in_words(&self, fold: u64) -> String {
        match self {
            Split::Column => "the rows whose column split says test".to_owned(),
            Split::Run => format!("one cluster in five, whole (fold {fold})"),
            Split::Time => "the last fifth of the time".to_owned(),
            Split::Tail => "the last fifth of each cluster's queries".to_owned(),
            Split::Random => format!("one query in five (fold {fold})"),
            Split::None => "nothing".to_owned(),
            Split::Named(patterns) => {
                let patterns: Vec<String> = patterns.iter().map(Pattern::to_string).collect();
                format!("the clusters called {}, whole", patterns.join(", "))
            }
        }
    }
}

/// What the record of a split by name begins with; its patterns follow, one a line.
const NAMED: &str = "named\n";

impl fmt::Display for Split {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Split::Column => "column",
            Split::Run => "run",
            Split::Time => "time",
            Split::Tail => "tail",
            Split::Random => "random",
            Split::None => "none",
            Split::Named(patterns) => {
                let patterns: Vec<String> = patterns.iter().map(Pattern::to_string).collect();
                return write!(f, "{NAMED}{}", patterns.join("\n"));
            }
        })
    }
}

/// Which of the five parts is set aside, and by what chance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fold {
    /// From 0 to 4.
    pub number: u64,
    /// What chance begins with.
    pub seed: u64,
}

/// Rows on their way to observations.
#[derive(Default)]
pub struct Seen {
    observations: Vec<Observation>,
    splits: Vec<Option<Arc<str>>>,
    clusters: BTreeMap<(Arc<str>, Units), u32>,
    texts: HashMap<Arc<str>, Features>,
    /// Rows that tell nothing.
    pub passed: u64,
}

impl Seen {
    /// Takes a row, if it tells something.
    pub fn push(&mut self, row: &Row) {
        let arrival = row.started.unwrap_or(row.arrival);
        let is_control = row.class.as_deref() == Some(CONTROL);
        // A gateway gives each query a class, and a cluster once it is placed. Logs of others may know neither.
        let unplaced = row.class.is_some() && row.cluster.is_none() && row.started.is_none();
        if is_control || unplaced || row.status == Some(Status::Refused) {
            self.passed += 1;
            return;
        }
        let size = row.cluster_size.unwrap_or(Units(1));
        let name = row.cluster.clone().unwrap_or_default();
        let next = self.clusters.len() as u32;
        let cluster = *self.clusters.entry((name, size)).or_insert(next);
        let features = self.features(row);
        self.observations.push(Observation {
            cluster,
            size,
            arrival,
            ended: row.done(),
            finished: matches!(row.status, None | Some(Status::Finished)),
            shape: row.fingerprint,
            text: row.text_hash.unwrap_or(row.fingerprint.0),
            features,
            part: Part::Train,
            published: row.published.map(|span| span.secs_f64()),
        });
        self.splits.push(row.split.clone());
    }

    /// The features that the row holds, or those of its text; zeros if it has neither.
    fn features(&mut self, row: &Row) -> Features {
        if let Some(Ok(held)) = row.features.as_deref().map(<Features>::try_from)
            && held.iter().all(|value| value.is_finite())
        {
            return held;
        }
        let Some(sql) = &row.sql else { return [0.0; FEATURES] };
        if let Some(known) = self.texts.get(sql) {
            return *known;
        }
        let made = features(sql, None);
        if self.texts.len() < TEXTS {
            self.texts.insert(sql.clone(), made);
        }
        made
    }

    /// How many rows told something.
    pub fn len(&self) -> usize {
        self.observations.len()
    }

    /// True if none did.
    pub fn is_empty(&self) -> bool {
        self.observations.is_empty()
    }

    /// True if rows say themselves what they may be used for.
    pub fn has_split(&self) -> bool {
        self.splits.iter().any(Option::is_some)
    }

    /// The observations, each told what it may be used for.
    ///
    /// # Errors
    /// If the rows do not say it where they must, or say something unknown.
    pub fn split(mut self, split: &Split, fold: Fold) -> Result<Vec<Observation>, SplitError> {
        match split {
            Split::Column => self.by_column()?,
            Split::Run => self.by_run(fold),
            // What decides is chosen as what is measured on: queries that nothing has been learnt from of their time.
            Split::Time => [Part::Test, Part::Validate].into_iter().for_each(|part| self.newest(false, part)),
            Split::Tail => [Part::Test, Part::Validate].into_iter().for_each(|part| self.newest(true, part)),
            Split::Random => self.by_chance(fold),
            Split::None => self.newest(false, Part::Validate),
            Split::Named(patterns) => self.by_name(patterns, fold)?,
        }
        if self.observations.iter().all(|seen| seen.part != Part::Validate) && *split != Split::Column {
            self.validate(fold.seed);
        }
        Ok(self.observations)
    }

    fn by_column(&mut self) -> Result<(), SplitError> {
        if !self.has_split() {
            return Err(SplitError::NoColumn);
        }
        for (seen, said) in self.observations.iter_mut().zip(&self.splits) {
            seen.part = match said.as_deref() {
                None | Some("train" | "training") => Part::Train,
                Some("val" | "valid" | "validate" | "validation") => Part::Validate,
                Some("test") => Part::Test,
                Some(other) => return Err(SplitError::Unknown(other.to_owned())),
            };
        }
        Ok(())
    }

    fn by_run(&mut self, fold: Fold) {
        let order = self.shuffled(fold.seed);
        self.hold_out(&every_fifth(&order, fold.number), fold.seed);
    }

    fn by_name(&mut self, patterns: &[Pattern], fold: Fold) -> Result<(), SplitError> {
        if let Some(idle) = patterns.iter().find(|pattern| !self.clusters.keys().any(|(name, _)| pattern.matches(name)))
        {
            return Err(SplitError::NoSuchCluster(idle.clone()));
        }
        let is_held = |name: &str| patterns.iter().any(|pattern| pattern.matches(name));
        let held: BTreeSet<u32> =
            self.clusters.iter().filter(|((name, _), _)| is_held(name)).map(|(_, cluster)| *cluster).collect();
        self.hold_out(&held, fold.seed);
        Ok(())
    }

    /// Whole clusters are set aside, and of the others whole ones decide when to stop: queries of one run resemble each
    /// other more than those of another, and a width measured on neighbours would be too narrow.
    fn hold_out(&mut self, held: &BTreeSet<u32>, seed: u64) {
        let mut order = self.shuffled(seed);
        order.retain(|cluster| !held.contains(cluster));
        // The only one that is left must be learnt from.
        let watched = if order.len() > 1 { every_fifth(&order, 0) } else { BTreeSet::new() };
        for seen in &mut self.observations {
            if held.contains(&seen.cluster) {
                seen.part = Part::Test;
            } else if watched.contains(&seen.cluster) {
                seen.part = Part::Validate;
            }
        }
    }

    /// The clusters in an order of chance.
    fn shuffled(&self, seed: u64) -> Vec<u32> {
        let mut rng = Rng::stream(seed, Stream::Split);
        let mut order: Vec<(u64, u32)> = (0..self.clusters.len() as u32).map(|cluster| (rng.bits(), cluster)).collect();
        order.sort_unstable();
        order.into_iter().map(|(_, cluster)| cluster).collect()
    }

    /// Gives a part the last fifth of the time of what may be learnt from: of all, or of each cluster.
    fn newest(&mut self, by_cluster: bool, part: Part) {
        let group = |seen: &Observation| if by_cluster { seen.cluster as usize } else { 0 };
        let mut arrivals: Vec<Vec<Time>> = vec![Vec::new(); self.clusters.len().max(1)];
        for seen in self.observations.iter().filter(|seen| seen.part == Part::Train) {
            arrivals[group(seen)].push(seen.arrival);
        }
        let from = |mut of_group: Vec<Time>| {
            of_group.sort_unstable();
            of_group.get(of_group.len() - of_group.len() / ONE_IN as usize).copied()
        };
        let from: Vec<Option<Time>> = arrivals.into_iter().map(from).collect();
        for seen in self.observations.iter_mut().filter(|seen| seen.part == Part::Train) {
            if from[group(seen)].is_some_and(|from| seen.arrival >= from) {
                seen.part = part;
            }
        }
    }

    fn by_chance(&mut self, fold: Fold) {
        let mut rng = Rng::stream(fold.seed, Stream::Split);
        for seen in &mut self.observations {
            if rng.below(ONE_IN) == fold.number {
                seen.part = Part::Test;
            }
        }
    }

    /// A fifth of what may be learnt from decides when to stop.
    fn validate(&mut self, seed: u64) {
        let mut rng = Rng::stream(seed, Stream::Validation);
        for seen in &mut self.observations {
            // Drawn for every one, so that what is set aside does not shift what decides.
            if rng.below(ONE_IN) == 0 && seen.part == Part::Train {
                seen.part = Part::Validate;
            }
        }
    }
}

fn every_fifth(clusters: &[u32], from: u64) -> BTreeSet<u32> {
    clusters.iter().skip(from as usize).step_by(ONE_IN as usize).copied().collect()
}

/// Why rows cannot be split.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SplitError {
    /// No row says what it may be used for.
    NoColumn,
    /// A row says something else.
    Unknown(String),
    /// No cluster is called so.
    NoSuchCluster(Pattern),
}

impl fmt::Display for SplitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SplitError::NoColumn => {
                f.write_str("the history has no column split; import one with --map split=…, or choose another --split")
            }
            SplitError::Unknown(said) => {
                write!(f, "the column split says \"{said}\"; it must say train, val or test")
            }
            SplitError::NoSuchCluster(pattern) => {
                write!(f, "--hold-out {pattern}: no cluster of the history is called so")
            }
        }
    }
}

impl std::error::Error for SplitError {}

#[cfg(test)]
mod tests {
    use punctual_core::fingerprint::Fingerprint;

    use super::*;

    fn row(at: u64, cluster: &str) -> Row {
        let (from, to) = (Time::from_micros(at * 1_000_000), Time::from_micros(at * 1_000_000 + 500_000));
        Row { started: Some(from), cluster: Some(cluster.into()), ..Row::new(from, to, Fingerprint(3)) }
    }

    fn seen(rows: &[Row]) -> Seen {
        let mut seen = Seen::default();
        rows.iter().for_each(|row| seen.push(row));
        seen
    }

    const FOLD: Fold = Fold { number: 0, seed: 1 };

    #[test]
    fn rows_that_never_ran_tell_nothing_and_those_that_were_cut_off_a_bound() {
        let status = |status| Row { status: Some(status), ..row(1, "a") };
        let unplaced = Row { class: Some("bi".into()), started: None, cluster: None, ..status(Status::Cancelled) };
        let elsewhere = Row { started: None, cluster: None, ..status(Status::Cancelled) };
        let control = Row { class: Some(CONTROL.into()), ..row(1, "a") };
        let rows = [
            row(1, "a"),
            status(Status::Refused),
            status(Status::Failed),
            status(Status::Cancelled),
            unplaced,
            control,
            elsewhere,
        ];
        let seen = seen(&rows);
        assert_eq!((seen.len(), seen.passed), (4, 3));
        let finished: Vec<bool> = seen.observations.iter().map(|seen| seen.finished).collect();
        assert_eq!(finished, [true, false, false, false]);
    }

    #[test]
    fn features_are_those_recorded_or_those_of_the_text() {
        let text = Row { sql: Some("select 1 from t".into()), ..row(1, "a") };
        let held = Row { features: Some(vec![0.5; FEATURES]), ..text.clone() };
        let short = Row { features: Some(vec![0.5; 3]), ..text.clone() };
        let no_number = Row { features: Some(vec![f32::NAN; FEATURES]), ..text.clone() };
        let seen = seen(&[text, held, short, row(1, "a"), no_number]);
        let of = |at: usize| seen.observations[at].features;
        assert_eq!(of(4), of(0));
        assert_eq!(of(0), features("select 1 from t", None));
        assert_eq!((of(1), of(2), of(3)), ([0.5; FEATURES], of(0), [0.0; FEATURES]));
    }

    #[test]
    fn the_column_says_what_a_row_is_for() {
        let said = |split: &str| Row { split: Some(split.into()), ..row(1, "a") };
        let parts = |rows: &[Row]| seen(rows).split(&Split::Column, FOLD);
        let found = parts(&[said("train"), said("val"), said("test"), row(1, "a")]).unwrap();
        let found: Vec<Part> = found.iter().map(|seen| seen.part).collect();
        assert_eq!(found, [Part::Train, Part::Validate, Part::Test, Part::Train]);
        assert_eq!(parts(&[row(1, "a")]), Err(SplitError::NoColumn));
        assert_eq!(parts(&[said("held")]), Err(SplitError::Unknown("held".to_owned())));
    }

    #[test]
    fn runs_are_held_out_whole_and_each_in_one_fold() {
        let rows: Vec<Row> = (0..100).map(|at| row(at, &format!("run {}", at % 10))).collect();
        let mut held = vec![0; 100];
        for number in 0..5 {
            let fold = Fold { number, seed: 3 };
            let observations = seen(&rows).split(&Split::Run, fold).unwrap();
            let clusters: BTreeSet<u32> =
                observations.iter().filter(|seen| seen.part == Part::Test).map(|seen| seen.cluster).collect();
            assert_eq!(clusters.len(), 2);
            let watched: BTreeSet<u32> =
                observations.iter().filter(|seen| seen.part == Part::Validate).map(|seen| seen.cluster).collect();
            let learnt = observations.iter().filter(|seen| seen.part == Part::Train);
            assert!(watched.len() == 2 && learnt.count() == 60);
            for (at, seen) in observations.iter().enumerate() {
                assert_eq!(clusters.contains(&seen.cluster), seen.part == Part::Test);
                held[at] += usize::from(seen.part == Part::Test);
            }
        }
        assert_eq!(held, [1; 100]);
    }

    #[test]
    fn the_last_fifth_of_the_time_is_set_aside_and_the_last_of_the_rest_is_watched() {
        let rows: Vec<Row> = (0..1_000).rev().map(|at| row(at, "a")).collect();
        let observations = seen(&rows).split(&Split::Time, FOLD).unwrap();
        let count = |part| observations.iter().filter(|seen| seen.part == part).count();
        assert_eq!(count(Part::Test), 200);
        assert!(observations[..200].iter().all(|seen| seen.part == Part::Test));
        assert!(count(Part::Validate) == 160 && observations[200..360].iter().all(|seen| seen.part == Part::Validate));
        let none = seen(&rows).split(&Split::None, FOLD).unwrap();
        assert!(none.iter().enumerate().all(|(at, seen)| (seen.part == Part::Validate) == (at < 200)));
        let two: Vec<Row> = (0..100).map(|at| row(at, if at < 60 { "a" } else { "b" })).collect();
        let tails = seen(&two).split(&Split::Tail, FOLD).unwrap();
        let tested = tails.iter().enumerate().filter(|(_, seen)| seen.part == Part::Test).map(|(at, _)| at);
        assert!(tested.eq((48..60).chain(92..100)));
        let watched = tails.iter().enumerate().filter(|(_, seen)| seen.part == Part::Validate).map(|(at, _)| at);
        assert!(watched.eq((39..48).chain(86..92)));
        let random = seen(&rows).split(&Split::Random, FOLD).unwrap();
        let tested = random.iter().filter(|seen| seen.part == Part::Test).count();
        assert!((160..240).contains(&tested), "{tested}");
        assert!(seen(&[]).split(&Split::Time, FOLD).unwrap().is_empty());
    }

    #[test]
    fn clusters_are_held_out_by_name_and_whole_ones_of_the_rest_are_watched() {
        let rows: Vec<Row> =
            (0..60).map(|at| row(at, &format!("{}-{}", ["quiet", "busy"][at as usize % 2], at % 6))).collect();
        let named = |patterns: &[&str]| Split::Named(patterns.iter().flat_map(|pattern| pattern.parse()).collect());
        let observations = seen(&rows).split(&named(&["busy-*"]), FOLD).unwrap();
        let part = |at: usize| observations[at].part;
        assert!((0..60).all(|at| (part(at) == Part::Test) == (at % 2 == 1)));
        let watched: BTreeSet<usize> = (0..60).filter(|at| part(*at) == Part::Validate).map(|at| at % 6).collect();
        assert_eq!(watched.len(), 1);
        assert!((0..60).filter(|at| watched.contains(&(at % 6))).all(|at| part(at) == Part::Validate));
        let refused = seen(&rows).split(&named(&["busy-*", "nobody*"]), FOLD).unwrap_err();
        assert_eq!(refused.to_string(), "--hold-out nobody*: no cluster of the history is called so");
    }

    #[test]
    fn how_it_was_split_is_read_back_as_it_was_recorded() {
        let named = Split::Named(["a b*", "c,d"].iter().flat_map(|pattern| pattern.parse()).collect());
        for (split, fold) in [(Split::Run, Some(3)), (Split::Random, Some(0)), (Split::Time, None), (named, None)] {
            let record = split.record(fold.unwrap_or(4));
            assert_eq!(Split::recorded(&record), Some((split, fold)), "{record}");
        }
        assert_eq!(Split::recorded("run"), Some((Split::Run, None)));
        assert_eq!(Split::recorded("lots"), None);
    }
}
