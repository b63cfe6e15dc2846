//! Three paths, one result; and the functions against the exact ones.

use proptest::prelude::*;

use super::*;
use crate::math;
use crate::rng::Rng;

fn paths() -> Vec<Kernel> {
    [Path::Scalar, Path::Avx2, Path::Avx512].into_iter().filter_map(Kernel::on).collect()
}

fn numbers(rng: &mut Rng, n: usize, scale: f32) -> Vec<f32> {
    (0..n).map(|_| rng.normal() as f32 * scale).collect()
}

fn bits(xs: &[f32]) -> Vec<u32> {
    xs.iter().map(|x| x.to_bits()).collect()
}

/// The definition: one number at a time, inputs in order.
fn product_by_definition(out: &mut [f32], x: &[f32], w: &[f32], inputs: usize, width: usize) {
    for r in 0..out.len() / width {
        for i in 0..inputs {
            for j in 0..width {
                out[r * width + j] = x[r * inputs + i].mul_add(w[i * width + j], out[r * width + j]);
            }
        }
    }
}

proptest! {
    #[test]
    fn every_path_gives_the_products_of_the_definition(
        rows in 0usize..14, inputs in 0usize..20, width in 1usize..150, seed: u64,
    ) {
        let mut rng = Rng::numbered(seed, 1 << 32);
        let (x, w) = (numbers(&mut rng, rows * inputs, 2.0), numbers(&mut rng, inputs * width, 1.0));
        let start = numbers(&mut rng, rows * width, 1.0);
        let mut expected = start.clone();
        product_by_definition(&mut expected, &x, &w, inputs, width);
        for kernel in paths() {
            let mut out = start.clone();
            kernel.affine(&mut out, &x, &w, inputs, width);
            prop_assert_eq!(bits(&out), bits(&expected), "{:?}", kernel);
        }
    }

    #[test]
    fn every_path_gives_the_same_cells(rows in 0usize..6, hidden in 1usize..70, scale in 0.1f32..40.0, seed: u64) {
        let mut rng = Rng::numbered(seed, 1 << 32);
        let (z, c) = (numbers(&mut rng, 4 * rows * hidden, scale), numbers(&mut rng, rows * hidden, scale));
        let run = |kernel: Kernel| {
            let (mut z, mut c, mut h) = (z.clone(), c.clone(), vec![0.0; rows * hidden]);
            kernel.gates(&mut z, &mut c, &mut h, hidden);
            (bits(&z), bits(&c), bits(&h))
        };
        let expected = run(Kernel::on(Path::Scalar).expect("any processor has it"));
        for kernel in paths() {
            prop_assert_eq!(&run(kernel), &expected, "{:?}", kernel);
        }
    }

    #[test]
    fn a_row_is_the_same_alone_and_in_a_batch(rows in 1usize..12, hidden in 1usize..40, seed: u64) {
        let mut rng = Rng::numbered(seed, 1 << 32);
        let kernel = Kernel::best();
        let (x, w) = (numbers(&mut rng, rows * hidden, 1.0), numbers(&mut rng, hidden * 4 * hidden, 0.3));
        let step = |x: &[f32]| {
            let n = x.len() / hidden;
            let (mut z, mut c, mut h) = (vec![0.1; 4 * n * hidden], vec![0.2; n * hidden], vec![0.0; n * hidden]);
            kernel.affine(&mut z, x, &w, hidden, 4 * hidden);
            kernel.gates(&mut z, &mut c, &mut h, hidden);
            h
        };
        let together = step(&x);
        for (row, expected) in x.chunks(hidden).zip(together.chunks(hidden)) {
            prop_assert_eq!(bits(&step(row)), bits(expected));
        }
    }

    #[test]
    fn every_path_gives_the_same_functions_of_any_pattern_of_bits(patterns in prop::collection::vec(any::<u32>(), 0..50)) {
        let xs: Vec<f32> = patterns.into_iter().map(f32::from_bits).collect();
        let functions: [fn(Kernel, &mut [f32]); 3] = [Kernel::exp, Kernel::sigmoid, Kernel::tanh];
        for function in functions {
            let mut expected = xs.clone();
            function(Kernel::on(Path::Scalar).expect("any processor has it"), &mut expected);
            prop_assert!(expected.iter().all(|y| y.is_finite() && !y.is_subnormal() || *y == 0.0));
            for kernel in paths() {
                let mut ys = xs.clone();
                function(kernel, &mut ys);
                prop_assert_eq!(bits(&ys), bits(&expected), "{:?}", kernel);
            }
        }
    }
}

/// The largest error of `function` against `exact` on [−span, span].
fn worst(function: fn(Kernel, &mut [f32]), exact: fn(f64) -> f64, span: f32, relative: bool) -> f64 {
    let xs: Vec<f32> = (-200_000..=200_000).map(|i| i as f32 * (span / 200_000.0)).collect();
    let mut ys = xs.clone();
    function(Kernel::best(), &mut ys);
    let errors = xs.iter().zip(&ys).map(|(x, y)| {
        let exact = exact(f64::from(*x));
        (f64::from(*y) - exact).abs() / if relative { exact } else { 1.0 }
    });
    errors.fold(0.0, f64::max)
}

#[test]
fn functions_are_exact_to_a_few_units_in_the_last_place() {
    let sigmoid = |x: f64| 1.0 / (1.0 + math::exp(-x));
    let tanh = |x: f64| 1.0 - 2.0 / (1.0 + math::exp(2.0 * x));
    assert!(worst(Kernel::exp, math::exp, 87.0, true) < 1.2e-7);
    assert!(worst(Kernel::sigmoid, sigmoid, 29.9, true) < 3e-7);
    assert!(worst(Kernel::tanh, tanh, 12.0, false) < 2.4e-7);
}

#[test]
fn functions_saturate_and_take_no_number_for_a_large_one() {
    let of = |function: fn(Kernel, &mut [f32]), x: f32| {
        let mut xs = [x];
        function(Kernel::best(), &mut xs);
        xs[0]
    };
    assert_eq!(of(Kernel::exp, 0.0), 1.0);
    assert_eq!(of(Kernel::exp, f32::INFINITY), of(Kernel::exp, 87.0));
    assert_eq!(of(Kernel::exp, f32::NEG_INFINITY), of(Kernel::exp, -87.0));
    assert_eq!(of(Kernel::sigmoid, 1e30), 1.0);
    assert!(of(Kernel::sigmoid, f32::NEG_INFINITY) < 1e-12);
    assert_eq!(of(Kernel::sigmoid, f32::NAN), 1.0);
    assert_eq!(of(Kernel::tanh, f32::NAN), 1.0);
    assert_eq!(of(Kernel::tanh, f32::NEG_INFINITY), -1.0);
    assert_eq!(of(Kernel::tanh, 0.0), 0.0);
}

#[test]
#[should_panic(expected = "x is rows × inputs")]
fn a_product_of_lengths_that_do_not_fit_is_refused() {
    Kernel::best().affine(&mut [0.0; 6], &[0.0; 5], &[0.0; 6], 2, 3);
}
