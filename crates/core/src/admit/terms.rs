//! On what terms the queries of a class are admitted. All of it is off by default: no limit, no lane, priority 0.

use serde::{Deserialize, Serialize};

use super::claim::Scan;
use crate::time::Span;

/// On what terms the queries of a class are admitted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Terms {
    /// Their priority, unless they ask for another.
    pub priority: i32,
    /// The priorities that they may ask for: the lowest and the highest. What is beyond is brought within.
    pub may_ask: (i32, i32),
    /// What lowers their priority.
    pub thresholds: Thresholds,
    /// What is subtracted once if any threshold trips; negative: a boost.
    pub adjustment: i32,
    /// The name of their lane, where lanes are named; one that does not exist has no limit.
    pub lane: Option<String>,
    /// How large a share of what is there they get, beside other classes.
    pub share: f64,
    /// What makes one of them weigh more or less than another.
    pub weight: Weight,
    /// How many may run at once.
    pub max_running: Option<u32>,
    /// How many may wait; one more is refused.
    pub max_queued: Option<u32>,
    /// How long one may wait before it is refused; None: as long as the policy says.
    pub queue_timeout: Option<Span>,
    /// True if one that would be late anyway is refused when it comes.
    pub refuse_late: bool,
    /// What happens to one that runs for long.
    pub cap: Option<Cap>,
    /// Bytes of memory that one may use, told to clusters that can keep to it.
    pub max_memory: Option<u64>,
    /// Users that may choose the class; none named: everyone.
    pub chosen_by: Vec<String>,
    /// The share of its queries that may miss their SLO; None: as the policy says.
    pub violation_target: Option<f64>,
}

impl Default for Terms {
    fn default() -> Terms {
        Terms {
            priority: 0,
            may_ask: (0, 0),
            thresholds: Thresholds::default(),
            adjustment: 5,
            lane: None,
            share: 1.0,
            weight: Weight::default(),
            max_running: None,
            max_queued: None,
            queue_timeout: None,
            refuse_late: false,
            cap: None,
            max_memory: None,
            chosen_by: Vec::new(),
            violation_target: None,
        }
    }
}

/// Limits beyond which a query counts as heavy (Druid's threshold prioritization). None: no such limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Thresholds {
    /// It reaches further back than this.
    pub period: Option<Span>,
    /// It covers more time than this.
    pub duration: Option<Span>,
    /// It reads more partitions than this.
    pub segments: Option<u32>,
    /// These cover more time than this.
    pub segment_range: Option<Span>,
    /// It is expected to be more work than this, in seconds of one unit.
    pub work: Option<f64>,
    /// It is expected to take longer than this alone.
    pub latency: Option<Span>,
}

/// A kind of threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threshold {
    /// How far back a query reaches.
    Period,
    /// How much time it covers.
    Duration,
    /// How many partitions it reads.
    Segments,
    /// How much time these cover.
    SegmentRange,
    /// How much work it is expected to be.
    Work,
    /// How long it is expected to take.
    Latency,
}

impl Threshold {
    /// Its key in configuration.
    pub const fn key(self) -> &'static str {
        match self {
            Threshold::Period => "period_threshold",
            Threshold::Duration => "duration_threshold",
            Threshold::Segments => "segment_count_threshold",
            Threshold::SegmentRange => "segment_range_threshold",
            Threshold::Work => "work_threshold",
            Threshold::Latency => "latency_threshold",
        }
    }
}

/// What a query is expected to be, by the model.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Forecast {
    /// Seconds of one unit, alone.
    pub work: f64,
    /// Alone, where it is fastest.
    pub latency: Span,
}

/// What happens to a query that runs for long.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cap {
    /// How long it may run.
    pub runtime: Span,
    /// What happens then.
    pub then: Then,
}

/// What happens to a query that has run for as long as its class allows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Then {
    /// It is told to stop.
    Cancel,
    /// It runs on, counted in that class and its lane.
    Cascade(String),
    /// It is taken off its cluster, if nothing of it has been sent, and waits again in that class; else it cascades.
    Resubmit(String),
}

/// What makes one query of a class weigh less than another: exponents of the parts of a product (ALGORITHMS section 3). Zero:
/// the part is off.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Weight {
    /// A constant; 2 weighs twice as much as 1.
    pub constant: f64,
    /// The priority, by points: its share doubles every so many. Zero: priority says nothing.
    pub priority_doubles: f64,
    /// The work that it is expected to be: of twice the work it weighs 2^-this.
    pub work: f64,
    /// How busy the fleet is when it comes: with twice as much running as there is room for, it weighs 2^-this.
    pub load: f64,
    /// That its text has just run on a cluster that is still there: it weighs 2^this.
    pub cached: f64,
    /// What its user has used lately: after twice the use it weighs 2^-this.
    pub used: f64,
    /// The work that a user may have done within a time before it weighs a thousandth.
    pub quota: Option<Quota>,
}

impl Default for Weight {
    fn default() -> Weight {
        Weight { constant: 1.0, priority_doubles: 5.0, work: 0.0, load: 0.0, cached: 0.0, used: 1.0, quota: None }
    }
}

/// Work that a user may have done within a time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Quota {
    /// Seconds of one unit.
    pub work: f64,
    /// Within this.
    pub per: Span,
}

