//! What users and classes have used lately: a running sum of work that halves every so often.
//!
//! A sum that decays can be compared without looking at the clock. With half-life h, use u that was summed up to time t is by now
//! u·2^((t−now)/h); its logarithm is log₂ u + t/h less now/h, which is the same for all. So log₂ u + t/h, the *score*, orders
//! them once and for all, and an order over thousands changes only where somebody is charged.
//!
//! Nobody scores lower than one who comes now having used next to nothing ([`LEAST`]). So whoever waits is passed only for so long: after
//! h·log₂(u / LEAST) even one who comes anew scores higher.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::terms::Quota;
use crate::id::{ClassId, UserId};
use crate::math;
use crate::time::{Span, Time};

/// Use that counts as none: a second of one unit.
pub(crate) const LEAST: f64 = 1.0;

/// Users whose use is known at once. One that has used next to nothing need not be known.
pub(crate) const MOST_KNOWN: usize = 16_384;

/// The weight of the newest query in what one of them takes on average.
const NEWEST: f64 = 0.1;

/// What someone has used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Account {
    used: f64,
    at: Time,
    /// Work of a query, on average.
    each: f64,
    quota_since: Time,
    quota_used: f64,
}

/// What everyone has used.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Accounts {
    classes: BTreeMap<ClassId, Account>,
    users: BTreeMap<(ClassId, UserId), Account>,
}

/// log₂ x.
pub(crate) fn log2(x: f64) -> f64 {
    math::ln(x) / std::f64::consts::LN_2
}

/// The score of one who has used next to nothing by now.
pub(crate) fn floor(now: Time, half_life: Span) -> f64 {
    log2(LEAST) + half_lives(now, half_life)
}

fn half_lives(time: Time, half_life: Span) -> f64 {
    time.micros() as f64 / (half_life.micros().max(1)) as f64
}

impl Account {
    /// Work used up to now, decayed.
    pub(crate) fn used(&self, now: Time, half_life: Span) -> f64 {
        let past = now.since(self.at).micros() as f64 / half_life.micros().max(1) as f64;
        self.used * math::pow(0.5, past)
    }

    fn score(&self, half_life: Span) -> f64 {
        log2(self.used.max(LEAST)) + half_lives(self.at, half_life)
    }

    fn charge(&mut self, now: Time, half_life: Span, work: f64) {
        self.used = (self.used(now, half_life) + work).max(0.0);
        self.at = self.at.max(now);
    }

    /// Takes over what another has used.
    fn join(&mut self, now: Time, half_life: Span, other: Account) {
        if *self == Account::default() {
            *self = other;
            return;
        }
        self.charge(now, half_life, other.used(now, half_life));
        self.each = self.each.max(other.each);
        self.quota_since = self.quota_since.max(other.quota_since);
        self.quota_used += other.quota_used;
    }
}

impl Accounts {
    /// How a class stands beside others.
    pub(crate) fn class_score(&self, class: ClassId, half_life: Span) -> f64 {
        self.classes.get(&class).map_or(f64::NEG_INFINITY, |account| account.score(half_life))
    }

    /// How a user stands beside others of its class.
    pub(crate) fn user_score(&self, class: ClassId, user: UserId, half_life: Span) -> f64 {
        self.users.get(&(class, user)).map_or(f64::NEG_INFINITY, |account| account.score(half_life))
    }

    /// Work of a query of that class, on average; none known: [`LEAST`].
    pub(crate) fn usual(&self, class: ClassId) -> f64 {
        self.classes.get(&class).map(|account| account.each).filter(|each| *each > 0.0).unwrap_or(LEAST)
    }

    /// Work is done for a user of a class, or turns out to be more or less than was said.
    pub(crate) fn charge(&mut self, now: Time, half_life: Span, (class, user): (ClassId, UserId), work: f64) {
        if !work.is_finite() {
            return;
        }
        self.classes.entry(class).or_default().charge(now, half_life, work);
        if self.users.len() >= MOST_KNOWN && !self.users.contains_key(&(class, user)) {
            self.forget(now, half_life);
        }
        let account = self.users.entry((class, user)).or_default();
        account.charge(now, half_life, work);
        account.quota_used = (account.quota_used + work).max(0.0);
    }

    /// A query of that class took so much.
    pub(crate) fn took(&mut self, class: ClassId, work: f64) {
        let account = self.classes.entry(class).or_default();
        account.each = if account.each > 0.0 { account.each + NEWEST * (work - account.each) } else { work };
    }

    /// True if a user has done more than its quota since the last one began. Quotas begin anew after each other.
    pub(crate) fn over_quota(&mut self, now: Time, (class, user): (ClassId, UserId), quota: Quota) -> bool {
        let Some(account) = self.users.get_mut(&(class, user)) else { return false };
        if now.since(account.quota_since) >= quota.per {
            (account.quota_since, account.quota_used) = (now, 0.0);
        }
        account.quota_used > quota.work
    }

    /// Forgets who has used next to nothing, and, if that does not make room, the half that has used least.
    fn forget(&mut self, now: Time, half_life: Span) {
        self.users.retain(|_, account| account.used(now, half_life) > LEAST);
        if self.users.len() >= MOST_KNOWN {
            let mut used: Vec<f64> = self.users.values().map(|account| account.used(now, half_life)).collect();
            used.sort_by(f64::total_cmp);
            let middle = used[used.len() / 2];
            self.users.retain(|_, account| account.used(now, half_life) > middle);
        }
    }

