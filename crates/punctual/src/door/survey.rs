//! A look over part of a pipeline before it is planned: does it go to a cluster, does it count as a query, and as which?

use std::sync::Arc;

use punctual_core::statement::Kind;

use super::bearing::Bearing;
use super::messages::{self, Bind, Malformed, Parse, target};
use super::parameters;
use super::plan::{Desk, Pipeline, is_local};
use super::reading::{Local, Reading, Readings};
use super::unit::frames_of;
use crate::catalog::Parameter;

/// What a segment needs before it can be planned.
#[derive(Debug, Default)]
pub struct Survey {
    /// True if it binds or executes something on a cluster: it counts as a query.
    pub counts: bool,
    /// True if something of it goes to a cluster.
    pub needs_cluster: bool,
    /// What it counts as.
    pub main: Option<Arc<Reading>>,
    /// What running it on a cluster does besides giving an answer.
    pub bearing: Bearing,
    /// True if it closes a portal, which matters to a cluster that the session holds.
    pub closes_portal: bool,
    /// True if a message is malformed, which fails the transaction that a cluster has open. What follows is skipped.
    pub malformed: bool,
    /// Questions about the gateway, with the values of their parameters.
    pub questions: Vec<(Arc<Reading>, Vec<Parameter>)>,
}

impl Pipeline {
    /// Looks over a segment before it is planned.
    pub fn survey(&self, segment: &[u8], desk: &Desk<'_>, readings: &mut Readings) -> Survey {
        let mut survey = Survey::default();
        survey.malformed = self.look_over(segment, desk, readings, &mut survey).is_err();
        survey
    }

    /// Looks over a segment up to what is malformed.
    fn look_over(
        &self,
        segment: &[u8],
        desk: &Desk<'_>,
        readings: &mut Readings,
        survey: &mut Survey,
    ) -> Result<(), Malformed> {
        let mut parsed: Vec<(&str, Arc<Reading>, &[u8])> = Vec::new();
        let mut portals: Vec<(&str, Looked)> = Vec::new();
        for (tag, frame) in frames_of(segment) {
            let named = |parsed: &[(&str, Arc<Reading>, &[u8])], name: &str, values: Option<&Bind<'_>>| match parsed
                .iter()
                .rev()
                .find(|(known, _, _)| *known == name)
            {
                Some((_, reading, types)) => looked(reading, types, values),
                None => match self.lookup(desk, name) {
                    Some(entry) => looked(&entry.reading, &entry.prepared.types, values),
                    None => (None, None),
                },
            };
            let (reading, parameters) = match tag {
                b'P' => {
                    let parse = Parse::read(frame)?;
                    let reading = readings.of(parse.sql);
                    parsed.push((parse.name, Arc::clone(&reading), parse.types));
                    (Some(reading), None)
                }
                b'B' => {
                    let bind = Bind::read(frame)?;
                    let bound = named(&parsed, bind.statement, Some(&bind));
                    portals.push((bind.portal, bound.clone()));
                    bound
                }
                b'C' => {
                    // The session alone closes its statements, and portals do not outlast their transaction.
                    survey.closes_portal |= target(tag, frame)?.0 == b'P';
                    continue;
                }
                b'E' | b'D' => {
                    let (what, name) =
                        if tag == b'E' { (b'P', messages::execute(frame)?.0) } else { target(tag, frame)? };
                    match what {
                        b'P' => match portals.iter().rev().find(|(known, _)| *known == name) {
                            Some((_, bound)) => bound.clone(),
                            None => self.bound(name),
                        },
                        _ => named(&parsed, name, None),
                    }
                }
                _ => {
                    messages::bare(frame)?;
                    continue;
                }
            };
            survey.note(tag, reading, parameters, desk);
        }
        Ok(())
    }
}

/// A statement, and the values of its parameters if it asks about the gateway and they are right.
pub(super) type Looked = (Option<Arc<Reading>>, Option<Vec<Parameter>>);

/// A statement that was found. Without values, to describe it, its parameters are nulls.
fn looked(reading: &Arc<Reading>, given: &[u8], values: Option<&Bind<'_>>) -> Looked {
    let asks = matches!(reading.local, Some(Local::Catalogue));
    let parameters = asks.then(|| parameters::types(&reading.text, given)).and_then(|types| match values {
        Some(bind) => parameters::decode(&types, bind).ok(),
        None => Some(vec![Parameter::Null; types.len()]),
    });
    (Some(Arc::clone(reading)), parameters)
}

impl Survey {
    fn note(&mut self, tag: u8, reading: Option<Arc<Reading>>, parameters: Option<Vec<Parameter>>, desk: &Desk<'_>) {
        let local = reading.as_deref().is_some_and(|reading| is_local(reading, desk));
        if !local {
            self.needs_cluster = true;
            self.counts |= matches!(tag, b'B' | b'E');
        }
        let Some(reading) = reading else { return };
        if !local && matches!(tag, b'B' | b'E') {
            self.bearing.add(reading.bearing());
            // The first that is more than a formality: drivers send BEGIN along with what they mean.
            let formality = |reading: &Reading| reading.statement.control || reading.statement.kind == Kind::Begin;
            if self.main.as_deref().is_none_or(|main| formality(main) && !formality(&reading)) {
                self.main = Some(reading);
            }
        } else if let Some(parameters) = parameters {
            self.questions.push((reading, parameters));
        }
    }
}
