//! What ends at a known instant: services, setups and standby times that are not exponential.
//!
//! A server has at most one such thing ahead of it: it is busy, or in setup, or idle. So one seat a server is enough, and
//! what is due is a list through the seats. Times that are always the same end in the order in which they begin: that
//! list needs no sorting, and a server leaves it from the middle when a task comes or its setup is called off. Only
//! services of varying length need more, which is a [`Wheel`].

use super::wheel::Wheel;

/// No server.
pub(super) const NONE: u32 = u32::MAX;

/// When something ends for a server, and its neighbours in the list that it is in.
#[derive(Clone, Copy, Debug)]
pub(super) struct Due {
    pub(super) at: f64,
    pub(super) next: u32,
    prev: u32,
}

/// What ends. In this order if at the same instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    ServiceTime,
    Setup,
    Standby,
}

/// How long services are, as far as timers need to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Services {
    /// Their ends are not timed.
    Untimed,
    /// All alike.
    Alike,
    /// Each its own.
    Varying,
}

/// The first and the last of a list, and when the first is due.
#[derive(Clone, Copy, Debug)]
struct List {
    head: u32,
    tail: u32,
    due: f64,
}

/// All timers of a fleet.
#[derive(Clone, Debug)]
pub(super) struct Timers {
    /// Empty if nothing is timed.
    seats: Box<[Due]>,
    service: List,
    setup: List,
    standby: List,
    wheel: Option<Wheel>,
}

impl Timers {
    /// Timers of so many servers; `delays` says whether setups or standby times are timed.
    pub(super) fn new(servers: u32, services: Services, delays: bool) -> Timers {
        let timed = delays || services != Services::Untimed;
        let seats = vec![Due::default(); if timed { servers as usize } else { 0 }].into();
        let wheel = (services == Services::Varying).then(|| Wheel::new(servers));
        Timers { seats, service: List::EMPTY, setup: List::EMPTY, standby: List::EMPTY, wheel }
    }

    /// Something ends for a server at `at`. Setups, standby times and services that are alike are put down in the order
    /// in which they end.
    pub(super) fn add(&mut self, server: u32, end: End, at: f64) {
        if let (End::ServiceTime, Some(wheel)) = (end, &mut self.wheel) {
            return wheel.add(&mut self.seats, server, at);
        }
        let list = self.list(end);
        let tail = std::mem::replace(&mut list.tail, server);
        if tail == NONE {
            list.head = server;
            list.due = at;
        } else {
            self.seats[tail as usize].next = server;
        }
        self.seats[server as usize] = Due { at, next: NONE, prev: tail };
    }

    /// A setup or a standby time of a server, which was put down, does not end.
    pub(super) fn remove(&mut self, server: u32, end: End) {
        let Due { next, prev, .. } = self.seats[server as usize];
        if prev != NONE {
            self.seats[prev as usize].next = next;
        }
        if next != NONE {
            self.seats[next as usize].prev = prev;
        }
        let due = if next == NONE { f64::INFINITY } else { self.seats[next as usize].at };
        let list = self.list(end);
        if prev == NONE {
            list.head = next;
            list.due = due;
        }
        if next == NONE {
            list.tail = prev;
        }
    }

    /// The next end by `until`.
    #[inline]
    pub(super) fn next_at(&mut self, until: f64) -> Option<(f64, End)> {
        if self.seats.is_empty() {
            return None;
        }
        let service = match &mut self.wheel {
            Some(wheel) => wheel.next_at(&mut self.seats, until).unwrap_or(f64::INFINITY),
            None => self.service.due,
        };
        let mut first = (service, End::ServiceTime);
        for other in [(self.setup.due, End::Setup), (self.standby.due, End::Standby)] {
            if other.0 < first.0 {
                first = other;
            }
        }
        (first.0 <= until && first.0 < f64::INFINITY).then_some(first)
    }

    /// Takes off the server of an end that [`Timers::next_at`] has announced.
    pub(super) fn take(&mut self, end: End) -> Option<u32> {
        if let (End::ServiceTime, Some(wheel)) = (end, &mut self.wheel) {
            return wheel.take();
        }
        let server = self.list(end).head;
        if server == NONE {
            return None;
        }
        self.remove(server, end);
        Some(server)
    }

    /// Bytes in use.
    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.seats) + self.wheel.as_ref().map_or(0, Wheel::bytes)
    }

    fn list(&mut self, end: End) -> &mut List {
        match end {
            End::ServiceTime => &mut self.service,
            End::Setup => &mut self.setup,
            End::Standby => &mut self.standby,
        }
    }
}

impl List {
    const EMPTY: List = List { head: NONE, tail: NONE, due: f64::INFINITY };
}

impl Default for Due {
    fn default() -> Due {
        Due { at: f64::INFINITY, next: NONE, prev: NONE }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timer_that_is_removed_does_not_end_and_the_others_do() {
        for gone in 0..3 {
            let mut timers = Timers::new(3, Services::Untimed, true);
            (0..3).for_each(|server| timers.add(server, End::Standby, 1.0 + f64::from(server)));
            timers.remove(gone, End::Standby);
            let mut ended = Vec::new();
            while let Some((at, end)) = timers.next_at(10.0) {
                ended.push((at, timers.take(end).expect("it was announced")));
            }
            let expected: Vec<(f64, u32)> = (0..3).filter(|s| *s != gone).map(|s| (1.0 + f64::from(s), s)).collect();
            assert_eq!(ended, expected);
            timers.add(gone, End::Standby, 20.0);
            assert_eq!(timers.next_at(30.0), Some((20.0, End::Standby)));
        }
    }

    #[test]
    fn of_what_ends_at_once_services_come_first() {
        let mut timers = Timers::new(3, Services::Alike, true);
        timers.add(0, End::Standby, 1.0);
        timers.add(1, End::Setup, 1.0);
        timers.add(2, End::ServiceTime, 1.0);
        let mut order = Vec::new();
        while let Some((_, end)) = timers.next_at(1.0) {
            timers.take(end);
            order.push(end);
        }
        assert_eq!(order, [End::ServiceTime, End::Setup, End::Standby]);
        assert_eq!(timers.next_at(f64::INFINITY), None);
    }
}
