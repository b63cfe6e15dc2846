//! Plots in SVG, drawn by hand: axes, points, lines, bars. Colours are the page's, so that they follow light and dark.

use std::fmt::{Display, Write};

/// The size of a plot, and what is left around its area for ticks and names.
const WIDTH: f64 = 560.0;
const HEIGHT: f64 = 380.0;
const LEFT: f64 = 62.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 48.0;

/// Decades beyond which a logarithmic axis has ticks at powers of ten alone.
const SHORT: f64 = 2.6;

/// The shortest bar.
const SHORTEST: f64 = 0.8;

/// How values lie along an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Evenly.
    Linear,
    /// By their logarithms; values are above zero.
    Log,
}

/// One axis.
#[derive(Clone, Debug)]
pub struct Axis {
    name: String,
    scale: Scale,
    from: f64,
    to: f64,
    /// Where a name stands instead of a number.
    named: Vec<(f64, String)>,
}

impl Axis {
    /// An axis from the least to the greatest of these values; from 1 to 10 if there are none.
    pub fn over(name: &str, scale: Scale, values: impl IntoIterator<Item = f64>) -> Axis {
        let usable = |value: &f64| value.is_finite() && (scale == Scale::Linear || *value > 0.0);
        let (mut from, mut to) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values.into_iter().filter(usable) {
            (from, to) = (from.min(value), to.max(value));
        }
        if from > to {
            (from, to) = (1.0, 10.0);
        }
        if from == to {
            (from, to) = if scale == Scale::Log { (from / 2.0, to * 2.0) } else { (from - 1.0, to + 1.0) };
        }
        Axis { name: name.to_owned(), scale, from, to, named: Vec::new() }
    }

    /// An axis with names in the place of numbers, one after the other.
    pub fn of_names(name: &str, names: impl IntoIterator<Item = String>) -> Axis {
        let named: Vec<(f64, String)> = names.into_iter().enumerate().map(|(at, name)| (at as f64, name)).collect();
        Axis { name: name.to_owned(), scale: Scale::Linear, from: -0.5, to: named.len() as f64 - 0.5, named }
    }

    /// Where a value lies, from 0 to 1; what is beyond the ends is at the end.
    fn place(&self, value: f64) -> f64 {
        let share = match self.scale {
            Scale::Linear => (value - self.from) / (self.to - self.from),
            Scale::Log => (value / self.from).ln() / (self.to / self.from).ln(),
        };
        if share.is_nan() { 0.0 } else { share.clamp(0.0, 1.0) }
    }

    fn ticks(&self) -> Vec<(f64, String)> {
        if !self.named.is_empty() {
            return self.named.clone();
        }
        let values: Vec<f64> = match self.scale {
            Scale::Linear => {
                let step = nice((self.to - self.from) / 5.0);
                let first = (self.from / step).ceil() as i64;
                (first..first + 12).map(|at| at as f64 * step).collect()
            }
            Scale::Log => {
                let decades = (self.to / self.from).log10();
                let multiples: &[f64] = if decades <= SHORT { &[1.0, 2.0, 5.0] } else { &[1.0] };
                let powers = self.from.log10().floor() as i32..=self.to.log10().ceil() as i32;
                powers.flat_map(|power| multiples.iter().map(move |by| by * 10f64.powi(power))).collect()
            }
        };
        let inside =
            |value: &f64| *value >= self.from * (1.0 - 1e-9) - 1e-12 && *value <= self.to * (1.0 + 1e-9) + 1e-12;
        values.into_iter().filter(inside).map(|value| (value, number(value))).collect()
    }
}

/// The step of 1, 2 or 5 times a power of ten that is at least so wide.
fn nice(width: f64) -> f64 {
    let power = 10f64.powf(width.log10().floor());
    [1.0, 2.0, 5.0, 10.0].map(|by| by * power).into_iter().find(|step| *step >= width * 0.999).unwrap_or(width)
}

/// A number as a tick says it.
fn number(value: f64) -> String {
    let rounded = format!("{value:.3}");
    let short = rounded.trim_end_matches('0').trim_end_matches('.');
    if value != 0.0 && short == "0" { format!("{value:e}") } else { short.to_owned() }
}

