//! `punctual user`: the line for `gateway.users_file` that lets someone in.

use std::io::{self, BufRead, IsTerminal, Write};
use std::os::fd::AsFd;

use clap::Args;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

use super::Stop;
use crate::auth::users::line;
use crate::print;

#[derive(Debug, Args)]
pub(super) struct Flags {
    /// Whom to let in; the password is asked for, or read from standard input: one line
    name: String,
}

pub(super) fn run(flags: &Flags) -> Result<u8, Stop> {
    if flags.name.is_empty() || flags.name.contains(['\0', '\n', '\r']) {
        return Err(Stop::usage("a user's name is not empty and fits on a line"));
    }
    let password = if io::stdin().is_terminal() { asked()? } else { from_stdin()? };
    if password.is_empty() {
        return Err(Stop::usage("a password is not empty"));
    }
    print::line(line(&flags.name, &password))?;
    Ok(0)
}

fn from_stdin() -> Result<String, Stop> {
    let mut password = String::new();
    io::stdin()
        .lock()
        .read_line(&mut password)
        .map_err(|cause| Stop::failed(format_args!("standard input: {cause}")))?;
    password.truncate(password.trim_end_matches(['\n', '\r']).len());
    Ok(password)
}

/// Asks at the terminal, which is as it was afterwards, also after Ctrl-C.
fn asked() -> Result<String, Stop> {
    let stdin = io::stdin();
    let quiet = Quiet::on(&stdin).map_err(|cause| Stop::failed(format_args!("the terminal: {cause}")))?;
    let runtime = super::runtime()?;
    let typed = runtime.block_on(async {
        tokio::select! {
            typed = tokio::task::spawn_blocking(twice) => typed.map_err(Stop::failed)?,
            _ = tokio::signal::ctrl_c() => Err(Stop::failed("interrupted")),
        }
    });
    drop(quiet);
    // It may still wait for a line.
    runtime.shutdown_background();
    typed
}

fn twice() -> Result<String, Stop> {
    let ask = |what: &str| {
        let mut err = io::stderr();
        // Whoever does not see it can still type.
        let _ = write!(err, "{what}").and_then(|()| err.flush());
        let typed = from_stdin();
        print::aside("");
        typed
    };
    let (first, again) = (ask("Password: ")?, ask("Again: ")?);
    if first == again { Ok(first) } else { Err(Stop::usage("they differ")) }
}

/// A terminal that does not show what is typed, as long as this is there.
struct Quiet<'a> {
    terminal: &'a io::Stdin,
    before: Termios,
}

impl Quiet<'_> {
    fn on(terminal: &io::Stdin) -> io::Result<Quiet<'_>> {
        let before = tcgetattr(terminal.as_fd())?;
        let mut quiet = before.clone();
        quiet.local_modes.remove(LocalModes::ECHO);
        tcsetattr(terminal.as_fd(), OptionalActions::Flush, &quiet)?;
        Ok(Quiet { terminal, before })
    }
}

impl Drop for Quiet<'_> {
    fn drop(&mut self) {
        // There is nothing else to do if it fails.
        let _ = tcsetattr(self.terminal.as_fd(), OptionalActions::Flush, &self.before);
    }
}
