//! Rows of a result, as text of the Postgres protocol, written as JSON lines or as an Arrow stream.
//!
//! ```text
//!   {"columns":[{"name":"n","type":"int4"},{"name":"s","type":"text"}]}     at the start of each result
//!   [1,"a"]                                                                 each row
//!   {"command":"SELECT 1"}                                                  at the end of each statement
//!   {"error":"division by zero","sqlstate":"22012"}                         if it fails on the way: the last line
//! ```
//!
//! Numbers, booleans and JSON are that in JSON; all else is text as Postgres writes it, numbers that JSON has no word for too. In
//! Arrow, a column has the type nearest to its own; `numeric` and what Arrow does not have is text. An Arrow stream has one
//! result; one that fails on the way breaks off.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BinaryBuilder, RecordBatch, RecordBatchOptions, StringArray, StringBuilder};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use arrow::error::ArrowError;
use arrow::ipc::writer::StreamWriter;
use axum::body::Bytes;
use axum::http::{HeaderMap, header};
use serde_json::{Value, json};
use tokio_postgres::types::Type;

/// Rows of a batch, and bytes of text that one may have.
const BATCH_ROWS: usize = 8_192;
const BATCH_BYTES: usize = 1 << 20;

/// How rows are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// A line of JSON each.
    Lines,
    /// Arrow's IPC stream.
    Arrow,
}

/// A column of a result.
#[derive(Clone, Debug)]
pub(super) struct Column {
    pub(super) name: String,
    /// The number of its type.
    pub(super) oid: u32,
}

/// Results on their way out.
pub(super) enum Rows {
    /// What is written, and the columns of the result at hand.
    Lines(Vec<u8>, Vec<Column>),
    /// An Arrow stream.
    Arrow(Option<Box<Stream>>),
}

impl Form {
    /// What the client accepts: lines, unless it asks for Arrow and does not like lines better.
    pub(super) fn of(headers: &HeaderMap) -> Form {
        let accepted = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
        let ranges: Vec<(&str, f32)> = accepted.flat_map(|value| value.split(',')).map(weighed).collect();
        let liked = |names: &[&str]| {
            let named = ranges.iter().filter(|(range, _)| names.iter().any(|name| name.eq_ignore_ascii_case(range)));
            named.map(|(_, weight)| *weight).fold(0.0, f32::max)
        };
        let arrow = liked(&[ARROW]);
        if arrow > 0.0 && arrow >= liked(&LINES) { Form::Arrow } else { Form::Lines }
    }

    pub(super) fn media_type(self) -> &'static str {
        match self {
            Form::Lines => LINES_MEDIA_TYPE,
            Form::Arrow => ARROW,
        }
    }
}

pub(super) const ARROW: &str = "application/vnd.apache.arrow.stream";

/// What lines are called: as they are sent, and as some ask for them.
/// What lines are called here.
pub(super) const LINES_MEDIA_TYPE: &str = LINES[0];

const LINES: [&str; 3] = ["application/x-ndjson", "application/jsonl", "application/json"];

/// A media range and how much it is liked, from 0 to 1.
fn weighed(range: &str) -> (&str, f32) {
    let mut parts = range.split(';').map(str::trim);
    let name = parts.next().unwrap_or_default();
    let weight = parts.find_map(|part| part.strip_prefix("q=").or(part.strip_prefix("Q=")));
    (name, weight.map_or(1.0, |weight| weight.parse().unwrap_or(0.0)))
}

impl Rows {
    /// Nothing yet.
    pub(super) fn new(form: Form) -> Rows {
        match form {
            Form::Lines => Rows::Lines(Vec::new(), Vec::new()),
            Form::Arrow => Rows::Arrow(None),
        }
    }

