//! What a vector register can do, said once for registers of one, eight and sixteen numbers.
//!
//! Every operation here is exact by IEEE 754 (one rounding) or a pure shuffle of bits, and works on each lane alone.
//! So an algorithm written over [`Lanes`] gives the same bits whatever the width: what differs is how many outputs go
//! side by side.

#![allow(unsafe_code)]

/// A register of [`WIDTH`](Lanes::WIDTH) numbers.
///
/// # Safety
/// Every method must only be called on a processor that has the implementor's instructions. Pointers must be valid for
/// the numbers that are read or written; they need no alignment.
pub(super) unsafe trait Lanes: Copy {
    /// Numbers per register.
    const WIDTH: usize;
    /// Registers per panel of a product: with four rows, enough independent sums to hide the latency of an addition,
    /// and few enough that they stay in registers (16 of 32, 8 of 16).
    const PANEL: usize;
    /// The same number in every lane.
    unsafe fn splat(x: f32) -> Self;
    /// Reads `WIDTH` numbers.
    unsafe fn load(from: *const f32) -> Self;
    /// Writes `WIDTH` numbers.
    unsafe fn store(self, to: *mut f32);
    /// Reads `n < WIDTH` numbers; the other lanes are zero.
    unsafe fn load_part(from: *const f32, n: usize) -> Self;
    /// Writes the first `n < WIDTH` numbers.
    unsafe fn store_part(self, to: *mut f32, n: usize);
    /// self + other.
    unsafe fn add(self, other: Self) -> Self;
    /// self − other.
    unsafe fn sub(self, other: Self) -> Self;
    /// self · other.
    unsafe fn mul(self, other: Self) -> Self;
    /// self / other, correctly rounded.
    unsafe fn div(self, other: Self) -> Self;
    /// self · by + plus, rounded once.
    unsafe fn fma(self, by: Self, plus: Self) -> Self;
    /// self where it is below `bound`, else `bound`: not a number gives `bound`.
    unsafe fn at_most(self, bound: Self) -> Self;
    /// self where it is above `bound`, else `bound`: not a number gives `bound`.
    unsafe fn at_least(self, bound: Self) -> Self;
    /// 2ⁿ, where n stands in the low bits of the number's pattern (see [`super::gates`]).
    unsafe fn power_of_two(self) -> Self;
}

/// Reads the first `n ≤ WIDTH` numbers.
#[inline(always)]
pub(super) unsafe fn read<L: Lanes>(from: *const f32, n: usize) -> L {
    // SAFETY: the caller vouches for the instructions and for `n` numbers.
    unsafe { if n == L::WIDTH { L::load(from) } else { L::load_part(from, n) } }
}

/// Writes the first `n ≤ WIDTH` numbers.
#[inline(always)]
pub(super) unsafe fn write<L: Lanes>(lanes: L, to: *mut f32, n: usize) {
    // SAFETY: the caller vouches for the instructions and for `n` numbers.
    unsafe { if n == L::WIDTH { lanes.store(to) } else { lanes.store_part(to, n) } }
}

/// One number: the twin that runs anywhere.
// SAFETY: needs no instructions beyond those of the target.
unsafe impl Lanes for f32 {
    const WIDTH: usize = 1;
    const PANEL: usize = 2;

    #[inline(always)]
    unsafe fn splat(x: f32) -> f32 {
        x
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> f32 {
        // SAFETY: the caller vouches for one number.
        unsafe { *from }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: the caller vouches for one number.
        unsafe { *to = self }
    }

    #[inline(always)]
    unsafe fn load_part(_: *const f32, _: usize) -> f32 {
        0.0
    }

    #[inline(always)]
    unsafe fn store_part(self, _: *mut f32, _: usize) {}

    #[inline(always)]
    unsafe fn add(self, other: f32) -> f32 {
        self + other
    }

    #[inline(always)]
    unsafe fn sub(self, other: f32) -> f32 {
        self - other
    }

    #[inline(always)]
    unsafe fn mul(self, other: f32) -> f32 {
        self * other
    }

    #[inline(always)]
    unsafe fn div(self, other: f32) -> f32 {
        self / other
    }

    #[inline(always)]
    unsafe fn fma(self, by: f32, plus: f32) -> f32 {
        self.mul_add(by, plus)
    }

    #[inline(always)]
    unsafe fn at_most(self, bound: f32) -> f32 {
        if self < bound { self } else { bound }
    }

    #[inline(always)]
    unsafe fn at_least(self, bound: f32) -> f32 {
        if self > bound { self } else { bound }
    }

    #[inline(always)]
    unsafe fn power_of_two(self) -> f32 {
        f32::from_bits((self.to_bits() << 23).wrapping_add(0x3f80_0000))
    }
}
