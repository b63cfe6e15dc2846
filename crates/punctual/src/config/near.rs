//! The name that someone who wrote another one probably meant.

/// The candidate with the fewest letters to change, add, leave out or swap, if those are no more than a third of the
/// name (and one for short names). Ties go to the first.
pub(crate) fn nearest<'a>(written: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    // What is much longer than any name of ours is not a slip of the finger, and would be slow to compare.
    if written.len() > 64 {
        return None;
    }
    let allowed = (written.chars().count() / 3).max(1);
    candidates
        .map(|candidate| (distance(written, candidate), candidate))
        .filter(|(distance, _)| *distance <= allowed)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Optimal string alignment: the edits of one letter, and swaps of two neighbours, that turn one into the other.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let (mut before, mut above) = (vec![0; b.len() + 1], (0..=b.len()).collect::<Vec<usize>>());
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let change = above[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            row[j] = change.min(above[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(before[j - 2] + 1);
            }
        }
        (before, above) = (above, row);
    }
    above[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_counted_by_letters() {
        assert_eq!(distance("slots", "slots"), 0);
        assert_eq!(distance("slot", "slots"), 1);
        assert_eq!(distance("solts", "slots"), 1);
        assert_eq!(distance("", "slots"), 5);
        assert_eq!(distance("prize", "price_per"), 5);
    }

    #[test]
    fn only_what_is_near_is_suggested() {
        let keys = || ["slots", "size", "name"].into_iter();
        assert_eq!(nearest("slot", keys()), Some("slots"));
        assert_eq!(nearest("sise", keys()), Some("size"));
        assert_eq!(nearest("memory", keys()), None);
        assert_eq!(nearest(&"x".repeat(100_000), keys()), None);
    }
}
