//! When the fleet grows and when it shrinks. Clusters 0 and 1 are there for good; a query with an SLO of a second is late.

use super::*;
use crate::billing::Price;
use crate::dispatcher::predicting::tests::{Bench, plain};
use crate::event::{Event, LossCause};
use crate::id::{Generation, Units};
use crate::policy::Policy;
use crate::route::Routing;

fn offer(units: u32) -> Spec {
    let price = Price { per_unit_hour: 1.0, minimum: Span::from_secs(60) };
    let name = format!("spare{units}");
    Spec { offer: Some(name.clone()), name, units: Units(units), slots: 4, price, killable: true, writer: false }
}

fn rules() -> Scaling {
    let secs = Span::from_secs;
    let offers = vec![offer(4), offer(8), offer(16)];
    let (idle, lifetime, start_takes) = (secs(100), secs(200), secs(50));
    Scaling { mode: Mode::On, offers, observations: 3, idle, lifetime, start_takes, ..Scaling::default() }
}

fn bench(scaling: Scaling) -> Bench {
    let mut bench = Bench::with(Policy { scaling, routing: Routing::Slo, ..Policy::default() });
    bench.adopts(plain(40.0));
    bench
}

const LATE: Option<Span> = Some(Span::from_secs(1));

fn study(commands: &[Command]) -> Option<StudyId> {
    commands.iter().find_map(|command| match command {
        Command::Study { study } => Some(*study),
        _ => None,
    })
}

fn started(commands: &[Command]) -> Option<(ClusterId, String)> {
    commands.iter().find_map(|command| match command {
        Command::Start { cluster, spec, .. } => Some((*cluster, spec.name.clone())),
        _ => None,
    })
}

fn stopped(commands: &[Command]) -> Vec<ClusterId> {
    let stop = |command: &Command| if let Command::Stop { cluster, .. } = command { Some(*cluster) } else { None };
    commands.iter().filter_map(stop).collect()
}

fn last(bench: &Bench) -> (Act, Because) {
    let last = bench.dispatcher.scaler.log.back().unwrap();
    (last.act, last.because)
}

/// Three late queries: the third asks for a study.
fn asks(bench: &mut Bench) -> StudyId {
    assert_eq!((study(&bench.sends(1, LATE)), study(&bench.sends(2, LATE))), (None, None));
    study(&bench.sends(3, LATE)).expect("a study")
}

fn says(bench: &mut Bench, study: StudyId, prospects: &[(Option<u32>, f64)]) -> Vec<Command> {
    let prospect = |&(offer, late_share): &_| Prospect { offer, size: None, late_share, cost: 1.0 };
    bench.does(Event::StudyDone { study, answer: Answer { prospects: prospects.iter().map(prospect).collect() } })
}

#[test]
fn too_many_late_ones_ask_for_a_study_and_its_answer_starts_a_cluster() {
    let mut bench = bench(rules());
    let asked = asks(&mut bench);
    assert_eq!(last(&bench), (Act::Study(asked), Because::Late { late: 3, of: 3 }));
    // Nothing else is begun meanwhile.
    assert_eq!(study(&bench.sends(4, LATE)), None);
    let commands = says(&mut bench, asked, &[(None, 0.9), (Some(0), 0.5), (Some(1), 0.0)]);
    assert_eq!(started(&commands), Some((ClusterId(2), "spare8-2".into())));
    assert_eq!(last(&bench), (Act::Start(Units(8), Some(ClusterId(2))), Because::Best));
    assert_eq!(study(&bench.sends(5, LATE)), None, "the start is in flight");
    bench.does(Event::ClusterReady { cluster: ClusterId(2), generation: Generation(0) });
    // What came before it was ready says nothing about the fleet with it.
    assert_eq!(study(&bench.sends(6, LATE)), None);
    assert_eq!(study(&bench.sends(7, LATE)), None);
    assert_eq!(study(&bench.sends(8, LATE)), Some(StudyId(1)));
}

