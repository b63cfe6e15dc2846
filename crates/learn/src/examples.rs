//! What a network learns from: queries, the rows of what they met, and how long they took.
//!
//! An example is one query in one context: what was known at some moment of its life. A query gives several, at its
//! arrival, at its end and in between; they share their steps, since an earlier context is a prefix of a later one.
//!
//! ```text
//!   steps:   … b₁ b₂ a │ a c₁ c₂ c₃ …        neighbours[i] is whom the target meets in rows[i]
//!                before │ after
//!   at arrival:  ├────┤   ├┤
//!   in between:  ├────┤   ├───┤
//!   hindsight:   ├────┤   ├────────┤
//! ```

use std::fmt;
use std::ops::Range;

use punctual_core::predict::net::{FEATURES, HEAD, PAIR};

/// A query as the network sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct QueryInput {
    /// Its row in the table of known fingerprints.
    pub known: Option<u32>,
    /// Its text, plan and history.
    pub features: [f32; FEATURES],
}

/// One query in one context.
#[derive(Clone, Debug, PartialEq)]
pub struct Example {
    /// The query, an index of [`Examples::queries`].
    pub target: u32,
    /// The steps about those that ran when it arrived, oldest first, the target itself last.
    pub before: Range<u32>,
    /// The steps about the target itself and then about those that arrived later, oldest first.
    pub after: Range<u32>,
    /// What the head reads.
    pub head: [f32; HEAD],
    /// The estimate that the network corrects, ln seconds.
    pub base: f32,
    /// How long the query took, ln seconds.
    pub label: f32,
    /// The label is a lower bound.
    pub bound: bool,
    /// The run or tenant that it belongs to.
    pub group: u32,
}

/// Examples and the pools that they point into.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Examples {
    /// Every query, as target or neighbour.
    pub queries: Vec<QueryInput>,
    /// The rows of all steps.
    pub rows: Vec<[f32; PAIR]>,
    /// Whom each step is about, indexes of `queries`; as many as `rows`.
    pub neighbours: Vec<u32>,
    /// The examples.
    pub examples: Vec<Example>,
}

/// Why examples cannot be learnt from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExamplesError {
    /// Rows and neighbours differ in number.
    Steps {
        /// How many rows.
        rows: usize,
        /// How many neighbours.
        neighbours: usize,
    },
    /// A neighbour is no query of the pool.
    Neighbour {
        /// The step.
        step: usize,
    },
    /// A query's known row is beyond the table.
    Known {
        /// The query.
        query: usize,
    },
    /// An example points outside the pools, or its after-sequence lacks the target's own step.
    Example {
        /// The example.
        example: usize,
    },
    /// A number is infinite or none.
    NotFinite {
        /// Which pool.
        pool: Pool,
        /// The place in it.
        at: usize,
    },
}

/// The pools of [`Examples`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pool {
    /// [`Examples::queries`].
    Queries,
    /// [`Examples::rows`].
    Rows,
    /// [`Examples::examples`].
    Examples,
}

impl fmt::Display for ExamplesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ExamplesError::Steps { rows, neighbours } => write!(f, "{rows} rows of steps for {neighbours} neighbours"),
            ExamplesError::Neighbour { step } => write!(f, "step {step} is about a query that is not there"),
            ExamplesError::Known { query } => write!(f, "query {query} has a fingerprint beyond the table"),
            ExamplesError::Example { example } => write!(f, "example {example} points outside its pools"),
            ExamplesError::NotFinite { pool, at } => write!(f, "{pool:?} {at} holds what is not a finite number"),
        }
    }
}

impl std::error::Error for ExamplesError {}

impl Examples {
    /// Whether everything points inside, `known` fingerprints being in the table, and all numbers are finite.
    pub fn check(&self, known: usize) -> Result<(), ExamplesError> {
        let (rows, neighbours, queries) = (self.rows.len(), self.neighbours.len(), self.queries.len());
        if rows != neighbours {
            return Err(ExamplesError::Steps { rows, neighbours });
        }
        if let Some(step) = self.neighbours.iter().position(|&query| query as usize >= queries) {
            return Err(ExamplesError::Neighbour { step });
        }
        if let Some(query) = self.queries.iter().position(|q| q.known.is_some_and(|row| row as usize >= known)) {
            return Err(ExamplesError::Known { query });
        }
        let inside = |steps: &Range<u32>| steps.start <= steps.end && steps.end as usize <= rows;
        let sound = |e: &Example| {
            let ranges = inside(&e.before) && inside(&e.after) && !e.after.is_empty();
            ranges && (e.target as usize) < queries
        };
        if let Some(example) = self.examples.iter().position(|e| !sound(e)) {
            return Err(ExamplesError::Example { example });
        }
        self.check_numbers()
    }

    fn check_numbers(&self) -> Result<(), ExamplesError> {
        let finite = |xs: &[f32]| xs.iter().all(|x| x.is_finite());
        let complain = |pool, at: Option<usize>| at.map_or(Ok(()), |at| Err(ExamplesError::NotFinite { pool, at }));
        complain(Pool::Queries, self.queries.iter().position(|q| !finite(&q.features)))?;
        complain(Pool::Rows, self.rows.iter().position(|row| !finite(row)))?;
        let sound = |e: &Example| finite(&e.head) && finite(&[e.base, e.label]);
        complain(Pool::Examples, self.examples.iter().position(|e| !sound(e)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one() -> Examples {
        let example = Example {
            target: 0,
            before: 0..1,
            after: 1..2,
            head: [0.0; HEAD],
            base: 0.0,
            label: 0.0,
            bound: false,
            group: 0,
        };
        Examples {
            queries: vec![QueryInput { known: Some(0), features: [0.0; FEATURES] }],
            rows: vec![[0.0; PAIR]; 2],
            neighbours: vec![0, 0],
            examples: vec![example],
        }
    }

    #[test]
    fn what_points_outside_or_is_no_number_is_named() {
        let broken = |change: fn(&mut Examples)| {
            let mut examples = one();
            change(&mut examples);
            examples.check(1)
        };
        assert_eq!(broken(|_| ()), Ok(()));
        assert_eq!(broken(|e| e.rows.truncate(1)), Err(ExamplesError::Steps { rows: 1, neighbours: 2 }));
        assert_eq!(broken(|e| e.neighbours[1] = 7), Err(ExamplesError::Neighbour { step: 1 }));
        assert_eq!(broken(|e| e.queries[0].known = Some(1)), Err(ExamplesError::Known { query: 0 }));
        assert_eq!(broken(|e| e.examples[0].after = 1..3), Err(ExamplesError::Example { example: 0 }));
        assert_eq!(broken(|e| e.examples[0].after = 1..1), Err(ExamplesError::Example { example: 0 }));
        let no_number = |pool| Err(ExamplesError::NotFinite { pool, at: 0 });
        assert_eq!(broken(|e| e.rows[0][3] = f32::NAN), no_number(Pool::Rows));
        assert_eq!(broken(|e| e.examples[0].label = f32::INFINITY), no_number(Pool::Examples));
    }
}
