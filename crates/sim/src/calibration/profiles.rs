//! A template's work, from how it fares alone at each size.
//!
//! Three numbers are looked for: the CPU work, how many units it can use, and how much memory it keeps. What it reads
//! follows from the CPU work (the same GB per second of it for all templates: latencies alone do not tell the two
//! apart). A template that gains less than twofold from twice the units can use few of them; one that gains more has
//! memory or tables that do not fit into the smaller cluster. A template is taken to be like the others
//! as far as it has not been seen: the number of units is drawn towards many, and the memory towards what the work of
//! all templates goes with.

use punctual_core::math;

use super::alone::{Warmth, expected};
use super::evidence::Clue;
use super::search::Knobs;
use crate::world::warehouse::{Parameters, Profile, Table, Template};

/// Units that a template may be able to use: powers of √2 from 4 to 64.
const UNITS: [f64; 9] = [4.0, 5.656_854, 8.0, 11.313_708, 16.0, 22.627_417, 32.0, 45.254_834, 64.0];
/// Its memory, as the logarithm of its ratio to what its work goes with: so many steps of this on either side.
const STEPS: i32 = 6;
const STEP: f64 = 0.7;
/// What it costs to be unlike the others: as much as so large a part of a clue's squared error.
const UNLIKE: f64 = 0.05;
/// A clue that is further off than e to the power of this is no further off.
const OUTLIER: f64 = 2.0;

/// The profiles that go best with the clues, given everything that templates have in common.
pub(super) fn fit(clues: &[Vec<Clue>], knobs: &Knobs, parameters: &Parameters, like: &Table) -> Vec<Profile> {
    let sizes = clues.iter().flatten().map(|clue| clue.size);
    let warmth = Warmth::of(sizes.collect::<std::collections::BTreeSet<_>>(), parameters.cache, like);
    let fit = |template: Template| {
        let search = Search { knobs, parameters, warmth: &warmth, template, like: like.profile(template) };
        search.best(&clues[template.index()])
    };
    let known: Vec<Option<Profile>> = Template::all().map(fit).collect();
    let mut cpu: Vec<f64> = known.iter().flatten().map(|profile| profile.cpu).collect();
    // Of a template without any clue only its tables are known.
    let typical = super::median(&mut cpu).unwrap_or(1.0);
    let unseen = |(template, profile): (Template, Option<Profile>)| {
        profile.unwrap_or_else(|| knobs.profile(typical, 0.0, UNITS[UNITS.len() - 1], like.profile(template)))
    };
    Template::all().zip(known).map(unseen).collect()
}

struct Search<'a> {
    knobs: &'a Knobs,
    parameters: &'a Parameters,
    warmth: &'a Warmth,
    template: Template,
    like: Profile,
}

impl Search<'_> {
    fn best(&self, clues: &[Clue]) -> Option<Profile> {
        if clues.is_empty() {
            return None;
        }
        let mut best: Option<(f64, Profile)> = None;
        for (fewer, &units) in UNITS.iter().rev().enumerate() {
            for step in -STEPS..=STEPS {
                let unlike = f64::from(step) * STEP;
                let profile = self.with_work(clues, unlike, units);
                let few = fewer as f64 * STEP / 2.0;
                let misfit = self.misfit(clues, &profile) + UNLIKE * (unlike * unlike + few * few);
                if best.is_none_or(|(least, _)| misfit < least) {
                    best = Some((misfit, profile));
                }
            }
        }
        best.map(|(_, profile)| profile)
    }

    /// The CPU work with which the clues are met in the mean. Latencies grow with it nearly in proportion, so a few
    /// corrections suffice.
    fn with_work(&self, clues: &[Clue], unlike: f64, units: f64) -> Profile {
        let mut cpu = 16.0;
        for _ in 0..6 {
            let profile = self.knobs.profile(cpu, unlike, units, self.like);
            let (mut off, mut weight) = (0.0, 0.0);
            for clue in clues {
                // What is faster than a start-up says little about the work.
                let start_up = self.parameters.start_up;
                let measured = (clue.latency - start_up).max(0.3 * clue.latency).max(1e-6);
                off += clue.weight * math::ln(measured / (self.expected(clue, &profile) - start_up).max(1e-9));
                weight += clue.weight;
            }
            cpu *= math::exp(off / weight);
        }
        self.knobs.profile(cpu, unlike, units, self.like)
    }

    fn misfit(&self, clues: &[Clue], profile: &Profile) -> f64 {
        let of = |clue: &Clue| {
            let off = math::ln(self.expected(clue, profile) / clue.latency.max(1e-6)).abs().min(OUTLIER);
            clue.weight * off * off
        };
        clues.iter().map(of).sum()
    }

    fn expected(&self, clue: &Clue, profile: &Profile) -> f64 {
        expected(self.parameters, profile, (clue.size, self.template), self.warmth)
    }
}
