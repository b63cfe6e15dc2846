//! Every day, at a set time, a child process plans a day, and what it makes is reported, to be followed.
//!
//! ```text
//!   [plan] at ─▶ punctual plan HISTORY -c CONFIG --day DATE … -o DIR/DATE.json ─▶ read ─▶ Report::Plan
//! ```
//!
//! Before noon the day that has begun is planned, from noon on the next one: so a time in the small hours plans the day that lies before
//! people, and one in the evening tomorrow. A gateway that starts adopts the plan that was due last, if its file is there, and otherwise
//! has it made; one that was made for another configuration is made again. A plan that does not come, or is refused, changes nothing: clusters start when triggers say so, as without one.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use punctual_core::mode::Mode;
use punctual_core::plan::{Plan, PlanRefusal};
use punctual_core::time::{Span, Time};
use punctual_tuner::Date;
use tokio::process::Command;
use tokio::time::sleep;

use super::file::{self, PlanFileError};
use crate::clock::Clock;
use crate::link::{DriverGone, Link};
use crate::metrics::Metrics;
use crate::patient::{self, Unfinished};
use crate::settings::Planning;

/// The longest that planning may take.
const LONGEST: Duration = Duration::from_secs(4 * 3_600);

/// How long after the start a plan is made that was due before.
const FIRST: Span = Span::from_secs(60);

/// How long after a plan has failed it is tried again, and how often.
const AGAIN: Span = Span::from_secs(1_800);
const TRIES: u32 = 4;

/// The longest that is slept at once: clocks are set, and machines sleep.
const NAP: Duration = Duration::from_secs(300);

/// Files of plans that are kept.
const KEPT: usize = 60;

/// Who has plans made, from what.
#[derive(Clone, Debug)]
pub struct Nightly {
    /// The program that plans: this one.
    pub program: PathBuf,
    /// The history to plan from.
    pub history: PathBuf,
    /// The configuration to plan for.
    pub config: PathBuf,
    /// When, and where plans are kept.
    pub planning: Planning,
    /// The clock of all decisions.
    pub clock: Clock,
}

/// Why no plan came of it.
#[derive(Debug)]
enum NoPlan {
    /// Its directory could not be made.
    Dir(PathBuf, io::Error),
    /// The child did not come to its end.
    Child(Unfinished),
    /// What it wrote is no plan.
    File(PlanFileError),
}

impl fmt::Display for NoPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoPlan::Dir(path, cause) => write!(f, "{}: {cause}", path.display()),
            NoPlan::Child(cause) => write!(f, "planning {cause}"),
            NoPlan::File(cause) => cause.fmt(f),
        }
    }
}

impl Nightly {
    /// Plans day after day, until the gateway ends.
    pub async fn run(self, link: Link, metrics: Arc<Metrics>) {
        let started = self.clock.now();
        let (mut date, mut at, mut tried) = (self.planning.due_last(started), started, 0);
        if date.is_some_and(|date| !self.path(date).exists()) {
            at = started + FIRST;
        }
        loop {
            self.wait_until(at).await;
            let done = match date {
                Some(date) => self.plan_of(date, &link, &metrics).await,
                None => Ok(true),
            };
            let (Ok(done), now) = (done, self.clock.now().max(at)) else { return };
            tried += 1;
            let next = self.planning.due_next(now);
            (date, at, tried) = match done || tried >= TRIES || now + AGAIN >= next.1 {
                true => (Some(next.0), next.1, 0),
                false => (date, now + AGAIN, tried),
            };
        }
    }

    async fn wait_until(&self, at: Time) {
        loop {
            let left = Duration::from(at.since(self.clock.now()));
            if left.is_zero() {
                return;
            }
            sleep(left.min(NAP)).await;
        }
    }

    /// Has a day planned, unless that has been done, and the plan followed, if any is. False: there is no plan.
    async fn plan_of(&self, date: Date, link: &Link, metrics: &Metrics) -> Result<bool, DriverGone> {
        if link.look().await?.view.planning.mode == Mode::Off {
            return Ok(true);
        }
        let mut is_old = self.path(date).exists();
        loop {
            let plan = match self.made(date, !is_old).await {
                Ok(plan) => plan,
                Err(cause) => {
                    tracing::warn!(day = %date, "the day has no plan: {cause}");
                    metrics.planned("failed");
                    return Ok(false);
                }
            };
            match link.follow(plan).await? {
                // It was made before the configuration changed.
                Some(Err(PlanRefusal::OtherGround { .. })) if is_old => is_old = false,
                Some(Ok(()) | Err(PlanRefusal::Already)) => {
                    metrics.planned("adopted");
                    return Ok(true);
                }
                Some(Err(_)) | None => {
                    metrics.planned("refused");
                    return Ok(true);
                }
            }
        }
    }

    async fn made(&self, date: Date, anew: bool) -> Result<Plan, NoPlan> {
        let path = self.path(date);
        if anew {
            let dir = &self.planning.dir;
            fs::create_dir_all(dir).map_err(|cause| NoPlan::Dir(dir.clone(), cause))?;
            self.make(date, &path).await.map_err(NoPlan::Child)?;
            forget_old(dir);
        }
        file::read(&path).map_err(NoPlan::File)
    }

