//! A model in force follows what runs, and nothing that it does keeps a query from running.

use super::*;
use crate::admit::claim::Claim;
use crate::billing::Price;
use crate::check::check;
use crate::class::DEFAULT;
use crate::cluster::Spec;
use crate::event::{Command, Event, LossCause, Outcome};
use crate::fingerprint::Fingerprint;
use crate::id::{Generation, SessionId};
use crate::math;
use crate::policy::Policy;
use crate::predict::features::FEATURES;
use crate::predict::model::Parts;
use crate::predict::model::tests::model;
use crate::query::Traits;
use crate::statement::Kind;

const MODEL: ModelId = ModelId(7);

/// A dispatcher with two ready clusters of four slots, and its clock in seconds.
pub(in crate::dispatcher) struct Bench {
    pub(in crate::dispatcher) dispatcher: Dispatcher,
    pub(in crate::dispatcher) now: u64,
    ended: Vec<Option<Predicted>>,
}

impl Bench {
    fn new() -> Bench {
        Bench::with(Policy::default())
    }

    pub(in crate::dispatcher) fn with(policy: Policy) -> Bench {
        let mut bench = Bench { dispatcher: Dispatcher::new(1, policy), now: 0, ended: Vec::new() };
        for id in 0..2 {
            let spec = Spec {
                name: format!("c{id}"),
                units: Units(4 << id),
                slots: 4,
                price: Price::default(),
                killable: true,
                offer: None,
                writer: false,
            };
            bench.does(Event::ClusterWanted(spec));
            bench.does(Event::ClusterReady { cluster: ClusterId(id), generation: Generation(0) });
        }
        bench
    }

    pub(in crate::dispatcher) fn does(&mut self, event: Event) -> Vec<Command> {
        let mut commands = Vec::new();
        self.now += 1;
        self.dispatcher.handle(Time::from_micros(self.now * 1_000_000), event, &mut commands);
        assert_eq!(check(&self.dispatcher), [], "at {}", self.now);
        self.ended.extend(commands.iter().filter_map(|command| match command {
            Command::Record(ended) => Some(ended.predicted),
            _ => None,
        }));
        commands
    }

    pub(in crate::dispatcher) fn adopts(&mut self, model: Model) {
        self.dispatcher.provide(MODEL, Arc::new(model));
        self.does(Event::ModelAdopted(MODEL));
    }

    fn arrives(&mut self, number: u64) -> ClusterId {
        self.arrives_with(number, None)
    }

    pub(in crate::dispatcher) fn arrives_with(&mut self, number: u64, slo: Option<Span>) -> ClusterId {
        match self.sends(number, slo)[0] {
            Command::Run { cluster, .. } => cluster,
            ref other => panic!("{other:?}"),
        }
    }

    pub(in crate::dispatcher) fn sends(&mut self, number: u64, slo: Option<Span>) -> Vec<Command> {
        let traits = Some(Box::new(Traits { text: number % 3, features: [0.0; FEATURES] }));
        let query = Query {
            id: QueryId(number),
            session: SessionId(number),
            fingerprint: Fingerprint(number % 3),
            kind: Kind::Select,
            class: DEFAULT,
            slo,
            claim: Claim::default(),
            traits,
        };
        self.does(Event::Arrived(query))
    }

    pub(in crate::dispatcher) fn finishes(&mut self, number: u64) {
        let outcome = Outcome::Finished { rows: 1, bytes: 8 };
        self.does(Event::Finished { query: QueryId(number), outcome, blocked: Span::ZERO, pinned: false });
    }

    fn followed(&self) -> Vec<usize> {
        let predicting = self.dispatcher.predicting.as_ref().unwrap();
        predicting.predictor.scenes().map(|(_, scene)| scene.running().len()).collect()
    }
}

/// A model that says so many seconds for every query alone on any size, and no more than that.
pub(in crate::dispatcher) fn plain(work: f64) -> Model {
    let mut parts: Parts = model(3, 1).parts();
    parts.weights.fill(0.0);
    parts.stage.trees.start = math::ln(work);
    parts.stage.spreads = [0.5; 4];
    Model::new(parts).unwrap()
}

#[test]
fn what_is_expected_is_evidence_and_history() {
    let mut bench = Bench::new();
    bench.adopts(plain(40.0));
    bench.arrives(1);
    let said = bench.dispatcher.decisions.back().unwrap().predicted.unwrap();
    // 40 seconds of work on four units, alone.
    assert_eq!(said.isolated, Span::from_secs(10));
    assert!(said.p50 >= said.isolated && said.p90 > said.p50, "{said:?}");
    assert_eq!(bench.dispatcher.view(Time::ZERO).queries[0].predicted, Some(said));
    bench.finishes(1);
    assert_eq!(bench.ended, [Some(said)]);
}

