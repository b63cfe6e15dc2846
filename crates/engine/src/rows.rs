//! Rows on their way to a client, encoded already.
//!
//! The engine encodes where it computes, on its worker threads, and hands over pieces of about 64 kB. A piece
//! remembers where its rows end, because a portal with a row limit may stop inside it.

use std::sync::Arc;

use bytes::{Buf, BytesMut};
use pgwire::api::Type;
use pgwire::api::results::{DataRowEncoder, FieldFormat, FieldInfo};
use pgwire::messages::Message;
use pgwire::messages::data::{DataRow, FieldDescription, RowDescription};

use crate::sqlstate::Failure;

/// What describes a result: one entry a column.
pub(crate) type Columns = Arc<Vec<FieldInfo>>;

/// A piece is handed on when it has this many bytes.
const FULL: usize = crate::wire::FULL;

/// Some rows, each a whole DataRow message.
#[derive(Debug, Default)]
pub(crate) struct Chunk {
    bytes: BytesMut,
    /// Where each row ends, in bytes from the beginning of the piece as it was first filled.
    ends: std::collections::VecDeque<usize>,
    /// How many bytes were taken off the front since.
    taken: usize,
}

impl Chunk {
    pub(crate) fn push(&mut self, row: &DataRow) -> Result<(), Failure> {
        row.encode(&mut self.bytes)?;
        self.ends.push_back(self.taken + self.bytes.len());
        Ok(())
    }

    #[cfg(test)]
    pub(crate) fn rows(&self) -> usize {
        self.ends.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.bytes.len() >= FULL
    }

    /// Takes the first `rows` rows, or all if there are fewer. Returns their messages and how many they are.
    pub(crate) fn take(&mut self, rows: usize) -> (BytesMut, usize) {
        let rows = rows.min(self.ends.len());
        let Some(last) = self.ends.drain(..rows).next_back() else { return (BytesMut::new(), 0) };
        let length = last - self.taken;
        self.taken = last;
        debug_assert!(self.bytes.remaining() >= length);
        (self.bytes.split_to(length), rows)
    }
}

/// The message that describes a result.
pub(crate) fn describe(columns: &[FieldInfo]) -> RowDescription {
    let fields = columns.iter().map(|column| {
        let mut field = FieldDescription::from(column);
        field.type_size = width(column.datatype());
        field
    });
    RowDescription::new(fields.collect())
}

/// `pg_type.typlen`: bytes of the fixed-width types, -1 of the others.
fn width(datatype: &Type) -> i16 {
    match *datatype {
        Type::BOOL | Type::CHAR => 1,
        Type::INT2 => 2,
        Type::INT4 | Type::FLOAT4 | Type::DATE | Type::OID => 4,
        Type::INT8 | Type::FLOAT8 | Type::TIMESTAMP | Type::TIMESTAMPTZ | Type::TIME => 8,
        Type::INTERVAL => 16,
        _ => -1,
    }
}

/// A small result made of text, such as that of SHOW.
pub(crate) fn text(names: &[&str], rows: &[Vec<String>]) -> Result<(Columns, Chunk), Failure> {
    let column = |name: &&str| FieldInfo::new((*name).to_owned(), None, None, Type::TEXT, FieldFormat::Text);
    let columns: Columns = Arc::new(names.iter().map(column).collect());
    let mut encoder = DataRowEncoder::new(columns.clone());
    let mut chunk = Chunk::default();
    for row in rows {
        for value in row {
            encoder.encode_field(value)?;
        }
        chunk.push(&encoder.take_row())?;
    }
    Ok((columns, chunk))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_is_taken_row_by_row_or_whole() {
        let rows: Vec<Vec<String>> = ["a", "bb", "ccc"].iter().map(|v| vec![(*v).to_owned()]).collect();
        let (_, mut chunk) = text(&["v"], &rows).unwrap();
        let (first, taken) = chunk.take(1);
        // Type, length, number of fields, length of the field, the field.
        assert_eq!((&first[..], taken), (&b"D\0\0\0\x0b\0\x01\0\0\0\x01a"[..], 1));
        let (rest, taken) = chunk.take(10);
        assert_eq!((rest.len(), taken, chunk.rows()), (13 + 14, 2, 0));
        assert_eq!(chunk.take(1).1, 0);
    }
}