    async fn make(&self, date: Date, path: &Path) -> Result<(), Unfinished> {
        let Planning { zone_name, forecaster, reservoir, .. } = &self.planning;
        let mut command = Command::new(&self.program);
        command.arg("plan").arg(&self.history).arg("-c").arg(&self.config);
        command.args(["--day", &date.to_string(), "--zone", zone_name, "--forecaster", forecaster]);
        command.arg("--reservoir").arg(reservoir).arg("-o").arg(path).args(["--format", "json"]);
        patient::run(&mut command, LONGEST).await.map(drop)
    }

    fn path(&self, date: Date) -> PathBuf {
        self.planning.dir.join(format!("{date}.json"))
    }
}

impl Planning {
    /// The day whose plan was due last, if it is not over.
    fn due_last(&self, now: Time) -> Option<Date> {
        let today = self.zone.date_of(now);
        let due = [today, today.plus(-1)].into_iter().find(|date| self.due_on(*date).is_some_and(|at| at <= now))?;
        Some(self.planned_on(due)).filter(|day| *day >= today)
    }

    /// The next plan that is due, later than now: of which day, and when.
    fn due_next(&self, now: Time) -> (Date, Time) {
        let today = self.zone.date_of(now);
        // A zone may leave out a date, not a week of them.
        let dates = (0..8).map(|days| today.plus(days));
        let due = dates.filter_map(|date| Some((self.planned_on(date), self.due_on(date)?)));
        due.into_iter().find(|(_, at)| *at > now).unwrap_or((today.plus(1), now + Span::from_secs(86_400)))
    }

    /// When a plan is due on that date; where clocks leave that hour out, at the next one. None if the date is left out.
    fn due_on(&self, date: Date) -> Option<Time> {
        let day = self.zone.day(date);
        let hour = day.hours.iter().find(|hour| hour.hour >= self.at.0).or(day.hours.last())?;
        let minutes = if hour.hour == self.at.0 { self.at.1 } else { 0 };
        Some(hour.starts + Span::from_secs(60 * u64::from(minutes)))
    }

    /// Which day is planned on that date.
    fn planned_on(&self, date: Date) -> Date {
        if self.at.0 < 12 { date } else { date.plus(1) }
    }
}