    /// A result begins.
    ///
    /// # Errors
    /// If there is no place for it in that form.
    pub(super) fn begin(&mut self, columns: Vec<Column>) -> Result<(), String> {
        match self {
            Rows::Lines(out, known) => {
                let told = |column: &Column| {
                    let of = Type::from_oid(column.oid);
                    let of = of.map_or_else(|| format!("oid {}", column.oid), |of| of.name().to_owned());
                    json!({ "name": column.name, "type": of })
                };
                line(out, &json!({ "columns": columns.iter().map(told).collect::<Vec<_>>() }));
                *known = columns;
                Ok(())
            }
            Rows::Arrow(stream @ None) => {
                let begun = Stream::begin(&columns).map_err(|error| error.to_string())?;
                *stream = Some(Box::new(begun));
                Ok(())
            }
            Rows::Arrow(Some(_)) => {
                Err("an Arrow stream has one result, and these are several: send one statement".to_owned())
            }
        }
    }

    /// A row, its values where they stand in `text`.
    ///
    /// # Errors
    /// If a value is not of its column's type.
    pub(super) fn row(&mut self, values: &[Option<Range<usize>>], text: &[u8]) -> Result<(), String> {
        let values = values.iter().map(|range| range.as_ref().and_then(|range| text.get(range.clone())));
        match self {
            Rows::Lines(out, columns) => {
                out.push(b'[');
                for (at, (value, column)) in values.zip(columns.iter()).enumerate() {
                    if at > 0 {
                        out.push(b',');
                    }
                    json_value(out, value, column.oid);
                }
                out.extend_from_slice(b"]\n");
                Ok(())
            }
            Rows::Arrow(stream) => {
                let stream = stream.as_mut().ok_or("a row came before its columns")?;
                stream.row(values).map_err(|error| error.to_string())
            }
        }
    }

    /// A statement is at its end; what is said of it.
    ///
    /// # Errors
    /// As for a row.
    pub(super) fn complete(&mut self, command: &str) -> Result<(), String> {
        match self {
            Rows::Lines(out, _) => line(out, &json!({ "command": command })),
            Rows::Arrow(Some(stream)) => stream.flush().map_err(|error| error.to_string())?,
            Rows::Arrow(None) => {}
        }
        Ok(())
    }

    /// It fails on the way; false if that cannot be said in that form.
    pub(super) fn fail(&mut self, error: &Value) -> bool {
        match self {
            Rows::Lines(out, _) => {
                line(out, error);
                true
            }
            Rows::Arrow(_) => false,
        }
    }

    /// True if the answer can begin. What goes wrong later cannot be said in Arrow, so that begins when there is so much that it
    /// cannot be kept.
    pub(super) fn can_go(&self, kept: usize) -> bool {
        matches!(self, Rows::Lines(..)) || self.len() > kept
    }

    /// Bytes that are written and not taken.
    pub(super) fn len(&self) -> usize {
        match self {
            Rows::Lines(out, _) => out.len(),
            Rows::Arrow(stream) => stream.as_ref().map_or(0, |stream| stream.writer.get_ref().len()),
        }
    }

    /// Takes what is written.
    ///
    /// # Errors
    /// Never, for what is under way.
    pub(super) fn take(&mut self) -> Result<Bytes, String> {
        Ok(match self {
            Rows::Lines(out, _) => std::mem::take(out),
            Rows::Arrow(None) => Vec::new(),
            Rows::Arrow(Some(stream)) => std::mem::take(stream.writer.get_mut()),
        }
        .into())
    }

    /// Takes what is left, all being over.
    ///
    /// # Errors
    /// As for a row.
    pub(super) fn end(&mut self) -> Result<Bytes, String> {
        if let Rows::Arrow(stream) = self {
            let end = |stream: &mut Option<Box<Stream>>| {
                let stream = match stream {
                    Some(stream) => stream,
                    None => stream.insert(Box::new(Stream::begin(&[])?)),
                };
                stream.flush()?;
                stream.writer.finish()
            };
            end(stream).map_err(|error: ArrowError| error.to_string())?;
        }
        self.take()
    }
}

fn line(out: &mut Vec<u8>, value: &Value) {
    out.extend_from_slice(value.to_string().as_bytes());
    out.push(b'\n');
}

