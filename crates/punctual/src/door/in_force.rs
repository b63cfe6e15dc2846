//! What sessions go by and another configuration may change under them: classes, and the bounds of the door.
//!
//! A session takes what is in force when a unit of its client comes, and goes by that until the next one. So a query may be
//! classified by rules that are no longer in force when the driver hears of it: it says by which, and the driver
//! [translates](punctual_core::class::Classes::translate).

use std::sync::{Arc, PoisonError, RwLock};

use punctual_core::class::{Class, Classes};

use crate::settings::Door;

/// What sessions go by.
#[derive(Clone, Debug)]
pub struct Rules {
    /// The classes.
    pub classes: Arc<Classes>,
    /// Bounds of the front door.
    pub door: Door,
}

impl Rules {
    /// These bounds, and these classes.
    pub fn new(door: Door, classes: Vec<Class>) -> Rules {
        Rules { classes: Arc::new(Classes::new(classes)), door }
    }
}

/// The rules in force. The driver changes them, once the dispatcher has adopted the policy that they belong to.
#[derive(Debug)]
pub struct InForce(RwLock<Arc<Rules>>);

impl InForce {
    /// These are in force.
    pub fn new(rules: Rules) -> Arc<InForce> {
        Arc::new(InForce(RwLock::new(Arc::new(rules))))
    }

    /// What is in force.
    pub fn rules(&self) -> Arc<Rules> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Others are in force from now on.
    pub fn adopt(&self, rules: Rules) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(rules);
    }
}
