//! out + x·w, in blocks of registers.
//!
//! A block of outputs stays in registers while all inputs go by: four rows × a few registers of columns, so that
//! every number read from `w` serves four rows and every number of `x` serves the whole panel. Each output is its own
//! chain of fused multiply-adds over the inputs in order, whatever block it falls into; that is why the batch size
//! and the width of a register change no bit.

#![allow(unsafe_code)]

use super::lanes::{Lanes, read, write};

/// A product: out[r][j] += Σᵢ x[r][i]·w[i][j], rows × inputs × width.
#[derive(Clone, Copy)]
pub(super) struct Product {
    pub(super) out: *mut f32,
    pub(super) x: *const f32,
    pub(super) w: *const f32,
    pub(super) rows: usize,
    pub(super) inputs: usize,
    pub(super) width: usize,
}

/// Computes a product with panels of `V` registers, then of one, then of a part of one.
///
/// # Safety
/// The processor has the instructions of `L`; `out` is valid for rows × width numbers and overlaps neither `x`
/// (rows × inputs) nor `w` (inputs × width).
#[inline(always)]
pub(super) unsafe fn affine<L: Lanes, const V: usize>(p: Product) {
    let mut column = 0;
    // SAFETY: the caller's vow; every panel ends at or before `width`.
    unsafe {
        // A row alone has but one sum per register: it takes more registers to hide the latency of an addition.
        if p.rows == 1 {
            column = panels::<L, 8>(p, column);
        }
        column = panels::<L, V>(p, column);
        column = panels::<L, 1>(p, column);
        if column < p.width {
            panel::<L, 1>(p, column, p.width - column);
        }
    }
}

/// As many panels of `V` registers as there are from `column` on; the column where they end.
#[inline(always)]
unsafe fn panels<L: Lanes, const V: usize>(p: Product, mut column: usize) -> usize {
    while column + V * L::WIDTH <= p.width {
        // SAFETY: as for `affine`; the panel ends at or before `width`.
        unsafe { panel::<L, V>(p, column, L::WIDTH) };
        column += V * L::WIDTH;
    }
    column
}

/// All rows of the columns from `column` on; the panel's last register holds `last` of them.
#[inline(always)]
unsafe fn panel<L: Lanes, const V: usize>(p: Product, column: usize, last: usize) {
    let mut row = 0;
    // SAFETY: as for `affine`; every block ends at or before `rows`.
    unsafe {
        while row + 4 <= p.rows {
            block::<L, 4, V>(p, row, column, last);
            row += 4;
        }
        match p.rows - row {
            3 => block::<L, 3, V>(p, row, column, last),
            2 => block::<L, 2, V>(p, row, column, last),
            1 => block::<L, 1, V>(p, row, column, last),
            _ => {}
        }
    }
}

/// `R` rows × `V` registers of outputs.
#[inline(always)]
unsafe fn block<L: Lanes, const R: usize, const V: usize>(p: Product, row: usize, column: usize, last: usize) {
    // SAFETY: as for `affine`: rows `row..row + R` and the panel's columns lie inside.
    unsafe {
        let out = p.out.add(row * p.width + column);
        let x = p.x.add(row * p.inputs);
        let w = p.w.add(column);
        let mut sums = [[L::splat(0.0); V]; R];
        for (r, sums) in sums.iter_mut().enumerate() {
            for (v, sum) in sums.iter_mut().enumerate() {
                *sum = read::<L>(out.add(r * p.width + v * L::WIDTH), last);
            }
        }
        for i in 0..p.inputs {
            let mut weights = [L::splat(0.0); V];
            for (v, weight) in weights.iter_mut().enumerate() {
                *weight = read::<L>(w.add(i * p.width + v * L::WIDTH), last);
            }
            for (r, sums) in sums.iter_mut().enumerate() {
                let input = L::splat(*x.add(r * p.inputs + i));
                for (sum, weight) in sums.iter_mut().zip(weights) {
                    *sum = input.fma(weight, *sum);
                }
            }
        }
        for (r, sums) in sums.iter().enumerate() {
            for (v, sum) in sums.iter().enumerate() {
                write::<L>(*sum, out.add(r * p.width + v * L::WIDTH), last);
            }
        }
    }
}
