//! The nonlinear part of an LSTM cell, and the functions that it is made of.
//!
//! eˣ = 2ⁿ·eʳ, with n = round(x / ln 2) and |r| ≤ ln 2 / 2. The rounding is done by adding 1.5·2²³, beyond which a
//! 32-bit number has no fraction: the sum's low bits are then n itself, which shifted to the exponent's place is 2ⁿ.
//! ln 2 is subtracted in two parts, the first of which has so few bits that n times it is exact (Cody and Waite
//! 1980). The polynomial is that of `expf` in Cephes (Moshier 1992): eʳ ≈ 1 + r + r²·p(r), error below 2⁻²³ relative.
//!
//! Arguments are clamped first, so that every result is a normal number and nothing depends on how a processor treats
//! subnormal ones; what is not a number is taken for the upper end. Beyond the clamps the functions have already
//! reached their limits in 32 bits, or (σ on the left) come within 10⁻¹³ of them.

#![allow(unsafe_code)]

use super::lanes::{Lanes, read, write};

const ROUNDER: f32 = 12_582_912.0;
#[allow(clippy::excessive_precision)]
const LN2_HIGH: f32 = 0.693_359_375;
#[allow(clippy::excessive_precision)]
const LN2_LOW: f32 = -2.121_944_40e-4;
#[allow(clippy::excessive_precision)]
const POLYNOMIAL: [f32; 6] = [
    1.987_569_150_0e-4,
    1.398_199_950_7e-3,
    8.333_451_907_3e-3,
    4.166_579_589_4e-2,
    1.666_666_545_9e-1,
    5.000_000_120_1e-1,
];
/// e^±87 are normal numbers; e^89 is too large for 32 bits.
pub(super) const EXP_CLAMP: f32 = 87.0;
/// 1 + e⁻³⁰ is 1 in 32 bits.
pub(super) const SIGMOID_CLAMP: f32 = 30.0;
/// tanh 10 is 1 in 32 bits.
pub(super) const TANH_CLAMP: f32 = 10.0;

#[inline(always)]
unsafe fn clamp<L: Lanes>(x: L, bound: f32) -> L {
    // SAFETY: the caller vouches for the instructions of `L`.
    unsafe { x.at_most(L::splat(bound)).at_least(L::splat(-bound)) }
}

/// eˣ for |x| ≤ 87.
#[inline(always)]
unsafe fn exp_inside<L: Lanes>(x: L) -> L {
    // SAFETY: the caller vouches for the instructions of `L`.
    unsafe {
        let rounded = x.fma(L::splat(std::f32::consts::LOG2_E), L::splat(ROUNDER));
        let n = rounded.sub(L::splat(ROUNDER));
        let r = n.fma(L::splat(-LN2_LOW), n.fma(L::splat(-LN2_HIGH), x));
        let mut p = L::splat(POLYNOMIAL[0]);
        for coefficient in &POLYNOMIAL[1..] {
            p = p.fma(r, L::splat(*coefficient));
        }
        let fraction = p.fma(r.mul(r), r).add(L::splat(1.0));
        fraction.mul(rounded.power_of_two())
    }
}

/// eˣ, x clamped to ±[`EXP_CLAMP`].
///
/// # Safety
/// The processor has the instructions of `L`. So for the other functions here.
#[inline(always)]
pub(super) unsafe fn exp<L: Lanes>(x: L) -> L {
    // SAFETY: the caller vouches for the instructions of `L`.
    unsafe { exp_inside(clamp(x, EXP_CLAMP)) }
}

/// σ(x) = 1 / (1 + e⁻ˣ), x clamped to ±[`SIGMOID_CLAMP`].
#[inline(always)]
pub(super) unsafe fn sigmoid<L: Lanes>(x: L) -> L {
    // SAFETY: the caller vouches for the instructions of `L`.
    unsafe {
        let one = L::splat(1.0);
        let e = exp_inside(L::splat(0.0).sub(clamp(x, SIGMOID_CLAMP)));
        one.div(one.add(e))
    }
}

/// tanh x = (e²ˣ − 1) / (e²ˣ + 1), x clamped to ±[`TANH_CLAMP`].
#[inline(always)]
pub(super) unsafe fn tanh<L: Lanes>(x: L) -> L {
    // SAFETY: the caller vouches for the instructions of `L`.
    unsafe {
        let one = L::splat(1.0);
        let x = clamp(x, TANH_CLAMP);
        let e = exp_inside(x.add(x));
        e.sub(one).div(e.add(one))
    }
}

/// One row of a cell: `z` holds the four gates' inputs i, f, g, o and gets their values; `c` and `h` get the new state.
///
/// # Safety
/// `z` is valid for 4·`hidden` numbers, `c` and `h` for `hidden`; none overlap.
#[inline(always)]
pub(super) unsafe fn cell<L: Lanes>(z: *mut f32, c: *mut f32, h: *mut f32, hidden: usize) {
    let mut j = 0;
    // SAFETY: the caller's vow; every register ends at or before `hidden`.
    unsafe {
        while j + L::WIDTH <= hidden {
            register::<L>(L::WIDTH, hidden, z.add(j), c.add(j), h.add(j));
            j += L::WIDTH;
        }
        if j < hidden {
            register::<L>(hidden - j, hidden, z.add(j), c.add(j), h.add(j));
        }
    }
}

/// `n` columns of a row, one register.
#[inline(always)]
unsafe fn register<L: Lanes>(n: usize, hidden: usize, z: *mut f32, c: *mut f32, h: *mut f32) {
    // SAFETY: as for `cell`.
    unsafe {
        let (zi, zf, zg, zo) = (z, z.add(hidden), z.add(2 * hidden), z.add(3 * hidden));
        let i = sigmoid(read::<L>(zi, n));
        let f = sigmoid(read::<L>(zf, n));
        let g = tanh(read::<L>(zg, n));
        let o = sigmoid(read::<L>(zo, n));
        let next = f.fma(read(c, n), i.mul(g));
        write(i, zi, n);
        write(f, zf, n);
        write(g, zg, n);
        write(o, zo, n);
        write(next, c, n);
        write(o.mul(tanh(next)), h, n);
    }
}