/// Removes the files of the oldest days.
fn forget_old(dir: &Path) {
    let Ok(entries) = fs::read_dir(dir) else { return };
    let is_plan = |path: &PathBuf| {
        let name = path.file_stem().and_then(|name| name.to_str());
        path.extension().is_some_and(|ending| ending == "json") && name.is_some_and(|name| Date::parse(name).is_some())
    };
    let mut plans: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).filter(is_plan).collect();
    plans.sort();
    let many = plans.len().saturating_sub(KEPT);
    for old in plans.into_iter().take(many) {
        // One that cannot be removed is in nobody's way.
        let _ = fs::remove_file(old);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use punctual_core::id::PlanId;
    use punctual_core::plan::Knobs;
    use punctual_core::policy::Policy;
    use punctual_tuner::Zone;
    use serde_json::json;

    use super::*;
    use crate::link::{Report, Reports};

    fn planning(at: (u8, u8), zone: &str) -> Planning {
        Planning {
            at,
            zone: Zone::named(zone).expect("a zone"),
            zone_name: zone.to_owned(),
            forecaster: "weekly",
            dir: PathBuf::new(),
            reservoir: PathBuf::new(),
        }
    }

    /// An hour and a minute of 2 December 2026, in UTC.
    fn at(hour: u64, minute: u64) -> Time {
        let day = 20_789;
        Time::from_micros(((day * 24 + hour) * 60 + minute) * 60_000_000)
    }

    fn next(planning: &Planning, now: Time) -> (String, Time) {
        let (date, at) = planning.due_next(now);
        (date.to_string(), at)
    }

    #[test]
    fn before_noon_it_is_the_day_that_has_begun_and_later_the_next_one() {
        let early = planning((3, 0), "UTC");
        assert_eq!(next(&early, at(1, 0)), ("2026-12-02".to_owned(), at(3, 0)));
        assert_eq!(next(&early, at(3, 0)), ("2026-12-03".to_owned(), at(27, 0)));
        assert_eq!(early.due_last(at(2, 59)), None, "what was due is over");
        assert_eq!(early.due_last(at(3, 0)).unwrap().to_string(), "2026-12-02");
        let late = planning((22, 30), "UTC");
        assert_eq!(next(&late, at(1, 0)), ("2026-12-03".to_owned(), at(22, 30)));
        assert_eq!(late.due_last(at(1, 0)).unwrap().to_string(), "2026-12-02");
        assert_eq!(late.due_last(at(23, 0)).unwrap().to_string(), "2026-12-03");
    }

    #[test]
    fn it_goes_by_the_clocks_of_the_zone() {
        let berlin = planning((3, 0), "Europe/Berlin");
        assert_eq!(next(&berlin, at(1, 0)), ("2026-12-02".to_owned(), at(2, 0)));
        assert_eq!(next(&berlin, at(23, 30)), ("2026-12-03".to_owned(), at(26, 0)));
        // On 28 March 2027 clocks go from two to three.
        let gap = planning((2, 30), "Europe/Berlin");
        let before = at(24 * 115 + 23, 30);
        assert_eq!(next(&gap, before), ("2027-03-28".to_owned(), at(24 * 116 + 1, 0)));
    }

    #[test]
    fn the_files_of_old_days_go_and_others_stay() {
        let dir = tempfile::tempdir().expect("a directory");
        let first = Date::parse("2026-01-01").expect("a date");
        for day in 0..62 {
            fs::write(dir.path().join(format!("{}.json", first.plus(day))), "").expect("a file");
        }
        fs::write(dir.path().join("mine.json"), "").expect("a file");
        forget_old(dir.path());
        let there = |name: &str| dir.path().join(name).exists();
        assert!(!there("2026-01-02.json") && there("2026-01-03.json") && there("mine.json"));
    }

    /// A program that stands for this one: it writes down how it was run, and a plan.
    fn stands_in(dir: &Path, made_for: u64) -> PathBuf {
        let (from, until) = (Time::ZERO, Time::from_micros(1));
        let knobs = Knobs::of(&Policy::default());
        let plan = Plan { id: PlanId(0), from, until, fleet: Vec::new(), spinups: Vec::new(), knobs, made_for };
        let text = json!({ "format": 1, "plan": plan });
        let script = format!(
            "#!/bin/sh\necho \"$@\" >> {0}/runs\nwhile [ $1 != -o ]; do shift; done\necho '{text}' > $2\n",
            dir.display()
        );
        let path = dir.join("program");
        fs::write(&path, script).expect("a file");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).expect("it is ours");
        path
    }

    /// Stands for a driver whose policy has that ground: which plans it was asked to follow.
    async fn drives(mut reports: Reports, ground: u64) -> Vec<u64> {
        let mut asked = Vec::new();
        while let Some(report) = reports.recv().await {
            match report {
                Report::Look { answer } => {
                    let mut snapshot = crate::catalog::sample::snapshot();
                    snapshot.view.planning.mode = Mode::On;
                    drop(answer.send(snapshot));
                }
                Report::Plan { plan, answer } => {
                    let made_for = plan.made_for;
                    asked.push(made_for);
                    let fits = made_for == ground;
                    let verdict = if fits { Ok(()) } else { Err(PlanRefusal::OtherGround { made_for, ground }) };
                    let _ = answer.send(Some(verdict));
                }
                other => panic!("{other:?}"),
            }
        }
        asked
    }

    #[tokio::test]
    async fn a_plan_is_made_once_reported_and_made_again_for_another_configuration() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut planning = planning((3, 0), "Europe/Berlin");
        (planning.dir, planning.reservoir) = (dir.path().join("plans"), dir.path().join("load.reservoir"));
        let nightly = |made_for| Nightly {
            program: stands_in(dir.path(), made_for),
            history: PathBuf::from("history"),
            config: PathBuf::from("punctual.toml"),
            planning: planning.clone(),
            clock: Clock::start(),
        };
        let (link, reports) = Link::new();
        let driver = tokio::spawn(drives(reports, 2));
        let (date, metrics) = (Date::parse("2026-12-02").expect("a date"), Metrics::new());
        // The first is for another policy, and new: making it again would not help.
        assert_eq!(nightly(1).plan_of(date, &link, &metrics).await, Ok(true));
        // That one is there, does not fit, and is made again; then it fits and is taken as it is.
        assert_eq!(nightly(2).plan_of(date, &link, &metrics).await, Ok(true));
        assert_eq!(nightly(3).plan_of(date, &link, &metrics).await, Ok(true));
        drop(link);
        assert_eq!(driver.await.expect("no panic"), [1, 1, 2, 2]);
        let runs = fs::read_to_string(dir.path().join("runs")).expect("it ran");
        let path = dir.path().display();
        let run = format!(
            "plan history -c punctual.toml --day 2026-12-02 --zone Europe/Berlin --forecaster weekly --reservoir \
             {path}/load.reservoir -o {path}/plans/2026-12-02.json --format json\n"
        );
        assert_eq!(runs, run.repeat(2));
    }

    #[tokio::test]
    async fn what_fails_is_no_plan_and_changes_nothing() {
        let dir = tempfile::tempdir().expect("a directory");
        let planning = Planning { dir: dir.path().to_owned(), ..planning((3, 0), "UTC") };
        let (program, history, config) = (PathBuf::from("false"), PathBuf::new(), PathBuf::new());
        let nightly = Nightly { program, history, config, planning, clock: Clock::start() };
        let (link, reports) = Link::new();
        let driver = tokio::spawn(drives(reports, 2));
        let date = Date::parse("2026-12-02").expect("a date");
        assert_eq!(nightly.plan_of(date, &link, &Metrics::new()).await, Ok(false));
        drop(link);
        assert_eq!(driver.await.expect("no panic"), [0; 0]);
    }
}
