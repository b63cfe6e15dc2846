//! Punctual's tuner: tomorrow is planned from yesterday (AutoSLO, section 7).
//!
//! ```text
//!   history ──▶ reservoir ──▶ past ──▶ forecast: workloads of the day ──▶ spinup schedule ──▶ …
//!                                └───▶ backtest: what forecasts were worth
//! ```
//!
//! - [`calendar`]: days and hours of a time zone, with its changes of the clock
//! - [`reservoir`]: what has come so far, by date and hour; bounded, on disk, incremental
//! - [`past`]: what of that is known before a day begins
//! - [`forecast`](mod@forecast): days that could come, by one forecaster or another
//! - [`backtest`](mod@backtest): forecasts of days that have been, against what came
//! - [`batch`]: many configurations on many workloads
//! - [`configuration`]: what is there from the start, what is started when, and the knobs
//! - [`congestion`]: when too much was late in simulations (Algorithm 5)
//! - [`spinups`]: what to start when (Algorithm 4)
//! - [`search`]: which knobs are best
//! - [`planning`]: all of that for a day, and what it promises
//! - [`simulated`]: the simulator's arrivals as history
//!
//! It reads no file, clock or entropy: rows and bytes come in, numbers and bytes go out, and the same seed gives the same.

pub mod backtest;
pub mod batch;
pub mod calendar;
pub mod configuration;
pub mod congestion;
pub mod forecast;
pub mod past;
pub mod planning;
pub mod reservoir;
pub mod search;
pub mod simulated;
pub mod spinups;

pub use backtest::{Backtest, backtest};
pub use calendar::{Date, Zone};
pub use forecast::{Forecast, Forecaster, Wanted, forecast};
pub use past::Past;
pub use reservoir::{Limits, Reservoir, Seen};
