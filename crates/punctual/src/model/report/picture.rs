//! What a model is worth, drawn: predicted against measured, Q-errors beside rivals, calibration, crowds.
//!
//! Bounded, however long the history: at most [`POINTS`] queries are drawn as points, evenly taken from all in their
//! order, and lines have [`STEPS`] places.

use std::collections::BTreeMap;
use std::path::Path;

use punctual_learn::accuracy::{Accuracy, Judged, quantile};
use punctual_learn::contexts::Sight;
use punctual_learn::evaluation::{Expected, Rival};

use super::page::Page;
use super::plot::{Axis, Colour, Plot, Scale};
use super::{Crowd, Judgement, Worth, table};

/// The most queries that are drawn as points.
const POINTS: usize = 1_500;

/// Places of a line.
const STEPS: usize = 200;

/// Q-errors beyond this are drawn at the edge.
const WORST: f64 = 100.0;

/// Colours: ours, its misses, ours corrected; rivals follow.
const OURS: Colour = 0;
const MISSED: Colour = 1;
const CORRECTED: Colour = 2;

/// The page about a model and a history.
pub fn page(judgement: &Judgement, worth: &Worth, (model, history): (&Path, &Path)) -> String {
    let below =
        format!("{} on {}: {} queries that were set aside and finished", model.display(), history.display(), worth.n);
    let mut page = Page::new("What the latency model is worth", &below);
    scatter(judgement, &mut page);
    errors(judgement, &mut page);
    calibration(judgement, &mut page);
    crowds(judgement, &mut page);
    page.html(&worth.to_string())
}

fn seconds(ln: f64) -> f64 {
    ln.exp().max(1e-3)
}

/// So many of these, evenly taken.
fn sample<T>(all: Vec<T>) -> Vec<T> {
    let n = all.len();
    let kept = n.min(POINTS);
    // The i-th of the kept ones is at i·n/kept: an index is kept where that passes it.
    all.into_iter().enumerate().filter(|(at, _)| (at + 1) * kept / n > at * kept / n).map(|(_, one)| one).collect()
}

fn scatter(judgement: &Judgement, page: &mut Page) {
    let at_arrival = |one: &&Expected| one.sight == Sight::AtArrival;
    let all: Vec<&Expected> = judgement.expected.iter().filter(at_arrival).collect();
    let of = all.len();
    let shown = sample(all);
    let values = || shown.iter().flat_map(|one| [one.model.truth, one.model.median].map(seconds));
    let axis = |name| Axis::over(name, Scale::Log, values());
    let mut plot = Plot::new(axis("measured, seconds"), axis("predicted at arrival, seconds"));
    for one in &shown {
        let Judged { median, upper, truth } = one.model;
        let missed = truth > upper;
        let (truth, median, upper) = (seconds(truth), seconds(median), seconds(upper));
        let colour = if missed { MISSED } else { OURS };
        plot.stroke((truth, median), (truth, upper), "faint", colour);
        let cut = if one.finished { "" } else { ", cut off" };
        let word = format!("measured {truth:.2} s{cut}, predicted {median:.2} s, 90 % below {upper:.2} s");
        plot.point((truth, median), 1.9, colour, word);
    }
    plot.diagonal();
    let how_many =
        if of > shown.len() { format!("{} of {of} queries, evenly taken. ", shown.len()) } else { String::new() };
    let caption = format!(
        "{how_many}A dot is the median, its whisker reaches up to the 90 % quantile. Nine whiskers in ten should reach \
         the dashed line, where predicted is measured."
    );
    let legend = [
        (OURS, "took no longer than the 90 % quantile".to_owned()),
        (MISSED, "took longer (or was cut off later)".to_owned()),
    ];
    page.plot("Predicted and measured", &caption, &plot.svg("predicted latencies against measured ones"), &legend);
}

/// The estimates that are drawn beside each other, each with its Q-errors in order.
fn estimates(judgement: &Judgement) -> Vec<(Colour, String, Vec<f64>)> {
    let sorted = |what: &dyn Fn(&Expected) -> Option<Judged>| {
        let judged = judgement.finished(Sight::AtArrival).filter_map(what);
        let mut errors: Vec<f64> = judged.map(|one| (one.median - one.truth).abs()).collect();
        errors.sort_by(f64::total_cmp);
        errors
    };
    let ours = [
        (OURS, "the model".to_owned(), sorted(&|one| Some(one.model))),
        (CORRECTED, "the model, corrected".to_owned(), sorted(&|one| Some(one.corrected))),
    ];
    let rivals = Rival::ALL.into_iter().zip([3, 4, 5, 6, 1]);
    let rivals = rivals.map(|(rival, colour)| (colour, table::name(rival).to_owned(), sorted(&|one| rival.of(one))));
    ours.into_iter().chain(rivals).filter(|(_, _, errors)| !errors.is_empty()).collect()
}

fn errors(judgement: &Judgement, page: &mut Page) {
    let estimates = estimates(judgement);
    let x = Axis::over("Q-error: off by a factor of at most", Scale::Log, [1.0, WORST]);
    let mut plot = Plot::new(x, Axis::over("share of the queries", Scale::Linear, [0.0, 1.0]));
    for (colour, name, errors) in estimates.iter().rev() {
        let places = (0..=STEPS).map(|step| step as f64 / STEPS as f64);
        let class = if *colour == OURS {
            "thick"
        } else if name == table::name(Rival::Published) {
            "dashed"
        } else {
            "thin"
        };
        plot.line(places.map(|share| (quantile(errors, share).exp(), share)), class, *colour);
    }
    let caption = "At arrival. Further to the left is better; what is off by more than a factor of 100 is at the edge.";
    let published = estimates.iter().any(|(_, name, _)| name == table::name(Rival::Published));
    let more = if published { " Published predictions may know more than could be known at arrival." } else { "" };
    let legend: Vec<(Colour, String)> = estimates.into_iter().map(|(colour, name, _)| (colour, name)).collect();
    page.plot(
        "Q-error beside other estimates",
        &format!("{caption}{more}"),
        &plot.svg("distribution of the Q-error"),
        &legend,
    );
}