#[test]
fn the_model_follows_what_runs_where_it_runs() {
    let mut bench = Bench::new();
    bench.arrives(1);
    bench.adopts(model(3, 1));
    assert_eq!(bench.followed(), [1, 0], "what ran before is known");
    let on: Vec<ClusterId> = (2..6).map(|number| bench.arrives(number)).collect();
    let first = on.iter().filter(|cluster| cluster.0 == 0).count();
    assert_eq!(bench.followed(), [1 + first, 4 - first]);
    bench.finishes(1);
    assert_eq!(bench.followed(), [first, 4 - first]);
    let lost = Event::ClusterLost { cluster: ClusterId(1), generation: Generation(0), cause: LossCause::Exited };
    bench.does(lost);
    assert_eq!(bench.followed(), [first]);
    bench.does(Event::Bounced { query: QueryId(2), cluster: on[0], lost: false });
    assert_eq!(bench.followed(), [first - usize::from(on[0].0 == 0)]);
}

#[test]
fn what_ends_corrects_what_is_expected_next_and_shows_drift() {
    let mut bench = Bench::new();
    bench.adopts(plain(4.0));
    let mut said = Vec::new();
    for number in 0..90 {
        bench.arrives(3 * number);
        said.push(bench.dispatcher.decisions.back().unwrap().predicted.unwrap().p50);
        // Ten times as long as expected, of which a factor of e at most counts.
        bench.now += 9;
        bench.finishes(3 * number);
    }
    assert!(said[0] < Span::from_secs(3) && said[89] > Span::from_millis(2_400), "{:?} {:?}", said[0], said[89]);
    let view = bench.dispatcher.view(Time::ZERO).model.unwrap();
    let lately = view.lately.unwrap();
    assert_eq!((view.id, view.corrected, lately.queries), (MODEL, 1, 90));
    assert!(lately.drifted && lately.bias > 1.5, "{lately:?}");
}

#[test]
fn short_queries_are_expected_and_not_followed() {
    let mut bench = Bench::new();
    bench.adopts(plain(0.01));
    bench.arrives(1);
    assert_eq!(bench.followed(), [0, 0]);
    assert_eq!(bench.dispatcher.decisions.back().unwrap().predicted.unwrap().isolated, Span::from_micros(2_500));
}

#[test]
fn without_its_model_at_hand_all_goes_on_and_nothing_is_said() {
    let mut bench = Bench::new();
    bench.does(Event::ModelAdopted(ModelId(9)));
    assert_eq!((bench.dispatcher.model(), bench.dispatcher.view(Time::ZERO).senseless), (None, 1));
    bench.adopts(plain(40.0));
    bench.arrives(1);
    bench.dispatcher.models = Models::default();
    bench.arrives(2);
    bench.finishes(2);
    bench.finishes(1);
    assert_eq!(bench.ended[0], None);
    let view = bench.dispatcher.view(Time::ZERO);
    assert_eq!((view.model, view.models_failed), (None, 1));
}

#[test]
fn a_model_that_fails_is_given_up_and_the_query_runs() {
    let mut bench = Bench::new();
    bench.adopts(model(3, 1));
    bench.arrives(1);
    // One of other width, whose states do not fit those that are kept.
    let shape = crate::predict::net::Shape { known: 0, hidden: 64 };
    let weights = vec![0.0; crate::predict::net::Layout::of(shape).total()];
    let parts = Parts { known: Vec::new(), hidden: 64, weights, ..model(3, 1).parts() };
    bench.dispatcher.provide(MODEL, Arc::new(Model::new(parts).unwrap()));
    bench.arrives(2);
    let view = bench.dispatcher.view(Time::ZERO);
    assert_eq!((view.model, view.models_failed), (None, 1));
    bench.arrives(3);
    bench.adopts(model(3, 1));
    assert_eq!(bench.dispatcher.view(Time::ZERO).model.map(|model| model.id), Some(MODEL));
}

#[test]
fn predictions_that_are_no_numbers_are_none() {
    let mut bench = Bench::new();
    let mut parts = plain(1.0).parts();
    parts.stage.trees.start = 1e5;
    bench.adopts(Model::new(parts).unwrap());
    bench.arrives(1);
    assert_eq!(bench.dispatcher.decisions.back().unwrap().predicted, None);
    bench.finishes(1);
    assert_eq!(bench.dispatcher.view(Time::ZERO).models_failed, 0);
}

#[test]
fn the_one_in_force_stays_at_hand() {
    let mut bench = Bench::new();
    bench.adopts(model(3, 1));
    (100..110).for_each(|id| bench.dispatcher.provide(ModelId(id), Arc::new(model(3, 1))));
    assert_eq!(bench.dispatcher.models.0.len(), AT_HAND);
    assert!(bench.dispatcher.models.find(MODEL).is_some());
}
