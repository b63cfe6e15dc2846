//! What a fleet of infinitely many servers does: the fluid limit of TABS (Mukherjee, Dhara, Borst, van Leeuwaarden 2017,
//! Theorem 3.1, and its section 4 for service in phases).
//!
//! Shares of servers move along a differential equation ([`flow`]) whose right side jumps where the last idle server is
//! taken, u = 0: as long as u > 0 every task finds an idle server; at u = 0 only as many do as servers become idle, and
//! the rest queue and start servers. With servers that are off used up, δ0 = 0, no more start. So there are three regimes,
//! and within each the right side is smooth:
//!
//! ```text
//!              u reaches 0, fewer become idle than arrive
//!      spare ───────────────────────────────────────────▶ short ──── δ0 reaches 0 ───▶ all up
//!      u > 0 ◀─────────────────────────────────────────── u = 0                         u = 0, δ0 = 0
//!        ▲          as many become idle as arrive                                          │
//!        └─────────────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! **Events are located, the state is not projected.** To step across u = 0 and cut off what is negative would be simple,
//! but each such step is wrong by its length, whatever the order of the method, and near u = 0 steps would cross all the
//! time. Here a step of Runge and Kutta's that ends beyond a regime's edge is taken again with the length with which it
//! ends on it (bisection), and the next regime begins there: fourth order throughout. On u = 0 nothing needs to hold the
//! state: u is a linear function of it whose derivative is zero in those regimes, and Runge–Kutta methods keep such
//! functions to the last digit. Jumps of the load are ends of steps too.
//!
//! A dip across an edge and back within one step is not seen; it is smaller than the square of the step.

mod flow;

use super::load::Load;
use super::outcome::Sample;
use super::phases::PhaseType;
use super::setting::Start;
use flow::{Flow, Regime};

/// The fluid limit of a fleet.
#[derive(Clone, Debug)]
pub struct Fluid {
    /// Arrivals per server and mean service time.
    pub load: Load,
    /// ServiceTime times.
    pub service: PhaseType,
    /// μ: the rate at which an idle server turns off; zero for JIQ.
    pub standby: f64,
    /// ν: the rate at which a setup ends.
    pub setup: f64,
    /// Tasks that a server holds at most; what comes beyond is lost.
    pub levels: usize,
}

/// The longest step, in the fastest of the mean times of the system. The error of a step is about its fifth power.
const STEP: f64 = 0.05;

/// Beyond an edge by less than this is on it: rounding is not an event.
const EDGE: f64 = 1e-12;

/// Changes of regime at one instant, after which a step is taken whatever becomes of it.
const MOST_CHANGES: u32 = 8;

impl Fluid {
    /// The curve from a beginning: samples at the ends of so many equal parts of the horizon, and at zero. Tasks that are
    /// in service at first have just begun.
    pub fn curve(&self, start: &Start, horizon: f64, parts: u32) -> Vec<Sample> {
        let mut flow = Flow::new(self, start);
        let mut samples = vec![flow.sample(0.0)];
        let mut now = 0.0;
        for part in 1..=parts {
            let until = horizon * f64::from(part) / f64::from(parts);
            self.go(&mut flow, now, until);
            now = until;
            samples.push(flow.sample(now));
        }
        samples
    }

    /// Where every curve of a constant load below one ends: as many servers busy as are needed, no task waiting, all
    /// others off.
    pub fn fixed_point(load: f64) -> Sample {
        Sample { at: f64::INFINITY, queues: vec![load], idle_off: 1.0 - load, setup: 0.0 }
    }

    /// Moves the state from one instant to another.
    fn go(&self, flow: &mut Flow, mut now: f64, until: f64) {
        let longest = STEP / self.fastest();
        let mut changes = 0;
        let mut regime = flow.regime(self, now);
        while now < until {
            let jump = self.load.next_jump(now).unwrap_or(f64::INFINITY);
            let end = until.min(jump).min(now + longest);
            let step = end - now;
            let whole = flow.stepped(self, regime, now, step);
            let beyond = whole.beyond(self, regime, Side { time: end, before: jump });
            if beyond > EDGE && changes < MOST_CHANGES {
                let (part, edge) = self.edge(flow, regime, now, step, jump);
                *flow = edge;
                changes = if part > 0.0 { 0 } else { changes + 1 };
                now += part;
                regime = flow.next_regime(self, regime, now);
            } else {
                *flow = whole;
                now = end;
                changes = 0;
                if now >= jump {
                    regime = flow.regime(self, now);
                }
            }
        }
    }

    /// The longest part of a step that does not end beyond the regime's edge, and where it ends.
    fn edge(&self, flow: &Flow, regime: Regime, now: f64, step: f64, jump: f64) -> (f64, Flow) {
        let (mut within, mut beyond) = (0.0, step);
        let mut edge = flow.clone();
        for _ in 0..60 {
            let part = 0.5 * (within + beyond);
            let stepped = flow.stepped(self, regime, now, part);
            if stepped.beyond(self, regime, Side { time: now + part, before: jump }) > 0.0 {
                beyond = part;
            } else {
                within = part;
                edge = stepped;
            }
        }
        (within, edge)
    }

    /// The greatest rate of the system.
    fn fastest(&self) -> f64 {
        let service = self.service.rates().iter().fold(1.0, |fastest, rate| f64::max(fastest, *rate));
        service.max(self.load.peak()).max(self.standby).max(self.setup)
    }
}

/// An instant at which the load is asked for; if it jumps there, what it was before.
#[derive(Clone, Copy, Debug)]
struct Side {
    time: f64,
    before: f64,
}

impl Side {
    fn load(self, load: &Load) -> f64 {
        // Steps end at jumps, so only the end of one can be there.
        load.at(if self.time >= self.before { self.before - self.before.abs().max(1.0) * 1e-12 } else { self.time })
    }
}

#[cfg(test)]
mod tests;
