//! What was typed.

pub mod check;