#[test]
fn a_timer_looks_too() {
    let mut bench = bench(rules());
    // Not late yet, and not expected to be.
    let slo = Some(Span::from_secs(60));
    (1..=3).for_each(|number| assert_eq!(study(&bench.sends(number, slo)), None));
    let wake = bench.dispatcher.next_wakeup().unwrap();
    assert_eq!(wake, Time::from_micros(1_000_000 * (bench.now - 2) + 10_000_000));
    bench.now += 100;
    assert!(study(&bench.does(Event::Woke)).is_some());
}

#[test]
fn a_study_that_finds_nothing_better_is_not_asked_for_again_at_once() {
    let mut bench = bench(rules());
    let asked = asks(&mut bench);
    assert_eq!(says(&mut bench, asked, &[(None, 0.5), (Some(0), 0.5)]), []);
    assert_eq!(last(&bench), (Act::Nothing, Because::NothingBetter));
    for number in 4..8 {
        assert_eq!(study(&bench.sends(number, LATE)), None);
    }
    bench.now += 50;
    (1..6).for_each(|number| bench.finishes(number));
    assert_eq!((study(&bench.sends(8, LATE)), study(&bench.sends(9, LATE))), (None, None));
    assert!(study(&bench.sends(10, LATE)).is_some());
}

#[test]
fn an_answer_that_comes_too_late_or_twice_is_dropped() {
    let mut bench = bench(rules());
    let asked = asks(&mut bench);
    bench.does(Event::DrainWanted { cluster: ClusterId(1) });
    assert_eq!(started(&says(&mut bench, asked, &[(None, 0.9), (Some(0), 0.0)])), None);
    assert_eq!(last(&bench), (Act::Nothing, Because::Stale));
    let senseless = bench.dispatcher.senseless;
    says(&mut bench, asked, &[(None, 0.9), (Some(0), 0.0)]);
    says(&mut bench, StudyId(77), &[]);
    assert_eq!(bench.dispatcher.senseless, senseless + 2);
}

#[test]
fn budgets_bind_and_say_so() {
    let mut few = bench(Scaling { most: 2, ..rules() });
    let asked = asks(&mut few);
    assert_eq!(started(&says(&mut few, asked, &[(None, 0.9), (Some(0), 0.0)])), None);
    assert_eq!(last(&few), (Act::Nothing, Because::MostClusters(2)));
    // Four and eight units at 0.375 $ and sixteen at a dollar.
    let mut poor = bench(Scaling { most_per_hour: Some(20.0), ..rules() });
    let asked = asks(&mut poor);
    assert_eq!(started(&says(&mut poor, asked, &[(None, 0.9), (Some(2), 0.0)])), None);
    assert_eq!(last(&poor), (Act::Nothing, Because::MostPerHour { would: 20.5, most: 20.0 }));
}

#[test]
fn what_is_idle_is_stopped_when_its_time_has_come_and_what_is_there_for_good_stays() {
    let mut bench = bench(rules());
    let asked = asks(&mut bench);
    says(&mut bench, asked, &[(None, 0.9), (Some(0), 0.0)]);
    bench.does(Event::ClusterReady { cluster: ClusterId(2), generation: Generation(0) });
    (1..=3).for_each(|number| bench.finishes(number));
    let ready = bench.dispatcher.clusters[&ClusterId(2)].since;
    bench.now += 20;
    assert_eq!(stopped(&bench.does(Event::Woke)), [], "the last look while queries were there");
    assert_eq!(bench.dispatcher.next_wakeup(), Some(ready + Span::from_secs(200)), "its least lifetime");
    bench.now = (ready + Span::from_secs(200)).micros() / 1_000_000 - 1;
    assert_eq!(stopped(&bench.does(Event::Woke)), [ClusterId(2)]);
    assert!(matches!(last(&bench), (Act::Stop(ClusterId(2)), Because::Idle(_))));
    assert_eq!(bench.dispatcher.next_wakeup(), None, "that it stops is waited for, however long it takes");
}