/// A value as JSON.
fn json_value(out: &mut Vec<u8>, value: Option<&[u8]>, oid: u32) {
    let Some(value) = value else { return out.extend_from_slice(b"null") };
    let is_number = [Type::INT2, Type::INT4, Type::INT8, Type::OID, Type::FLOAT4, Type::FLOAT8, Type::NUMERIC];
    match (Type::from_oid(oid), value) {
        (Some(Type::BOOL), b"t") => out.extend_from_slice(b"true"),
        (Some(Type::BOOL), b"f") => out.extend_from_slice(b"false"),
        (Some(of), number) if is_number.contains(&of) && is_json_number(number) => out.extend_from_slice(number),
        // Between its tokens a line may end, and nowhere else.
        (Some(Type::JSON | Type::JSONB), document) => {
            out.extend(document.iter().map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { *byte }));
        }
        (_, text) => out.extend_from_slice(Value::from(String::from_utf8_lossy(text)).to_string().as_bytes()),
    }
}

/// True for a number as JSON has it: `-1.5e+30`, and neither `NaN` nor `01`.
fn is_json_number(text: &[u8]) -> bool {
    let digits = |text: &[u8]| text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let text = text.strip_prefix(b"-").unwrap_or(text);
    let whole = digits(text);
    if whole == 0 || whole > 1 && text[0] == b'0' {
        return false;
    }
    let mut rest = &text[whole..];
    if let Some(fraction) = rest.strip_prefix(b".") {
        let length = digits(fraction);
        if length == 0 {
            return false;
        }
        rest = &fraction[length..];
    }
    if let [b'e' | b'E', exponent @ ..] = rest {
        let exponent = exponent.strip_prefix(b"+").or(exponent.strip_prefix(b"-")).unwrap_or(exponent);
        let length = digits(exponent);
        return length > 0 && length == exponent.len();
    }
    rest.is_empty()
}

/// An Arrow stream of one result.
pub(super) struct Stream {
    writer: StreamWriter<Vec<u8>>,
    schema: SchemaRef,
    texts: Vec<StringBuilder>,
    rows: usize,
    bytes: usize,
}

impl Stream {
    fn begin(columns: &[Column]) -> Result<Stream, ArrowError> {
        let field = |column: &Column| Field::new(&column.name, arrow_type(column.oid), true);
        let schema = Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()));
        let writer = StreamWriter::try_new(Vec::new(), &schema)?;
        let texts = columns.iter().map(|_| StringBuilder::new()).collect();
        Ok(Stream { writer, schema, texts, rows: 0, bytes: 0 })
    }

    fn row<'a>(&mut self, values: impl Iterator<Item = Option<&'a [u8]>>) -> Result<(), ArrowError> {
        for (builder, value) in self.texts.iter_mut().zip(values) {
            self.bytes += value.map_or(0, <[u8]>::len);
            builder.append_option(value.map(String::from_utf8_lossy));
        }
        self.rows += 1;
        if self.rows >= BATCH_ROWS || self.bytes >= BATCH_BYTES { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), ArrowError> {
        if self.rows == 0 {
            return Ok(());
        }
        let texts = self.texts.iter_mut().map(StringBuilder::finish);
        let fields = self.schema.fields().iter();
        let columns = texts.zip(fields).map(|(texts, field)| {
            typed(texts, field.data_type()).map_err(|error| {
                ArrowError::CastError(format!("column \"{}\" as {}: {error}", field.name(), field.data_type()))
            })
        });
        let columns = columns.collect::<Result<Vec<_>, _>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(self.rows));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?;
        (self.rows, self.bytes) = (0, 0);
        self.writer.write(&batch)
    }
}

fn arrow_type(oid: u32) -> DataType {
    match Type::from_oid(oid) {
        Some(Type::BOOL) => DataType::Boolean,
        Some(Type::INT2) => DataType::Int16,
        Some(Type::INT4) => DataType::Int32,
        Some(Type::INT8) => DataType::Int64,
        Some(Type::OID) => DataType::UInt32,
        Some(Type::FLOAT4) => DataType::Float32,
        Some(Type::FLOAT8) => DataType::Float64,
        Some(Type::DATE) => DataType::Date32,
        Some(Type::TIMESTAMP) => DataType::Timestamp(TimeUnit::Microsecond, None),
        Some(Type::TIMESTAMPTZ) => DataType::Timestamp(TimeUnit::Microsecond, Some("+00:00".into())),
        Some(Type::BYTEA) => DataType::Binary,
        _ => DataType::Utf8,
    }
}

