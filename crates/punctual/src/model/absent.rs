//! What routes while there is no model for a policy that goes by one.

use std::path::Path;

use punctual_core::mode::Mode;
use punctual_core::policy::Policy;
use punctual_core::route::Routing;

use super::file;

/// What a policy that predicts goes by meanwhile.
pub(crate) const MEANWHILE: Routing = Routing::LeastOutstanding;

/// True if there is no model in that file, or none that can be read.
pub(crate) fn is_absent(file: &Path) -> bool {
    !file.exists() || file::read(file).is_err()
}

/// What it comes to that there is no model, if that makes a difference: the end of a sentence.
pub(crate) fn meanwhile(policy: &Policy, model: &Path) -> Option<String> {
    let asked = policy.routing_mode != Mode::Off && policy.routing.predicts();
    asked.then(|| {
        let (routing, model) = (policy.routing, model.display());
        match policy.routing_mode {
            Mode::On => format!("{routing} goes by {MEANWHILE} until there is a model in {model}"),
            _ => format!("{routing} would go by {MEANWHILE} until there is a model in {model}"),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_policy_that_predicts_and_is_asked_waits_for_a_model() {
        let said = |routing, routing_mode| {
            meanwhile(&Policy { routing, routing_mode, ..Policy::default() }, Path::new("m.model"))
        };
        let on = said(Routing::Slo, Mode::On);
        assert_eq!(on.as_deref(), Some("slo goes by least_outstanding until there is a model in m.model"));
        let watched = said(Routing::SloStage, Mode::Shadow);
        assert_eq!(
            watched.as_deref(),
            Some("slo_stage would go by least_outstanding until there is a model in m.model")
        );
        assert_eq!((said(Routing::Slo, Mode::Off), said(Routing::P2c, Mode::On)), (None, None));
    }
}
