//! Which queries arrive: a weighted choice, and how much work each is.

use punctual_core::admit::claim::Claim;
use punctual_core::class::DEFAULT;
use punctual_core::fingerprint::Fingerprint;
use punctual_core::id::{ClassId, SessionId, UserId};
use punctual_core::math;
use punctual_core::rng::{Rng, Stream};
use punctual_core::statement::Kind;
use punctual_core::time::{Span, Time};
use serde::{Deserialize, Serialize};

use super::{Arrival, Ask, Later};
use crate::world::sharing::Work;

/// What a workload consists of.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Mix {
    /// The kinds of queries, each with its weight. None: nothing arrives.
    pub shares: Vec<Share>,
    /// How many clients there are; each query comes from any of them, also while that one has another. None: each
    /// query comes from a client of its own.
    pub clients: Option<u32>,
}

/// Queries that are alike.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Share {
    /// How often, relative to the other shares.
    pub weight: f64,
    /// Their class.
    pub class: ClassId,
    /// Their latency target.
    pub slo: Option<Span>,
    /// How long one takes on one unit, alone.
    pub size: Size,
    /// How many units one can use.
    pub most_units: u32,
    /// The most queries in one transaction: one to this many, each number alike. At least one.
    pub statements: u32,
    /// The mean time between the queries of a transaction.
    pub think: Span,
    /// Whose they are, and what they ask for.
    pub claim: Claim,
    /// How many users send them, each as many: the one of the claim and those after it.
    pub users: u32,
}

/// How the work of queries is spread.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Size {
    /// All alike.
    Fixed(Span),
    /// Exponential, by its mean.
    Exponential(Span),
    /// Mostly small, sometimes large: two exponentials with balanced means (each kind brings half of the work).
    Hyperexponential {
        /// The mean.
        mean: Span,
        /// Deviation over mean. At one and below it is exponential.
        cv: f64,
    },
    /// Log-normal.
    LogNormal {
        /// The median.
        median: Span,
        /// The deviation of the logarithm.
        sigma: f64,
    },
}

impl Default for Share {
    /// Nothing much, of one user.
    fn default() -> Share {
        Share {
            weight: 1.0,
            class: DEFAULT,
            slo: None,
            size: Size::Fixed(Span::ZERO),
            most_units: 1,
            statements: 1,
            think: Span::ZERO,
            claim: Claim::default(),
            users: 1,
        }
    }
}

impl Size {
    /// Draws one.
    pub fn draw(self, rng: &mut Rng) -> Span {
        match self {
            Size::Fixed(span) => span,
            Size::Exponential(mean) => Span::from_secs_f64(rng.exponential(mean.secs_f64())),
            Size::Hyperexponential { mean, cv } => {
                // Balanced means: p/μ₁ = (1−p)/μ₂ = mean/2, so cv² = 1/(2p(1−p)) − 1.
                let cv = cv.max(1.0);
                let p = (1.0 - ((cv * cv - 1.0) / (cv * cv + 1.0)).sqrt()) / 2.0;
                let share = if rng.chance(p) { p } else { 1.0 - p };
                Span::from_secs_f64(rng.exponential(mean.secs_f64() / (2.0 * share)))
            }
            Size::LogNormal { median, sigma } => {
                Span::from_secs_f64(median.secs_f64() * math::exp(sigma * rng.normal()))
            }
        }
    }
}

impl Mix {
    /// A mix of one kind of queries in one class, each from a client of its own.
    pub fn of_one(class: ClassId, slo: Option<Span>, size: Size, most_units: u32) -> Mix {
        let share =
            Share { weight: 1.0, class, slo, size, most_units, statements: 1, think: Span::ZERO, ..Share::default() };
        Mix { shares: vec![share], clients: None }
    }

    pub(super) fn draw(&self, seed: u64) -> Draw {
        Draw {
            mix: self.clone(),
            choice: Rng::stream(seed, Stream::Mix),
            work: Rng::stream(seed, Stream::Work),
            arrived: 0,
        }
    }
}

/// A mix being drawn from.
#[derive(Clone, Debug)]
pub(super) struct Draw {
    mix: Mix,
    choice: Rng,
    work: Rng,
    arrived: u64,
}

