//! How long work shows how far it is: a bar on a terminal, a line now and then elsewhere.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use crate::print;

/// How often a line says how far it is, where there is no terminal.
const EVERY: Duration = Duration::from_secs(5);

/// Tells, on standard error, until it is dropped.
pub(super) struct Teller {
    bar: ProgressBar,
    plain: bool,
    said: Instant,
}

impl Teller {
    pub(super) fn new() -> Teller {
        let bar = ProgressBar::no_length();
        let style = ProgressStyle::with_template("  {prefix:<9} {bar:30} {percent:>3}%  {msg}  {eta} left");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        Teller { bar, plain: !std::io::stderr().is_terminal(), said: Instant::now() }
    }

    /// So much of a stage is done; `message` says more, if it is wanted now.
    pub(super) fn tell(&mut self, stage: &'static str, (done, of): (u64, u64), message: impl FnOnce() -> String) {
        if !self.plain {
            self.bar.set_prefix(stage);
            self.bar.set_length(of);
            self.bar.set_position(done.min(of));
            self.bar.set_message(message());
        } else if self.said.elapsed() >= EVERY {
            self.said = Instant::now();
            let percent = u128::from(done.min(of)) * 100 / u128::from(of.max(1));
            print::aside(format_args!("{stage} {percent} %: {}", message()));
        }
    }
}

impl Drop for Teller {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
