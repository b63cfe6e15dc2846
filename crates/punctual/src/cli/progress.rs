//! How long work shows how far it is: a bar on a terminal, a line now and then elsewhere.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use crate::print;

/// How long after one line the next may say how far it is, where there is no terminal, and only if a tenth more is done.
const EVERY: Duration = Duration::from_secs(5);

/// Tells, on standard error, until it is dropped.
pub(super) struct Teller {
    bar: ProgressBar,
    plain: bool,
    said: Instant,
    /// The stage that was told of last, and how far it has come.
    stage: &'static str,
    furthest: u64,
    /// Tenths of it that have been said.
    tenths: u128,
}

impl Teller {
    pub(super) fn new() -> Teller {
        let bar = ProgressBar::no_length();
        let style = ProgressStyle::with_template("  {prefix:<9} {bar:30} {percent:>3}%  {msg}  {eta} left");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        let plain = !std::io::stderr().is_terminal();
        Teller { bar, plain, said: Instant::now(), stage: "", furthest: 0, tenths: 0 }
    }

    /// So much of a stage is done; `message` says more, if it is wanted now.
    pub(super) fn tell(&mut self, stage: &'static str, (done, of): (u64, u64), message: impl FnOnce() -> String) {
        if !self.plain {
            self.bar.set_prefix(stage);
            self.bar.set_length(of);
            let position = self.further(stage, done.min(of));
            self.bar.set_position(position);
            self.bar.set_message(message());
        } else if self.said.elapsed() >= EVERY
            && let Some(percent) = self.tenth(stage, (done, of))
        {
            self.said = Instant::now();
            let message = message();
            let colon = if message.is_empty() { "" } else { ": " };
            print::aside(format_args!("{stage} {percent} %{colon}{message}"));
        }
    }

    /// How far a stage has come. Threads tell in any order.
    fn further(&mut self, stage: &'static str, done: u64) -> u64 {
        if stage != self.stage {
            (self.stage, self.furthest, self.tenths) = (stage, 0, 0);
        }
        self.furthest = self.furthest.max(done);
        self.furthest
    }

    /// The percents that are done, if they are a tenth more than those that were said last.
    fn tenth(&mut self, stage: &'static str, (done, of): (u64, u64)) -> Option<u128> {
        let percent = u128::from(self.further(stage, done.min(of))) * 100 / u128::from(of.max(1));
        let more = percent.min(100) / 10 > self.tenths;
        self.tenths = self.tenths.max(percent.min(100) / 10);
        more.then_some(percent.min(100))
    }
}

impl Drop for Teller {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stage_only_goes_on_and_each_tenth_is_said_once() {
        let mut teller = Teller::new();
        let mut said = |stage, done| teller.tenth(stage, (done, 200));
        assert_eq!([0, 19, 20, 12, 39, 41, 200, 200].map(|done| said("learning", done)), {
            [None, None, Some(10), None, None, Some(20), Some(100), None]
        });
        assert_eq!([10, 30].map(|done| said("router", done)), [None, Some(15)]);
        assert_eq!(teller.further("router", 4), 30);
    }
}
