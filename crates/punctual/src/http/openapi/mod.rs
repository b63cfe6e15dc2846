//! `/openapi.json`: what is served over HTTP, said in OpenAPI 3.1.
//!
//! ```text
//!   Operation ──▶ Routes::on ──┬──▶ the router, at its path and for its method
//!                              └──▶ the document
//! ```
//!
//! A route is made from what the document says of it, so that neither can be there without the other. That answers are as they
//! are said to be is held by `tests/openapi.rs`, which asks a live gateway and checks each against its schema.

mod operations;
mod schemas;

use axum::Router;
use axum::body::Bytes;
use axum::handler::Handler;
use axum::http::{StatusCode, header};
use axum::routing::{MethodFilter, get, on};
use serde_json::{Map, Value, json};

pub(super) use operations::{adopt_plan, cancel, drop_plans, explain, health, list, metrics, readiness, reload, run};

use super::{Shared, refusal};

/// Where the document is.
const PATH: &str = "/openapi.json";

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    Get,
    Post,
    Delete,
}

impl Verb {
    /// As the document has it.
    fn name(self) -> &'static str {
        match self {
            Verb::Get => "get",
            Verb::Post => "post",
            Verb::Delete => "delete",
        }
    }

    fn filter(self) -> MethodFilter {
        match self {
            Verb::Get => MethodFilter::GET,
            Verb::Post => MethodFilter::POST,
            Verb::Delete => MethodFilter::DELETE,
        }
    }
}

/// One thing that can be asked.
#[derive(Clone, Debug)]
pub(super) struct Operation {
    /// Its name in programs that are made from the document.
    id: String,
    verb: Verb,
    path: String,
    /// What it does, in a line.
    what: String,
    /// What is told to those who come with another method.
    otherwise: &'static str,
    /// True if it needs no token.
    open: bool,
    parameters: Vec<Value>,
    /// The schema of the body.
    body: Option<&'static str>,
    /// What it answers beyond what all may answer.
    answers: Vec<Answer>,
}

/// One kind of answer.
#[derive(Clone, Debug)]
struct Answer {
    status: StatusCode,
    what: &'static str,
    /// Media types, and the schema of each.
    content: Vec<(&'static str, Value)>,
    /// True if it says when to come again.
    retry_after: bool,
}

/// The routes there are so far, and what is said of them.
pub(super) struct Routes {
    router: Router<Shared>,
    operations: Vec<Operation>,
}

impl Routes {
    /// None yet but that of the document.
    pub(super) fn new() -> Routes {
        Routes { router: Router::new(), operations: vec![operations::document()] }
    }

    /// Serves an operation.
    pub(super) fn on<T: 'static>(mut self, operation: Operation, handler: impl Handler<T, Shared>) -> Routes {
        let otherwise = operation.otherwise;
        let mut methods = on(operation.verb.filter(), handler);
        // Of several at one path, the first says what else there is.
        if !self.operations.iter().any(|known| known.path == operation.path) {
            methods = methods.fallback(move || async move { refusal(StatusCode::METHOD_NOT_ALLOWED, otherwise) });
        }
        self.router = self.router.route(&operation.path, methods);
        self.operations.push(operation);
        self
    }

    /// All of them, and the document.
    pub(super) fn served(self) -> Router<Shared> {
        let text = Bytes::from(format!("{:#}\n", document(&self.operations)));
        let otherwise = self.operations[0].otherwise;
        let methods = get(move || async move { ([(header::CONTENT_TYPE, JSON)], text) })
            .fallback(move || async move { refusal(StatusCode::METHOD_NOT_ALLOWED, otherwise) });
        self.router.route(PATH, methods)
    }
}

const JSON: &str = "application/json";

fn document(operations: &[Operation]) -> Value {
    let mut paths = Map::new();
    for operation in operations {
        let path = paths.entry(operation.path.clone()).or_insert_with(|| json!({}));
        path[operation.verb.name()] = operation.told();
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Punctual",
            "version": env!("CARGO_PKG_VERSION"),
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
            "description": "Queries, and what the gateway knows of them. HEAD is answered wherever GET is, without a body. Where \
                there are no tokens, requests come from this machine alone; where there are, each shows one.",
        },
        "security": [{ "token": [] }, {}],
        "paths": paths,
        "components": {
            "securitySchemes": { "token": {
                "type": "http",
                "scheme": "bearer",
                "description": "A line of `gateway.http_tokens_file`; needed if there is such a file.",
            } },
            "schemas": schemas::all(),
        },
    })
}

impl Operation {
    fn told(&self) -> Value {
        let Operation { id, what, parameters, body, answers, open, .. } = self;
        let everywhere = operations::everywhere(*open);
        // Its own words go before those for all.
        let mut told = Map::new();
        for answer in everywhere.iter().chain(answers) {
            told.insert(answer.status.as_str().to_owned(), answer.told());
        }
        let mut value = json!({ "operationId": id, "summary": what, "responses": told });
        if !parameters.is_empty() {
            value["parameters"] = parameters.as_slice().into();
        }
        if let Some(schema) = body {
            value["requestBody"] =
                json!({ "required": true, "content": { JSON: { "schema": schemas::named(schema) } } });
        }
        if *open {
            value["security"] = json!([]);
        }
        value
    }
}

impl Answer {
    /// A value of the schema of that name, as JSON.
    fn json(status: StatusCode, what: &'static str, schema: &str) -> Answer {
        Answer { status, what, content: vec![(JSON, schemas::named(schema))], retry_after: false }
    }

    /// An error.
    fn error(status: StatusCode, what: &'static str) -> Answer {
        Answer::json(status, what, "Error")
    }

    fn told(&self) -> Value {
        let content: Map<String, Value> =
            self.content.iter().map(|(media, schema)| ((*media).to_owned(), json!({ "schema": schema }))).collect();
        let mut value = json!({ "description": self.what, "content": content });
        if self.retry_after {
            let what = "Seconds after which it may be worth while.";
            let schema = json!({ "type": "integer", "minimum": 1 });
            value["headers"] = json!({ "Retry-After": { "description": what, "required": true, "schema": schema } });
        }
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_route_is_made_from_what_the_document_says_of_it() {
        let router = include_str!("../mod.rs");
        assert!(!router.contains(".route(") && !router.contains(".nest(") && !router.contains(".route_service("));
    }

    #[test]
    fn every_schema_that_is_named_is_there_and_every_one_that_is_there_is_named() {
        fn named(value: &Value, into: &mut Vec<String>) {
            match value {
                Value::Object(fields) => fields.iter().for_each(|(key, value)| match value {
                    Value::String(name) if key == "$ref" => into.push(name.clone()),
                    value => named(value, into),
                }),
                Value::Array(items) => items.iter().for_each(|item| named(item, into)),
                _ => {}
            }
        }
        let document = document(&operations::every());
        let mut all = Vec::new();
        named(&document, &mut all);
        let schemas = document["components"]["schemas"].as_object().expect("schemas");
        for name in &all {
            let name = name.strip_prefix("#/components/schemas/").expect("a schema of this document");
            assert!(schemas.contains_key(name), "{name}");
        }
        for name in schemas.keys() {
            assert!(all.contains(&format!("#/components/schemas/{name}")), "nothing is a {name}");
        }
    }
}
