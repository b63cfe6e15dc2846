//! From history to a model, and what the model is worth.
//!
//! Nothing here is needed to predict: `punctual_core::predict` evaluates what was trained here.

pub mod examples;
pub mod fit;