/// A plot on its way.
#[derive(Clone, Debug)]
pub struct Plot {
    x: Axis,
    y: Axis,
    drawn: String,
}

/// A colour of the page, by number.
pub type Colour = usize;

impl Plot {
    /// An empty one.
    pub fn new(x: Axis, y: Axis) -> Plot {
        Plot { x, y, drawn: String::new() }
    }

    fn at(&self, (x, y): (f64, f64)) -> (f64, f64) {
        let across = LEFT + self.x.place(x) * (WIDTH - LEFT - RIGHT);
        let down = TOP + (1.0 - self.y.place(y)) * (HEIGHT - TOP - BOTTOM);
        (across, down)
    }

    /// A point, with a word that appears where it is pointed at.
    pub fn point(&mut self, at: (f64, f64), radius: f64, colour: Colour, word: impl Display) {
        let (x, y) = self.at(at);
        let word = escaped(&word.to_string());
        let _ = write!(
            self.drawn,
            r#"<circle cx="{x:.1}" cy="{y:.1}" r="{radius}" fill="var(--c{colour})"><title>{word}</title></circle>"#
        );
    }

    /// A straight stroke from one place to another.
    pub fn stroke(&mut self, from: (f64, f64), to: (f64, f64), class: &str, colour: Colour) {
        let ((x1, y1), (x2, y2)) = (self.at(from), self.at(to));
        let _ = write!(
            self.drawn,
            r#"<line class="{class}" x1="{x1:.1}" y1="{y1:.1}" x2="{x2:.1}" y2="{y2:.1}" stroke="var(--c{colour})"/>"#
        );
    }

    /// A bar of that thickness, with a word that appears where it is pointed at; at least so long that it can be seen.
    pub fn bar(&mut self, from: (f64, f64), to: (f64, f64), thick: f64, colour: Colour, word: impl Display) {
        let ((x1, y1), (x2, y2)) = (self.at(from), self.at(to));
        // One that ends where the next begins is seen to end.
        let x2 = if x2 - x1 > 4.0 * SHORTEST { x2 - SHORTEST / 2.0 } else { x2.max(x1 + SHORTEST) };
        let word = escaped(&word.to_string());
        let _ = write!(
            self.drawn,
            r#"<line x1="{x1:.1}" y1="{y1:.1}" x2="{x2:.1}" y2="{y2:.1}" stroke="var(--c{colour})" stroke-width="{thick:.1}"><title>{word}</title></line>"#
        );
    }

    /// A column from the floor up to a value, so wide, with a word that appears where it is pointed at.
    pub fn column(&mut self, at: f64, value: f64, wide: f64, colour: Colour, word: impl Display) {
        let ((x, top), (_, floor)) = (self.at((at, value)), self.at((at, self.y.from)));
        let word = escaped(&word.to_string());
        let _ = write!(
            self.drawn,
            r#"<line x1="{x:.1}" y1="{floor:.1}" x2="{x:.1}" y2="{top:.1}" stroke="var(--c{colour})" stroke-width="{wide:.1}"><title>{word}</title></line>"#
        );
    }

    /// How many of a plot's own units one step of the axis upwards takes.
    pub fn step_up(&self) -> f64 {
        (self.at((self.x.from, self.y.from)).1 - self.at((self.x.from, self.y.from + 1.0)).1).abs()
    }

