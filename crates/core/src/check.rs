//! What must hold after every event, whatever came before. Simulations and tests stop at the first breach; live, a
//! breach is counted and reported and decisions go on.

use std::fmt;

use crate::admit::counts::Counts;
use crate::admit::usage::MOST_KNOWN;
use crate::cluster::{Cluster, Phase, Seat};
use crate::dispatcher::{Dispatcher, Due, LiveState, seat_of, state_of};
use crate::id::{ClassId, QueryId};
use crate::mode::Mode;
use crate::plan::{Fate, Knobs, MOST_PLANS, MOST_STARTS, Planned};

/// An invariant that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken(pub String);

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Everything that does not hold; empty when all is well. Linear in what is live.
pub fn check(dispatcher: &Dispatcher) -> Vec<Broken> {
    let mut breaches = Vec::new();
    let mut must = |holds: bool, what: &dyn Fn() -> String| {
        if !holds {
            breaches.push(Broken(what()));
        }
    };
    bounds(dispatcher, &mut must);
    dispatcher.clusters.values().for_each(|cluster| seats(dispatcher, cluster, &mut must));
    queries(dispatcher, &mut must);
    sessions(dispatcher, &mut must);
    tickets(dispatcher, &mut must);
    timers(dispatcher, &mut must);
    predictions(dispatcher, &mut must);
    tokens(dispatcher, &mut must);
    plans(dispatcher, &mut must);
    breaches
}

type Must<'a> = dyn FnMut(bool, &dyn Fn() -> String) + 'a;

/// Every collection is within its bound.
fn bounds(d: &Dispatcher, must: &mut Must<'_>) {
    for (seat, waiting) in [(Seat::Slot, d.queues.len() + d.again.len()), (Seat::Control, d.control.len())] {
        must(waiting <= d.kept_over.waiting.max(d.policy.max_waiting as usize), &|| {
            format!("{waiting} wait for a {seat:?} seat, {} may", d.policy.max_waiting)
        });
    }
    must(d.decisions.len() <= d.policy.decisions_kept as usize, &|| "too many decisions are kept".into());
    must(d.clusters.len() <= d.kept_over.clusters.max(d.policy.max_clusters as usize), &|| {
        "there are too many clusters".into()
    });
    must(d.scaler.log.len() <= crate::dispatcher::SCALED_KEPT, &|| {
        "too many decisions about the fleet are kept".into()
    });
    must(d.tallies.len() == d.policy.classes.len(), &|| "tallies and classes differ in number".into());
    must(d.clusters.values().all(|cluster| cluster.phase != Phase::Gone), &|| "a gone cluster is kept".into());
}

/// Seats taken are within the limit, and belong to queries and sessions that know of it.
fn seats(d: &Dispatcher, cluster: &Cluster, must: &mut Must<'_>) {
    let id = cluster.id;
    let control = d.kept_over.control.max(d.policy.control_slots);
    for (seat, limit) in [(Seat::Slot, cluster.spec.slots), (Seat::Control, control)] {
        let taken = cluster.taken(seat);
        must(taken <= limit, &|| format!("cluster {id}: {taken} {seat:?} seats taken of {limit}"));
    }
    must(cluster.is_open() || cluster.is_empty(), &|| {
        format!("cluster {id} is {} and not empty", cluster.phase.name())
    });
    for query in cluster.running.keys() {
        let here = d
            .live
            .get(query)
            .is_some_and(|live| matches!(live.state, LiveState::Running { cluster, .. } if cluster == id));
        must(here, &|| format!("cluster {id} runs query {query}, which does not run there"));
    }
    let told =
        |query| matches!(d.live.get(query).map(|live| &live.state), Some(LiveState::Running { cancel: Some(_), .. }));
    let cancelled = cluster.running.keys().filter(|query| told(query)).count();
    must(cluster.cancelled as usize == cancelled, &|| {
        format!("cluster {id}: {} queries are said to be cancelled, {cancelled} are", cluster.cancelled)
    });
    must(cluster.doubted.is_some() == cluster.is_in_doubt(), &|| format!("cluster {id} is in doubt for no reason"));
    for session in cluster.idle_pins.keys() {
        let hold = d.sessions.get(session).and_then(|hold| hold.pin);
        must(hold.is_some_and(|pin| pin.cluster == id), &|| format!("{session:?} does not know its pin on {id}"));
    }
}