impl Terms {
    /// The priority of a query that asks for `asked`: bounded, and adjusted once if any threshold trips.
    pub fn priority(&self, asked: Option<i32>, scan: Option<Scan>, forecast: Option<Forecast>) -> i32 {
        let (least, most) = self.may_ask;
        let asked = asked.map_or(self.priority, |asked| asked.clamp(least.min(most), most.max(least)));
        match self.thresholds.trips(scan, forecast) {
            true => asked.saturating_sub(self.adjustment),
            false => asked,
        }
    }
}

impl Thresholds {
    /// True if any of them is exceeded.
    pub fn trips(&self, scan: Option<Scan>, forecast: Option<Forecast>) -> bool {
        self.tripped(scan, forecast).next().is_some()
    }

    /// Those that are exceeded.
    pub fn tripped(&self, scan: Option<Scan>, forecast: Option<Forecast>) -> impl Iterator<Item = Threshold> + use<> {
        let beyond = |limit: Option<Span>, found: Option<Span>| {
            limit.is_some_and(|limit| found.is_none_or(|found| found > limit))
        };
        let by_scan = scan.map_or([false; 4], |scan| {
            [
                beyond(self.period, scan.reach),
                beyond(self.duration, scan.duration),
                self.segments.zip(scan.segments).is_some_and(|(limit, found)| found > limit),
                self.segment_range.zip(scan.segment_range).is_some_and(|(limit, found)| found > limit),
            ]
        });
        let by_forecast = forecast.map_or([false; 2], |forecast| {
            [
                self.work.is_some_and(|limit| forecast.work > limit),
                self.latency.is_some_and(|limit| forecast.latency > limit),
            ]
        });
        use Threshold::*;
        let of_scan = [Period, Duration, Segments, SegmentRange].into_iter().zip(by_scan);
        let of_forecast = [Work, Latency].into_iter().zip(by_forecast);
        of_scan.chain(of_forecast).filter(|(_, beyond)| *beyond).map(|(threshold, _)| threshold)
    }

    /// True if any of them goes by how much of time a query reads.
    pub fn read_time(&self) -> bool {
        self.period.is_some() || self.duration.is_some() || self.read_segments()
    }

    /// True if any of them goes by the partitions that a query reads.
    pub fn read_segments(&self) -> bool {
        self.segments.is_some() || self.segment_range.is_some()
    }

    /// True if any of them goes by what the model expects.
    pub fn predict(&self) -> bool {
        self.work.is_some() || self.latency.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn days(days: u64) -> Span {
        Span::from_secs(days * 86_400)
    }

    #[test]
    fn any_threshold_trips_once() {
        let all = Thresholds {
            period: Some(days(30)),
            duration: Some(days(7)),
            segments: Some(100),
            segment_range: Some(days(5)),
            work: Some(60.0),
            latency: Some(Span::from_secs(10)),
        };
        let terms = Terms { priority: 1, thresholds: all, ..Terms::default() };
        let small =
            Scan { reach: Some(days(30)), duration: Some(days(7)), segments: Some(100), segment_range: Some(days(5)) };
        let light = Forecast { work: 60.0, latency: Span::from_secs(10) };
        let priority = |scan, forecast| terms.priority(None, Some(scan), Some(forecast));
        assert_eq!(priority(small, light), 1);
        for scan in [
            Scan { reach: Some(days(31)), ..small },
            Scan { reach: None, ..small },
            Scan { duration: Some(days(8)), ..small },
            Scan { duration: None, ..small },
            Scan { segments: Some(101), ..small },
            Scan { segment_range: Some(days(6)), ..small },
            Scan { reach: None, duration: None, segments: Some(9_999), segment_range: Some(days(999)) },
        ] {
            assert_eq!(priority(scan, light), -4, "{scan:?}");
        }
        assert_eq!(priority(small, Forecast { work: 61.0, ..light }), -4);
        assert_eq!(priority(small, Forecast { latency: Span::from_secs(11), ..light }), -4);
        // A query that reads no table with a time column, of which nothing is predicted, trips nothing.
        assert_eq!(terms.priority(None, None, None), 1);
        let tripped = |scan, forecast| all.tripped(Some(scan), Some(forecast)).map(Threshold::key).collect::<Vec<_>>();
        let heavy = Forecast { work: 61.0, ..light };
        assert_eq!(tripped(small, heavy), ["work_threshold"]);
        let unbounded = Scan { reach: None, segments: Some(101), ..small };
        assert_eq!(tripped(unbounded, light), ["period_threshold", "segment_count_threshold"]);
        // What tables do not say of their partitions trips nothing either.
        assert_eq!(priority(Scan { segments: None, segment_range: None, ..small }, light), 1);
    }

    #[test]
    fn a_client_asks_within_its_bounds_and_an_adjustment_may_boost() {
        let terms = Terms { priority: 2, may_ask: (-3, 5), ..Terms::default() };
        let asked = |priority| terms.priority(Some(priority), None, None);
        assert_eq!([asked(0), asked(9), asked(-9), terms.priority(None, None, None)], [0, 5, -3, 2]);
        let thresholds = Thresholds { period: Some(days(1)), ..Thresholds::default() };
        let boosted = Terms { adjustment: -7, thresholds, ..terms };
        assert_eq!(boosted.priority(Some(i32::MAX), Some(Scan::default()), None), 12);
    }
}
