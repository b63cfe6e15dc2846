//! The measurements, drawn.

use punctual_sim::fleet::Sample;

use super::{Course, Found, Row};
use crate::model::report::page::Page;
use crate::model::report::plot::{Axis, Colour, Plot, Scale};

/// A share that a plot shows.
type Share = fn(&Sample) -> f64;

const SHARES: [(Colour, &str, Share); 4] = [
    (0, "busy", |sample| sample.queues.first().copied().unwrap_or(0.0)),
    (1, "with tasks waiting", |sample| sample.queues.get(1).copied().unwrap_or(0.0)),
    (2, "idle-off", |sample| sample.idle_off),
    (3, "in setup", |sample| sample.setup),
];

impl Found {
    /// The page about it.
    pub(crate) fn page(&self) -> String {
        let mut page =
            Page::new("Fleets", "Times in mean service times; a server draws 200 W, idle 140 W, off nothing.");
        let cold = |nu: f64| move |row: &&Row| row.warmup == 0.0 && (row.nu - nu).abs() < 1e-9;
        let of = |row: &Row| f64::from(row.servers);
        for (name, value) in VALUES {
            let lines: Vec<(String, Vec<(f64, f64)>)> = [0.1, 0.01]
                .map(|nu| {
                    let places = self.convergence.iter().filter(cold(nu)).map(|row| (of(row), value(row)));
                    (format!("setup takes {:.0}", 1.0 / nu), places.collect())
                })
                .into();
            let caption = "Load 0.3, standby 10, from 0 to 250.";
            page.plot(&format!("{name}, by servers"), caption, &drawn("servers", name, &lines), &legend(&lines));
        }
        for load in [0.3, 0.9] {
            for (name, value) in VALUES {
                let lines = self.standby_lines(load, value);
                let caption = format!("Load {load}, from 0 to 250.");
                let title = format!("{name}, by standby time");
                page.plot(&title, &caption, &drawn("mean standby time", name, &lines), &legend(&lines));
            }
        }
        for course in self.fluid.iter().rev().step_by(2).take(3) {
            page.plot(&format!("{} servers", course.servers), &course.to_string(), &path(course), &shares());
        }
        page.html(&self.to_string())
    }

    fn standby_lines(&self, load: f64, value: Value) -> Vec<(String, Vec<(f64, f64)>)> {
        let mut lines: Vec<(String, Vec<(f64, f64)>)> = Vec::new();
        for row in self.standby.iter().filter(|row| row.lambda == load && row.nu < 0.5) {
            let name = format!("{} servers, setup {:.0}", row.servers, 1.0 / row.nu);
            let place = (1.0 / row.mu, value(row));
            match lines.iter_mut().find(|line| line.0 == name) {
                Some(line) => line.1.push(place),
                None => lines.push((name, vec![place])),
            }
        }
        lines
    }
}

/// A value that a plot shows.
type Value = fn(&Row) -> f64;

const VALUES: [(&str, Value); 2] =
    [("mean wait", |row| row.mean_wait), ("watts a server", |row| row.power_per_server_w)];

fn drawn(x: &str, y: &str, lines: &[(String, Vec<(f64, f64)>)]) -> String {
    let places = || lines.iter().flat_map(|line| line.1.iter().copied());
    let scale = if y == "mean wait" { Scale::Log } else { Scale::Linear };
    let x = Axis::over(x, Scale::Log, places().map(|place| place.0));
    let mut plot = Plot::new(x, Axis::over(y, scale, places().map(|place| place.1)));
    for (colour, (name, places)) in lines.iter().enumerate() {
        // Nobody waits at all: no place on a logarithmic axis.
        let seen = || places.iter().copied().filter(|place| scale == Scale::Linear || place.1 > 0.0);
        plot.line(seen(), "thin", colour);
        seen().for_each(|place| plot.point(place, 3.0, colour, format_args!("{name}: {:.4}", place.1)));
    }
    plot.svg(y)
}

fn legend(lines: &[(String, Vec<(f64, f64)>)]) -> Vec<(Colour, String)> {
    lines.iter().enumerate().map(|(colour, line)| (colour, line.0.clone())).collect()
}

fn path(course: &Course) -> String {
    samples(&course.path, &course.curve)
}

/// Shares of servers over time, dashed in the limit.
pub(crate) fn samples(path: &[Sample], curve: &[Sample]) -> String {
    let times = || path.iter().map(|sample| sample.at);
    let mut plot = Plot::new(
        Axis::over("mean service times", Scale::Linear, times()),
        Axis::over("share of servers", Scale::Linear, [0.0, 1.0]),
    );
    for (colour, _, share) in SHARES {
        plot.line(path.iter().map(|sample| (sample.at, share(sample))), "thin", colour);
        if !curve.is_empty() {
            plot.line(curve.iter().map(|sample| (sample.at, share(sample))), "dashed", colour);
        }
    }
    plot.svg("shares of servers over time")
}

/// What the colours of [`samples`] mean.
pub(crate) fn shares() -> Vec<(Colour, String)> {
    SHARES.map(|(colour, name, _)| (colour, name.to_owned())).into()
}