    /// A line through these places.
    pub fn line(&mut self, places: impl IntoIterator<Item = (f64, f64)>, class: &str, colour: Colour) {
        let mut points = String::new();
        for place in places {
            let (x, y) = self.at(place);
            let _ = write!(points, "{x:.1},{y:.1} ");
        }
        let points = points.trim_end();
        let _ = write!(self.drawn, r#"<polyline class="{class}" points="{points}" stroke="var(--c{colour})"/>"#);
    }

    /// The line on which both axes say the same.
    pub fn diagonal(&mut self) {
        let (from, to) = (self.x.from.max(self.y.from), self.x.to.min(self.y.to));
        let ((x1, y1), (x2, y2)) = (self.at((from, from)), self.at((to, to)));
        let _ = write!(self.drawn, r#"<line class="even" x1="{x1:.1}" y1="{y1:.1}" x2="{x2:.1}" y2="{y2:.1}"/>"#);
    }

    /// The whole as SVG, called `name` for those who cannot see it.
    pub fn svg(&self, name: &str) -> String {
        let name = escaped(name);
        let mut svg = format!(r#"<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{name}">"#);
        let (right, floor) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
        for (value, said) in self.x.ticks() {
            let (x, _) = self.at((value, self.y.from));
            let said = escaped(&said);
            let _ = write!(svg, r#"<line class="grid" x1="{x:.1}" x2="{x:.1}" y1="{TOP}" y2="{floor}"/>"#);
            let _ = write!(svg, r#"<text x="{x:.1}" y="{}" text-anchor="middle">{said}</text>"#, floor + 17.0);
        }
        for (value, said) in self.y.ticks() {
            let (_, y) = self.at((self.x.from, value));
            let said = escaped(&said);
            let _ = write!(svg, r#"<line class="grid" x1="{LEFT}" x2="{right}" y1="{y:.1}" y2="{y:.1}"/>"#);
            let _ = write!(svg, r#"<text x="{}" y="{:.1}" text-anchor="end">{said}</text>"#, LEFT - 7.0, y + 4.0);
        }
        let (x, y) = (escaped(&self.x.name), escaped(&self.y.name));
        let middle = (LEFT + right) / 2.0;
        let _ = write!(svg, r#"<text class="name" x="{middle}" y="{}" text-anchor="middle">{x}</text>"#, HEIGHT - 8.0);
        let height = (TOP + floor) / 2.0;
        let _ = write!(
            svg,
            r#"<text class="name" transform="translate(14 {height}) rotate(-90)" text-anchor="middle">{y}</text>"#
        );
        svg.push_str(&self.drawn);
        svg.push_str("</svg>");
        svg
    }
}

/// A text that means itself in HTML, between tags and in quotes.
pub fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            letter => safe.push(letter),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(axis: &Axis) -> Vec<String> {
        axis.ticks().into_iter().map(|(_, said)| said).collect()
    }

    #[test]
    fn ticks_are_round_numbers_within_the_axis() {
        let wide = Axis::over("s", Scale::Log, [0.02, 3_000.0, f64::NAN, -1.0]);
        assert_eq!(said(&wide), ["0.1", "1", "10", "100", "1000"]);
        assert_eq!(said(&Axis::over("q", Scale::Log, [1.0, 30.0])), ["1", "2", "5", "10", "20"]);
        assert_eq!(said(&Axis::over("share", Scale::Linear, [0.0, 1.0])), ["0", "0.2", "0.4", "0.6", "0.8", "1"]);
        assert_eq!(said(&Axis::over("none", Scale::Log, [])), ["1", "2", "5", "10"]);
        assert_eq!(said(&Axis::of_names("n", ["a".to_owned(), "b".to_owned()])), ["a", "b"]);
    }

    #[test]
    fn nothing_that_is_drawn_lies_outside_or_is_no_number() {
        let mut plot = Plot::new(Axis::over("x", Scale::Log, [1.0, 10.0]), Axis::over("y", Scale::Linear, [0.0, 1.0]));
        plot.point((0.0, f64::NAN), 2.0, 0, "<b>");
        plot.line([(1e9, 5.0)], "thin", 1);
        plot.bar((1.0, 0.5), (1.0, 0.5), 3.0, 2, "<c>");
        assert_eq!(plot.step_up(), HEIGHT - TOP - BOTTOM);
        let svg = plot.svg("a & b");
        assert!(svg.contains(r#"cx="62.0" cy="332.0""#) && svg.contains("544.0,12.0"), "{svg}");
        assert!(svg.contains(r#"x1="62.0" y1="172.0" x2="62.8" y2="172.0""#) && svg.contains("&lt;c&gt;"), "{svg}");
        assert!(svg.contains("&lt;b&gt;") && svg.contains("a &amp; b") && !svg.contains("NaN"));
    }
}
