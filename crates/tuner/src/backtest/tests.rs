//! Tests of backtests.
