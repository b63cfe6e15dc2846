//! Runs one runner everywhere, and compares what it saw.

use std::collections::BTreeMap;
use std::thread;

use super::cases::Case;
use super::world::{Place, World};

/// What only the gateway says, and it says so: a session that has something on its connection keeps it.
const PINNED: &str = "the session keeps its connection to cluster ";

/// Faults that are shown.
const MOST_SHOWN: usize = 30;

/// Lines by the names of cases.
type Seen = BTreeMap<String, Vec<String>>;

/// Carries all cases out straight at a Postgres and through two gateways, and panics if what is seen is not the same.
pub(crate) fn same(runner: &str, world: &World, run: impl Fn(&Place) -> String + Sync) {
    let done = same_at(runner, &world.places(), run);
    assert!(done >= 150, "{runner} has {done} cases");
    let hops = world.hops();
    assert!(hops.iter().all(|queries| queries.is_some_and(|queries| queries > 100)), "sessions did not hop: {hops:?}");
}

/// Carries all cases out at every place and panics if what is seen at one is not what is seen at the first; says how many
/// cases those were.
pub(crate) fn same_at(runner: &str, places: &[Place], run: impl Fn(&Place) -> String + Sync) -> usize {
    let printed: Vec<String> = thread::scope(|scope| {
        let running: Vec<_> = places.iter().map(|place| scope.spawn(|| run(place))).collect();
        running.into_iter().map(|one| one.join().expect("a runner comes to its end")).collect()
    });
    keep(runner, places, &printed);
    let seen: Vec<Seen> = places.iter().zip(&printed).map(|(place, printed)| by_case(runner, place, printed)).collect();
    let cases = places[0].cases();
    let ours: Vec<&Case> = cases.iter().filter(|case| case.is_for(runner)).collect();
    let mut faults = Vec::new();
    for case in &ours {
        for (place, through) in places.iter().zip(&seen).skip(1) {
            let (Some(straight), Some(through)) = (seen[0].get(&case.name), through.get(&case.name)) else {
                faults.push(format!("{}: it was left out", case.name));
                continue;
            };
            if let Err(fault) = judge(case, runner, place, straight, through) {
                faults.push(format!("{} ({}):\n{fault}", case.name, place.name));
            }
        }
    }
    let shown = faults.iter().take(MOST_SHOWN).cloned().collect::<Vec<_>>().join("\n");
    assert!(faults.is_empty(), "{runner}: {} differ:\n{shown}", faults.len());
    ours.len()
}

/// Keeps what was printed where `PUNCTUAL_TEST_KEEP` says, for whoever looks into a difference.
fn keep(runner: &str, places: &[Place], printed: &[String]) {
    let Some(dir) = std::env::var_os("PUNCTUAL_TEST_KEEP") else { return };
    for (place, printed) in places.iter().zip(printed) {
        let file = std::path::Path::new(&dir).join(format!("{runner}.{}", place.name));
        std::fs::write(file, printed).expect("what was printed is kept");
    }
}

/// What a runner printed, by case. It must have come to its end.
fn by_case(runner: &str, place: &Place, printed: &str) -> Seen {
    let lines: Vec<&str> = printed.lines().collect();
    assert_eq!(lines.last(), Some(&"\t\t\tend"), "{runner} did not come to its end");
    let mut seen = Seen::new();
    for line in lines {
        let name = line.split('\t').nth(1).unwrap_or_default();
        seen.entry(name.to_owned()).or_default().push(line.replace(&place.database, "DATABASE"));
    }
    seen
}

fn judge(case: &Case, runner: &str, place: &Place, straight: &[String], through: &[String]) -> Result<(), String> {
    let (told, through): (Vec<&String>, Vec<&String>) = through.iter().partition(|line| line.contains(PINNED));
    let straight: Vec<&String> = straight.iter().collect();
    let hears = !runner.starts_with("sqlalchemy") && runner != "sqlx";
    let was_told = |reason: &String| !told.is_empty() && told.iter().all(|line| line.contains(reason.as_str()));
    match &case.pins {
        Some(reason) if hears && !was_told(reason) => {
            return Err(format!("  it was not told that {reason}, but {told:?}"));
        }
        None if !told.is_empty() => return Err(format!("  it was told what the case does not say: {told:?}")),
        _ => {}
    }
    match (case.differs(runner, place.name), straight == through) {
        (true, true) => Err("  it is said to differ, and is the same".to_owned()),
        (false, false) => Err(difference(&straight, &through)),
        _ => Ok(()),
    }
}

/// The first lines that are not the same.
fn difference(straight: &[&String], through: &[&String]) -> String {
    let at = straight.iter().zip(through).take_while(|(one, other)| one == other).count();
    let shown = |lines: &[&String], mark: &str| {
        let lines = lines.iter().skip(at).take(3);
        lines.map(|line| format!("  {mark} {}\n", line.chars().take(600).collect::<String>())).collect::<String>()
    };
    shown(straight, "straight") + &shown(through, "through ")
}
