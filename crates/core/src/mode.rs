//! Whether a controller acts on what it decides. Each controller (routing, scaling) has a mode of its own, so that each can
//! be watched before it is trusted.

use serde::{Deserialize, Serialize};

use crate::named::named;

/// Whether a controller acts on what it decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mode {
    /// It decides nothing.
    Off,
    /// It decides and records, and does nothing.
    Shadow,
    /// It does nothing, and says what it would do, for someone to do it.
    Suggest,
    /// It acts.
    On,
}

named! {
    Mode { Off = "off", Shadow = "shadow", Suggest = "suggest", On = "on" }
}

impl Mode {
    /// True if it decides without acting.
    pub const fn watches(self) -> bool {
        matches!(self, Mode::Shadow | Mode::Suggest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back() {
        for mode in Mode::ALL {
            assert_eq!(Mode::named(mode.name()), Some(mode));
        }
        assert_eq!(Mode::named("maybe"), None);
    }
}