/// A waiting query is in one queue, a running one on one cluster.
fn queries(d: &Dispatcher, must: &mut Must<'_>) {
    let queued: usize = d.queues.len() + d.again.len() + d.control.len();
    let waiting = d.live.values().filter(|live| matches!(live.state, LiveState::Waiting { .. })).count();
    must(queued == waiting, &|| format!("{queued} queries are queued, {waiting} wait"));
    let seated: usize = d.clusters.values().map(|cluster| cluster.running.len()).sum();
    let running = d.live.len() - waiting;
    must(seated == running, &|| format!("{seated} queries have seats, {running} run"));
    for (id, live) in &d.live {
        let known = match live.state {
            LiveState::Waiting { .. } => waits(d, *id, live.seq),
            LiveState::Running { cluster, .. } => {
                d.clusters.get(&cluster).is_some_and(|cluster| cluster.running.contains_key(id))
            }
        };
        must(known, &|| format!("query {id} is not where it says it is"));
    }
}

/// True if a query is in exactly one of the queues, and where it should be.
fn waits(d: &Dispatcher, id: QueryId, seq: u64) -> bool {
    let Some(spot) = d.spot(id) else { return false };
    let places = [
        (seat_of(spot.class) == Seat::Control && d.control.get(&seq) == Some(&id)),
        (seat_of(spot.class) == Seat::Slot && d.again.get(&seq) == Some(&id)),
        d.queues.holds(spot, id),
    ];
    places.into_iter().filter(|here| *here).count() == 1
}

/// What counts as running is what runs, or what sessions hold.
fn tickets(d: &Dispatcher, must: &mut Must<'_>) {
    let mut counts = Counts::default();
    let of_pins = d.sessions.values().filter_map(|hold| hold.pin?.ticket);
    let of_queries = d.live.values().filter_map(|live| live.admission.ticket);
    of_pins.chain(of_queries).for_each(|ticket| counts.enter(ticket));
    must(counts.same_as(&d.counts), &|| format!("{counts:?} run, and {:?} is counted", d.counts));
    for (id, live) in &d.live {
        let counts = live.admission.ticket.is_some();
        let LiveState::Running { cluster, .. } = live.state else {
            must(!counts, &|| format!("query {id} waits and counts as running"));
            continue;
        };
        // On a cluster that its session holds, or held, it counts as what opened that; housekeeping there may count, too.
        let seat = d.clusters.get(&cluster).and_then(|cluster| cluster.running.get(id)).copied();
        let heavy = seat_of(live.query.class) == Seat::Slot || seat == Some(Seat::Slot);
        must(counts || !heavy, &|| format!("query {id} runs and counts for nothing"));
    }
    for class in (0..d.policy.classes.len() as u32).map(ClassId) {
        let (blocked, full) = (d.queues.is_blocked(class), d.is_class_full(class));
        must(blocked == full, &|| format!("class {class:?} is full: {full}, and is left out: {blocked}"));
    }
    for lane in d.policy.lanes.ids() {
        let waiting = d.paces.get(lane.0 as usize).is_some_and(|pace| pace.is_waiting());
        must(waiting == (d.queues.lane_len(lane) > 0), &|| format!("{lane:?} has {waiting} of its waiting"));
    }
    must(d.accounts.known() <= MOST_KNOWN, &|| "too many users are known".into());
}

/// A session that is kept has a query or a pin, and an idle pin has its seat.
fn sessions(d: &Dispatcher, must: &mut Must<'_>) {
    for (id, hold) in &d.sessions {
        must(hold.query.is_some() || hold.pin.is_some(), &|| format!("{id:?} holds nothing and is kept"));
        must(hold.query.is_none_or(|query| d.live.contains_key(&query)), &|| format!("{id:?} has an ended query"));
        let Some(pin) = hold.pin else { continue };
        let seated = d.clusters.get(&pin.cluster).is_some_and(|cluster| match hold.query {
            None => cluster.idle_pins.contains_key(id),
            Some(query) => cluster.running.contains_key(&query),
        });
        must(seated, &|| format!("{id:?} holds cluster {} without a seat", pin.cluster));
        must(pin.idle_until.is_none() == hold.query.is_some(), &|| format!("{id:?}'s idle timer is wrong"));
    }
}

