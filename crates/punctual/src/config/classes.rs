//! `[[class]]`: which queries are treated alike, and when they are late.

use std::collections::BTreeSet;

use punctual_core::admit::terms::Terms;
use punctual_core::class::{Class, DEFAULT, Network, Rule, Said};
use punctual_core::fingerprint::Fingerprint;
use punctual_core::statement::Kind;
use toml::Spanned;
use toml::de::DeValue;

use super::admission;
use super::keys::RULE;
use super::section::Section;
use super::value::{self, Wrong};

/// Classes that a file may define. Each is a label of every metric.
const MAX_CLASSES: usize = 1_024;

/// The built-in classes with what the file says of them, then the file's own in their order.
pub(super) fn read(sections: &[Section<'_>]) -> Vec<Class> {
    let mut classes = Class::built_in();
    let mut seen = BTreeSet::new();
    for (index, section) in sections.iter().enumerate() {
        if index == MAX_CLASSES {
            section.complain_of_all(
                format!("there are more than {MAX_CLASSES} classes"),
                "put queries that are alike into one",
            );
        }
        let (name, slo) = (section.text("name"), section.span("slo"));
        let terms = Terms { chosen_by: chosen_by(section), ..admission::terms(section) };
        let rules = rules(section);
        let Some(name) = name else { continue };
        if !seen.insert(name.clone()) {
            section.complain(
                "name",
                format!("there is a class \"{name}\" already"),
                "give one of them another name, or join them",
            );
            continue;
        }
        match name.as_str() {
            "control" => section.complain(
                "name",
                "\"control\" is built in: what drivers and tools send on their own account, which is never late",
                "give the class another name",
            ),
            "default" if section.has("match") => section.complain(
                "match",
                "\"default\" takes what no rule matches, so it has none itself",
                "leave `match` out, or give the class another name",
            ),
            "default" => {
                let class = &mut classes[DEFAULT.0 as usize];
                (class.slo, class.terms) = (slo, terms);
            }
            _ => classes.push(Class { name, rules, slo, terms }),
        }
    }
    classes
}

/// The users that may choose the class; none: everyone.
fn chosen_by(section: &Section<'_>) -> Vec<String> {
    const FIX: &str = "write the names of users, as in [\"ann\"], or leave the key out for everyone";
    let items = section.list("chosen_by", "texts");
    if section.has("chosen_by") && items.is_empty() {
        section.complain("chosen_by", "it names no user", FIX);
    }
    let mut users = Vec::with_capacity(items.len());
    for item in items {
        match value::text(item.get_ref()) {
            Ok(user) => users.push(user),
            Err(Wrong { found, .. }) => section.complain("chosen_by", found, FIX),
        }
    }
    users
}

fn rules(section: &Section<'_>) -> Vec<Rule> {
    section
        .list("match", "rules")
        .into_iter()
        .enumerate()
        .filter_map(|(index, item)| rule(section, index, item))
        .collect()
}

fn rule<'f>(class: &Section<'f>, index: usize, item: &'f Spanned<DeValue<'f>>) -> Option<Rule> {
    let called = format!("{}[{}]", class.key_called("match"), index + 1);
    let written = match value::table(item.get_ref()) {
        Ok(written) => written,
        Err(Wrong { found, fix }) => {
            class.file().note(item.span().start, &called, found, fix);
            return None;
        }
    };
    let section = Section::new(class.file(), &RULE, called, Some(written), item.span().start);
    if written.is_empty() {
        section.complain_of_all(
            "a rule without conditions would take every query",
            "write one, or leave the queries to the class `default`",
        );
    }
    let kind = section.choice("statement").and_then(|name| Kind::ALL.into_iter().find(|kind| kind.name() == name));
    Some(Rule {
        user: section.text("user"),
        database: section.text("database"),
        application: section.text("application"),
        client: client(&section),
        tag: tag(&section),
        comment: section.text("comment"),
        kind,
        // Tables are found in lower case.
        table: section.text("table").map(|table| table.to_lowercase()),
        fingerprint: fingerprint(&section),
    })
}

fn client(rule: &Section<'_>) -> Option<Network> {
    let text = rule.text("client")?;
    match Network::read(&text) {
        Ok(network) => Some(network),
        Err(wrong) => {
            let fix = "write an address, a network such as \"10.0.0.0/8\" or \"2001:db8::/32\", or \"local\"";
            rule.complain("client", format!("{text:?} {wrong}"), fix);
            None
        }
    }
}

fn tag(rule: &Section<'_>) -> Option<Said> {
    let text = rule.text("tag")?;
    let said = Said::read(&text);
    if said.is_none() {
        rule.complain("tag", format!("{text:?} has no key"), "write \"key\" or \"key=value\"");
    }
    said
}

fn fingerprint(rule: &Section<'_>) -> Option<Fingerprint> {
    let text = rule.text("fingerprint")?;
    let fingerprint = Fingerprint::read(&text);
    if fingerprint.is_none() {
        let fix = "write its sixteen hexadecimal digits, as `punctual check --query` and `punctual.queries` show them";
        rule.complain("fingerprint", format!("{text:?} is no fingerprint"), fix);
    }
    fingerprint
}

#[cfg(test)]
mod tests;
