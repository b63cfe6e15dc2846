//! The order of waiting queries.

use proptest::prelude::*;

use super::*;
use crate::admit::terms::{Terms, Weight};
use crate::class::{CONTROL, DEFAULT};

const HOUR: Span = Span::from_secs(3_600);

struct Bench {
    queues: Queues,
    classes: Vec<Class>,
    accounts: Accounts,
    order: Order,
    seq: u64,
}

impl Bench {
    fn new(order: Order, terms: &[Terms]) -> Bench {
        let mut classes = Class::built_in();
        classes.extend(terms.iter().map(|terms| Class { terms: terms.clone(), ..Class::default() }));
        Bench { queues: Queues::default(), classes, accounts: Accounts::default(), order, seq: 0 }
    }

    fn scored<R>(&mut self, act: impl FnOnce(&mut Queues, Scoring<'_>) -> R) -> R {
        let Bench { queues, classes, accounts, order, .. } = self;
        act(queues, Scoring { order: *order, half_life: HOUR, classes, accounts })
    }

    fn waits(&mut self, lane: u32, class: u32, user: u64, weight: f64, since: u64) -> Spot {
        self.seq += 1;
        let spot = Spot { lane: LaneId(lane), class: ClassId(class), user: UserId(user), seq: self.seq };
        let waiter = Waiter { query: QueryId(self.seq), weight, since: Time::from_micros(since) };
        self.scored(|queues, scoring| queues.push(spot, waiter, scoring));
        spot
    }

    fn charge(&mut self, class: u32, user: u64, work: f64) {
        let who = (ClassId(class), UserId(user));
        self.accounts.charge(Time::ZERO, HOUR, who, work);
        self.scored(|queues, scoring| queues.rescore(who.0, who.1, scoring));
    }

    /// Takes what is next in the lane whose head comes first, charging its user so much.
    fn next(&mut self, work: f64) -> Option<Spot> {
        let (_, lane) = self.queues.heads().map(|(lane, key)| (key, lane)).min()?;
        let (spot, _) = self.queues.head(lane)?;
        assert!(self.scored(|queues, scoring| queues.remove(spot, scoring)));
        self.charge(spot.class.0, spot.user.0, work);
        Some(spot)
    }
}

#[test]
fn first_come_is_first_served_across_lanes_classes_and_users() {
    let mut bench = Bench::new(Order::Fifo, &[Terms::default(), Terms::default()]);
    for at in 0..40 {
        bench.waits(at as u32 % 3, at as u32 % 4, at % 5, 9.0 - at as f64, at);
    }
    let order: Vec<u64> = std::iter::from_fn(|| bench.next(1e6)).map(|spot| spot.seq).collect();
    assert_eq!(order, (1..=40).collect::<Vec<_>>());
    assert_eq!((bench.queues.len(), bench.queues.heads().count()), (0, 0));
}

#[test]
fn users_share_evenly_however_many_one_of_them_sends() {
    let mut bench = Bench::new(Order::Fair, &[]);
    for _ in 0..1_000 {
        bench.waits(0, 1, 0, 0.0, 0);
    }
    for user in 1..=10 {
        for _ in 0..20 {
            bench.waits(0, 1, user, 0.0, 0);
        }
    }
    let mut served = [0; 11];
    for _ in 0..110 {
        served[bench.next(3.0).expect("some wait").user.0 as usize] += 1;
    }
    assert_eq!(served, [10; 11]);
}

#[test]
fn work_counts_and_not_queries() {
    let mut bench = Bench::new(Order::Fair, &[]);
    for _ in 0..100 {
        bench.waits(0, 1, 0, 0.0, 0);
        bench.waits(0, 1, 1, 0.0, 0);
    }
    let mut work = [0.0; 2];
    for _ in 0..60 {
        let user = bench.scored(|queues, _| queues.head(LaneId(0))).expect("some wait").0.user.0;
        let each = if user == 0 { 10.0 } else { 40.0 };
        bench.next(each);
        work[user as usize] += each;
    }
    assert!((work[0] - work[1]).abs() <= 40.0, "{work:?}");
}

#[test]
fn a_class_gets_its_share_and_a_heavier_query_waits_longer() {
    let three = Terms { share: 3.0, ..Terms::default() };
    let mut bench = Bench::new(Order::Fair, &[three, Terms::default()]);
    for _ in 0..200 {
        bench.waits(0, 2, 7, 0.0, 0);
        bench.waits(0, 3, 7, 0.0, 0);
    }
    let of_three = (0..100).filter(|_| bench.next(5.0).expect("some wait").class == ClassId(2)).count();
    assert!((74..=76).contains(&of_three), "{of_three}");
    // Half the weight, half the share.
    let mut bench = Bench::new(Order::Fair, &[]);
    for _ in 0..200 {
        bench.waits(0, 1, 1, 0.0, 0);
        bench.waits(0, 1, 2, -1.0, 0);
    }
    let of_two = (0..90).filter(|_| bench.next(5.0).expect("some wait").user == UserId(2)).count();
    assert!((29..=31).contains(&of_two), "{of_two}");
}

#[test]
fn one_who_waits_is_passed_only_for_so_long() {
    let mut bench = Bench::new(Order::Fair, &[]);
    bench.charge(1, 1, 64.0);
    let hour = |hours: u64| hours * HOUR.micros();
    let heavy = bench.waits(0, 1, 1, 0.0, 0);
    let before = bench.waits(0, 1, 2, 0.0, hour(5));
    let after = bench.waits(0, 1, 3, 0.0, hour(7));
    assert_eq!([bench.next(0.0), bench.next(0.0), bench.next(0.0)], [Some(before), Some(heavy), Some(after)]);
    // Without use in its weight, age alone: a weight of one half is an hour.
    let unused = Terms { weight: Weight { used: 0.0, ..Weight::default() }, ..Terms::default() };
    let mut bench = Bench::new(Order::Fair, &[unused]);
    let light = bench.waits(0, 2, 1, -3.0, 0);
    let before = bench.waits(0, 2, 2, 0.0, hour(2));
    let after = bench.waits(0, 2, 3, 0.0, hour(4));
    assert_eq!([bench.next(9.0), bench.next(9.0), bench.next(9.0)], [Some(before), Some(light), Some(after)]);
}

#[test]
fn a_blocked_class_is_passed_over_until_it_is_not() {
    let mut bench = Bench::new(Order::Fifo, &[Terms::default()]);
    let (first, second) = (bench.waits(0, 2, 1, 0.0, 0), bench.waits(0, 1, 1, 0.0, 0));
    bench.queues.block(ClassId(2), true);
    bench.queues.block(ClassId(2), true);
    let third = bench.waits(0, 2, 2, 0.0, 0);
    assert_eq!((bench.next(1.0), bench.next(1.0)), (Some(second), None));
    bench.queues.block(ClassId(2), false);
    assert_eq!([bench.next(1.0), bench.next(1.0), bench.next(1.0)], [Some(first), Some(third), None]);
}

#[test]
fn the_longest_is_the_newest_of_whom_most_wait() {
    let mut bench = Bench::new(Order::Fair, &[]);
    bench.waits(0, 1, 1, 0.0, 0);
    bench.waits(1, 1, 2, 0.0, 0);
    let newest = bench.waits(1, 1, 2, 0.0, 0);
    assert_eq!(bench.queues.longest(Among::All).map(|(len, spot, _)| (len, spot)), Some((2, newest)));
    assert_eq!(bench.queues.longest(Among::Lane(LaneId(0))).map(|(len, ..)| len), Some(1));
    assert_eq!(bench.queues.longest(Among::Class(CONTROL)), None);
    assert_eq!((bench.queues.lane_len(LaneId(1)), bench.queues.class_len(DEFAULT)), (2, 3));
    assert_eq!(bench.queues.user_len(newest), (2, 1));
}

proptest! {
    /// Whatever comes, goes, is charged and blocked: what is next is what a search over all would find.
    #[test]
    fn the_order_is_that_of_a_search_over_all(
        steps in prop::collection::vec((0u8..6, 0u32..3, 1u32..4, 0u64..4, -3.0f64..3.0), 1..200),
        fair in any::<bool>(),
    ) {
        let order = if fair { Order::Fair } else { Order::Fifo };
        let shares = [1.0, 4.0].map(|share| Terms { share, ..Terms::default() });
        let mut bench = Bench::new(order, &shares);
        let mut here: Vec<Spot> = Vec::new();
        for (at, (step, lane, class, user, weight)) in steps.into_iter().enumerate() {
            match step {
                0..=2 => here.push(bench.waits(lane, class, user, weight, at as u64 * 1_000_000)),
                3 => if !here.is_empty() {
                    let gone = here.swap_remove(user as usize % here.len());
                    prop_assert!(bench.scored(|queues, scoring| queues.remove(gone, scoring)));
                    prop_assert!(!bench.scored(|queues, scoring| queues.remove(gone, scoring)));
                },
                4 => bench.charge(class, user, weight.abs() * 10.0),
                _ => bench.queues.block(ClassId(class), weight > 0.0),
            }
            let mut sorted = here.clone();
            sorted.sort();
            prop_assert_eq!(bench.queues.iter().map(|(spot, _)| spot).collect::<Vec<_>>(), sorted);
            prop_assert_eq!(bench.queues.len(), here.len());
            for lane in 0..3 {
                prop_assert_eq!(bench.queues.lane_len(LaneId(lane)), here.iter().filter(|s| s.lane.0 == lane).count());
                prop_assert_eq!(bench.queues.head(LaneId(lane)).map(|(spot, _)| spot), searched(&bench, LaneId(lane)));
                prop_assert_eq!(longest(&bench, Among::Lane(LaneId(lane))), longest_of(&here, |s| s.lane.0 == lane));
            }
            for class in 0..4 {
                let class = ClassId(class);
                prop_assert_eq!(bench.queues.class_len(class), here.iter().filter(|s| s.class == class).count());
                prop_assert_eq!(longest(&bench, Among::Class(class)), longest_of(&here, |s| s.class == class));
            }
            prop_assert_eq!(longest(&bench, Among::All), longest_of(&here, |_| true));
        }
    }
}

fn longest(bench: &Bench, among: Among) -> Option<Spot> {
    bench.queues.longest(among).map(|(_, spot, _)| spot)
}

/// The newest of whom most wait, by looking at all that wait there.
fn longest_of(here: &[Spot], among: impl Fn(&Spot) -> bool) -> Option<Spot> {
    let user = |spot: &Spot| (spot.lane, spot.class, spot.user);
    let beside = |spot: &&Spot| here.iter().filter(|other| user(other) == user(spot)).count();
    here.iter().filter(|spot| among(spot)).max_by_key(|spot| (beside(spot), **spot)).copied()
}

/// What is next in a lane, by looking at all that wait there.
fn searched(bench: &Bench, lane: LaneId) -> Option<Spot> {
    let scoring = Scoring { order: bench.order, half_life: HOUR, classes: &bench.classes, accounts: &bench.accounts };
    let queue = bench.queues.lanes.get(&lane)?;
    let of_class = |class: &ClassId| {
        let of_class = &queue.classes[class];
        let users = of_class.users.iter().map(|(user, of_user)| {
            let (seq, head) = of_user.waiting.first_key_value().expect("someone waits");
            (scoring.of_user((*class, *user), of_user.floor, (*seq, head)), *user, *seq)
        });
        let (first, user, seq) = users.min().expect("someone waits");
        (scoring.of_class(*class, of_class.floor, first), *class, user, seq)
    };
    let open = queue.classes.keys().filter(|class| !bench.queues.blocked.contains(class));
    let (_, class, user, seq) = open.map(of_class).min()?;
    Some(Spot { lane, class, user, seq })
}