/// Each timer is the one that its owner set, and each owner has its timer.
fn timers(d: &Dispatcher, must: &mut Must<'_>) {
    let mut owned = Vec::new();
    for (id, live) in &d.live {
        match live.state {
            LiveState::Waiting { until } => owned.push((until, Due::WaitLimit(*id))),
            LiveState::Running { cancel: Some(sent), .. } => owned.push((sent.grace_ends, Due::CancelGrace(*id))),
            LiveState::Running { .. } => {}
        }
        owned.extend(live.admission.cap_at.map(|at| (at, Due::RuntimeCap(*id))));
    }
    for (id, hold) in &d.sessions {
        owned.extend(hold.pin.and_then(|pin| pin.idle_until).map(|at| (at, Due::PinIdle(*id))));
    }
    for id in d.clusters.keys() {
        owned.extend(d.phase_limit_of(*id).map(|at| (at, Due::PhaseLimit(*id))));
    }
    owned.extend(d.scaler.wake.map(|at| (at, Due::Scale)));
    owned.extend(d.planning.wake.map(|at| (at, Due::Plan)));
    for timer in &owned {
        must(d.timers.contains(timer), &|| format!("timer {timer:?} is not set"));
    }
    let shutdown = d.timers.iter().filter(|(_, due)| *due == Due::Shutdown).count();
    must(d.timers.len() == owned.len() + shutdown, &|| {
        format!("{} timers are set, {} are owned", d.timers.len(), owned.len() + shutdown)
    });
}

/// The roll has each cluster once, and in the state that it is in.
fn tokens(d: &Dispatcher, must: &mut Must<'_>) {
    let is_kept = d.policy.asks().tokens().is_some();
    let clusters = d.clusters.values().filter(|_| is_kept);
    must(d.roll.clusters().eq(clusters.clone().map(|cluster| cluster.id)), &|| "the roll has other clusters".into());
    for cluster in clusters {
        let (told, state) = (d.roll.state(cluster.id), state_of(cluster));
        must(told == Some(state), &|| format!("cluster {} is {state:?}, and {told:?} on the roll", cluster.id));
    }
}

/// Plans are few, are of days that do not overlap and are not over, and the knobs in force are those of today's.
fn plans(d: &Dispatcher, must: &mut Must<'_>) {
    let plans = d.planning.plans();
    must(plans.len() <= MOST_PLANS, &|| format!("{} plans are followed", plans.len()));
    for plan in plans {
        must(plan.starts.len() <= MOST_STARTS, &|| format!("plan {} has too many starts", plan.id()));
        let late = |start: &Planned| start.fate == Fate::Waiting && start.at <= d.now;
        must(d.shutdown.is_some() || !plan.starts.iter().any(late), &|| {
            format!("plan {} has a start that was due", plan.id())
        });
        must(plan.plan.until > d.now || d.shutdown.is_some(), &|| format!("plan {} is over and followed", plan.id()));
    }
    let in_order = plans.windows(2).all(|pair| pair[0].plan.until <= pair[1].plan.from);
    must(in_order, &|| "the days of two plans overlap".into());
    must(d.policy.planning != Mode::Off || plans.is_empty(), &|| "a plan is followed, and none is to be".into());
    let Some(turned) = d.planning.turned() else { return };
    let plan = plans.iter().find(|plan| plan.id() == turned);
    must(plan.is_some_and(|plan| plan.plan.from <= d.now), &|| format!("plan {turned} is in force and should not be"));
    must(plan.is_none_or(|plan| plan.plan.knobs == Knobs::of(&d.policy)), &|| {
        format!("the knobs are not those of plan {turned}, which is in force")
    });
}

/// The model follows the clusters that are open, and on each nothing but what runs there.
fn predictions(d: &Dispatcher, must: &mut Must<'_>) {
    let Some(predicting) = &d.predicting else { return };
    for (id, scene) in predicting.predictor.scenes() {
        let cluster = d.clusters.get(&id).filter(|cluster| cluster.is_open());
        must(cluster.is_some(), &|| format!("cluster {id} is followed and not open"));
        for running in scene.running() {
            let here = cluster.is_some_and(|cluster| cluster.running.contains_key(&running.query.id));
            must(here, &|| format!("query {} is followed on cluster {id} and does not run there", running.query.id));
        }
    }
    for (id, scene) in predicting.predictor.scenes() {
        let standings = predicting.standings.get(&id).map_or(&[][..], Vec::as_slice);
        let same = standings.iter().map(|standing| standing.query).eq(scene.running().iter().map(|r| r.query.id));
        must(same, &|| format!("what is expected of those on cluster {id} is out of step with its scene"));
    }
    let followed = predicting.predictor.scenes().count();
    let open = d.clusters.values().filter(|cluster| cluster.is_open()).count();
    must(followed == open, &|| format!("{followed} clusters are followed, {open} are open"));
}
