//! How long a query will take, alone and among its neighbours, as a distribution.
//!
//! ```text
//!   SQL ─▶ features ─▶ stage (alone, on a size) ─▶ scene (what it meets on a cluster) ─▶ net ─▶ prediction
//!                                                     │ fluid: how sharing would go if nothing were learnt
//!                                                     └ past: how this text and this cluster went lately
//! ```
//!
//! The base of every prediction is a fluid estimate: those that run share the cluster, each with the work that
//! [`stage`] expects. What it gets wrong is learnt by a network that reads the neighbours one by one, as Iconq+ does
//! (AutoSLO, section 4; ALGORITHMS section 1.1). One piece of code makes the numbers that the network reads, live, in
//! simulation and in training.

pub mod correction;
pub mod distribution;
pub mod features;
pub mod fluid;
pub mod kernel;
pub mod model;
pub mod net;
pub mod past;
pub mod predictor;
pub mod recent;
pub mod record;
pub mod scene;
pub mod stage;
pub mod trees;