    /// Classes have other numbers from now on; several may have become one.
    pub(crate) fn renumber(&mut self, now: Time, half_life: Span, renumbered: impl Fn(ClassId) -> ClassId) {
        let (classes, users) = (std::mem::take(&mut self.classes), std::mem::take(&mut self.users));
        for (class, account) in classes {
            self.classes.entry(renumbered(class)).or_default().join(now, half_life, account);
        }
        for ((class, user), account) in users {
            self.users.entry((renumbered(class), user)).or_default().join(now, half_life, account);
        }
    }

    pub(crate) fn known(&self) -> usize {
        self.users.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Span = Span::from_secs(3_600);
    const ANN: (ClassId, UserId) = (ClassId(1), UserId(1));
    const BOB: (ClassId, UserId) = (ClassId(1), UserId(2));

    fn at(hours: u64) -> Time {
        Time::from_micros(hours * HOUR.micros())
    }

    #[test]
    fn use_halves_and_scores_order_it_without_a_clock() {
        let mut accounts = Accounts::default();
        accounts.charge(at(1), HOUR, ANN, 64.0);
        accounts.charge(at(3), HOUR, BOB, 20.0);
        // By now Ann's 64 are 16: less than Bob's 20.
        assert!((accounts.users[&ANN].used(at(3), HOUR) - 16.0).abs() < 1e-9);
        let score = |who: (ClassId, UserId)| accounts.user_score(who.0, who.1, HOUR);
        assert!(score(ANN) < score(BOB));
        assert!((score(BOB) - score(ANN) - log2(20.0 / 16.0)).abs() < 1e-9);
        // One who comes now with nothing used comes before both, and four hours later after both.
        assert!(floor(at(3), HOUR) < score(ANN) && floor(at(8), HOUR) > score(BOB));
        accounts.charge(at(3), HOUR, ANN, 4.0);
        assert!((accounts.user_score(ANN.0, ANN.1, HOUR) - accounts.user_score(BOB.0, BOB.1, HOUR)).abs() < 1e-9);
    }

    #[test]
    fn what_was_charged_too_much_is_given_back_and_nothing_goes_below_zero() {
        let mut accounts = Accounts::default();
        accounts.charge(at(1), HOUR, ANN, 64.0);
        accounts.charge(at(1), HOUR, ANN, -60.0);
        assert!((accounts.users[&ANN].used(at(1), HOUR) - 4.0).abs() < 1e-9);
        accounts.charge(at(1), HOUR, ANN, -60.0);
        assert_eq!(accounts.users[&ANN].used(at(9), HOUR), 0.0);
        accounts.charge(at(1), HOUR, ANN, f64::NAN);
        assert_eq!(accounts.users[&ANN].used(at(9), HOUR), 0.0);
    }

    #[test]
    fn a_quota_begins_anew_when_its_time_is_over() {
        let (mut accounts, quota) = (Accounts::default(), Quota { work: 10.0, per: HOUR });
        assert!(!accounts.over_quota(at(1), ANN, quota));
        accounts.charge(at(1), HOUR, ANN, 0.0);
        assert!(!accounts.over_quota(at(1), ANN, quota));
        accounts.charge(at(1), HOUR, ANN, 11.0);
        assert!(accounts.over_quota(at(1), ANN, quota));
        assert!(!accounts.over_quota(at(2), ANN, quota));
    }

    #[test]
    fn classes_that_become_one_have_used_what_they_used_together() {
        let mut accounts = Accounts::default();
        accounts.charge(at(1), HOUR, (ClassId(1), UserId(1)), 16.0);
        accounts.charge(at(2), HOUR, (ClassId(2), UserId(1)), 8.0);
        accounts.charge(at(2), HOUR, (ClassId(3), UserId(1)), 5.0);
        accounts.renumber(at(2), HOUR, |class| if class == ClassId(3) { ClassId(2) } else { ClassId(1) });
        assert_eq!(accounts.users[&ANN].used(at(2), HOUR), 16.0);
        assert_eq!(accounts.classes[&ClassId(1)].used(at(2), HOUR), 16.0);
        assert_eq!(accounts.users[&(ClassId(2), UserId(1))].used(at(2), HOUR), 5.0);
    }

    #[test]
    fn those_who_used_least_are_forgotten_when_there_are_too_many() {
        let mut accounts = Accounts::default();
        for user in 0..MOST_KNOWN as u64 {
            accounts.charge(at(1), HOUR, (ClassId(1), UserId(user)), 2.0 + user as f64);
        }
        accounts.charge(at(1), HOUR, (ClassId(1), UserId(u64::MAX)), 1.0);
        assert_eq!(accounts.known(), MOST_KNOWN / 2);
        assert!(!accounts.users.contains_key(&(ClassId(1), UserId(0))));
        assert!(accounts.users.contains_key(&(ClassId(1), UserId(MOST_KNOWN as u64 - 1))));
        // Days later nobody has used anything that matters.
        for user in 0..MOST_KNOWN as u64 {
            accounts.charge(at(100), HOUR, (ClassId(2), UserId(user)), 2.0);
        }
        assert_eq!(accounts.known(), MOST_KNOWN);
    }
}
