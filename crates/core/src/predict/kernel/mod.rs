//! Products and activations of small networks: the same bits on every machine and at every batch size.
//!
//! A prediction decides where a query runs, and a journal of decisions must replay anywhere. A matrix product of a
//! library sums in an order that depends on the machine and on the batch, so it will not do. Here outputs go side by
//! side in a register and inputs are added in order, each by one fused multiply-add; eˣ is one polynomial; division is
//! division. Then one number at a time, eight (AVX2) and sixteen (AVX-512) are the same arithmetic, and which is
//! taken is a matter of speed alone. The best that the processor has is found at run time.
//!
//! Widths need no padding: the last, partly filled register of a row is read and written under a mask.
//!
//! This is the one place of the crate with `unsafe`: instructions that not every processor has, and pointers inside
//! blocks. What is public checks lengths and is safe.

#![allow(unsafe_code)]

mod affine;
mod gates;
mod lanes;
#[cfg(target_arch = "x86_64")]
mod x86;

#[cfg(test)]
mod tests;

use affine::Product;
use lanes::Lanes;

/// How many numbers go side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Path {
    /// One, on any processor.
    Scalar,
    /// Eight, with AVX2 and FMA.
    Avx2,
    /// Sixteen, with AVX-512F.
    Avx512,
}

/// A path that this processor is known to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kernel(Path);

/// Runs a function over [`lanes::Lanes`] on the kernel's path; the caller's block of `unsafe` vouches for the pointers.
macro_rules! on_path {
    ($kernel:expr, $run:ident($($name:ident: $kind:ty),*)) => {{
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx2,fma")]
        unsafe fn eight($($name: $kind),*) {
            // SAFETY: compiled with the instructions; the caller vouches for the rest.
            unsafe { $run::<x86::Eight>($($name),*) }
        }
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx512f")]
        unsafe fn sixteen($($name: $kind),*) {
            // SAFETY: compiled with the instructions; the caller vouches for the rest.
            unsafe { $run::<x86::Sixteen>($($name),*) }
        }
        match $kernel.0 {
            #[cfg(target_arch = "x86_64")]
            Path::Avx2 => eight($($name),*),
            #[cfg(target_arch = "x86_64")]
            Path::Avx512 => sixteen($($name),*),
            _ => $run::<f32>($($name),*),
        }
    }};
}

impl Kernel {
    /// The widest that this processor has.
    pub fn best() -> Kernel {
        [Path::Avx512, Path::Avx2].into_iter().find_map(Kernel::on).unwrap_or(Kernel(Path::Scalar))
    }

    /// A path of one's choice; none if this processor does not have it.
    pub fn on(path: Path) -> Option<Kernel> {
        #[cfg(target_arch = "x86_64")]
        let there = match path {
            Path::Scalar => true,
            Path::Avx2 => is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma"),
            Path::Avx512 => is_x86_feature_detected!("avx512f"),
        };
        #[cfg(not(target_arch = "x86_64"))]
        let there = path == Path::Scalar;
        there.then_some(Kernel(path))
    }

    /// Which path this is.
    pub fn path(self) -> Path {
        self.0
    }

    /// out + x·w: each `out[r][j]` becomes fma(x[r][i], w[i][j], out[r][j]) for i = 0, 1, … in this order.
    ///
    /// `x` is rows × inputs, `w` inputs × `width`, `out` rows × `width`, all row by row; the number of rows follows
    /// from `out`. Panics if the lengths do not fit each other.
    pub fn affine(self, out: &mut [f32], x: &[f32], w: &[f32], inputs: usize, width: usize) {
        assert_eq!(w.len(), inputs * width, "w is inputs × width");
        if width == 0 {
            return assert!(out.is_empty(), "no width, no outputs");
        }
        let rows = out.len() / width;
        assert_eq!(out.len(), rows * width, "out is rows × width");
        assert_eq!(x.len(), rows * inputs, "x is rows × inputs");
        let p = Product { out: out.as_mut_ptr(), x: x.as_ptr(), w: w.as_ptr(), rows, inputs, width };
        // SAFETY: the path is there; lengths are checked; `out` is borrowed alone.
        unsafe { on_path!(self, product(p: Product)) }
    }