#[test]
fn the_last_ready_cluster_is_kept() {
    let mut bench = bench(Scaling { trigger: Trigger::None, ..rules() });
    bench.does(Event::ClusterWanted(offer(4)));
    bench.does(Event::ClusterReady { cluster: ClusterId(2), generation: Generation(0) });
    for cluster in [ClusterId(0), ClusterId(1)] {
        bench.does(Event::DrainWanted { cluster });
        bench.does(Event::ClusterStopped { cluster, generation: Generation(0) });
    }
    bench.now += 1_000;
    assert_eq!(stopped(&bench.does(Event::Woke)), []);
    assert_eq!(bench.dispatcher.next_wakeup(), None);
}

#[test]
fn from_nothing_an_arrival_starts_a_cluster_and_waits_for_it() {
    let mut bench = bench(Scaling { least: 0, ..rules() });
    for cluster in [ClusterId(0), ClusterId(1)] {
        bench.does(Event::DrainWanted { cluster });
        bench.does(Event::ClusterStopped { cluster, generation: Generation(0) });
    }
    let commands = bench.sends(1, LATE);
    assert_eq!((commands.len(), started(&commands)), (1, Some((ClusterId(2), "spare4-2".into()))));
    assert_eq!(last(&bench).1, Because::NoCluster);
    let commands = bench.does(Event::ClusterReady { cluster: ClusterId(2), generation: Generation(0) });
    assert_eq!(commands, [Command::Run { query: QueryId(1), cluster: ClusterId(2) }]);
    bench.finishes(1);
    bench.now += 1_000;
    assert_eq!(stopped(&bench.does(Event::Woke)), [ClusterId(2)]);
}

#[test]
fn a_shadow_decides_records_and_does_nothing() {
    for mode in [Mode::Shadow, Mode::Suggest] {
        let mut bench = bench(Scaling { mode, ..rules() });
        let asked = asks(&mut bench);
        assert_eq!(says(&mut bench, asked, &[(None, 0.9), (Some(1), 0.0)]), []);
        assert_eq!(last(&bench), (Act::Start(Units(8), None), Because::Best));
        assert_eq!(study(&bench.sends(4, LATE)), None, "it is as if it were started");
    }
}

#[test]
fn what_was_begun_is_not_gone_on_with_once_nothing_is_to_be_done() {
    let vertical = Scaling { selector: Selector::Vertical, ..rules() };
    let mut bench = bench(vertical.clone());
    bench.does(Event::ClusterWanted(offer(4)));
    bench.does(Event::ClusterReady { cluster: ClusterId(2), generation: Generation(0) });
    let asked = asks(&mut bench);
    says(&mut bench, asked, &[(None, 0.9), (Some(2), 0.0)]);
    let policy = bench.dispatcher.policy.clone();
    let shadow = Policy { scaling: Scaling { mode: Mode::Shadow, ..vertical }, ..policy };
    bench.does(Event::PolicyAdopted(Box::new(shadow)));
    let commands = bench.does(Event::ClusterReady { cluster: ClusterId(3), generation: Generation(0) });
    assert_eq!((commands, last(&bench)), (vec![], (Act::Stop(ClusterId(2)), Because::Replaced)));
    assert_eq!(bench.dispatcher.clusters[&ClusterId(2)].phase, Phase::Ready);
}

#[test]
fn an_answer_that_comes_while_everything_shuts_down_starts_nothing() {
    let mut bench = bench(rules());
    let asked = asks(&mut bench);
    bench.does(Event::ShutdownWanted { within: Span::from_secs(60) });
    assert_eq!(says(&mut bench, asked, &[(None, 0.9), (Some(0), 0.0)]), []);
    assert_eq!(last(&bench), (Act::Nothing, Because::Stale));
}

