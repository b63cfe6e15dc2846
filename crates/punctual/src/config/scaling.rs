//! `[scaling]` and the clusters that it may start, held against each other: what contradicts itself is no configuration.
//!
//! ```text
//!  names    "s-1" beside a scaled "s", of which one is called "s-1" some day      ┐
//!  numbers  there for good + `initial` ≤ `most`, `policy.max_clusters`             ├──▶ problems at their keys
//!  money    what is there at the start ≤ `most_per_hour`                           ┘
//! ```
//!
//! What is allowed and in vain all the same is a warning of `punctual check`.

use punctual_core::billing::dollars;
use punctual_core::mode::Mode;
use punctual_core::policy::Policy;
use punctual_core::time::Span;

use super::section::Section;
use crate::settings::Cluster;

/// Notes what contradicts itself. `written` are the tables of the clusters, in their order.
pub(super) fn check(section: &Section<'_>, written: &[Section<'_>], policy: &Policy, clusters: &[Cluster]) {
    names(written, clusters);
    let (rules, there) = (&policy.scaling, numbers(clusters));
    if rules.least > rules.most {
        section.complain(
            if section.has("least") { "least" } else { "most" },
            format!("`least`, {}, is more than `most`, {}", rules.least, rules.most),
            "write `least` no larger than `most`",
        );
    }
    let scaled = || clusters.iter().zip(written).rev().find(|(cluster, _)| is_scaled(cluster) && cluster.initial > 0);
    let Some((_, last)) = scaled() else { return };
    let complain = |found: String, fix: &str| last.complain("initial", found, fix);
    let sum = format!("{} clusters are there at the start", there.all());
    if there.all() > u64::from(policy.max_clusters) {
        complain(
            format!("{sum}, and `policy.max_clusters` is {}", policy.max_clusters),
            "start fewer, or raise `policy.max_clusters`",
        );
    } else if rules.mode != Mode::Off && there.all() > u64::from(rules.most) {
        complain(format!("{sum}, and `scaling.most` is {}", rules.most), "start fewer, or raise `scaling.most`");
    }
    let cost = per_hour(clusters);
    if let Some(most) = rules.most_per_hour.filter(|most| rules.mode != Mode::Off && cost > *most) {
        complain(
            format!(
                "what is there at the start costs ${} an hour, and `scaling.most_per_hour` is {}",
                dollars(cost),
                dollars(most)
            ),
            "start less, or raise `scaling.most_per_hour`",
        );
    }
}

/// A cluster that is started from a table is called by its name and a number, which another must not have.
fn names(written: &[Section<'_>], clusters: &[Cluster]) {
    for (cluster, section) in clusters.iter().zip(written).filter(|(cluster, _)| !is_scaled(cluster)) {
        let name = cluster.spec.name.as_str();
        let is_made_from = |other: &&Cluster| is_scaled(other) && is_numbered(name, &other.spec.name);
        if let Some(other) = clusters.iter().find(is_made_from) {
            section.complain(
                "name",
                format!("a cluster that is started from \"{}\" may be called so, too", other.spec.name),
                "give one of them another name",
            );
        }
    }
}

/// True if the name is the other and a number, as clusters that are started are called.
fn is_numbered(name: &str, of: &str) -> bool {
    let number = name.strip_prefix(of).and_then(|rest| rest.strip_prefix('-'));
    // As a number is written, so without zeros before it.
    number.is_some_and(|number| number.parse::<u32>().is_ok_and(|read| read.to_string() == number))
}

pub(crate) fn is_scaled(cluster: &Cluster) -> bool {
    cluster.spec.offer.is_some()
}

/// How many clusters there are at the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Numbers {
    /// For good.
    pub(crate) kept: u64,
    /// Of those that are started and stopped.
    pub(crate) scaled: u64,
}

impl Numbers {
    /// All of them.
    pub(crate) fn all(self) -> u64 {
        self.kept + self.scaled
    }
}