/// Texts as what they say.
fn typed(texts: StringArray, of: &DataType) -> Result<ArrayRef, ArrowError> {
    match of {
        DataType::Utf8 => Ok(Arc::new(texts)),
        DataType::Binary => {
            let mut bytes = BinaryBuilder::new();
            for text in &texts {
                bytes.append_option(text.map(from_hex).transpose()?);
            }
            Ok(Arc::new(bytes.finish()))
        }
        of => cast_with_options(&texts as &dyn Array, of, &CastOptions { safe: false, ..CastOptions::default() }),
    }
}

/// The bytes that `\x00ff` says.
fn from_hex(text: &str) -> Result<Vec<u8>, ArrowError> {
    let wrong =
        || ArrowError::CastError("bytes are written as \\x and hexadecimal digits: SET bytea_output".to_owned());
    let digits = text.strip_prefix("\\x").filter(|digits| digits.len() % 2 == 0 && digits.is_ascii());
    let pair = |at: usize, digits: &str| u8::from_str_radix(&digits[at..at + 2], 16).map_err(|_| wrong());
    let digits = digits.ok_or_else(wrong)?;
    (0..digits.len()).step_by(2).map(|at| pair(at, digits)).collect()
}

#[cfg(test)]
mod tests {
    use arrow::array::AsArray;
    use arrow::datatypes::{Int32Type, TimestampMicrosecondType};
    use arrow::ipc::reader::StreamReader;

    use super::*;

    fn columns(of: &[(&str, Type)]) -> Vec<Column> {
        of.iter().map(|(name, of)| Column { name: (*name).to_owned(), oid: of.oid() }).collect()
    }

    /// Where values stand that follow each other.
    fn laid_out(values: &[Option<&str>]) -> (Vec<Option<Range<usize>>>, Vec<u8>) {
        let mut text = Vec::new();
        let ranges = values.iter().map(|value| {
            value.map(|value| {
                let from = text.len();
                text.extend_from_slice(value.as_bytes());
                from..text.len()
            })
        });
        (ranges.collect(), text)
    }

    fn write(rows: &mut Rows, values: &[Option<&str>]) -> Result<(), String> {
        let (ranges, text) = laid_out(values);
        rows.row(&ranges, &text)
    }

    #[test]
    fn lines_have_numbers_where_json_has_them_and_text_elsewhere() {
        let mut rows = Rows::new(Form::Lines);
        rows.begin(columns(&[("n", Type::NUMERIC), ("f", Type::FLOAT8), ("b", Type::BOOL), ("j", Type::JSON)]))
            .unwrap();
        write(&mut rows, &[Some("12345678901234567890.50"), Some("1e+30"), Some("t"), Some("{\"a\":\n1}")]).unwrap();
        write(&mut rows, &[Some("NaN"), Some("-Infinity"), None, None]).unwrap();
        rows.complete("SELECT 2").unwrap();
        rows.begin(vec![Column { name: "a \"b\"".to_owned(), oid: 99_999 }]).unwrap();
        write(&mut rows, &[Some("it's\n\"x\"\\")]).unwrap();
        assert!(rows.fail(&json!({ "error": "no" })));
        let written = String::from_utf8(rows.end().unwrap().to_vec()).unwrap();
        let expected = [
            r#"{"columns":[{"name":"n","type":"numeric"},{"name":"f","type":"float8"},{"name":"b","type":"bool"},{"name":"j","type":"json"}]}"#,
            r#"[12345678901234567890.50,1e+30,true,{"a": 1}]"#,
            r#"["NaN","-Infinity",null,null]"#,
            r#"{"command":"SELECT 2"}"#,
            r#"{"columns":[{"name":"a \"b\"","type":"oid 99999"}]}"#,
            r#"["it's\n\"x\"\\"]"#,
            r#"{"error":"no"}"#,
        ];
        assert_eq!(written.lines().collect::<Vec<_>>(), expected);
        for line in written.lines() {
            serde_json::from_str::<Value>(line).expect(line);
        }
        assert_eq!(rows.len(), 0);
    }

