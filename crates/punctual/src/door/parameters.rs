//! The parameters of statements about the gateway: what `$1` is, and the values that a Bind brings.
//!
//! Nobody plans these statements, so a parameter that the client gives no type has that of the column which it is
//! compared with, where one stands beside it; a text otherwise. SQLite turns a text into a number where it is compared
//! with one, so a type that was guessed wrong costs little.

use crate::catalog::{ColumnKind, Parameter, column_kind, instant};

use super::messages::{self, Bind};
use super::problem::Problem;
use super::table::{micros_since_2000, oid_of};
use super::words::{Word, Words};

/// The most that a statement may have.
const MOST: usize = 1_000;

const INT2: u32 = 21;
const INT4: u32 = 23;
const INT8: u32 = 20;
const OID: u32 = 26;
const FLOAT4: u32 = 700;
const FLOAT8: u32 = 701;
const NUMERIC: u32 = 1700;
const BOOL: u32 = 16;
const TEXTS: [u32; 6] = [25, 1043, 1042, 19, 18, 705];
const TIMESTAMP: u32 = 1114;
const TIMESTAMPTZ: u32 = 1184;

/// The types of `$1`, `$2`, ... of a text, as ids; `given` is the tail of its Parse: the count and the ids that the
/// client gave, zero for those that it leaves open.
pub(super) fn types(sql: &str, given: &[u8]) -> Vec<u32> {
    let words: Vec<Word<'_>> = Words::of(sql).collect();
    let given = given.get(2..).unwrap_or_default().chunks_exact(4);
    let mut types: Vec<u32> = given.map(|id| u32::from_be_bytes([id[0], id[1], id[2], id[3]])).take(MOST).collect();
    for (at, number) in places(&words) {
        if types.len() < number {
            types.resize(number, 0);
        }
        if types[number - 1] == 0 {
            types[number - 1] = guess(&words, at).map_or(0, oid_of);
        }
    }
    // What nothing is known about is text, as in Postgres.
    types.iter_mut().filter(|id| **id == 0).for_each(|id| *id = TEXTS[0]);
    types
}

