//! What has occurred in scenarios: a check that never meets a case says nothing about it.

use std::collections::BTreeMap;

use punctual_core::event::{Abandoned, Command, Event, Full, LossCause, Outcome, PinEnd, Refusal};
use punctual_core::mode::Mode;
use punctual_core::scale::{Act, Because, Scaled};

use super::admission::Capped;

/// How often each kind of event, command and reason occurred, by its name.
pub type Seen = BTreeMap<&'static str, u64>;

/// Counts an event and the commands that it led to.
pub(super) fn count(seen: &mut Seen, event: &Event, commands: &[Command]) {
    *seen.entry(event_name(event)).or_default() += 1;
    for command in commands {
        *seen.entry(command_name(command)).or_default() += 1;
        if let Command::Record(ended) = command {
            *seen.entry(ended.status.name()).or_default() += 1;
            if ended.predicted.is_some() {
                *seen.entry("predicted").or_default() += 1;
            }
        }
    }
}

/// Counts decisions about the fleet.
pub(super) fn count_scaled(seen: &mut Seen, scaled: &[&Scaled]) {
    for scaled in scaled {
        *seen.entry(scaled_name(scaled)).or_default() += 1;
    }
}

/// Counts what became of those that had run for as long as they may.
pub(super) fn count_capped(seen: &mut Seen, capped: impl Iterator<Item = Capped>) {
    for capped in capped {
        let name = match capped {
            Capped::Cancel => "cap: cancelled",
            Capped::Cascade => "cap: counts as another",
            Capped::Resubmit { back: true } => "cap: had back",
            Capped::Resubmit { back: false } => "cap: cannot be had back",
        };
        *seen.entry(name).or_default() += 1;
    }
}

fn scaled_name(scaled: &Scaled) -> &'static str {
    match (scaled.act, scaled.because) {
        (Act::Study(_), _) => "scaling: study",
        (Act::Start(_, Some(_)), Because::NoCluster) => "scaling: start from nothing",
        (Act::Start(_, Some(_)), Because::Best) => "scaling: start the best",
        (Act::Start(_, Some(_)), Because::NoneIdle) => "scaling: start, none idle",
        (Act::Start(_, Some(_)), Because::Planned(_)) => "plan: start",
        (Act::Start(_, Some(_)), _) => "scaling: start another",
        (Act::Start(_, None), Because::Planned(_)) => "plan: would start",
        (Act::Start(_, None), _) => "scaling: would start",
        (Act::Stop(_), _) if scaled.mode != Mode::On => "scaling: would stop",
        (Act::Stop(_), Because::Replaced) => "scaling: stop, replaced",
        (Act::Stop(_), Because::CouldNotStart) => "scaling: stop, could not start",
        (Act::Stop(_), _) => "scaling: stop, idle",
        (Act::Nothing, Because::MostClusters(_)) => "scaling: MostClusters",
        (Act::Nothing, Because::MostPerHour { .. }) => "scaling: MostPerHour",
        (Act::Nothing, Because::PlannedBefore(_)) => "plan: came late",
        (Act::Nothing, Because::ReservedClusters { .. }) => "scaling: ReservedClusters",
        (Act::Nothing, Because::ReservedPerHour { .. }) => "scaling: ReservedPerHour",
        (Act::Nothing, Because::Stale) => "scaling: Stale",
        (Act::Nothing, _) => "scaling: NothingBetter",
    }
}

fn event_name(event: &Event) -> &'static str {
    match event {
        Event::Arrived(_) => "Arrived",
        Event::Bounced { .. } => "Bounced",
        Event::Finished { pinned: true, .. } => "Finished, pinned",
        Event::Finished { outcome: Outcome::Finished { .. }, .. } => "Finished",
        Event::Finished { outcome: Outcome::Failed { .. }, .. } => "Finished: Failed",
        Event::Finished { outcome: Outcome::Lost, .. } => "Finished: Lost",
        Event::Cancel { .. } => "Cancel",
        Event::SessionEnded { .. } => "SessionEnded",
        Event::ClusterWanted(_) => "ClusterWanted",
        Event::ClusterReady { .. } => "ClusterReady",
        Event::ClusterLost { cause: LossCause::StartFailed, .. } => "ClusterLost: StartFailed",
        Event::ClusterLost { .. } => "ClusterLost",
        Event::ClusterStopped { .. } => "ClusterStopped",
        Event::ClusterRanAway { .. } => "ClusterRanAway",
        Event::ClusterBurns { .. } => "ClusterBurns",
        Event::ClusterDown { .. } => "ClusterDown",
        Event::DrainWanted { .. } => "DrainWanted",
        Event::ShutdownWanted { .. } => "ShutdownWanted",
        Event::PolicyAdopted(_) => "PolicyAdopted",
        Event::PlanAdopted(_) => "PlanAdopted",
        Event::PlanDropped => "PlanDropped",
        Event::ModelAdopted(_) => "ModelAdopted",
        Event::ScalingWanted => "ScalingWanted",
        Event::StudyDone { .. } => "StudyDone",
        Event::Woke => "Woke",
    }
}

fn command_name(command: &Command) -> &'static str {
    match command {
        Command::Run { .. } => "Run",
        Command::Refuse { because, .. } => refusal_name(*because),
        Command::Cancel { .. } => "Cancel it",
        Command::Abandon { because: Abandoned::WillNotStop, .. } => "Abandon: WillNotStop",
        Command::Abandon { because: Abandoned::ClusterLost { .. }, .. } => "Abandon: ClusterLost",
        Command::Abandon { because: Abandoned::DrainEnded { .. }, .. } => "Abandon: DrainEnded",
        Command::Recall { .. } => "Recall",
        Command::EndPin { because: PinEnd::Idle { .. }, .. } => "EndPin: Idle",
        Command::EndPin { because: PinEnd::ClusterLost { .. }, .. } => "EndPin: ClusterLost",
        Command::EndPin { because: PinEnd::DrainEnded, .. } => "EndPin: DrainEnded",
        Command::Start { .. } => "Start",
        Command::Stop { force: true, .. } => "Stop by force",
        Command::Stop { force: false, .. } => "Stop",
        Command::Study { .. } => "Study",
        Command::Record(_) => "Record",
    }
}

fn refusal_name(refusal: Refusal) -> &'static str {
    match refusal {
        Refusal::Full { of: Full::Gateway, .. } => "Refuse: Full",
        Refusal::Full { of: Full::Class(_), .. } => "Refuse: Full, class",
        Refusal::Full { of: Full::Lane(_), .. } => "Refuse: Full, lane",
        Refusal::TooLate { .. } => "Refuse: TooLate",
        Refusal::WaitedTooLong { .. } => "Refuse: WaitedTooLong",
        Refusal::NoCluster => "Refuse: NoCluster",
        Refusal::NoClusterCouldRun { .. } => "Refuse: NoClusterCouldRun",
        Refusal::ShuttingDown => "Refuse: ShuttingDown",
        Refusal::Cancelled => "Refuse: Cancelled",
        Refusal::NotItsTurn => "Refuse: NotItsTurn",
    }
}
