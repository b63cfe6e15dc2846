//! Log-ins that failed lately, by where they came from.
//!
//! A bucket for each address that leaks: so many may fail in a minute, and each is forgotten a part of a minute later.
//! Beyond that nobody is let in from there, not even with the right password: otherwise the answer would tell a guesser
//! when a guess was right. An IPv6 address counts with its /64, which is what one subscriber has.
//!
//! The table is bounded. If it is full, the address that has failed least makes room: whoever has as many addresses as
//! there are places has as many times the guesses anyway.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};

use punctual_core::time::{Span, Time};

/// Addresses that are remembered.
pub const ADDRESSES: usize = 4_096;

/// The time in which a full bucket runs empty.
const WITHIN: Span = Span::from_secs(60);

/// Log-ins that failed lately.
#[derive(Debug, Default)]
pub struct Attempts {
    known: HashMap<IpAddr, Bucket>,
}

#[derive(Clone, Copy, Debug)]
struct Bucket {
    /// How many have failed and are not forgotten, at `at`.
    level: f64,
    at: Time,
}

impl Attempts {
    /// Says how long it is until a log-in from there is looked at again; None if one is now. `most` may fail in a
    /// minute; 0: any number.
    pub fn wait(&self, from: IpAddr, most: u32, now: Time) -> Option<Span> {
        let bucket = self.known.get(&subscriber(from))?;
        let over = bucket.level(most, now) - f64::from(most) + 1.0;
        (most > 0 && over > 0.0).then(|| Span::from_micros((over * forgotten_in(most)).ceil() as u64))
    }

    /// Counts one that is looked at; Err with the time to wait if there were too many. One that turns out right is
    /// [taken back](Attempts::succeeded): so many at once from one address are not more than one after the other.
    ///
    /// # Errors
    /// If none is to be looked at.
    pub fn begin(&mut self, from: IpAddr, most: u32, now: Time) -> Result<(), Span> {
        if most == 0 {
            return Ok(());
        }
        if let Some(wait) = self.wait(from, most, now) {
            return Err(wait);
        }
        let from = subscriber(from);
        let level = self.known.get(&from).map_or(0.0, |bucket| bucket.level(most, now));
        if !self.known.contains_key(&from) && self.known.len() >= ADDRESSES {
            self.make_room(most, now);
        }
        self.known.insert(from, Bucket { level: level + 1.0, at: now });
        Ok(())
    }

    /// One that was begun was right.
    pub fn succeeded(&mut self, from: IpAddr) {
        let from = subscriber(from);
        if let Some(bucket) = self.known.get_mut(&from) {
            bucket.level -= 1.0;
            if bucket.level <= 0.0 {
                self.known.remove(&from);
            }
        }
    }

    /// Forgets those that have run empty, and at least one.
    fn make_room(&mut self, most: u32, now: Time) {
        self.known.retain(|_, bucket| bucket.level(most, now) > 0.0);
        if self.known.len() < ADDRESSES {
            return;
        }
        let least = self.known.iter().min_by(|(_, a), (_, b)| a.level(most, now).total_cmp(&b.level(most, now)));
        if let Some(from) = least.map(|(from, _)| *from) {
            self.known.remove(&from);
        }
    }
}

impl Bucket {
    fn level(&self, most: u32, now: Time) -> f64 {
        let forgotten = now.since(self.at).micros() as f64 / forgotten_in(most);
        (self.level - forgotten).max(0.0)
    }
}

/// How long it takes until one is forgotten, in microseconds.
fn forgotten_in(most: u32) -> f64 {
    WITHIN.micros() as f64 / f64::from(most.max(1))
}

/// What one subscriber has.
fn subscriber(from: IpAddr) -> IpAddr {
    match from.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: u32 = 6;

    fn at(secs: u64) -> Time {
        Time::from_micros(secs * 1_000_000)
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn so_many_may_fail_in_a_minute_and_each_is_forgotten_by_itself() {
        let mut attempts = Attempts::default();
        let from = ip("10.0.0.1");
        for _ in 0..MOST {
            assert_eq!(attempts.begin(from, MOST, at(0)), Ok(()));
        }
        assert_eq!(attempts.begin(from, MOST, at(0)), Err(Span::from_secs(10)));
        assert_eq!(attempts.wait(from, MOST, at(4)), Some(Span::from_secs(6)));
        assert_eq!(attempts.begin(ip("10.0.0.2"), MOST, at(0)), Ok(()), "another address is another");
        assert_eq!(attempts.wait(from, 0, at(0)), None, "0 is no limit");
        assert_eq!(attempts.begin(from, MOST, at(10)), Ok(()));
        assert_eq!(attempts.begin(from, MOST, at(10)), Err(Span::from_secs(10)));
    }

    #[test]
    fn what_succeeds_does_not_count() {
        let mut attempts = Attempts::default();
        for _ in 0..100 {
            assert_eq!(attempts.begin(ip("::1"), MOST, at(0)), Ok(()));
            attempts.succeeded(ip("::1"));
        }
        assert!(attempts.known.is_empty());
    }

    #[test]
    fn an_ipv6_subscriber_is_one_and_an_ipv4_address_is_itself_in_either_form() {
        let mut attempts = Attempts::default();
        for last in 0..MOST {
            assert_eq!(attempts.begin(ip(&format!("2001:db8:1:2::{last}")), MOST, at(0)), Ok(()));
        }
        assert!(attempts.begin(ip("2001:db8:1:2:ffff::"), MOST, at(0)).is_err());
        assert!(attempts.begin(ip("2001:db8:1:3::"), MOST, at(0)).is_ok());
        attempts.begin(ip("::ffff:10.0.0.1"), MOST, at(0)).expect("the first");
        assert!(attempts.known.contains_key(&ip("10.0.0.1")));
    }

    #[test]
    fn the_table_is_bounded_and_keeps_those_who_fail_most() {
        let mut attempts = Attempts::default();
        let guesser = ip("192.0.2.1");
        for _ in 0..MOST {
            attempts.begin(guesser, MOST, at(0)).expect("it may");
        }
        for number in 0..2 * ADDRESSES as u32 {
            attempts.begin(IpAddr::from(number.to_be_bytes()), MOST, at(0)).expect("the first from there");
        }
        assert_eq!(attempts.known.len(), ADDRESSES);
        assert!(attempts.wait(guesser, MOST, at(0)).is_some());
    }
}