/// Where parameters stand among the words, and their numbers.
fn places(words: &[Word<'_>]) -> impl Iterator<Item = (usize, usize)> {
    words.windows(2).enumerate().filter_map(|(at, pair)| match pair {
        [Word::Sign('$'), Word::Number(digits)] => {
            digits.parse().ok().filter(|number| (1..=MOST).contains(number)).map(|number| (at, number))
        }
        _ => None,
    })
}

/// The type of the parameter at `at`: of a cast, of a column that it is compared with, of a LIMIT.
fn guess(words: &[Word<'_>], at: usize) -> Option<ColumnKind> {
    let is_comparison = |word: &&Word<'_>| matches!(word, Word::Sign('<' | '>' | '=' | '!'));
    let after = &words[at + 2..];
    match after {
        [Word::Sign(':'), Word::Sign(':'), Word::Plain(name), ..] => return cast(name),
        [r#as, Word::Plain(name), ..] if r#as.is("as") && words[..at].len() >= 2 && words[at - 2].is("cast") => {
            return cast(name);
        }
        _ => {}
    }
    let signs = after.iter().take_while(is_comparison).count();
    if signs > 0
        && let Some(kind) = column(after[signs..].iter().take_while(|word| is_name(word)).last())
    {
        return Some(kind);
    }
    // Back over `= `, `in (`, `between $1 and `, `not like`, to the nearest name.
    let mut between = false;
    for (back, word) in words[..at].iter().enumerate().rev() {
        let skipped = match word {
            Word::Sign('.' | ';' | ')') => return None,
            Word::Sign(_) | Word::Number(_) => true,
            word if word.is("and") => {
                between = true;
                words[..back].iter().rev().take(4).any(|word| word.is("between"))
            }
            word => {
                ["in", "between", "like", "not", "is", "distinct", "from", "escape"].iter().any(|known| word.is(known))
            }
        };
        if word.is("limit") || word.is("offset") {
            return Some(ColumnKind::Int8);
        }
        if !skipped {
            return column(Some(word)).filter(|_| !between || back + 1 < at);
        }
    }
    None
}

fn is_name(word: &&Word<'_>) -> bool {
    matches!(word, Word::Plain(_) | Word::Quoted(_) | Word::Sign('.'))
}

fn column(word: Option<&Word<'_>>) -> Option<ColumnKind> {
    match word? {
        Word::Plain(name) | Word::Quoted(name) => column_kind(&name.to_ascii_lowercase()),
        _ => None,
    }
}

fn cast(name: &str) -> Option<ColumnKind> {
    Some(match name.to_ascii_lowercase().as_str() {
        "int" | "int2" | "int4" | "int8" | "integer" | "bigint" | "smallint" => ColumnKind::Int8,
        "float" | "float4" | "float8" | "real" | "double" | "numeric" | "decimal" => ColumnKind::Float8,
        "bool" | "boolean" => ColumnKind::Bool,
        "timestamptz" | "timestamp" => ColumnKind::Timestamptz,
        "text" | "varchar" => ColumnKind::Text,
        _ => return None,
    })
}

/// The values of a Bind, given the types.
///
/// # Errors
/// What the client is to be told: another number of values than there are parameters, or one that its type cannot have.
pub(super) fn decode(types: &[u32], bind: &Bind<'_>) -> Result<Vec<Parameter>, Problem> {
    let (formats, values) = bind.values();
    if values.len() != types.len() {
        let (name, is, should) = (bind.statement, values.len(), types.len());
        let message =
            format!("bind message supplies {is} parameters, but prepared statement \"{name}\" requires {should}");
        return Err(Problem::new(b"08P01", message));
    }
    if formats.len() > 1 && formats.len() != values.len() {
        let message = format!("bind message has {} parameter formats but {} parameters", formats.len(), values.len());
        return Err(Problem::new(b"08P01", message));
    }
    let format_of = |at: usize| formats.get(if formats.len() == 1 { 0 } else { at }).copied().unwrap_or(0);
    let one = |(at, (value, id)): (usize, (Option<&[u8]>, &u32))| match (value, format_of(at)) {
        (None, _) => Ok(Parameter::Null),
        (Some(value), 0) => text(*id, value),
        (Some(value), 1) => binary(*id, value).unwrap_or_else(|| {
            Err(Problem::new(b"22P03", format!("incorrect binary data format in bind parameter {}", at + 1)))
        }),
        (Some(_), code) => Err(Problem::new(b"22023", format!("unsupported format code: {code}"))),
    };
    values.into_iter().zip(types).enumerate().map(one).collect()
}

/// A value in text.
fn text(id: u32, value: &[u8]) -> Result<Parameter, Problem> {
    let text = messages::utf8(value).map_err(|malformed| Problem::malformed(&malformed, true))?;
    let wrong = |name: &str| Problem::new(b"22P02", format!("invalid input syntax for type {name}: \"{text}\""));
    let trimmed = text.trim();
    match id {
        INT2 | INT4 | INT8 | OID => trimmed.parse().map(Parameter::Int).map_err(|_| wrong("bigint")),
        FLOAT4 | FLOAT8 | NUMERIC => match (trimmed.parse(), trimmed.parse()) {
            (Ok(whole), _) => Ok(Parameter::Int(whole)),
            (_, Ok(number)) => Ok(Parameter::Float(number)),
            _ => Err(wrong("double precision")),
        },
        BOOL => match trimmed.to_ascii_lowercase().as_str() {
            "t" | "true" | "y" | "yes" | "on" | "1" => Ok(Parameter::Int(1)),
            "f" | "false" | "n" | "no" | "off" | "0" => Ok(Parameter::Int(0)),
            _ => Err(wrong("boolean")),
        },
        TIMESTAMP | TIMESTAMPTZ => match at_of(trimmed) {
            Some(micros) => Ok(at(micros)),
            None => Err(Problem { sqlstate: Problem::new(b"22007", "").sqlstate, ..wrong("timestamp with time zone") }),
        },
        _ => Ok(Parameter::Text(text.to_owned())),
    }
}

/// A value in Postgres' binary form; None if it is not that.
fn binary(id: u32, value: &[u8]) -> Option<Result<Parameter, Problem>> {
    let whole = |number: i64| Some(Ok(Parameter::Int(number)));
    match id {
        INT2 => whole(i16::from_be_bytes(value.try_into().ok()?).into()),
        INT4 => whole(i32::from_be_bytes(value.try_into().ok()?).into()),
        INT8 => whole(i64::from_be_bytes(value.try_into().ok()?)),
        OID => whole(u32::from_be_bytes(value.try_into().ok()?).into()),
        FLOAT4 => Some(Ok(Parameter::Float(f32::from_be_bytes(value.try_into().ok()?).into()))),
        FLOAT8 => Some(Ok(Parameter::Float(f64::from_be_bytes(value.try_into().ok()?)))),
        BOOL => whole(i64::from(*value.first().filter(|_| value.len() == 1)? != 0)),
        TIMESTAMP | TIMESTAMPTZ => Some(Ok(at(i64::from_be_bytes(value.try_into().ok()?)))),
        id if TEXTS.contains(&id) => Some(text(id, value)),
        id => {
            let message = format!("statements about the gateway take no binary parameters of the type with oid {id}");
            Some(Err(Problem::new(b"0A000", message)
                .hint("Send it as text, or as a text, a number, a bool or a timestamptz.")))
        }
    }
}

/// An instant as the tables have it; the first and the last stand for all before and after.
fn at(micros_since_2000: i64) -> Parameter {
    const FROM_1970_TO_2000: i64 = 946_684_800_000_000;
    Parameter::Text(match micros_since_2000 {
        i64::MAX => "infinity".to_owned(),
        micros => instant(micros.saturating_add(FROM_1970_TO_2000).max(0).unsigned_abs()),
    })
}

/// Reads an instant: as Postgres prints it or as ISO 8601 has it, with hours and minutes of an offset behind.
fn at_of(text: &str) -> Option<i64> {
    let clock = text.get(10..)?;
    let (clock, offset) = match clock.find(['+', '-', 'Z']) {
        Some(at) => clock.split_at(at),
        None => (clock, ""),
    };
    if !(clock.is_empty() || clock.len() >= 6) {
        return None;
    }
    let clock = if clock.is_empty() { " 00:00" } else { clock };
    let micros = micros_since_2000(&format!("{}{clock}", &text[..10]))?;
    let digits: String = offset.chars().filter(char::is_ascii_digit).collect();
    let (hours, minutes) = match digits.len() {
        0 => (0, 0),
        2 => (digits.parse::<i64>().ok()?, 0),
        4 => (digits[..2].parse().ok()?, digits[2..].parse().ok()?),
        _ => return None,
    };
    let east = (hours * 60 + minutes) * 60_000_000;
    Some(if offset.starts_with('-') { micros + east } else { micros - east })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::relay::frames;

    const TEXT: u32 = TEXTS[0];

    #[test]
    fn a_parameter_has_the_type_of_what_it_is_compared_with() {
        let of = |sql: &str| types(sql, &[0, 0]);
        assert_eq!(of("select * from punctual.queries where status = $1"), [TEXT]);
        assert_eq!(of("select 1 where q.query_id = $2 and $1 < q.waited_s"), [FLOAT8, INT8]);
        assert_eq!(of("where arrival between $1 and $2 and late = $3"), [TIMESTAMPTZ, TIMESTAMPTZ, BOOL]);
        assert_eq!(of("where cluster_id in ($1, $2) limit $3"), [INT8, INT8, INT8]);
        assert_eq!(of("select $1, $2::int8, cast($3 as bool)"), [TEXT, INT8, BOOL]);
        assert_eq!(of("where user not like $1 or waited_s >= $3"), [TEXT, TEXT, FLOAT8]);
        assert_eq!(of("select '$1', \"$2\" -- $3"), [0; 0]);
        assert_eq!(types("where query_id = $1 and slo_s = $2", &[0, 2, 0, 0, 0, 23, 0, 0, 0, 0]), [INT4, FLOAT8]);
    }

    fn decoded(types: &[u32], format: u16, values: &[&[u8]]) -> Result<Vec<Parameter>, String> {
        let mut frame = Vec::new();
        frames::frame(&mut frame, b'B', |out| {
            out.extend_from_slice(&[0, 0, 0, 1]);
            out.extend_from_slice(&format.to_be_bytes());
            out.extend_from_slice(&(values.len() as u16).to_be_bytes());
            for value in values {
                out.extend_from_slice(&(value.len() as u32).to_be_bytes());
                out.extend_from_slice(value);
            }
            out.extend_from_slice(&[0, 0]);
        });
        let bind = Bind::read(&frame).expect("it is well formed");
        decode(types, &bind).map_err(|problem| problem.sqlstate.code().to_owned())
    }

    #[test]
    fn values_are_read_in_text_and_in_binary() {
        let instant = || Parameter::Text("2026-01-02 03:04:05.500000".into());
        let types = [TEXT, INT4, FLOAT8, BOOL, TIMESTAMPTZ];
        let text: [&[u8]; 5] = ["é".as_bytes(), b"-7", b"1.5", b"t", b"2026-01-02T05:34:05.5+02:30"];
        let read =
            [Parameter::Text("é".into()), Parameter::Int(-7), Parameter::Float(1.5), Parameter::Int(1), instant()];
        assert_eq!(decoded(&types, 0, &text), Ok(read.to_vec()));
        let micros = 820_638_245_500_000i64.to_be_bytes();
        let binary: [&[u8]; 5] = ["é".as_bytes(), &(-7i32).to_be_bytes(), &1.5f64.to_be_bytes(), &[1], &micros];
        assert_eq!(decoded(&types, 1, &binary), Ok(read.to_vec()));
        assert_eq!(decoded(&[TIMESTAMPTZ], 0, &[b"2026-01-02 03:04:05.5+00"]), Ok(vec![instant()]));
    }

    #[test]
    fn what_a_type_cannot_have_is_the_clients_error() {
        let code = |id: u32, format: u16, value: &[u8]| decoded(&[id], format, &[value]).expect_err("it is wrong");
        assert_eq!(code(INT8, 0, b"many"), "22P02");
        assert_eq!(code(BOOL, 0, b"perhaps"), "22P02");
        assert_eq!(code(TIMESTAMPTZ, 0, b"soon"), "22007");
        assert_eq!(code(TEXT, 0, b"\xff"), "22021");
        assert_eq!(code(INT8, 1, b"1"), "22P03");
        assert_eq!(code(2950, 1, &[0; 16]), "0A000");
        assert_eq!(code(TEXT, 7, b"x"), "22023");
        assert_eq!(decoded(&[TEXT, TEXT], 0, &[b"x"]), Err("08P01".into()));
    }
}
