//! `punctual.plan`: what is planned, and what has become of it.

use punctual_core::id::Units;
use punctual_core::mode::Mode;
use punctual_core::plan::{Fate, Followed, Planned};
use punctual_core::scale::{Act, Because, Scaled};
use punctual_core::view::{PlanningView, View};

use super::stamp::timestamp;
use super::tables::{Cell, Column, ColumnKind, Reader, Table, cluster_name, count};
use crate::link::Snapshot;

use ColumnKind::{Bool, Int8, Text, Timestamptz};

/// `punctual.plan`.
pub(crate) static PLAN: Table = Table {
    name: "plan",
    what: "A start that is planned, of the plans that are followed or wait for their day; and last a plan that is not followed, with \
           the reason.",
    columns: &[
        Column { name: "plan", kind: Text, what: "The plan: the beginning of the hash of its file." },
        Column { name: "day_from", kind: Timestamptz, what: "When its day begins; null of one that is not followed." },
        Column { name: "day_until", kind: Timestamptz, what: "When its day ends." },
        Column { name: "in_force", kind: Bool, what: "True while its knobs hold." },
        Column {
            name: "at",
            kind: Timestamptz,
            what: "When the start is due; of a plan that is not followed, since when.",
        },
        Column { name: "size", kind: Int8, what: "The size in units." },
        Column { name: "fleet", kind: Bool, what: "True of what the day should begin with." },
        Column {
            name: "state",
            kind: Text,
            what: "`waiting`; `started`; `watched`: it would have been; `skipped`: it was there, or the plan came too late; `refused`: \
                   there was no room. `not followed`: not a start but a plan.",
        },
        Column { name: "reason", kind: Text, what: "Why." },
        Column { name: "cluster", kind: Text, what: "The name of the cluster that was started." },
        Column { name: "cluster_id", kind: Int8, what: "Its identity." },
    ],
    rows,
};

fn rows(snapshot: &Snapshot, _: Reader<'_>) -> Vec<Vec<Cell>> {
    let (view, planning) = (&snapshot.view, &snapshot.view.planning);
    let followed =
        planning.plans.iter().flat_map(|followed| followed.starts.iter().map(move |start| row(view, followed, start)));
    // One that came twice is followed all the same.
    let is_followed = |plan| planning.plans.iter().any(|followed| followed.id() == plan);
    let last = planning.last.filter(|last| !is_followed(last.plan)).map(|last| {
        let nothing = || Cell::Null;
        vec![
            Cell::Text(last.plan.to_string()),
            nothing(),
            nothing(),
            Cell::Bool(false),
            Cell::At(last.at),
            nothing(),
            nothing(),
            Cell::Text("not followed".to_owned()),
            Cell::Text(last.because.to_string()),
            nothing(),
            nothing(),
        ]
    });
    followed.chain(last).collect()
}

fn row(view: &View, followed: &Followed, start: &Planned) -> Vec<Cell> {
    let Units(size) = start.size;
    let (name, id) = match start.fate {
        Fate::Started(cluster) => (cluster_name(view, cluster), Cell::Int(cluster.0.into())),
        _ => (Cell::Null, Cell::Null),
    };
    vec![
        Cell::Text(followed.id().to_string()),
        Cell::At(followed.plan.from),
        Cell::At(followed.plan.until),
        Cell::Bool(view.planning.turned == Some(followed.id())),
        Cell::At(start.at),
        Cell::Int(size.into()),
        Cell::Bool(start.fleet),
        Cell::Text(start.fate.name().to_owned()),
        Cell::Text(start.fate.to_string()),
        name,
        id,
    ]
}

/// The controller that follows plans, as a row of `punctual.controllers`.
pub(super) fn controller(view: &View) -> Vec<Cell> {
    let PlanningView { mode, turned, plans, .. } = &view.planning;
    let today = plans.iter().find(|followed| followed.plan.until > view.now);
    let written = today.map_or_else(|| "no plan".to_owned(), |followed| format!("plan {}", followed.id()));
    let planned = |scaled: &&Scaled| matches!((scaled.act, scaled.because), (Act::Start(..), Because::Planned(_)));
    let undone = |scaled: &&Scaled| planned(scaled) && scaled.mode != Mode::On;
    let advised = view.scaling.iter().rev().find(|scaled| planned(scaled) && scaled.mode == Mode::Suggest);
    let advised = advised.filter(|_| *mode == Mode::Suggest);
    vec![
        Cell::Text("planning".to_owned()),
        Cell::Text(mode.to_string()),
        Cell::Text(written),
        turned.map_or(Cell::Null, |plan| Cell::Text(format!("plan {plan}"))),
        count(view.scaling.iter().filter(planned).count() as u64),
        count(view.scaling.iter().filter(undone).count() as u64),
        Cell::Null,
        Cell::Null,
        advised.map_or(Cell::Null, |advised| {
            Cell::Text(format!("{}: {} ({})", advised.act, advised.because, timestamp(advised.at)))
        }),
    ]
}
