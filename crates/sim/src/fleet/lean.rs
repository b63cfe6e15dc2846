//! A fleet's life, event by event, with nothing between the token book and the clock.
//!
//! Whatever is exponential does not remember how long it has lasted, so it needs no timer: the next of all those things
//! comes after an exponential time of their rates' sum, and is of a kind, and of a server, with probability as the rates
//! are. Both come from counts:
//!
//! ```text
//!   0 ──── N·λ ──────┬── busy × 1 ──┬─ idle-on × μ ─┬─ setup × ν ─┐      one uniform number in here is
//!        an arrival      the 7th busy   the 2nd idle    the 1st of       the kind and the server at once
//!                        server ends    turns off       setup is on
//! ```
//!
//! What is not exponential is in [`Timers`], and whichever comes first happens. If that is a timer, the exponential time
//! that was drawn is drawn anew, unless the rates are as they were, in which case it still holds.
//!
//! A load that varies is thinned (Lewis and Shedler 1979): arrivals come at the peak's rate, and count with probability
//! load over peak.
//!
//! Chance comes in streams: the clock's, the dispatcher's choices (core's own, `Stream::Routing`), service times. So two
//! schemes that choose alike see the same world.

use punctual_core::fleet::{Book, Found, Placement, State, Tokens};
use punctual_core::rng::{Rng, Stream};
use punctual_core::route::two_of;

use super::lengths::ByLength;
use super::load::Load;
use super::meter::Meter;
use super::outcome::Outcome;
use super::queues::{Queues, Task};
use super::service::{Draw, ServiceTime};
use super::setting::{Arrivals, Scheme, Setting, Wrong};
use super::timers::{End, Services, Timers};

/// Whoever looks on.
pub trait Watch {
    /// A task was placed; `start` is told to start.
    fn placed(&mut self, _at: f64, _placement: Placement) {}

    /// The run has come so far; asked every [`ASKED`] events. False ends it, as if its horizon were there.
    fn goes_on(&mut self, _at: f64) -> bool {
        true
    }
}

/// Nobody.
impl Watch for () {}

/// After how many events it is asked whether the run goes on; a few milliseconds.
pub const ASKED: u64 = 1 << 16;

/// The seed of one of many independent runs.
pub fn seed_of(seed: u64, run: u64) -> u64 {
    // Streams below 2³² belong to core.
    Rng::numbered(seed, (1 << 32) + run).bits()
}

/// Runs a setting from a seed. The same ones give the same outcome.
pub fn run<W: Watch>(setting: &Setting, seed: u64, watch: &mut W) -> Result<Outcome, Wrong> {
    setting.check()?;
    let mut lean = Lean::new(setting, seed);
    lean.begin();
    lean.go(watch);
    let bytes = lean.bytes();
    Ok(lean.meter.outcome(setting, bytes))
}

struct Lean<'a> {
    setting: &'a Setting,
    now: f64,
    book: Book,
    queues: Queues,
    timers: Timers,
    by_length: Option<ByLength>,
    rates: Rates,
    draw: Draw<'a>,
    clock: Rng,
    choices: Rng,
    work: Rng,
    meter: Meter,
    /// Arrivals so far: the next task's number, and the place in a trace of instants.
    arrivals: u64,
}

/// At which rates what does not remember happens; per server but for arrivals, which are the whole fleet's.
struct Rates {
    arrivals: f64,
    service: f64,
    standby: f64,
    setup: f64,
}

