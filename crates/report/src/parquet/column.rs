//! The columns of a file, and what of them waits for its row group.

use std::collections::HashMap;

use super::thrift::{Struct, write_varint};
use super::{BOOLEAN, BYTE_ARRAY, DOUBLE, INT64, ParquetCell, TIMESTAMP_MILLIS, UTF8};

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnKind {
    /// A text in UTF-8.
    Text,
    /// A whole number of 64 bits.
    Integer,
    /// A number of 64 bits in floating point.
    Number,
    /// True or false.
    Flag,
    /// A moment, in milliseconds since the epoch.
    Time,
}

/// Values of a column that wait for their row group.
pub struct ParquetColumn {
    pub(super) name: &'static str,
    pub(super) optional: bool,
    /// Present or absent, and how many rows in a row.
    pub(super) levels: RleRuns,
    pub(super) values: ColumnValues,
}

pub(super) enum ColumnValues {
    /// Milliseconds since the epoch.
    Times(Vec<i64>),
    Integers(Vec<i64>),
    Numbers(Vec<f64>),
    Flags(Vec<bool>),
    Names(DictionaryValues),
}

/// Distinct texts, and for each row which.
#[derive(Default)]
pub(super) struct DictionaryValues {
    pub(super) distinct: Vec<String>,
    places: HashMap<String, u32>,
    pub(super) which: RleRuns,
}

impl DictionaryValues {
    fn push(&mut self, name: &str, times: usize) {
        let place = match self.places.get(name) {
            Some(place) => *place,
            None => {
                let place = u32::try_from(self.distinct.len()).unwrap_or(u32::MAX);
                self.distinct.push(name.to_owned());
                self.places.insert(name.to_owned(), place);
                place
            }
        };
        self.which.push(place, times);
    }
}

/// A number and how many times it follows itself.
#[derive(Default)]
pub(super) struct RleRuns(Vec<(u32, u64)>);

impl RleRuns {
    pub(super) fn push(&mut self, value: u32, times: usize) {
        let times = u64::try_from(times).unwrap_or(u64::MAX);
        match self.0.last_mut() {
            _ if times == 0 => {}
            Some((last, count)) if *last == value => *count += times,
            _ => self.0.push((value, times)),
        }
    }

    /// Encoded as RLE runs of so many bytes a value.
    pub(super) fn encode_rle(&self, width: usize) -> Vec<u8> {
        let mut out = Vec::new();
        for (value, times) in &self.0 {
            write_varint(&mut out, times << 1);
            out.extend(value.to_le_bytes().into_iter().take(width));
        }
        out
    }

    /// How many of the values are this one.
    pub(super) fn count_value(&self, number: u32) -> u64 {
        self.0.iter().filter(|(value, _)| *value == number).map(|(_, times)| times).sum()
    }
}

impl ParquetColumn {
    /// An empty column; the values of an optional one may be absent.
    pub fn new(name: &'static str, kind: ColumnKind, optional: bool) -> Self {
        let values = match kind {
            ColumnKind::Text => ColumnValues::Names(DictionaryValues::default()),
            ColumnKind::Integer => ColumnValues::Integers(Vec::new()),
            ColumnKind::Number => ColumnValues::Numbers(Vec::new()),
            ColumnKind::Flag => ColumnValues::Flags(Vec::new()),
            ColumnKind::Time => ColumnValues::Times(Vec::new()),
        };
        Self { name, optional, levels: RleRuns::default(), values }
    }

    /// Whether a row may have this in the column.
    pub(super) const fn accepts_cell(&self, cell: &ParquetCell) -> bool {
        match (cell, &self.values) {
            (ParquetCell::Absent, _) => self.optional,
            (ParquetCell::Text(_), ColumnValues::Names(_))
            | (ParquetCell::Integer(_), ColumnValues::Integers(_))
            | (ParquetCell::Number(_), ColumnValues::Numbers(_))
            | (ParquetCell::Flag(_), ColumnValues::Flags(_))
            | (ParquetCell::Time(_), ColumnValues::Times(_)) => true,
            _ => false,
        }
    }

    /// Takes what [`takes`](Self::takes) has let in.
    pub(super) fn push_cell(&mut self, cell: &ParquetCell) {
        self.levels.push((!matches!(cell, ParquetCell::Absent)).into(), 1);
        match (cell, &mut self.values) {
            (ParquetCell::Text(text), ColumnValues::Names(names)) => names.push(text, 1),
            (ParquetCell::Integer(value), ColumnValues::Integers(values))
            | (ParquetCell::Time(value), ColumnValues::Times(values)) => {
                values.push(*value);
            }
            (ParquetCell::Number(value), ColumnValues::Numbers(values)) => values.push(*value),
            (ParquetCell::Flag(value), ColumnValues::Flags(values)) => values.push(*value),
            _ => {}
        }
    }

    /// The same text in so many rows.
    pub(crate) fn push_text_run(&mut self, name: Option<&str>, times: usize) {
        self.levels.push(name.is_some().into(), times);
        if let (Some(name), ColumnValues::Names(names)) = (name, &mut self.values) {
            names.push(name, times);
        }
    }

    /// A number in one row.
    pub(crate) fn push_number(&mut self, value: Option<f64>) {
        self.levels.push(value.is_some().into(), 1);
        if let (Some(value), ColumnValues::Numbers(values)) = (value, &mut self.values) {
            values.push(value);
        }
    }

    /// Nothing in so many rows.
    pub(crate) fn push_nulls(&mut self, times: usize) {
        self.levels.push(0, times);
    }

    /// A moment in one row.
    pub(crate) fn push_time(&mut self, value: i64) {
        self.levels.push(1, 1);
        if let ColumnValues::Times(values) = &mut self.values {
            values.push(value);
        }
    }

    /// Forgets its values: they are written.
    pub(super) fn clear(&mut self) {
        self.levels = RleRuns::default();
        match &mut self.values {
            ColumnValues::Times(values) | ColumnValues::Integers(values) => values.clear(),
            ColumnValues::Numbers(values) => values.clear(),
            ColumnValues::Flags(values) => values.clear(),
            ColumnValues::Names(names) => *names = DictionaryValues::default(),
        }
    }

    pub(super) const fn physical_type(&self) -> i32 {
        match self.values {
            ColumnValues::Times(_) | ColumnValues::Integers(_) => INT64,
            ColumnValues::Numbers(_) => DOUBLE,
            ColumnValues::Flags(_) => BOOLEAN,
            ColumnValues::Names(_) => BYTE_ARRAY,
        }
    }
}

/// A column in the schema.
pub(super) fn encode_schema_element(column: &ParquetColumn, utc: bool) -> Vec<u8> {
    let element = Struct::new()
        .with_i32(1, column.physical_type())
        .with_i32(3, column.optional.into())
        .with_bytes(4, column.name.as_bytes());
    match column.values {
        ColumnValues::Numbers(_) | ColumnValues::Integers(_) | ColumnValues::Flags(_) => {
            element.finish()
        }
        ColumnValues::Names(_) => element
            .with_i32(6, UTF8)
            .with_struct(10, Struct::new().with_struct(1, Struct::new()))
            .finish(),
        ColumnValues::Times(_) => {
            let millis = Struct::new().with_struct(1, Struct::new());
            let timestamp = Struct::new().with_bool(1, utc).with_struct(2, millis);
            // The older name of the type means UTC, so a wall clock's has none.
            let element = if utc { element.with_i32(6, TIMESTAMP_MILLIS) } else { element };
            element.with_struct(10, Struct::new().with_struct(8, timestamp)).finish()
        }
    }
}
