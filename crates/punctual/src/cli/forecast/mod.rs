//! `punctual forecast`: what tomorrow could be like, and what such forecasts have been worth.

pub(super) mod gathered;
mod text;

use std::collections::BTreeSet;
use std::path::PathBuf;

use clap::Args;
use punctual_tuner::backtest::{self, Asked, Backtest};
use punctual_tuner::calendar::Weekday;
use punctual_tuner::forecast::{self, Forecaster, Wanted};
use punctual_tuner::{Date, Reservoir, Zone};

use super::{Format, Stop};
use crate::print;
use gathered::Source;

/// What tomorrow could be like, from history, and what such forecasts were worth.
#[derive(Debug, Args)]
pub(super) struct Flags {
    /// A history directory, or one file of it
    #[arg(required_unless_present_any = ["reservoir", "generated"])]
    history: Option<PathBuf>,
    /// Forecast days that have been from what was known before them, and compare with what came
    #[arg(long)]
    backtest: bool,
    /// The day to forecast [default: the one after the last of the history]
    #[arg(long, value_name = "DATE", value_parser = date, conflicts_with = "backtest")]
    day: Option<Date>,
    /// Forecast it as if it were another day of the week: a holiday as a sunday
    #[arg(long, value_name = "WEEKDAY", value_parser = weekday, conflicts_with = "backtest")]
    like: Option<Weekday>,
    /// A day that is not learnt from, a holiday say; may be given several times
    #[arg(long, value_name = "DATE", value_parser = date)]
    leave_out: Vec<Date>,
    /// Who forecasts; several, or all of them, for a backtest [default: weekly; for a backtest all]
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = forecast::NAMES)]
    forecaster: Vec<String>,
    /// The zone by whose clocks days and hours go: Europe/Berlin, +05:30 [default: that of the reservoir, else UTC]
    #[arg(long, value_name = "ZONE", value_parser = zone)]
    zone: Option<Zone>,
    /// What chance begins with
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// How many days a backtest forecasts at most, the last ones
    #[arg(long, value_name = "DAYS", default_value_t = 28, requires = "backtest")]
    days: u16,
    /// Keep what is gathered in this file: the next time only what is new is read
    #[arg(long, value_name = "FILE")]
    reservoir: Option<PathBuf>,
    /// Instead of a history, so many weeks that are generated from --seed, from 2026-09-07 on
    #[arg(long, value_name = "WEEKS", conflicts_with_all = ["history", "reservoir", "zone"], value_parser = clap::value_parser!(u32).range(1..=104))]
    generated: Option<u32>,
    /// How to write the result
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub(super) fn date(text: &str) -> Result<Date, &'static str> {
    Date::parse(text).ok_or("a date is written 2026-11-30, and lies between 1970 and 9999")
}

pub(super) fn weekday(text: &str) -> Result<Weekday, &'static str> {
    Weekday::named(text).ok_or("a day of the week is monday, tuesday, …")
}

pub(super) fn zone(text: &str) -> Result<Zone, &'static str> {
    Zone::named(text).ok_or("there is no such zone; there are UTC, offsets like +05:30, and names like Europe/Berlin")
}

/// 0 if there is something to say, 1 if there is not.
pub(super) fn run(flags: &Flags) -> Result<u8, Stop> {
    super::log_to_stderr("warn");
    let reservoir = gathered::reservoir(&Source {
        history: flags.history.as_deref(),
        reservoir: flags.reservoir.as_deref(),
        zone: flags.zone,
        seed: flags.seed,
        generated: flags.generated,
    })?;
    let Some((_, last)) = reservoir.dates() else {
        return Err(Stop::failed(format_args!("{} holds no query to forecast from", flags.source())));
    };
    if flags.backtest {
        return test(flags, &reservoir);
    }
    let forecaster = match &flags.forecaster[..] {
        [] => forecast::named(forecast::NAMES[0]),
        [name] => forecast::named(name),
        _ => return Err(Stop::usage("one forecaster forecasts a day; several can be compared by --backtest")),
    };
    let forecaster = forecaster.ok_or_else(|| Stop::usage("there is no such forecaster"))?;
    let day = flags.day.unwrap_or(last.plus(1));
    let wanted = Wanted { like: flags.like, left_out: flags.left_out(), seed: flags.seed, ..Wanted::of(day) };
    let summary = forecast::forecast(&reservoir, &*forecaster, &wanted).summary(&reservoir);
    match flags.format {
        Format::Json => print::json(&summary)?,
        Format::Text => print::line(text::Page(&summary))?,
    }
    Ok(0)
}

fn test(flags: &Flags, reservoir: &Reservoir) -> Result<u8, Stop> {
    let names: Vec<&str> = match &flags.forecaster[..] {
        [] => forecast::NAMES.to_vec(),
        names => names.iter().map(String::as_str).collect(),
    };
    // The baseline is there anyway.
    let names = names.into_iter().filter(|name| *name != "seasonal_naive");
    let forecasters: Vec<Box<dyn Forecaster>> = names.filter_map(forecast::named).collect();
    let forecasters: Vec<&dyn Forecaster> = forecasters.iter().map(|forecaster| &**forecaster).collect();
    let asked = Asked { days: flags.days.into(), left_out: flags.left_out(), seed: flags.seed, ..Asked::default() };
    let found: Backtest = backtest::backtest(reservoir, &forecasters, &asked);
    match flags.format {
        Format::Json => print::json(&found)?,
        Format::Text if found.days.is_empty() => {}
        Format::Text => print::line(text::Table(&found))?,
    }
    if found.days.is_empty() {
        return Err(Stop::failed(format_args!(
            "{} has no day of which every hour is known, on which anything came, with another day before it, so no forecast can be compared \
             with what came",
            flags.source()
        )));
    }
    Ok(0)
}

impl Flags {
    fn left_out(&self) -> BTreeSet<Date> {
        self.leave_out.iter().copied().collect()
    }

    /// What is forecast from, in words.
    fn source(&self) -> String {
        let path = self.history.as_ref().or(self.reservoir.as_ref());
        path.map_or_else(|| "what was generated".to_owned(), |path| path.display().to_string())
    }
}
