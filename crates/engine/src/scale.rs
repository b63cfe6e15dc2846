//! Of which scale factors there is data of a benchmark.
//!
//! Whoever reads a configuration wants to know that before anything is generated, with the generators built in or not.

/// The scale factors of TPC-DS, in words.
pub const TPCDS: &str = "a number from 0.01 to 1, a whole number up to 10, or 100, 300 or 1000";

/// True if there is TPC-DS data of this scale factor.
///
/// Below 0.01 nothing shrinks any more. Above 1 the generator drops what follows the point where it counts sales
/// but not where it counts customers: 1.5 would be the sales of 1 by more customers. Above 10 it counts customers
/// right only where the specification lists them: 11 would have fewer than 10.
pub fn is_tpcds(given: f64) -> bool {
    (0.01..=1.0).contains(&given)
        || (given.fract() == 0.0 && (1.0..=10.0).contains(&given))
        || [100.0, 300.0, 1000.0].contains(&given)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scale_factors_without_data_are_told_apart() {
        assert!([0.01, 0.5, 1.0, 2.0, 10.0, 100.0, 300.0, 1000.0].into_iter().all(is_tpcds));
        assert!(![0.0, 0.009, 1.5, 11.0, 200.0, 3000.0, -1.0, f64::NAN, f64::INFINITY].into_iter().any(is_tpcds));
    }
}
