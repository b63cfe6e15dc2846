//! The fluid limit against closed forms, its fixed point, and from anywhere.

use punctual_core::math;
use punctual_core::rng::{Rng, Stream};

use super::*;

fn fluid(load: f64, service: PhaseType) -> Fluid {
    Fluid { load: Load::Constant(load), service, standby: 0.1, setup: 0.1, levels: 24 }
}

/// A state drawn at random: any queues, any part of the rest off or in setup.
fn random_start(rng: &mut Rng) -> Start {
    let busy = rng.unit();
    let mut queues = vec![busy];
    for _ in 0..rng.index(5) {
        queues.push(queues[queues.len() - 1] * rng.unit());
    }
    let idle_off = (1.0 - busy) * rng.unit();
    let setup = (1.0 - busy - idle_off) * rng.unit();
    Start { queues, idle_off, setup }
}

fn kinds() -> Vec<PhaseType> {
    vec![
        PhaseType::exponential(),
        PhaseType::erlang(3).expect("it exists"),
        PhaseType::hyperexponential(4.0).expect("it exists"),
        PhaseType::coxian(vec![3.0, 0.5], vec![0.3]).expect("it exists"),
    ]
}

#[test]
fn every_curve_ends_at_the_fixed_point() {
    let mut rng = Rng::stream(1, Stream::Mix);
    for service in kinds() {
        for _ in 0..3 {
            let load = 0.1 + 0.8 * rng.unit();
            let start = random_start(&mut rng);
            let curve = fluid(load, service.clone()).curve(&start, 400.0, 1);
            let distance = curve[1].distance(&Fluid::fixed_point(load));
            assert!(distance < 1e-6, "{distance} at {load} from {start:?} with {service:?}");
        }
    }
}

#[test]
fn shares_stay_shares() {
    let mut rng = Rng::stream(2, Stream::Mix);
    for service in kinds() {
        for _ in 0..6 {
            let load = 0.1 + 1.2 * rng.unit();
            let start = random_start(&mut rng);
            for sample in fluid(load, service.clone()).curve(&start, 100.0, 400) {
                let shares = [sample.idle_on(), sample.idle_off, sample.setup];
                assert!(shares.iter().all(|share| *share > -1e-9), "{sample:?}");
                assert!(sample.queues.windows(2).all(|pair| pair[0] > pair[1] - 1e-9), "{sample:?}");
                assert!(sample.queues.iter().all(|share| *share > -1e-9), "{sample:?}");
            }
        }
    }
}

#[test]
fn with_servers_to_spare_the_curve_is_the_known_one() {
    // All idle-on, λ = 0.3: q1 = λ (1 − e^−t), and δ0' = μ (1 − q1 − δ0) is linear.
    let curve = fluid(0.3, PhaseType::exponential()).curve(&Start::default(), 8.0, 8);
    for sample in curve {
        let (slow, fast) = (math::exp(-0.1 * sample.at), math::exp(-sample.at));
        let idle_off = 0.7 * (1.0 - slow) + 0.1 * 0.3 / 0.9 * (slow - fast);
        assert!((sample.queues[0] - 0.3 * (1.0 - fast)).abs() < 1e-8, "{sample:?}");
        assert!((sample.idle_off - idle_off).abs() < 1e-8, "{sample:?}, not {idle_off}");
        assert_eq!(sample.queues[1], 0.0);
    }
}

#[test]
fn with_no_idle_server_the_curve_is_the_known_one_until_all_are_up() {
    // Half busy with one task each, half off, load 0.9: blocked tasks start servers, x = δ1 obeys
    // x' = λ − (ν x + q1 − q2) − ν x. To second order from q1 = 1/2, q2 = 0, x = 0: x' = 0.4 at first,
    // q2' = 0.4, so x'' = −2 ν 0.4 − (q1' − q2') = −0.08 + 0.4.
    let start = Start { queues: vec![0.5], idle_off: 0.5, setup: 0.0 };
    let curve = fluid(0.9, PhaseType::exponential()).curve(&start, 0.02, 1);
    let (t, end) = (0.02, &curve[1]);
    assert!((end.setup - (0.4 * t + 0.32 * t * t / 2.0)).abs() < 2e-6, "{end:?}");
    assert!(end.idle_on().abs() < 1e-12, "{end:?}");
}

#[test]
fn a_coarse_and_a_fine_way_to_the_same_instant_agree() {
    // Parts end steps: so different parts are different steps. Where a curve crosses edges, fourth order is kept.
    let load = Load::Wave { mean: 0.5, amplitude: 0.4, period: 20.0 };
    let fluid = Fluid { load, ..fluid(0.0, PhaseType::erlang(2).expect("it exists")) };
    let coarse = fluid.curve(&Start::default(), 80.0, 1);
    let fine = fluid.curve(&Start::default(), 80.0, 8_001);
    let distance = coarse[1].distance(&fine[8_001]);
    assert!(distance < 1e-7, "{distance}");
}

#[test]
fn a_small_step_with_what_is_negative_cut_off_goes_the_same_way() {
    // The same equations, independently: Euler's steps of 10⁻⁴ for exponential service, and u < 0 projected to 0.
    let load = |t: f64| if t < 30.0 { 0.3 } else { 0.8 };
    let (mu, nu, h, levels) = (0.1, 0.1, 1e-4, 24);
    let (mut q, mut off, mut setup) = (vec![0.0; levels + 1], 0.0, 0.0);
    let mut projected = Vec::new();
    for n in 0..=600_000u32 {
        let t = f64::from(n) * h;
        if n % 50_000 == 0 {
            projected.push(Sample { at: t, queues: q[..levels].to_vec(), idle_off: off, setup });
        }
        let u = (1.0 - q[0] - off - setup).max(0.0);
        let inflow = nu * setup + q[0] - q[1];
        // Within a step, what is idle can be taken as well.
        let found = if u / h + inflow >= load(t) { load(t) } else { u / h + inflow };
        let blocked = load(t) - found;
        let start = if off > 0.0 { blocked } else { 0.0 };
        let mut next = q.clone();
        for i in 0..levels {
            let joined = if i == 0 { found } else { blocked * (q[i - 1] - q[i]) / q[0].max(1e-9) };
            next[i] += h * (joined - (q[i] - q[i + 1]));
        }
        off += h * (mu * u - start);
        setup += h * (start - nu * setup);
        q = next;
    }
    let fluid = Fluid { load: Load::Steps(vec![(0.0, 0.3), (30.0, 0.8)]), ..fluid(0.0, PhaseType::exponential()) };
    let curve = fluid.curve(&Start::default(), 60.0, 12);
    for (ours, theirs) in curve.iter().zip(&projected) {
        let distance = ours.distance(theirs);
        assert!(distance < 2e-3, "{distance} at {}: {ours:?}, {theirs:?}", ours.at);
    }
}
