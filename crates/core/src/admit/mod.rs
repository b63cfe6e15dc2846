//! Which query may run next: the terms of classes, priorities, lanes and fair queues (Druid's laning, with what its users
//! asked for).

pub mod claim;
pub mod terms;