pub(crate) fn numbers(clusters: &[Cluster]) -> Numbers {
    let count = |scaled| clusters.iter().filter(|one| is_scaled(one) == scaled).map(|one| u64::from(one.initial)).sum();
    Numbers { kept: count(false), scaled: count(true) }
}

/// Dollars for an hour in which all that is there at the start is awake.
pub(crate) fn per_hour(clusters: &[Cluster]) -> f64 {
    clusters.iter().map(|cluster| f64::from(cluster.initial) * hourly(cluster)).sum()
}

/// Dollars for an hour of one such cluster.
pub(crate) fn hourly(cluster: &Cluster) -> f64 {
    cluster.spec.price.cost(cluster.spec.units, Span::from_secs(3_600))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::config::parse;

    const SCALED: &str = "[[cluster]]\nname = \"s\"\nkind = \"simulated\"\nkeep = \"scaled\"\nsize = 4\n";

    fn wrong(text: &str) -> String {
        parse(text, Path::new("p.toml")).expect_err("it contradicts itself").to_string()
    }

    fn right(text: &str) {
        parse(text, Path::new("p.toml")).expect("it is right");
    }

    #[test]
    fn a_name_that_a_start_may_take_is_refused() {
        let with = |name: &str| format!("{SCALED}[[cluster]]\nname = \"{name}\"\nkind = \"simulated\"\n");
        assert_eq!(
            wrong(&with("s-1")),
            "p.toml:7:8: cluster \"s-1\".name: a cluster that is started from \"s\" may be called so, too; give one of them \
             another name"
        );
        for name in ["s-", "s-01", "s-a", "s1", "s-1-2", "t-1", "s--1", "s-99999999999"] {
            right(&with(name));
        }
        // Of two that are scaled, none is called by its name alone.
        right(&format!("{SCALED}{}", SCALED.replace("\"s\"", "\"s-1\"")));
    }

    #[test]
    fn more_at_the_start_than_there_may_be_is_refused_with_the_numbers() {
        let start = |initial: u32, rest: &str| {
            format!("{SCALED}initial = {initial}\n[[cluster]]\nname = \"k\"\nkind = \"simulated\"\n{rest}")
        };
        assert_eq!(
            wrong(&start(3, "[scaling]\nmode = \"on\"\nmost = 3\n")),
            "p.toml:6:11: cluster \"s\".initial: 4 clusters are there at the start, and `scaling.most` is 3; start fewer, or \
             raise `scaling.most`"
        );
        assert_eq!(
            wrong(&start(5, "[policy]\nmax_clusters = 5\n")),
            "p.toml:6:11: cluster \"s\".initial: 6 clusters are there at the start, and `policy.max_clusters` is 5; start \
             fewer, or raise `policy.max_clusters`"
        );
        // Three of 4 units and one of 1 at $0.375.
        assert_eq!(
            wrong(&start(3, "[scaling]\nmode = \"shadow\"\nmost_per_hour = 4.8749\n")),
            "p.toml:6:11: cluster \"s\".initial: what is there at the start costs $4.875 an hour, and \
             `scaling.most_per_hour` is 4.8749; start less, or raise `scaling.most_per_hour`"
        );
        right(&start(3, "[scaling]\nmode = \"on\"\nmost = 4\nmost_per_hour = 4.875\n"));
        right(&start(3, "[scaling]\nmost = 3\nmost_per_hour = 1\n"));
    }

    #[test]
    fn no_fewer_are_kept_than_there_may_be() {
        assert_eq!(
            wrong(&format!("{SCALED}[scaling]\nmode = \"on\"\nleast = 3\nmost = 2\n")),
            "p.toml:8:9: scaling.least: `least`, 3, is more than `most`, 2; write `least` no larger than `most`"
        );
        right(&format!("{SCALED}[scaling]\nmode = \"on\"\nleast = 2\nmost = 2\n"));
    }
}
