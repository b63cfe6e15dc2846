//! Many like servers, and a dispatcher that knows of each only what its last token said.
//!
//! A server says when it becomes idle and when it turns off; the dispatcher remembers that in a [`book::Book`] and asks
//! nobody for anything. What it does with a task by the book alone is [`tokens::Tokens`]: joint scaling and balancing
//! with tokens (TABS; Mukherjee, Dhara, Borst, van Leeuwaarden, "Optimal Service Elasticity in Large-Scale Distributed
//! Systems", 2017), and join-the-idle-queue (JIQ; Lu et al., 2011), which is the same without turning off.

pub mod book;
mod places;
pub mod roll;
pub mod tokens;

pub use book::{Book, State};
pub use places::Places;
pub use roll::Roll;
pub use tokens::{Found, Placement, Tokens};
