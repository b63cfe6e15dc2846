//! `punctual.controllers`: what decides, and what it would do where it is only watched.

use punctual_core::mode::Mode;
use punctual_core::route::Verdicts;
use punctual_core::scale::{Act, Because, Scaled, Selector};
use punctual_core::view::{RoutingView, ScalerView, View};

use super::plan;
use super::stamp::timestamp;
use super::tables::{Cell, ColumnKind, Reader, Table, column, count};
use crate::link::Snapshot;
use crate::model::absent;

use ColumnKind::{Float8, Int8, Text};

/// `punctual.controllers`.
pub(crate) static CONTROLLERS: Table = Table {
    name: "controllers",
    what: "What decides: `routing` says where queries run, `scaling` how many clusters there are, `planning` what starts at set \
           times. Each is on, or is watched first.",
    columns: &[
        column("controller", Text, "`routing`, `scaling` or `planning`."),
        column("mode", Text, "`off`, `shadow`, `suggest` or `on`."),
        column(
            "policy",
            Text,
            "What it decides by, as `punctual simulate --policy` writes it; the plan of today, or of the next day that has one.",
        ),
        column(
            "acts",
            Text,
            "What acts: the policy itself, the baseline in its place, or null: nothing does. While there is no model, \
             `least_outstanding` stands for a routing that predicts, and `horizontal` for a selector that studies.",
        ),
        column(
            "decisions",
            Int8,
            "Decisions that it has made: of routing while it watches, of scaling and planning those of the last 256 that are kept.",
        ),
        column("different", Int8, "Those that would have been others than what was done."),
        column(
            "regret_violations",
            Float8,
            "Queries more that were expected to miss their SLO by what was done than by what it would have done; null if that \
             is not known.",
        ),
        column("regret_usd", Float8, "Dollars more, in the same way; negative: less."),
        column(
            "advice",
            Text,
            "In mode `suggest`: what someone should do; and that the model has drifted that says so, if it has.",
        ),
    ],
    rows: controllers,
};

fn controllers(snapshot: &Snapshot, _: Reader<'_>) -> Vec<Vec<Cell>> {
    vec![routing_row(&snapshot.view), scaling_row(&snapshot.view), plan::controller(&snapshot.view)]
}

fn routing_row(view: &View) -> Vec<Cell> {
    let RoutingView { mode, policy, counting, baseline, verdicts } = view.routing;
    let written = if policy.predicts() { format!("{policy}:{}", counting.name()) } else { policy.to_string() };
    let watched = |cell| if mode.watches() { cell } else { Cell::Null };
    let weighs = policy.predicts() && view.model.is_some();
    let known = |value| if weighs { Cell::Float(value) } else { Cell::Null };
    let Verdicts { decisions, elsewhere, regret } = verdicts;
    let advice = match mode {
        Mode::Suggest if elsewhere > 0 && weighs => Cell::Text(format!(
            "set policy.routing_mode to \"on\": of {decisions} queries {elsewhere} would go elsewhere, and it expects {:+.1} SLO \
             violations and {:+.4} dollars of that{}",
            -regret.violations,
            -regret.cost,
            doubt(view),
        )),
        _ => Cell::Null,
    };
    vec![
        Cell::Text("routing".to_owned()),
        Cell::Text(mode.to_string()),
        Cell::Text(written.clone()),
        Cell::Text(match mode {
            Mode::On if policy.predicts() && view.model.is_none() => absent::MEANWHILE.to_string(),
            Mode::On => written,
            _ => baseline.to_string(),
        }),
        watched(count(decisions)),
        watched(count(elsewhere)),
        watched(known(regret.violations)),
        watched(known(regret.cost)),
        advice,
    ]
}

fn scaling_row(view: &View) -> Vec<Cell> {
    let ScalerView { mode, trigger, selector, by } = view.scaler;
    let written = by.map_or_else(|| format!("{trigger}:{selector}"), |routing| routing.to_string());
    let moves = |scaled: &&Scaled| {
        matches!(scaled.act, Act::Start(..) | Act::Stop(_)) && !matches!(scaled.because, Because::Planned(_))
    };
    let undone = |scaled: &&Scaled| moves(scaled) && scaled.mode != Mode::On;
    let advised = view.scaling.iter().rev().find(|scaled| moves(scaled) && scaled.mode == Mode::Suggest);
    let advice = advised.filter(|_| mode == Mode::Suggest);
    vec![
        Cell::Text("scaling".to_owned()),
        Cell::Text(mode.to_string()),
        Cell::Text(written.clone()),
        match selector {
            _ if mode != Mode::On => Cell::Null,
            _ if by.is_some() => Cell::Text(written),
            Selector::AddCluster | Selector::Vertical if view.model.is_none() => {
                Cell::Text(format!("{trigger}:{}", Selector::Horizontal))
            }
            _ => Cell::Text(written),
        },
        count(view.scaling.iter().filter(moves).count() as u64),
        count(view.scaling.iter().filter(undone).count() as u64),
        Cell::Null,
        Cell::Null,
        advice.map_or(Cell::Null, |advised| {
            let at = timestamp(advised.at);
            // That something is idle is seen, not predicted.
            let doubt = if matches!(advised.act, Act::Start(..)) { doubt(view) } else { "" };
            Cell::Text(format!("{}: {} ({at}){doubt}", advised.act, advised.because))
        }),
    ]
}

/// What is to be said of advice that stands on a model which is off of late.
fn doubt(view: &View) -> &'static str {
    let drifted = view.model.and_then(|model| model.lately).is_some_and(|lately| lately.drifted);
    if drifted {
        "; but the model that says so has drifted (punctual.model): do not go by it until it is learnt again"
    } else {
        ""
    }
}
