//! The mean of times of which some are only known to be longer (Kaplan and Meier 1958).

/// The restricted mean: the area below the estimated survival function up to the largest value. `values` are pairs of
/// a value and whether it was reached; one that was not is a lower bound. None if there are none. Without lower bounds
/// it is the plain mean.
pub fn restricted_mean(values: &[(f64, bool)]) -> Option<f64> {
    let mut sorted = values.to_vec();
    // At the same value, those that ended go before those that went on.
    sorted.sort_by(|one, other| one.0.total_cmp(&other.0).then(other.1.cmp(&one.1)));
    let first = sorted.first()?.0;
    let (mut mean, mut level, mut survival) = (first, first, 1.0);
    for (index, (value, reached)) in sorted.iter().enumerate() {
        mean += survival * (value - level);
        level = *value;
        if *reached {
            survival *= 1.0 - 1.0 / (sorted.len() - index) as f64;
        }
    }
    Some(mean)
}

#[cfg(test)]
mod tests {
    use super::restricted_mean;

    fn close(values: &[(f64, bool)], expected: f64) {
        let mean = restricted_mean(values).unwrap();
        assert!((mean - expected).abs() < 1e-12, "{values:?}: {mean}, not {expected}");
    }

    #[test]
    fn without_bounds_it_is_the_mean() {
        assert_eq!(restricted_mean(&[]), None);
        close(&[(3.0, true)], 3.0);
        close(&[(-1.0, true), (5.0, true), (2.0, true), (2.0, true)], 2.0);
    }

    #[test]
    fn a_lower_bound_raises_it_as_far_as_others_went_on() {
        // Survival is 3/4 from 1, 3/8 from 3 (the one bounded at 2 counts for neither), 0 from 5.
        close(&[(1.0, true), (2.0, false), (3.0, true), (5.0, true)], 1.0 + 0.75 * 2.0 + 0.375 * 2.0);
        close(&[(1.0, true), (4.0, false)], 1.0 + 0.5 * 3.0);
        close(&[(7.0, false), (7.0, false)], 7.0);
        close(&[(2.0, false), (2.0, true)], 2.0);
    }
}
