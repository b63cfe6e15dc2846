//! The predictor with parts taken away, to see what each is worth (AutoSLO, section 8.3, Figure 7a).
//!
//! A variant is the same network on inputs from which something is missing: numbers are set to zero, sights are left
//! out, or the base is another. The first is Iconq on one size, the fourth is Iconq+ as the paper has it, the last is what
//! this product uses.

use std::ops::Range;

use punctual_core::predict::scene::{HEAD, HEAD_TOPICS, PAIR, PAIR_TOPICS, Topic};

use crate::contexts::{About, Contexts};

/// What the network may see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variant {
    /// What it is called.
    pub name: &'static str,
    /// The size of the cluster.
    pub size: bool,
    /// Queries that did not finish, as lower bounds.
    pub bounds: bool,
    /// Later neighbours oldest first, so that one more is one more step; else newest first, to be read again.
    pub incremental: bool,
    /// Queries as they look at arrival and in between; else in hindsight alone.
    pub foresight: bool,
    /// The fluid estimate, as the base and among the inputs; else the base is the isolated latency.
    pub fluid: bool,
    /// How the cluster went lately.
    pub past: bool,
}

/// What this product uses.
pub const WHOLE: Variant = Variant {
    name: "+ recent past (Punctual)",
    size: true,
    bounds: true,
    incremental: true,
    foresight: true,
    fluid: true,
    past: true,
};

/// Iconq+ as its paper has it.
pub const PLUS: Variant = Variant {
    name: "+ incremental (Iconq+)",
    size: true,
    bounds: true,
    incremental: true,
    foresight: false,
    fluid: false,
    past: false,
};

/// From Iconq to ours, one step at a time.
pub const STEPS: [Variant; 7] = {
    let iconq = Variant { name: "Iconq", size: false, bounds: false, incremental: false, ..PLUS };
    let size = Variant { name: "+ size", size: true, ..iconq };
    let censored = Variant { name: "+ censored", bounds: true, ..size };
    let foresight = Variant { name: "+ at arrival and between", foresight: true, ..PLUS };
    let fluid = Variant { name: "+ fluid estimate", fluid: true, ..foresight };
    [iconq, size, censored, PLUS, foresight, fluid, WHOLE]
};

impl Variant {
    /// Takes away what the variant does not see. `training` leaves out what it does not learn from; what is measured is
    /// the same for all.
    pub(crate) fn apply(&self, shown: &mut Contexts, training: bool) {
        if training {
            self.leave_out(shown);
        }
        let alone: Vec<f64> = shown.about.iter().map(|about| f64::from(about.head.row[0])).collect();
        shown.examples.rows.iter_mut().for_each(|row: &mut [f32; PAIR]| self.blank(row, &PAIR_TOPICS));
        for ((example, about), alone) in shown.examples.examples.iter_mut().zip(&mut shown.about).zip(alone) {
            self.blank::<HEAD>(&mut example.head, &HEAD_TOPICS);
            if !self.fluid {
                example.base = alone as f32;
                about.head.base = alone;
            }
        }
        if !self.incremental {
            newest_first(shown);
        }
    }

    /// Sets what it does not see to zero.
    fn blank<const N: usize>(&self, row: &mut [f32; N], topics: &[Topic; N]) {
        for (number, topic) in row.iter_mut().zip(topics) {
            if !self.sees(*topic) {
                *number = 0.0;
            }
        }
    }

    fn sees(&self, topic: Topic) -> bool {
        match topic {
            Topic::Queries => true,
            Topic::Size => self.size,
            Topic::Sharing => self.fluid,
            Topic::Past => self.past,
        }
    }

    fn leave_out(&self, shown: &mut Contexts) {
        let last =
            |about: &[About], at: usize| about.get(at + 1).is_none_or(|next| next.observation != about[at].observation);
        let learnt = |at: usize| {
            let example = &shown.examples.examples[at];
            // What nothing came after is in hindsight as it was at its arrival.
            let in_sight = self.foresight || last(&shown.about, at);
            in_sight && (self.bounds || !example.bound)
        };
        let kept: Vec<bool> = (0..shown.about.len()).map(learnt).collect();
        let mut at = kept.iter();
        shown.examples.examples.retain(|_| *at.next().unwrap_or(&true));
        let mut at = kept.iter();
        shown.about.retain(|_| *at.next().unwrap_or(&true));
    }
}

/// Gives each example an after side of its own: later neighbours newest first, then the target itself.
fn newest_first(shown: &mut Contexts) {
    let examples = &mut shown.examples;
    for example in &mut examples.examples {
        let old: Range<usize> = example.after.start as usize..example.after.end as usize;
        let from = examples.rows.len() as u32;
        for at in old.rev() {
            examples.rows.push(examples.rows[at]);
            examples.neighbours.push(examples.neighbours[at]);
        }
        example.after = from..examples.rows.len() as u32;
    }
}

#[cfg(test)]
mod tests {
    use punctual_core::predict::stage::Alone;
    use punctual_core::rng::Rng;

    use super::*;
    use crate::contexts::Sight;
    use crate::observation::tests::seen;

    fn shown(variant: &Variant) -> Contexts {
        let mut all = vec![seen(0, 0, 0, 100), seen(0, 1, 10, 40), seen(0, 2, 20, 90), seen(0, 3, 95, 99)];
        all[1].finished = false;
        let alone = vec![Alone { ln: -3.0, ..Alone::default() }; all.len()];
        let mut shown = crate::contexts::contexts(&all, &alone, |_| None, |_| true, &mut Rng::numbered(1, 1 << 40));
        variant.apply(&mut shown, true);
        assert_eq!(shown.examples.check(0), Ok(()));
        shown
    }

    #[test]
    fn each_variant_sees_what_it_says() {
        let of = |variant: &Variant| -> Vec<(u32, Sight)> {
            shown(variant).about.iter().map(|about| (about.observation, about.sight)).collect()
        };
        use Sight::{AtArrival, Between, Hindsight};
        assert_eq!(of(&STEPS[0]), [(2, AtArrival), (3, AtArrival), (0, Hindsight)]);
        assert_eq!(of(&STEPS[2]), [(1, Hindsight), (2, AtArrival), (3, AtArrival), (0, Hindsight)]);
        assert_eq!(of(&WHOLE).iter().filter(|(_, sight)| *sight == Between).count(), 1);
        for variant in STEPS {
            let shown = shown(&variant);
            let sizes =
                shown.examples.rows.iter().all(|row| {
                    row.iter().zip(PAIR_TOPICS).all(|(number, topic)| topic != Topic::Size || *number == 0.0)
                });
            assert_eq!(sizes, !variant.size, "{}", variant.name);
            let fluid = shown.about.iter().all(|about| about.head.base == -3.0);
            assert_eq!(fluid, !variant.fluid, "{}", variant.name);
        }
    }

    #[test]
    fn newest_first_ends_with_the_target() {
        let shown = shown(&STEPS[2]);
        let first = shown.examples.examples.iter().find(|example| example.target == 0).unwrap();
        let met = &shown.examples.neighbours[first.after.start as usize..first.after.end as usize];
        assert_eq!(met, [3, 2, 1, 0]);
    }
}
