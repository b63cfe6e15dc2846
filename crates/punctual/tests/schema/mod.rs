//! As much of JSON Schema as the gateway's document uses: whether a value is of a schema, and where it is not.
//!
//! A word that is not known here fails instead of being passed over: what is not checked must not look as if it were.

use serde_json::Value;

/// Words that say something to people alone.
const WORDS: [&str; 4] = ["description", "default", "format", "x-lines"];

/// Why a value is not of that schema, with its place; None if it is. References are looked up in `document`.
pub(crate) fn wrong(document: &Value, schema: &Value, value: &Value) -> Option<String> {
    at("$", document, schema, value).err()
}

fn at(place: &str, document: &Value, schema: &Value, value: &Value) -> Result<(), String> {
    let words = schema.as_object().ok_or_else(|| format!("{place}: its schema is no object"))?;
    let fail = |what: String| Err(format!("{place}: {what}: {value}"));
    for (word, says) in words {
        match word.as_str() {
            "$ref" => {
                let pointer = says.as_str().and_then(|name| name.strip_prefix('#')).unwrap_or_default();
                let named = document.pointer(pointer).ok_or_else(|| format!("{place}: there is no {says}"))?;
                at(place, document, named, value)?;
            }
            "type" => {
                let kinds: Vec<&Value> = says.as_array().map_or(vec![says], |kinds| kinds.iter().collect());
                if !kinds.iter().any(|kind| is(kind.as_str().unwrap_or_default(), value)) {
                    return fail(format!("it is no {says}"));
                }
            }
            "enum" if !says.as_array().is_some_and(|values| values.contains(value)) => {
                return fail(format!("it is none of {says}"));
            }
            "oneOf" => {
                let of = |schema: &&Value| at(place, document, schema, value).is_ok();
                match says.as_array().map(|schemas| schemas.iter().filter(of).count()) {
                    Some(1) => {}
                    count => return fail(format!("it is of {count:?} of those that it may be of")),
                }
            }
            "pattern" => {
                if value.as_str().is_some_and(|text| !matches(says.as_str().unwrap_or_default(), text)) {
                    return fail(format!("it is not like {says}"));
                }
            }
            "minimum" if value.as_f64() < says.as_f64() => return fail(format!("it is less than {says}")),
            "maximum" if value.as_f64() > says.as_f64() => return fail(format!("it is more than {says}")),
            "items" => {
                for (index, item) in value.as_array().into_iter().flatten().enumerate() {
                    at(&format!("{place}[{index}]"), document, says, item)?;
                }
            }
            "properties" => {
                for (name, value) in value.as_object().into_iter().flatten() {
                    match says.get(name) {
                        Some(schema) => at(&format!("{place}.{name}"), document, schema, value)?,
                        None if words.get("additionalProperties") == Some(&Value::Bool(false)) => {
                            return fail(format!("nothing is said of {name}"));
                        }
                        None => {}
                    }
                }
            }
            "required" if value.is_object() => {
                let names = says.as_array().into_iter().flatten().filter_map(Value::as_str);
                if let Some(missing) = names.into_iter().find(|name| value.get(name).is_none()) {
                    return fail(format!("{missing} is missing"));
                }
            }
            "enum" | "minimum" | "maximum" | "required" | "additionalProperties" => {}
            word if WORDS.contains(&word) => {}
            word => return Err(format!("{place}: {word} is not checked here")),
        }
    }
    Ok(())
}

fn is(kind: &str, value: &Value) -> bool {
    match kind {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => false,
    }
}

/// The two patterns that there are.
fn matches(pattern: &str, text: &str) -> bool {
    match pattern {
        "^[0-9]+$" => !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()),
        "^[0-9A-Z]{5}$" => {
            text.len() == 5 && text.bytes().all(|byte| byte.is_ascii_digit() || byte.is_ascii_uppercase())
        }
        pattern => panic!("{pattern} is not checked here"),
    }
}