#[test]
fn the_other_triggers_and_selectors_do_as_they_say() {
    let horizontal = Scaling { selector: Selector::Horizontal, ..rules() };
    let mut queue = bench(Scaling { trigger: Trigger::QueueDepth, queue_depth: 2, ..horizontal.clone() });
    queue.sends(1, None);
    assert_eq!(started(&queue.sends(2, None)), Some((ClusterId(2), "spare8-2".into())), "like the largest");
    let mut observed = bench(Scaling { trigger: Trigger::Observed, ..horizontal.clone() });
    (1..=3).for_each(|number| drop(observed.sends(number, LATE)));
    observed.now += 30;
    assert_eq!(started(&observed.does(Event::Woke)), None, "nothing has ended");
    (1..=3).for_each(|number| observed.finishes(number));
    assert!(started(&observed.sends(4, LATE)).is_some());
    let mut none = bench(Scaling { trigger: Trigger::None, ..horizontal });
    (1..=4).for_each(|number| assert_eq!(started(&none.sends(number, LATE)), None));
    let mut vertical = bench(Scaling { selector: Selector::Vertical, ..rules() });
    vertical.does(Event::ClusterWanted(offer(4)));
    vertical.does(Event::ClusterReady { cluster: ClusterId(2), generation: Generation(0) });
    let asked = asks(&mut vertical);
    says(&mut vertical, asked, &[(None, 0.9), (Some(2), 0.0)]);
    let commands = vertical.does(Event::ClusterReady { cluster: ClusterId(3), generation: Generation(0) });
    assert_eq!(stopped(&commands), [ClusterId(2)], "the others are there for good");
}

#[test]
fn a_fork_goes_on_by_itself_and_does_not_scale() {
    let mut bench = bench(rules());
    asks(&mut bench);
    let study = bench.dispatcher.study();
    assert_eq!((study.arrivals.len(), study.at), (3, bench.dispatcher.now));
    assert_eq!(study.width, Span::from_secs(2));
    assert_eq!(crate::check::check(&study.fork), []);
    assert_eq!((study.fork.running().count(), study.fork.next_wakeup()), (3, None));
    let (cluster, placed, prediction) = study.fork.outlook(QueryId(1)).unwrap();
    assert!(study.fork.outlooks(cluster).any(|expected| expected == (QueryId(1), placed, prediction)));
}

#[test]
fn what_could_not_be_started_is_given_up_where_others_are_ready_and_asked_for_anew_after_a_while() {
    let mut bench = bench(rules());
    let asked = asks(&mut bench);
    says(&mut bench, asked, &[(None, 0.9), (Some(0), 0.0)]);
    let lost = |cluster| Event::ClusterLost { cluster, generation: Generation(0), cause: LossCause::StartFailed };
    bench.does(lost(ClusterId(2)));
    assert_eq!(last(&bench), (Act::Stop(ClusterId(2)), Because::CouldNotStart));
    assert!(!bench.dispatcher.clusters.contains_key(&ClusterId(2)), "nothing is left that could start by itself");
    // For as long as a start takes nobody is asked.
    assert_eq!(study(&bench.sends(4, LATE)), None);
    assert_eq!(study(&bench.sends(5, LATE)), None);
    bench.now += 50;
    (6..=8).for_each(|number| drop(bench.sends(number, LATE)));
    assert!(matches!(last(&bench).0, Act::Study(_)), "{:?}", last(&bench));
    // Where it is the only one it is tried again, for those that wait.
    let mut alone = self::bench(rules());
    (0..2).for_each(|cluster| drop(alone.does(Event::DrainWanted { cluster: ClusterId(cluster) })));
    (0..2).for_each(|cluster| {
        drop(alone.does(Event::ClusterStopped { cluster: ClusterId(cluster), generation: Generation(0) }));
    });
    assert_eq!(started(&alone.sends(1, LATE)), Some((ClusterId(2), "spare4-2".into())));
    alone.does(lost(ClusterId(2)));
    assert_eq!(alone.dispatcher.clusters[&ClusterId(2)].phase, Phase::Failed);
}

#[test]
fn those_that_wait_count_however_long_ago_they_came() {
    let mut bench = bench(rules());
    // Eight slots, and three that wait.
    let asked = asks(&mut bench);
    (4..=11).for_each(|number| drop(bench.sends(number, LATE)));
    says(&mut bench, asked, &[(None, 0.9), (Some(0), 0.0)]);
    (12..=15).for_each(|number| drop(bench.sends(number, LATE)));
    bench.does(Event::ClusterReady { cluster: ClusterId(2), generation: Generation(0) });
    // Four of the seven have found room; a timer finds that the other three are late.
    bench.now += 10;
    assert!(study(&bench.does(Event::Woke)).is_some());
    assert_eq!(last(&bench).1, Because::Late { late: 3, of: 3 });
}
