//! The three products that a backward pass is made of, each brought to the kernel's one.
//!
//! Of y = x·w (n × inputs, inputs × outputs) with slopes dy: dw += xᵀ·dy and dx += dy·wᵀ. Transposing costs a pass
//! over memory and leaves one product to be fast.

use punctual_core::predict::kernel::Kernel;

/// The transpose of `rows` rows.
pub(super) fn transposed(x: &[f32], rows: usize) -> Vec<f32> {
    let width = x.len().checked_div(rows).unwrap_or(0);
    let mut out = vec![0.0; x.len()];
    for (r, row) in x.chunks_exact(width.max(1)).enumerate() {
        for (c, x) in row.iter().enumerate() {
            out[c * rows + r] = *x;
        }
    }
    out
}

/// dw += xᵀ·dy, over `n` rows.
pub(super) fn add_to_weights(kernel: Kernel, dw: &mut [f32], x: &[f32], dy: &[f32], n: usize) {
    if n > 0 {
        kernel.affine(dw, &transposed(x, n), dy, n, dy.len() / n);
    }
}

/// dx += dy·wᵀ, where `w` has `inputs` rows.
pub(super) fn add_to_inputs(kernel: Kernel, dx: &mut [f32], dy: &[f32], w: &[f32], inputs: usize) {
    kernel.affine(dx, dy, &transposed(w, inputs), w.len() / inputs, inputs);
}

/// db += the sum of the rows of dy.
pub(super) fn add_to_bias(db: &mut [f32], dy: &[f32]) {
    for row in dy.chunks_exact(db.len()) {
        db.iter_mut().zip(row).for_each(|(db, dy)| *db += dy);
    }
}

/// Copies of a row, `n` of them.
pub(super) fn repeated(row: &[f32], n: usize) -> Vec<f32> {
    row.repeat(n)
}
