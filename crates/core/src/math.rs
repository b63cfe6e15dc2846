//! The one place where core and the simulator get their transcendental functions, and what all count alike.
//!
//! The standard library calls the platform's `exp`, whose last bit differs between machines; one differing bit
//! changes a decision and a journal no longer replays. `libm` is pure Rust and the same everywhere. Basic
//! arithmetic, `sqrt` and `mul_add` are exact by IEEE 754 and may be used directly.

/// eˣ.
pub fn exp(x: f64) -> f64 {
    libm::exp(x)
}

/// The natural logarithm of x.
pub fn ln(x: f64) -> f64 {
    libm::log(x)
}

/// x to the power y.
pub fn pow(x: f64, y: f64) -> f64 {
    libm::pow(x, y)
}

/// The cosine of x radians.
pub fn cos(x: f64) -> f64 {
    libm::cos(x)
}

/// The complementary error function of x: 2/√π ∫ₓ^∞ exp(−t²) dt.
pub fn erfc(x: f64) -> f64 {
    libm::erfc(x)
}

/// The z that a standard normal number exceeds with probability `q`: the inverse of its upper tail, to nine digits. Beyond
/// what a double can tell from zero and one it stays finite.
///
/// Rational approximations in the middle and in the tails (P. Acklam, 2003).
pub fn normal_upper(q: f64) -> f64 {
    const A: [f64; 6] = [
        -3.969_683_028_665_376e1,
        2.209_460_984_245_205e2,
        -2.759_285_104_469_687e2,
        1.383_577_518_672_69e2,
        -3.066_479_806_614_716e1,
        2.506_628_277_459_239,
    ];
    const B: [f64; 5] = [
        -5.447_609_879_822_406e1,
        1.615_858_368_580_409e2,
        -1.556_989_798_598_866e2,
        6.680_131_188_771_972e1,
        -1.328_068_155_288_572e1,
    ];
    const C: [f64; 6] = [
        -7.784_894_002_430_293e-3,
        -3.223_964_580_411_365e-1,
        -2.400_758_277_161_838,
        -2.549_732_539_343_734,
        4.374_664_141_464_968,
        2.938_163_982_698_783,
    ];
    const D: [f64; 4] =
        [7.784_695_709_041_462e-3, 3.224_671_290_700_398e-1, 2.445_134_137_142_996, 3.754_408_661_907_416];
    /// Where the tails begin.
    const TAIL: f64 = 0.02425;
    let horner = |coefficients: &[f64], x: f64| coefficients.iter().fold(0.0, |sum, c| sum * x + c);
    let q = q.clamp(f64::MIN_POSITIVE, 1.0 - f64::EPSILON / 2.0);
    let tail = |q: f64| {
        let x = (-2.0 * ln(q)).sqrt();
        horner(&C, x) / (horner(&D, x) * x + 1.0)
    };
    if q < TAIL {
        -tail(q)
    } else if q > 1.0 - TAIL {
        tail(1.0 - q)
    } else {
        let x = 0.5 - q;
        let r = x * x;
        horner(&A, r) * x / (horner(&B, r) * r + 1.0)
    }
}

/// The least of the values, which are in ascending order, that so great a share of them does not exceed, for each share: by
/// nearest rank, so that it is one of them. None of none.
pub fn nearest_ranks<T: Copy, const N: usize>(sorted: &[T], shares: [f64; N]) -> Option<[T; N]> {
    let last = sorted.len().checked_sub(1)?;
    let rank = |share: f64| (share * sorted.len() as f64).ceil() as usize;
    Some(shares.map(|share| sorted[rank(share).saturating_sub(1).min(last)]))
}

#[cfg(test)]
mod tests {
    #[test]
    fn ranks_are_of_values_that_are_there() {
        let values: Vec<u32> = (1..=10).collect();
        let shares = [0.0, 0.01, 0.5, 0.9, 0.91, 1.0, 7.0, -1.0, f64::NAN];
        assert_eq!(super::nearest_ranks(&values, shares), Some([1, 1, 5, 9, 10, 10, 10, 1, 1]));
        assert_eq!(super::nearest_ranks(&[7.5], [0.2, 0.99]), Some([7.5, 7.5]));
        assert_eq!(super::nearest_ranks::<f64, 1>(&[], [0.5]), None);
    }

    #[test]
    fn the_inverse_of_the_upper_tail_undoes_it() {
        for q in [1e-300_f64, 1e-20, 1e-6, 0.01, 0.0243, 0.1, 0.5, 0.9, 0.976, 0.999, 1.0 - 1e-9] {
            let z = super::normal_upper(q);
            let back = 0.5 * super::erfc(z / std::f64::consts::SQRT_2);
            // The tail is steep: a digit of z is several of q.
            assert!((back / q - 1.0).abs() < 1e-7 * (1.0 + z * z), "{q}: {z} {back}");
        }
        assert!((super::normal_upper(0.1) - 1.281_551_565_544_6).abs() < 1e-8);
        assert!(
            super::normal_upper(0.0) > 37.0 && super::normal_upper(1.0) < -8.0 && super::normal_upper(0.0).is_finite()
        );
    }

    #[test]
    fn functions_give_their_pinned_bits() {
        // Bits, not values within a tolerance: another bit is another decision. (e is one unit in the last place high.)
        assert_eq!(super::exp(1.0).to_bits(), 0x4005_bf0a_8b14_576a);
        assert_eq!(super::ln(10.0).to_bits(), 0x4002_6bb1_bbb5_5516);
        assert_eq!(super::pow(2.0, 0.5).to_bits(), 0x3ff6_a09e_667f_3bcd);
        assert_eq!(super::cos(1.0).to_bits(), 0x3fe1_4a28_0fb5_068c);
        assert_eq!(super::erfc(1.0).to_bits(), 0x3fc4_2261_62fb_ddd5);
    }
}
