//! A figure measured with several seeds: its mean, and how far chance may have moved it (Student's t).

use serde::Serialize;

/// A mean over seeds with the bounds of its 95 % interval; none with a single seed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// The mean.
    pub mean: f64,
    /// The lower bound.
    pub low: Option<f64>,
    /// The upper bound.
    pub high: Option<f64>,
}

impl Figure {
    /// Of one value for each seed; None if there is none.
    pub(crate) fn of(values: &[f64]) -> Option<Figure> {
        let n = values.len() as f64;
        let mean = (!values.is_empty()).then(|| values.iter().sum::<f64>() / n)?;
        if values.len() < 2 {
            return Some(Figure { mean, low: None, high: None });
        }
        let variance = values.iter().map(|value| (value - mean) * (value - mean)).sum::<f64>() / (n - 1.0);
        let half = student(values.len() - 1) * (variance / n).sqrt();
        Some(Figure { mean, low: Some(mean - half), high: Some(mean + half) })
    }

    /// Half the width of the interval.
    pub(crate) fn half(self) -> Option<f64> {
        self.high.map(|high| high - self.mean)
    }

    /// The same; zero if there is none.
    pub(crate) fn sure(values: &[f64]) -> Figure {
        Figure::of(values).unwrap_or(Figure { mean: 0.0, low: None, high: None })
    }
}

/// The 97.5 % quantile of Student's t with so many degrees of freedom (at least one): a table up to 30, and from there an
/// expansion around the normal quantile z, z + (z³ + z)/4ν + (5z⁵ + 16z³ + 3z)/96ν², right to four digits.
fn student(freedom: usize) -> f64 {
    const TABLE: [f64; 30] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
        2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
    ];
    TABLE.get(freedom.max(1) - 1).copied().unwrap_or_else(|| {
        let (z, v) = (1.959_964_f64, freedom as f64);
        let cube = z * z * z;
        z + (cube + z) / (4.0 * v) + (5.0 * cube * z * z + 16.0 * cube + 3.0 * z) / (96.0 * v * v)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_students() {
        let figure = Figure::of(&[1.0, 2.0, 3.0]).unwrap();
        // s = 1, n = 3: 4.303 / √3.
        assert!((figure.mean - 2.0).abs() < 1e-12 && (figure.half().unwrap() - 2.484_34).abs() < 1e-4, "{figure:?}");
        assert_eq!(Figure::of(&[5.0]), Some(Figure { mean: 5.0, low: None, high: None }));
        assert_eq!(Figure::of(&[]), None);
        assert!((student(1_000_000) - 1.959_97).abs() < 1e-4 && (student(60) - 2.000_3).abs() < 1e-3);
    }
}
