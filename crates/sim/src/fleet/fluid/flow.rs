//! The state of the fluid, and how it moves.
//!
//! With q_ij the share of servers with at least i tasks whose task is in phase j (q_i over all phases), δ0 idle-off, δ1 in
//! setup, u = 1 − q_1 − δ0 − δ1 idle-on, d = Σ_k (q_1k − q_2k) γ_k R_k0 the rate at which busy servers become idle:
//!
//! ```text
//!   q_ij' = λ p_(i−1)j + Σ_k q_ik γ_k R_kj + Σ_k q_(i+1)k γ_k R_k0 r_j − γ_j q_ij
//!   δ0' = μ u − ξ'        δ1' = ξ' − ν δ1        ξ' = λ (1 − p_0) 1[δ0 > 0]
//!   p_0j = p_0 r_j        p_ij = (1 − p_0) (q_ij − q_(i+1)j) / q_1        p_0 = 1 if u > 0, else min(1, (δ1 ν + d) / λ)
//! ```

use super::super::outcome::Sample;
use super::super::setting::Start;
use super::{Fluid, Side};

/// Which of the smooth right sides holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Regime {
    /// Some servers are idle-on, or as many become idle as tasks arrive.
    Spare,
    /// No server is idle-on; blocked tasks start servers.
    Short,
    /// No server is idle-on, and none is off.
    AllUp,
}

/// A state, or how fast it changes.
#[derive(Clone, Debug)]
pub(super) struct Flow {
    phases: usize,
    /// q_ij, phase by phase of one level after the other; the last level, beyond what servers hold, is zero.
    queues: Vec<f64>,
    idle_off: f64,
    setup: f64,
}

impl Flow {
    /// The state that a run begins in.
    pub(super) fn new(fluid: &Fluid, start: &Start) -> Flow {
        let phases = fluid.service.phases();
        let mut queues = vec![0.0; (fluid.levels + 1) * phases];
        for (level, share) in queues.chunks_exact_mut(phases).zip(&start.queues).take(fluid.levels) {
            level.iter_mut().zip(fluid.service.first()).for_each(|(q, first)| *q = share * first);
        }
        Flow { phases, queues, idle_off: start.idle_off, setup: start.setup }
    }

    /// What a run would have written down.
    pub(super) fn sample(&self, at: f64) -> Sample {
        let levels = self.queues.len() / self.phases - 1;
        let queues = (0..levels).map(|level| self.level(level)).collect();
        Sample { at, queues, idle_off: self.idle_off, setup: self.setup }
    }

    /// The regime that a state is in that came about by no movement.
    pub(super) fn regime(&self, fluid: &Fluid, now: f64) -> Regime {
        if self.idle_on() > super::EDGE || self.inflow(fluid) >= fluid.load.at(now) {
            Regime::Spare
        } else if self.idle_off > super::EDGE {
            Regime::Short
        } else {
            Regime::AllUp
        }
    }

    /// The regime behind the edge on which the state has come to stand.
    pub(super) fn next_regime(&self, fluid: &Fluid, regime: Regime, now: f64) -> Regime {
        let spare = self.inflow(fluid) - fluid.load.at(now);
        match regime {
            Regime::Spare if self.idle_off > super::EDGE => Regime::Short,
            Regime::Spare => Regime::AllUp,
            Regime::Short if spare < -super::EDGE => Regime::AllUp,
            Regime::Short | Regime::AllUp => Regime::Spare,
        }
    }

    /// How far the state is beyond the edge of a regime; not positive within.
    pub(super) fn beyond(&self, fluid: &Fluid, regime: Regime, side: Side) -> f64 {
        let spare = || self.inflow(fluid) - side.load(&fluid.load);
        match regime {
            Regime::Spare => -self.idle_on(),
            Regime::Short => spare().max(-self.idle_off),
            Regime::AllUp => spare(),
        }
    }

    /// The state one step later (classical Runge–Kutta).
    pub(super) fn stepped(&self, fluid: &Fluid, regime: Regime, now: f64, step: f64) -> Flow {
        let jump = fluid.load.next_jump(now).unwrap_or(f64::INFINITY);
        let load = |time| Side { time, before: jump }.load(&fluid.load);
        let (first, middle, last) = (load(now), load(now + 0.5 * step), load(now + step));
        let one = self.change(fluid, regime, first);
        let two = self.plus(&one, 0.5 * step).change(fluid, regime, middle);
        let three = self.plus(&two, 0.5 * step).change(fluid, regime, middle);
        let four = self.plus(&three, step).change(fluid, regime, last);
        let mut end = self.clone();
        for (change, sixths) in [(one, 1.0), (two, 2.0), (three, 2.0), (four, 1.0)] {
            end.add(&change, step * sixths / 6.0);
        }
        end
    }

    /// The right side.
    fn change(&self, fluid: &Fluid, regime: Regime, load: f64) -> Flow {
        let inflow = self.inflow(fluid);
        let found = if regime == Regime::Spare { load } else { inflow.min(load) };
        let blocked = load - found;
        let busy = self.level(0);
        let waits = if busy > 0.0 { blocked / busy } else { 0.0 };
        let start = if regime == Regime::Short { blocked } else { 0.0 };
        let up = fluid.setup * self.setup;
        let standby = if regime == Regime::Spare { fluid.standby * self.idle_on() } else { 0.0 };
        let mut queues = vec![0.0; self.queues.len()];
        for (level, changes) in queues.chunks_exact_mut(self.phases).enumerate().take(fluid.levels) {
            let next = self.ending(fluid, level + 1);
            for (phase, change) in changes.iter_mut().enumerate() {
                let joined = match level {
                    0 => found * fluid.service.first()[phase],
                    _ => waits * (self.q(level - 1, phase) - self.q(level, phase)),
                };
                *change = joined + next * fluid.service.first()[phase] + self.passed(fluid, level, phase);
            }
        }
        Flow { phases: self.phases, queues, idle_off: standby - start, setup: start - up }
    }

    /// The rate at which services end where there are more than so many tasks.
    fn ending(&self, fluid: &Fluid, level: usize) -> f64 {
        let service = &fluid.service;
        (0..self.phases).map(|phase| self.q(level, phase) * service.rates()[phase] * service.end(phase)).sum()
    }

    /// How a share of servers changes because tasks pass from phase to phase.
    fn passed(&self, fluid: &Fluid, level: usize, phase: usize) -> f64 {
        let service = &fluid.service;
        let into = |from: usize| self.q(level, from) * service.rates()[from] * service.next()[from][phase];
        (0..self.phases).map(into).sum::<f64>() - service.rates()[phase] * self.q(level, phase)
    }

    /// The rate at which servers become idle-on.
    fn inflow(&self, fluid: &Fluid) -> f64 {
        fluid.setup * self.setup + self.ending(fluid, 0) - self.ending(fluid, 1)
    }

    fn idle_on(&self) -> f64 {
        1.0 - self.level(0) - self.idle_off - self.setup
    }

    /// The share of servers with more than so many tasks.
    fn level(&self, level: usize) -> f64 {
        self.queues[level * self.phases..(level + 1) * self.phases].iter().sum()
    }

    fn q(&self, level: usize, phase: usize) -> f64 {
        self.queues[level * self.phases + phase]
    }

    fn plus(&self, change: &Flow, times: f64) -> Flow {
        let mut sum = self.clone();
        sum.add(change, times);
        sum
    }

    fn add(&mut self, change: &Flow, times: f64) {
        self.queues.iter_mut().zip(&change.queues).for_each(|(q, by)| *q += by * times);
        self.idle_off += change.idle_off * times;
        self.setup += change.setup * times;
    }
}