impl<'a> Lean<'a> {
    fn new(setting: &'a Setting, seed: u64) -> Lean<'a> {
        let services = match setting.service {
            ServiceTime::Exponential => Services::Untimed,
            ServiceTime::Deterministic => Services::Alike,
            ServiceTime::PhaseType(_) | ServiceTime::LogNormal { .. } | ServiceTime::Trace(_) => Services::Varying,
        };
        let delays = setting.standby.fixed().is_some() || setting.setup.fixed().is_some();
        let arrivals = match &setting.arrivals {
            Arrivals::Poisson(load) => load.peak() * f64::from(setting.servers),
            Arrivals::Trace(_) => 0.0,
        };
        let standby = if setting.scheme.turns_off() { setting.standby.rate() } else { 0.0 };
        let service = f64::from(u8::from(setting.service == ServiceTime::Exponential));
        Lean {
            setting,
            now: 0.0,
            book: Book::new(setting.servers, State::IdleOn),
            queues: Queues::new(setting.servers),
            timers: Timers::new(setting.servers, services, delays),
            by_length: (setting.scheme == Scheme::Jsq).then(|| ByLength::new(setting.servers)),
            rates: Rates { arrivals, service, standby, setup: setting.setup.rate() },
            draw: setting.service.draws(),
            clock: Rng::stream(seed, Stream::Arrivals),
            choices: Rng::stream(seed, Stream::Routing),
            work: Rng::stream(seed, Stream::Work),
            meter: Meter::default(),
            arrivals: 0,
        }
    }

    /// Puts the fleet in the state that it begins in.
    fn begin(&mut self) {
        let servers = self.setting.servers;
        let count = |share: f64| ((share * f64::from(servers)).round() as u32).min(servers);
        for (tasks, share) in self.setting.start.queues.iter().enumerate() {
            for server in 0..count(*share) {
                if tasks == 0 {
                    self.occupy(server);
                } else {
                    let number = self.number();
                    self.queue(server, Task { arrived: 0.0, number });
                }
            }
        }
        let busy = self.book.count(State::Busy);
        let setup = count(self.setting.start.setup).min(servers - busy);
        let idle_off = count(self.setting.start.idle_off).min(servers - busy - setup);
        (busy..busy + setup).for_each(|server| self.start(server));
        (busy + setup..busy + setup + idle_off).for_each(|server| self.book.set(server, State::IdleOff));
        (busy + setup + idle_off..servers).for_each(|server| self.stand_by(server));
        self.arrivals = 0;
        self.meter.begin();
    }

    /// Until the horizon, or until the watch has seen enough.
    fn go<W: Watch>(&mut self, watch: &mut W) {
        let mut marks = Marks::new(self.setting);
        let mut mark = marks.next_at();
        let (mut drawn_for, mut drawn) = (f64::NAN, f64::INFINITY);
        loop {
            let rate = self.rate();
            if rate != drawn_for {
                drawn_for = rate;
                drawn = if rate > 0.0 { self.now + self.clock.exponential(1.0 / rate) } else { f64::INFINITY };
            }
            let listed = self.listed_arrival();
            let by = drawn.min(listed);
            let timed = self.timers.next_at(by.min(mark));
            let next = timed.map_or(by, |(at, _)| at);
            if next > mark {
                self.pass(mark);
                if !self.mark(&mut marks) {
                    return;
                }
                mark = marks.next_at();
                continue;
            }
            self.pass(next);
            if self.meter.events.is_multiple_of(ASKED) && !watch.goes_on(next) {
                return;
            }
            match timed {
                Some((_, end)) => self.end(end),
                None if listed <= drawn => self.arrive(watch),
                None => {
                    drawn_for = f64::NAN;
                    self.happen(rate, watch);
                }
            }
        }
    }

    /// The sum of the rates of all that does not remember.
    #[inline]
    fn rate(&self) -> f64 {
        let Rates { arrivals, service, standby, setup } = self.rates;
        let count = |state| f64::from(self.book.count(state));
        arrivals + service * count(State::Busy) + standby * count(State::IdleOn) + setup * count(State::Setup)
    }

    /// When the next task of a trace arrives.
    #[inline]
    fn listed_arrival(&self) -> f64 {
        match &self.setting.arrivals {
            Arrivals::Poisson(_) => f64::INFINITY,
            Arrivals::Trace(instants) => instants.get(self.arrivals as usize).copied().unwrap_or(f64::INFINITY),
        }
    }

    #[inline]
    fn pass(&mut self, to: f64) {
        self.meter.pass(&self.book, to - self.now);
        self.now = to;
    }

    /// A mark is reached. False at the end.
    fn mark(&mut self, marks: &mut Marks) -> bool {
        match marks.pass() {
            Mark::Warm => self.meter.begin(),
            Mark::Sample => self.meter.sample(&self.book, self.now),
            Mark::Horizon => return false,
        }
        true
    }

    /// One of the things that do not remember happens: which, and to which server.
    #[inline]
    fn happen<W: Watch>(&mut self, rate: f64, watch: &mut W) {
        let mut left = self.clock.unit() * rate - self.rates.arrivals;
        if left < 0.0 {
            if self.counts() {
                self.arrive(watch);
            }
            return;
        }
        let kinds = [
            (State::Busy, self.rates.service, End::ServiceTime),
            (State::IdleOn, self.rates.standby, End::Standby),
            (State::Setup, self.rates.setup, End::Setup),
        ];
        for (state, each, end) in kinds {
            let members = self.book.members(state);
            let all = each * members.len() as f64;
            if left < all {
                // Rounding must not point past the last.
                let server = members[((left / each) as usize).min(members.len() - 1)];
                return self.ended(end, server);
            }
            left -= all;
        }
        // Rounding may leave a trace of the sum behind the last kind; nothing happens then.
    }

    /// Whether an arrival at the peak's rate is one at the present rate.
    #[inline]
    fn counts(&mut self) -> bool {
        match &self.setting.arrivals {
            Arrivals::Poisson(Load::Constant(_)) => true,
            Arrivals::Poisson(load) => {
                let (at, peak) = (load.at(self.now), load.peak());
                self.clock.unit() * peak < at
            }
            Arrivals::Trace(_) => false,
        }
    }

    /// A timer is due.
    fn end(&mut self, end: End) {
        if let Some(server) = self.timers.take(end) {
            self.ended(end, server);
        }
    }

    #[inline]
    fn ended(&mut self, end: End, server: u32) {
        self.meter.events += 1;
        match end {
            End::ServiceTime => self.finished(server),
            End::Setup => self.turned_on(server),
            End::Standby => self.turned_off(server),
        }
    }

    #[inline]
    fn arrive<W: Watch>(&mut self, watch: &mut W) {
        self.meter.events += 1;
        self.meter.counts.arrived += 1;
        let placement = self.choose();
        watch.placed(self.now, placement);
        match placement.on {
            Found::Idle(server) => {
                self.meter.counts.started += 1;
                self.leave_idleness(server);
                self.occupy(server);
            }
            Found::Busy(server) => self.join(server),
            Found::Nothing => {
                self.meter.counts.held += 1;
                let number = self.number();
                self.queues.push(self.central(), Task { arrived: self.now, number });
            }
        }
        if let Some(server) = placement.start {
            self.start(server);
        }
    }

    /// Where the task goes that arrives now.
    #[inline]
    fn choose(&mut self) -> Placement {
        let rng = &mut self.choices;
        let on = match self.setting.scheme {
            Scheme::Tabs => return Tokens::Tabs.place(&self.book, false, rng),
            Scheme::Jiq => return Tokens::Jiq.place(&self.book, false, rng),
            Scheme::DelayedOff => {
                let short = self.book.count(State::Setup) as usize <= self.queues.waiting();
                return Tokens::DelayedOff.place(&self.book, short, rng);
            }
            Scheme::Jsq => match self.by_length.as_ref().and_then(|order| order.shortest(rng)) {
                Some((server, 0)) => Found::Idle(server),
                Some((server, _)) => Found::Busy(server),
                None => Found::Nothing,
            },
            Scheme::P2c => {
                // Asking two and hearing from two.
                self.meter.counts.messages += 4;
                let servers = self.setting.servers;
                let (one, other) = two_of(servers as usize, rng);
                let (one, other) = (one as u32, (other as u32).min(servers - 1));
                let shorter = if self.length(other) < self.length(one) { other } else { one };
                self.found(shorter)
            }
            Scheme::Random => {
                let server = rng.below(u64::from(self.setting.servers)) as u32;
                self.found(server)
            }
        };
        Placement { on, start: None }
    }

    fn found(&self, server: u32) -> Found {
        if self.book.state(server) == State::IdleOn { Found::Idle(server) } else { Found::Busy(server) }
    }

    /// Tasks of a server, the one in service counted.
    fn length(&self, server: u32) -> u32 {
        self.queues.count(server) + u32::from(self.book.state(server) == State::Busy)
    }

    /// A task joins the queue of a busy server, if that has room.
    fn join(&mut self, server: u32) {
        let number = self.number();
        if self.setting.buffer.is_some_and(|buffer| self.length(server) >= buffer) {
            self.meter.counts.lost += 1;
        } else {
            self.queue(server, Task { arrived: self.now, number });
        }
    }

    fn queue(&mut self, server: u32, task: Task) {
        let waiting = self.queues.count(server);
        self.queues.push(server, task);
        self.meter.lengthened(waiting);
        if let Some(order) = &mut self.by_length {
            order.raise(server, waiting + 1);
        }
    }

    /// An idle server gets the task that arrives now.
    #[inline]
    fn occupy(&mut self, server: u32) {
        self.book.set(server, State::Busy);
        if let Some(order) = &mut self.by_length {
            order.raise(server, 0);
        }
        let number = self.number();
        self.serve(server, number);
    }

    /// A service begins.
    #[inline]
    fn serve(&mut self, server: u32, number: u32) {
        if self.rates.service == 0.0 {
            let time = self.draw.time(number, &mut self.work);
            self.timers.add(server, End::ServiceTime, self.now + time);
        }
    }

    #[inline]
    fn finished(&mut self, server: u32) {
        self.meter.counts.finished += 1;
        if self.setting.scheme == Scheme::Jsq {
            // The dispatcher must hear of each.
            self.meter.counts.messages += 1;
            let length = self.length(server);
            if let Some(order) = &mut self.by_length {
                order.lower(server, length);
            }
        }
        if let Some(task) = self.queues.pop(server) {
            self.meter.shortened(self.queues.count(server));
            self.meter.waited(self.now - task.arrived);
            return self.serve(server, task.number);
        }
        if self.setting.scheme == Scheme::DelayedOff
            && let Some(task) = self.queues.pop(self.central())
        {
            self.meter.waited(self.now - task.arrived);
            self.serve(server, task.number);
            return self.call_off(self.queues.waiting());
        }
        self.book.set(server, State::IdleOn);
        if matches!(self.setting.scheme, Scheme::Tabs | Scheme::Jiq | Scheme::DelayedOff) {
            self.meter.counts.messages += 1;
        }
        self.stand_by(server);
        match self.setting.scheme {
            Scheme::Tabs => self.call_off((self.book.count(State::Setup) as usize).saturating_sub(1)),
            Scheme::DelayedOff => self.call_off(self.queues.waiting()),
            Scheme::Jiq | Scheme::Jsq | Scheme::P2c | Scheme::Random => {}
        }
    }

    /// Calls setups off, if they may be, until there are no more than that many.
    fn call_off(&mut self, most: usize) {
        while self.setting.abort && self.book.count(State::Setup) as usize > most {
            let Some(server) = self.book.pick(State::Setup, &mut self.choices) else { return };
            if self.setting.setup.fixed().is_some() {
                self.timers.remove(server, End::Setup);
            }
            self.meter.counts.aborted += 1;
            self.book.set(server, State::IdleOff);
        }
    }

    /// A server that is idle-off starts.
    fn start(&mut self, server: u32) {
        self.meter.counts.setups += 1;
        self.book.set(server, State::Setup);
        if let Some(time) = self.setting.setup.fixed() {
            self.timers.add(server, End::Setup, self.now + time);
        }
    }

    /// A setup is over: the server takes a task that was held, or stands by.
    fn turned_on(&mut self, server: u32) {
        self.meter.counts.messages += 1;
        let Some(task) = self.queues.pop(self.central()) else {
            self.book.set(server, State::IdleOn);
            return self.stand_by(server);
        };
        self.book.set(server, State::Busy);
        self.meter.waited(self.now - task.arrived);
        self.serve(server, task.number);
        if self.setting.scheme == Scheme::DelayedOff {
            return self.call_off(self.queues.waiting());
        }
        // The tasks that are held besides would find this one busy, and no other on.
        while let Some(task) = self.queues.pop(self.central()) {
            self.queue(server, task);
        }
    }

    fn turned_off(&mut self, server: u32) {
        self.meter.counts.messages += 1;
        self.book.set(server, State::IdleOff);
    }

    /// A server that is idle-on waits for a task, for a while.
    #[inline]
    fn stand_by(&mut self, server: u32) {
        if let Some(time) = self.timed_standby() {
            self.timers.add(server, End::Standby, self.now + time);
        }
    }

    #[inline]
    fn leave_idleness(&mut self, server: u32) {
        if self.timed_standby().is_some() {
            self.timers.remove(server, End::Standby);
        }
    }

    #[inline]
    fn timed_standby(&self) -> Option<f64> {
        if self.setting.scheme.turns_off() { self.setting.standby.fixed() } else { None }
    }

    /// The number of the queue that is no server's.
    fn central(&self) -> u32 {
        self.setting.servers
    }

    /// The number of the task that arrives now: from zero, and after 2³² from zero again.
    #[inline]
    fn number(&mut self) -> u32 {
        let number = self.arrivals as u32;
        self.arrivals += 1;
        number
    }

    fn bytes(&self) -> usize {
        let book = 2 * size_of::<u32>() * self.setting.servers as usize;
        let order = self.by_length.as_ref().map_or(0, ByLength::bytes);
        book + self.queues.bytes() + self.timers.bytes() + order
    }
}

/// What is to be done at given instants.
enum Mark {
    Warm,
    Sample,
    Horizon,
}

/// The instants of a run at which the loop stops to look, in order.
struct Marks<'a> {
    setting: &'a Setting,
    warm: bool,
    samples: u32,
}

impl<'a> Marks<'a> {
    fn new(setting: &'a Setting) -> Marks<'a> {
        Marks { setting, warm: false, samples: 0 }
    }

    fn sample_at(&self) -> f64 {
        let Setting { horizon, samples, .. } = self.setting;
        if *samples == 0 || self.samples > *samples {
            return f64::INFINITY;
        }
        horizon * f64::from(self.samples) / f64::from(*samples)
    }

    fn next_at(&self) -> f64 {
        let warm = if self.warm { f64::INFINITY } else { self.setting.warmup };
        warm.min(self.sample_at()).min(self.setting.horizon)
    }

    /// The mark at [`Marks::next_at`] is behind. A sample at the horizon comes before it.
    fn pass(&mut self) -> Mark {
        let (sample, horizon) = (self.sample_at(), self.setting.horizon);
        if !self.warm && self.setting.warmup <= sample.min(horizon) {
            self.warm = true;
            Mark::Warm
        } else if sample <= horizon {
            self.samples += 1;
            Mark::Sample
        } else {
            Mark::Horizon
        }
    }
}
