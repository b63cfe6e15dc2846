//! Every knob of every decision, in one value that is complete: nothing in it means "default".

use serde::{Deserialize, Serialize};

use crate::admit::Order;
use crate::admit::gradient::Adaptive;
use crate::admit::lanes::Lanes;
use crate::class::Class;
use crate::mode::Mode;
use crate::route::{Counting, Routing};
use crate::scale::Scaling;
use crate::time::Span;

/// What governs the decisions. Changing it is an event like any other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Policy {
    /// How a cluster is chosen.
    pub routing: Routing,
    /// Whether that is what routes; where it does not, the baseline does.
    pub routing_mode: Mode,
    /// How a cluster is chosen where `routing` does not act: one that goes by no prediction.
    pub baseline: Routing,
    /// From when on a query is counted as one that will miss its SLO, where the routing goes by that.
    pub counting: Counting,
    /// The classes; [`CONTROL`](crate::class::CONTROL) and [`DEFAULT`](crate::class::DEFAULT) come first.
    pub classes: Vec<Class>,
    /// τ: the share of queries that may miss their SLO.
    pub violation_target: f64,
    /// In which order waiting queries run.
    pub order: Order,
    /// After how long half of what someone has used counts no more, where the order goes by that.
    pub half_life: Span,
    /// Which queries are in which lane, and how many of each may run.
    pub lanes: Lanes,
    /// How many may run at once in all; None: as many as ready clusters have slots.
    pub max_running: Option<u32>,
    /// How many may run on a cluster follows what they take, by these rules; None: as many as it has slots.
    pub adaptive: Option<Adaptive>,
    /// Queries that may wait; one more is refused.
    pub max_waiting: u32,
    /// The longest that a query waits before it is refused.
    pub wait_limit: Span,
    /// Control queries that may run at once on a cluster, besides its slots.
    pub control_slots: u32,
    /// How long a session may keep a cluster to itself without sending anything.
    pub pin_idle: Span,
    /// How long a cancelled query may go on before its cluster is replaced.
    pub cancel_grace: Span,
    /// How long a draining cluster may finish what runs, and how long its provider may then take to stop it after the time
    /// to shut down in is over; before that, nothing that may still be paid for is given up.
    pub drain_limit: Span,
    /// How long a cluster may take to start.
    pub start_limit: Span,
    /// The wait before a failed cluster is started again; doubles with each failure up to [`Policy::retry_most`].
    pub retry_first: Span,
    /// The longest such wait.
    pub retry_most: Span,
    /// Decisions kept with their evidence.
    pub decisions_kept: u32,
    /// Queries that are expected to be done sooner than this, nine times of ten, are predicted as if they ran alone and
    /// count for nothing in the predictions of others.
    pub min_modelled: Span,
    /// Clusters known at once, those that are gone excepted.
    pub max_clusters: u32,
    /// How many clusters there are.
    pub scaling: Scaling,
    /// Whether plans of days are followed.
    pub planning: Mode,
}

impl Default for Policy {
    fn default() -> Policy {
        Policy {
            routing: Routing::LeastOutstanding,
            routing_mode: Mode::On,
            baseline: Routing::LeastOutstanding,
            counting: Counting::Expected,
            classes: Class::built_in(),
            violation_target: 0.05,
            order: Order::Fifo,
            half_life: Span::from_secs(300),
            lanes: Lanes::none(),
            max_running: None,
            adaptive: None,
            max_waiting: 1_000,
            wait_limit: Span::from_secs(300),
            control_slots: 4,
            pin_idle: Span::from_secs(600),
            cancel_grace: Span::from_secs(5),
            drain_limit: Span::from_secs(60),
            start_limit: Span::from_secs(300),
            retry_first: Span::from_secs(1),
            retry_most: Span::from_secs(60),
            decisions_kept: 1_000,
            min_modelled: Span::from_millis(50),
            max_clusters: 64,
            scaling: Scaling::default(),
            planning: Mode::Off,
        }
    }
}

impl Policy {
    /// How a cluster is chosen, as things are.
    pub fn routes_by(&self) -> Routing {
        if self.routing_mode == Mode::On { self.routing } else { self.baseline }
    }

    /// The routing that is asked where a query would go: the one that acts, or is on trial.
    pub(crate) fn asks(&self) -> Routing {
        if self.routing_mode == Mode::Off { self.baseline } else { self.routing }
    }
}
