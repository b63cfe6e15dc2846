//! Tests of forecasts.
