//! The one place where core and the simulator get their transcendental functions.
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

#[cfg(test)]
mod tests {
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
