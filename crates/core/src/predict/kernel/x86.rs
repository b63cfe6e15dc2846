//! Registers of eight (AVX2 with FMA) and sixteen (AVX-512F) numbers.

#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::lanes::Lanes;

/// Eight numbers: AVX2 with FMA.
#[derive(Clone, Copy)]
pub(super) struct Eight(__m256);

/// Sixteen numbers: AVX-512F.
#[derive(Clone, Copy)]
pub(super) struct Sixteen(__m512);

/// Methods that are one instruction on registers.
macro_rules! instructions {
    ($of:ident: $($name:ident($($other:ident),*) = $instruction:ident;)*) => {$(
        #[inline(always)]
        unsafe fn $name(self, $($other: $of),*) -> $of {
            // SAFETY: the caller vouches for the instructions; no memory is touched.
            $of(unsafe { $instruction(self.0, $($other.0),*) })
        }
    )*};
}

/// The lanes below `n` switched on, for masked reads and writes.
#[inline(always)]
fn first_eight(n: usize) -> [i32; 8] {
    std::array::from_fn(|lane| if lane < n { -1 } else { 0 })
}

// SAFETY: only instructions of AVX2 and FMA are used.
unsafe impl Lanes for Eight {
    const WIDTH: usize = 8;
    const PANEL: usize = 2;

    #[inline(always)]
    unsafe fn splat(x: f32) -> Eight {
        // SAFETY: the caller vouches for AVX2.
        Eight(unsafe { _mm256_set1_ps(x) })
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Eight {
        // SAFETY: the caller vouches for AVX2 and for eight numbers.
        Eight(unsafe { _mm256_loadu_ps(from) })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: the caller vouches for AVX2 and for eight numbers.
        unsafe { _mm256_storeu_ps(to, self.0) }
    }

    #[inline(always)]
    unsafe fn load_part(from: *const f32, n: usize) -> Eight {
        let lanes = first_eight(n);
        // SAFETY: the caller vouches for AVX2 and for `n` numbers; masked lanes are not read.
        Eight(unsafe { _mm256_maskload_ps(from, _mm256_loadu_si256(lanes.as_ptr().cast())) })
    }

    #[inline(always)]
    unsafe fn store_part(self, to: *mut f32, n: usize) {
        let lanes = first_eight(n);
        // SAFETY: the caller vouches for AVX2 and for `n` numbers; masked lanes are not written.
        unsafe { _mm256_maskstore_ps(to, _mm256_loadu_si256(lanes.as_ptr().cast()), self.0) }
    }

    instructions! { Eight:
        add(other) = _mm256_add_ps;
        sub(other) = _mm256_sub_ps;
        mul(other) = _mm256_mul_ps;
        div(other) = _mm256_div_ps;
        fma(by, plus) = _mm256_fmadd_ps;
        at_most(bound) = _mm256_min_ps;
        at_least(bound) = _mm256_max_ps;
    }

    #[inline(always)]
    unsafe fn power_of_two(self) -> Eight {
        // SAFETY: the caller vouches for AVX2; no memory is touched.
        unsafe {
            let shifted = _mm256_slli_epi32::<23>(_mm256_castps_si256(self.0));
            Eight(_mm256_castsi256_ps(_mm256_add_epi32(shifted, _mm256_set1_epi32(0x3f80_0000))))
        }
    }
}

// SAFETY: only instructions of AVX-512F are used.
unsafe impl Lanes for Sixteen {
    const WIDTH: usize = 16;
    const PANEL: usize = 4;

    #[inline(always)]
    unsafe fn splat(x: f32) -> Sixteen {
        // SAFETY: the caller vouches for AVX-512F.
        Sixteen(unsafe { _mm512_set1_ps(x) })
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Sixteen {
        // SAFETY: the caller vouches for AVX-512F and for sixteen numbers.
        Sixteen(unsafe { _mm512_loadu_ps(from) })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: the caller vouches for AVX-512F and for sixteen numbers.
        unsafe { _mm512_storeu_ps(to, self.0) }
    }

    #[inline(always)]
    unsafe fn load_part(from: *const f32, n: usize) -> Sixteen {
        // SAFETY: the caller vouches for AVX-512F and for `n` numbers; masked lanes are not read.
        Sixteen(unsafe { _mm512_maskz_loadu_ps((1 << n) - 1, from) })
    }

    #[inline(always)]
    unsafe fn store_part(self, to: *mut f32, n: usize) {
        // SAFETY: the caller vouches for AVX-512F and for `n` numbers; masked lanes are not written.
        unsafe { _mm512_mask_storeu_ps(to, (1 << n) - 1, self.0) }
    }

    instructions! { Sixteen:
        add(other) = _mm512_add_ps;
        sub(other) = _mm512_sub_ps;
        mul(other) = _mm512_mul_ps;
        div(other) = _mm512_div_ps;
        fma(by, plus) = _mm512_fmadd_ps;
        at_most(bound) = _mm512_min_ps;
        at_least(bound) = _mm512_max_ps;
    }

    #[inline(always)]
    unsafe fn power_of_two(self) -> Sixteen {
        // SAFETY: the caller vouches for AVX-512F; no memory is touched.
        unsafe {
            let shifted = _mm512_slli_epi32::<23>(_mm512_castps_si512(self.0));
            Sixteen(_mm512_castsi512_ps(_mm512_add_epi32(shifted, _mm512_set1_epi32(0x3f80_0000))))
        }
    }
}