fn calibration(judgement: &Judgement, page: &mut Page) {
    let axis = |name| Axis::over(name, Scale::Linear, [0.0, 1.0]);
    let mut plot = Plot::new(axis("predicted quantile"), axis("share of the queries below it"));
    plot.diagonal();
    let mut draw = |levels: &mut Vec<f64>, colour: Colour| {
        levels.sort_by(f64::total_cmp);
        let share =
            |quantile: f64| levels.partition_point(|level| *level <= quantile) as f64 / levels.len().max(1) as f64;
        plot.line((0..=40).map(|step| f64::from(step) / 40.0).map(|at| (at, share(at))), "thick", colour);
        for at in [0.5, 0.9] {
            plot.point(
                (at, share(at)),
                4.0,
                colour,
                format!("{:.1} % below the {} % quantile", 100.0 * share(at), 100.0 * at),
            );
        }
    };
    let levels = |sight, what: fn(&Expected) -> Judged| -> Vec<f64> {
        judgement.finished(sight).map(|one| what(one).level()).collect()
    };
    draw(&mut levels(Sight::Hindsight, |one| one.model), 3);
    draw(&mut levels(Sight::AtArrival, |one| one.corrected), CORRECTED);
    draw(&mut levels(Sight::AtArrival, |one| one.model), OURS);
    let caption = "On the dashed line, predictions promise what they keep. Above it they are too cautious, below it too \
                   hopeful. Dots: the median and the 90 % quantile.";
    let legend = [(OURS, "at arrival"), (CORRECTED, "at arrival, corrected"), (3, "in hindsight")];
    let legend = legend.map(|(colour, name)| (colour, name.to_owned()));
    page.plot("Are quantiles what they say?", caption, &plot.svg("calibration of the quantiles"), &legend);
}

fn crowds(judgement: &Judgement, page: &mut Page) {
    type Of = fn(&Expected) -> Judged;
    let estimates: [(Colour, &str, Of); 4] = [
        (OURS, "the model", |one| one.model),
        (CORRECTED, "the model, corrected", |one| one.corrected),
        (3, table::name(Rival::Sharing), |one| one.sharing),
        (6, table::name(Rival::SizedMedian), |one| one.medians[1]),
    ];
    let mut groups: BTreeMap<Crowd, Vec<&Expected>> = BTreeMap::new();
    for one in judgement.finished(Sight::AtArrival) {
        groups.entry(Crowd::of(one.neighbours)).or_default().push(one);
    }
    let figures: Vec<[Accuracy; 4]> = groups
        .values()
        .map(|group| estimates.map(|(_, _, of)| Accuracy::of(group.iter().map(|one| of(one)))))
        .collect();
    let names = groups.iter().map(|(crowd, group)| format!("{} ({})", crowd.in_short(), group.len()));
    let highest = figures.iter().flatten().map(|accuracy| accuracy.q_error[1].min(WORST));
    let y = Axis::over("Q-error, median to 90 % quantile", Scale::Log, highest.chain([1.0, 2.0]));
    let mut plot = Plot::new(Axis::of_names("others that ran at arrival (queries)", names), y);
    for (at, group) in figures.iter().enumerate() {
        for (place, (accuracy, (colour, name, _))) in group.iter().zip(&estimates).enumerate() {
            let x = at as f64 + (place as f64 - 1.5) * 0.16;
            let [p50, p90, _] = accuracy.q_error;
            plot.stroke((x, p50), (x, p90), "bar", *colour);
            plot.point((x, p50), 4.5, *colour, format!("{name}: median {p50:.2}, 90 % quantile {p90:.2}"));
        }
    }
    let legend = estimates.map(|(colour, name, _)| (colour, name.to_owned()));
    let caption =
        "The dot is the median of the Q-error, the bar reaches to its 90 % quantile. Lower and shorter is better.";
    page.plot("Q-error by concurrency", caption, &plot.svg("Q-error by how many others ran"), &legend);
}

#[cfg(test)]
mod tests {
    use super::super::tests::judgement;
    use super::*;

    #[test]
    fn a_page_stands_alone_is_bounded_and_means_what_it_says() {
        let rows: Vec<(f64, f64, bool)> =
            (1..5_000).map(|at| (f64::from(at), f64::from(at) * 1.5, at % 7 != 0)).collect();
        let judgement = judgement(&rows);
        let worth = judgement.worth().unwrap();
        let page = page(&judgement, &worth, (Path::new("<m>.model"), Path::new("h & i")));
        assert!(page.contains("&lt;m&gt;.model on h &amp; i") && !page.contains("<m>"));
        assert!(page.contains("1500 of 4999 queries, evenly taken."));
        assert!(page.len() < 800_000, "{}", page.len());
        assert!(!page.contains("http") && !page.contains("<script") && !page.contains("NaN"));
        assert_eq!(page.matches("<svg").count(), 4);
        assert_eq!(page.matches("<svg").count(), page.matches("</svg>").count());
    }

    #[test]
    fn samples_are_even_and_of_the_wanted_size() {
        assert_eq!(sample((0..10).collect()), (0..10).collect::<Vec<_>>());
        let some = sample((0..4_000).collect());
        assert_eq!(some.len(), POINTS);
        assert!(some.windows(2).all(|two| two[1] - two[0] <= 3));
        assert!(sample(Vec::<u8>::new()).is_empty());
    }
}
