//! From history to a model, and what the model is worth.
//!
//! Nothing here is needed to predict: `punctual_core::predict` evaluates what was trained here.

pub mod accuracy;
pub mod contest;
pub mod contexts;
pub mod corrected;
pub mod evaluation;
pub mod examples;
mod fallback;
pub mod fit;
mod folds;
pub mod learning;
pub mod observation;
pub mod reread;
pub mod stage;
pub mod survival;
pub mod variant;
