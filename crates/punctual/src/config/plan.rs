//! `[plan]`: when plans are made, and what has to be there for one to be followed.

use std::path::Path;

use punctual_core::Policy;
use punctual_core::mode::Mode;
use punctual_tuner::Zone;

use super::section::Section;
use crate::settings::Planning;

/// What the table says; what contradicts the rest is noted.
pub(super) fn read(section: &Section<'_>, policy: &Policy, state_dir: &Path) -> Planning {
    let at = section.text("at").unwrap_or_default();
    let zone_name = section.text("zone").unwrap_or_default();
    let zone = Zone::named(&zone_name);
    if zone.is_none() {
        let fix = "write UTC, an offset such as +05:30, or a name such as Europe/Berlin";
        section.complain("zone", format!("there is no zone \"{zone_name}\""), fix);
    }
    let clock = clock(&at);
    if clock.is_none() {
        section.complain("at", format!("\"{at}\" is no time of a day"), "write hours and minutes: \"03:00\"");
    }
    if policy.planning == Mode::On && policy.scaling.mode != Mode::On {
        section.complain(
            "mode",
            format!("what a plan starts is stopped by scaling, and `scaling.mode` is \"{}\"", policy.scaling.mode),
            "write `mode = \"on\"` in [scaling], or `mode = \"shadow\"` here",
        );
    }
    Planning {
        at: clock.unwrap_or_default(),
        zone: zone.unwrap_or(Zone::UTC),
        zone_name,
        forecaster: section.choice("forecaster").unwrap_or("weekly"),
        dir: section.path("dir").unwrap_or_else(|| state_dir.join("plans")),
        reservoir: state_dir.join("load.reservoir"),
    }
}

/// Hours and minutes, as in `03:00`.
fn clock(text: &str) -> Option<(u8, u8)> {
    let (hour, minute) = text.split_once(':')?;
    let number = |digits: &str, most: u8| {
        let is_one = digits.len() == 2 && digits.bytes().all(|c| c.is_ascii_digit());
        digits.parse().ok().filter(|number| is_one && *number <= most)
    };
    Some((number(hour, 23)?, number(minute, 59)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::parse;

    const CLUSTER: &str = "[[cluster]]\nname = \"s\"\nkind = \"simulated\"\nkeep = \"scaled\"\n";

    #[test]
    fn a_time_of_day_has_two_digits_of_each() {
        assert_eq!((clock("03:00"), clock("23:59")), (Some((3, 0)), Some((23, 59))));
        for wrong in ["", "3:00", "24:00", "03:60", "03-00", "+3:00", "03:00:00"] {
            assert_eq!(clock(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn what_is_not_written_is_as_it_is_documented() {
        let settings = parse(CLUSTER, Path::new("punctual.toml")).expect("a right file");
        let planning = &settings.planning;
        assert_eq!((settings.policy.planning, planning.at, planning.zone), (Mode::Off, (3, 0), Zone::UTC));
        assert_eq!((planning.forecaster, planning.dir.as_path()), ("weekly", Path::new("punctual-data/plans")));
        assert_eq!(planning.reservoir, Path::new("punctual-data/load.reservoir"));
    }

    #[test]
    fn what_makes_no_sense_is_said_at_its_key() {
        let text = format!("[plan]\nmode = \"on\"\nat = \"3\"\nzone = \"Mars\"\n{CLUSTER}");
        let wrong = parse(&text, Path::new("punctual.toml")).expect_err("three mistakes").to_string();
        for part in ["punctual.toml:2:", "scaling.mode", "punctual.toml:3:", "no time of a day", "no zone \"Mars\""] {
            assert!(wrong.contains(part), "{part} in {wrong}");
        }
    }
}