    #[test]
    fn a_number_is_one_for_json_as_its_grammar_says() {
        for yes in ["0", "-0.5", "10", "1e5", "1.25E-7", "123456789012345678901234567890"] {
            assert!(is_json_number(yes.as_bytes()), "{yes}");
        }
        for no in ["", "-", "01", "1.", ".5", "1e", "1e+", "NaN", "Infinity", "1 ", "+1", "0x1"] {
            assert!(!is_json_number(no.as_bytes()), "{no}");
        }
    }

    #[test]
    fn an_arrow_stream_has_the_types_of_its_columns() {
        let mut rows = Rows::new(Form::Arrow);
        rows.begin(columns(&[("i", Type::INT4), ("b", Type::BOOL), ("t", Type::TIMESTAMPTZ), ("x", Type::BYTEA)]))
            .unwrap();
        write(&mut rows, &[Some("7"), Some("t"), Some("2026-01-02 03:04:05.5+01"), Some("\\x00ff")]).unwrap();
        write(&mut rows, &[None, None, None, None]).unwrap();
        rows.complete("SELECT 2").unwrap();
        assert!(rows.begin(Vec::new()).is_err(), "one result");
        let stream = rows.end().unwrap();
        let batches: Vec<RecordBatch> =
            StreamReader::try_new(&*stream, None).unwrap().collect::<Result<_, _>>().unwrap();
        let [batch] = &batches[..] else { panic!("{} batches", batches.len()) };
        let int = batch.column(0).as_primitive::<Int32Type>();
        assert_eq!((int.value(0), int.is_null(1)), (7, true));
        assert!(batch.column(1).as_boolean().value(0));
        assert_eq!(batch.column(2).as_primitive::<TimestampMicrosecondType>().value(0), 1_767_319_445_500_000);
        assert_eq!(batch.column(3).as_binary::<i32>().value(0), [0, 255]);
    }

    #[test]
    fn an_arrow_stream_of_many_rows_is_written_in_batches_and_one_of_none_is_whole() {
        let mut rows = Rows::new(Form::Arrow);
        rows.begin(columns(&[("d", Type::DATE)])).unwrap();
        for _ in 0..BATCH_ROWS + 1 {
            write(&mut rows, &[Some("2026-01-02")]).unwrap();
        }
        assert!(rows.len() > 4 * BATCH_ROWS, "the first batch is there before the end");
        let stream = rows.end().unwrap();
        let sizes: Vec<usize> =
            StreamReader::try_new(&*stream, None).unwrap().map(|batch| batch.unwrap().num_rows()).collect();
        assert_eq!(sizes, [BATCH_ROWS, 1]);
        let none = Rows::new(Form::Arrow).end().unwrap();
        assert_eq!(StreamReader::try_new(&*none, None).unwrap().count(), 0);
        let mut wrong = Rows::new(Form::Arrow);
        wrong.begin(columns(&[("d", Type::DATE)])).unwrap();
        write(&mut wrong, &[Some("infinity")]).unwrap();
        let error = wrong.complete("SELECT 1").unwrap_err();
        assert!(error.contains("column \"d\" as Date32"), "{error}");
    }

    #[test]
    fn arrow_is_written_to_who_accepts_it() {
        let of = |accept: &str| Form::of(&HeaderMap::from_iter([(header::ACCEPT, accept.parse().unwrap())]));
        assert_eq!(of("text/html, application/vnd.apache.arrow.stream;q=0.9"), Form::Arrow);
        assert_eq!(of("APPLICATION/vnd.apache.arrow.STREAM"), Form::Arrow);
        assert_eq!(of("application/vnd.apache.arrow.stream; q=0"), Form::Lines);
        assert_eq!(of("application/json, application/vnd.apache.arrow.stream;q=0.1"), Form::Lines);
        assert_eq!(of("*/*"), Form::Lines);
        assert_eq!(Form::of(&HeaderMap::new()), Form::Lines);
    }
}