    /// The nonlinear part of LSTM cells, a row each: `z` (rows × 4·`hidden`) holds the inputs of the gates i, f, g, o
    /// and gets their values σ, σ, tanh, σ; then c ← fma(f, c, i·g) and h ← o·tanh c (rows × `hidden`).
    ///
    /// Panics if the lengths do not fit each other.
    pub fn gates(self, z: &mut [f32], c: &mut [f32], h: &mut [f32], hidden: usize) {
        if hidden == 0 {
            return assert!(z.is_empty() && c.is_empty() && h.is_empty(), "no width, no state");
        }
        let rows = c.len() / hidden;
        assert_eq!(c.len(), rows * hidden, "c is rows × hidden");
        assert_eq!(h.len(), c.len(), "h is as c");
        assert_eq!(z.len(), 4 * c.len(), "z is four times c");
        let (z, c, h) = (z.as_mut_ptr(), c.as_mut_ptr(), h.as_mut_ptr());
        // SAFETY: the path is there; lengths are checked; each is borrowed alone.
        unsafe { on_path!(self, cells(rows: usize, hidden: usize, z: *mut f32, c: *mut f32, h: *mut f32)) }
    }

    /// eˣ of each, with x clamped to ±87; not a number is taken for +87.
    pub fn exp(self, xs: &mut [f32]) {
        let (n, xs) = (xs.len(), xs.as_mut_ptr());
        // SAFETY: the path is there; `xs` is valid for n numbers and borrowed alone.
        unsafe { on_path!(self, exp(n: usize, xs: *mut f32)) }
    }

    /// σ(x) of each, with x clamped to ±30; not a number is taken for +30.
    pub fn sigmoid(self, xs: &mut [f32]) {
        let (n, xs) = (xs.len(), xs.as_mut_ptr());
        // SAFETY: the path is there; `xs` is valid for n numbers and borrowed alone.
        unsafe { on_path!(self, sigmoid(n: usize, xs: *mut f32)) }
    }

    /// tanh x of each, with x clamped to ±10; not a number is taken for +10.
    pub fn tanh(self, xs: &mut [f32]) {
        let (n, xs) = (xs.len(), xs.as_mut_ptr());
        // SAFETY: the path is there; `xs` is valid for n numbers and borrowed alone.
        unsafe { on_path!(self, tanh(n: usize, xs: *mut f32)) }
    }
}

#[inline(always)]
unsafe fn product<L: Lanes>(p: Product) {
    // SAFETY: the caller's vow is that of `affine`.
    unsafe {
        match L::PANEL {
            4 => affine::affine::<L, 4>(p),
            _ => affine::affine::<L, 2>(p),
        }
    }
}

#[inline(always)]
unsafe fn cells<L: Lanes>(rows: usize, hidden: usize, z: *mut f32, c: *mut f32, h: *mut f32) {
    for row in 0..rows {
        let at = row * hidden;
        // SAFETY: the caller vouches for `rows` rows.
        unsafe { gates::cell::<L>(z.add(4 * at), c.add(at), h.add(at), hidden) }
    }
}

/// A function of one number over a slice.
macro_rules! each {
    ($name:ident) => {
        #[inline(always)]
        unsafe fn $name<L: Lanes>(n: usize, xs: *mut f32) {
            let mut at = 0;
            while at < n {
                let part = L::WIDTH.min(n - at);
                // SAFETY: the caller vouches for `n` numbers.
                unsafe { lanes::write(gates::$name(lanes::read::<L>(xs.add(at), part)), xs.add(at), part) }
                at += part;
            }
        }
    };
}

each!(exp);
each!(sigmoid);
each!(tanh);