impl Draw {
    /// What arrives at `at`; None if the mix is empty.
    pub(super) fn arrival(&mut self, at: Time) -> Option<Arrival> {
        let index = self.share()?;
        self.arrived += 1;
        let number = match self.mix.clients {
            None => self.arrived,
            Some(clients) => self.choice.below(u64::from(clients.max(1))),
        };
        let share = &self.mix.shares[index];
        let which = if share.users > 1 { self.choice.below(share.users.into()) } else { 0 };
        let claim = Claim { user: UserId(share.claim.user.0 + which), ..share.claim };
        let ask = draw_ask(share, (index, claim), &mut self.work);
        let more = self.choice.below(u64::from(share.statements.max(1)));
        let then = (0..more)
            .map(|_| {
                let after = Span::from_secs_f64(self.choice.exponential(share.think.secs_f64()));
                Later { after, ask: draw_ask(share, (index, claim), &mut self.work) }
            })
            .collect();
        Some(Arrival { at, session: SessionId::of(0, number), ask, then })
    }

    fn share(&mut self) -> Option<usize> {
        let weight = |share: &Share| share.weight.max(0.0);
        let total: f64 = self.mix.shares.iter().map(weight).sum();
        let mut left = self.choice.unit() * total;
        let chosen = self.mix.shares.iter().position(|share| {
            left -= weight(share);
            left < 0.0
        });
        // Rounding may leave a little after the last.
        chosen.or(self.mix.shares.iter().rposition(|share| share.weight > 0.0))
    }
}

fn draw_ask(share: &Share, (index, claim): (usize, Claim), rng: &mut Rng) -> Ask {
    Ask {
        class: share.class,
        slo: share.slo,
        claim,
        fingerprint: Fingerprint(index as u64),
        kind: Kind::Select,
        work: Work { cpu: share.size.draw(rng), most_units: share.most_units },
        template: None,
        recorded: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::{Pattern, generate};

    fn moments(size: Size) -> (f64, f64) {
        let mut rng = Rng::stream(2, Stream::Work);
        let draws: Vec<f64> = (0..400_000).map(|_| size.draw(&mut rng).secs_f64()).collect();
        let mean = draws.iter().sum::<f64>() / draws.len() as f64;
        let square = draws.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / draws.len() as f64;
        (mean, square.sqrt() / mean)
    }

    #[test]
    fn sizes_have_their_mean_and_their_variation() {
        let close = |(mean, cv): (f64, f64), want: (f64, f64)| {
            assert!(
                (mean - want.0).abs() < 0.02 * want.0 && (cv - want.1).abs() < 0.03 * want.1,
                "{mean} {cv} {want:?}"
            );
        };
        let two = Span::from_secs(2);
        assert_eq!(moments(Size::Fixed(two)), (2.0, 0.0));
        close(moments(Size::Exponential(two)), (2.0, 1.0));
        close(moments(Size::Hyperexponential { mean: two, cv: 3.0 }), (2.0, 3.0));
        // Mean e^{σ²/2}·median, squared variation e^{σ²} − 1, for σ = 0.5.
        close(moments(Size::LogNormal { median: two, sigma: 0.5 }), (2.266_297, 0.532_940));
    }

    #[test]
    fn shares_come_by_weight_and_clients_repeat() {
        let share = |class, weight| Share {
            weight,
            class: ClassId(class),
            slo: None,
            size: Size::Fixed(Span::ZERO),
            most_units: 1,
            statements: 3,
            think: Span::from_secs(1),
            ..Share::default()
        };
        let mix = Mix { shares: vec![share(2, 3.0), share(3, 0.0), share(4, 1.0)], clients: Some(5) };
        let arrivals: Vec<_> = generate(4, &Pattern::Poisson { rate: 100.0 }, &mix, Span::from_secs(400)).collect();
        let count = |class| arrivals.iter().filter(|arrival| arrival.ask.class == ClassId(class)).count() as f64;
        let total = arrivals.len() as f64;
        assert!((count(2) / total - 0.75).abs() < 0.011, "{}", count(2) / total);
        assert_eq!(count(3), 0.0);
        assert!(arrivals.iter().all(|arrival| arrival.session.0 < 5 && arrival.then.len() < 3));
    }

    #[test]
    fn an_empty_mix_is_an_empty_workload() {
        let mut arrivals = generate(4, &Pattern::Poisson { rate: 1.0 }, &Mix::default(), Span::from_secs(10));
        assert_eq!(arrivals.next(), None);
    }
}
