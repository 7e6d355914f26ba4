//! The columns of a file, and what of them waits for its row group.

use std::collections::HashMap;

use super::thrift::{Struct, varint};
use super::{BOOLEAN, BYTE_ARRAY, Cell, DOUBLE, INT64, TIMESTAMP_MILLIS, UTF8};

/// Values of a column that wait for their row group.
pub struct Column {
    pub(super) name: &'static str,
    pub(super) optional: bool,
    /// Present or absent, and how many rows in a row.
    pub(super) levels: Runs,
    pub(super) values: Values,
}

pub(super) enum Values {
    /// Milliseconds since the epoch.
    Times(Vec<i64>),
    Integers(Vec<i64>),
    Numbers(Vec<f64>),
    Flags(Vec<bool>),
    Names(Names),
}

/// Distinct texts, and for each row which.
#[derive(Default)]
pub(super) struct Names {
    pub(super) distinct: Vec<String>,
    places: HashMap<String, u32>,
    pub(super) which: Runs,
}

impl Names {
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
pub(super) struct Runs(Vec<(u32, u64)>);

impl Runs {
    const NONE: Self = Self(Vec::new());

    pub(super) fn push(&mut self, value: u32, times: usize) {
        let times = u64::try_from(times).unwrap_or(u64::MAX);
        match self.0.last_mut() {
            _ if times == 0 => {}
            Some((last, count)) if *last == value => *count += times,
            _ => self.0.push((value, times)),
        }
    }

    /// Encoded as RLE runs of so many bytes a value.
    pub(super) fn encoded(&self, width: usize) -> Vec<u8> {
        let mut out = Vec::new();
        for (value, times) in &self.0 {
            varint(&mut out, times << 1);
            out.extend(value.to_le_bytes().into_iter().take(width));
        }
        out
    }

    /// How many of the values are this one.
    pub(super) fn count(&self, of: u32) -> u64 {
        self.0.iter().filter(|(value, _)| *value == of).map(|(_, times)| times).sum()
    }
}

impl Column {
    fn new(name: &'static str, optional: bool, values: Values) -> Self {
        Self { name, optional, levels: Runs::default(), values }
    }

    /// A column of texts; optional ones may be absent.
    pub fn texts(name: &'static str, optional: bool) -> Self {
        Self::new(name, optional, Values::Names(Names::default()))
    }

    /// A column of whole numbers.
    pub const fn integers(name: &'static str, optional: bool) -> Self {
        Self { name, optional, levels: Runs::NONE, values: Values::Integers(Vec::new()) }
    }

    /// A column of numbers.
    pub const fn numbers(name: &'static str, optional: bool) -> Self {
        Self { name, optional, levels: Runs::NONE, values: Values::Numbers(Vec::new()) }
    }

    /// A column of what is so or not.
    pub const fn flags(name: &'static str, optional: bool) -> Self {
        Self { name, optional, levels: Runs::NONE, values: Values::Flags(Vec::new()) }
    }

    /// A column of moments, in milliseconds since the epoch.
    pub const fn times(name: &'static str, optional: bool) -> Self {
        Self { name, optional, levels: Runs::NONE, values: Values::Times(Vec::new()) }
    }

    /// Whether a row may have this in the column.
    pub(super) const fn takes(&self, cell: &Cell) -> bool {
        match (cell, &self.values) {
            (Cell::Absent, _) => self.optional,
            (Cell::Text(_), Values::Names(_))
            | (Cell::Integer(_), Values::Integers(_))
            | (Cell::Number(_), Values::Numbers(_))
            | (Cell::Flag(_), Values::Flags(_))
            | (Cell::Time(_), Values::Times(_)) => true,
            _ => false,
        }
    }

    /// Takes what [`takes`](Self::takes) has let in.
    pub(super) fn put(&mut self, cell: &Cell) {
        self.levels.push((!matches!(cell, Cell::Absent)).into(), 1);
        match (cell, &mut self.values) {
            (Cell::Text(text), Values::Names(names)) => names.push(text, 1),
            (Cell::Integer(value), Values::Integers(values)) | (Cell::Time(value), Values::Times(values)) => {
                values.push(*value);
            }
            (Cell::Number(value), Values::Numbers(values)) => values.push(*value),
            (Cell::Flag(value), Values::Flags(values)) => values.push(*value),
            _ => {}
        }
    }

    /// The same text in so many rows.
    pub(crate) fn name(&mut self, name: Option<&str>, times: usize) {
        self.levels.push(name.is_some().into(), times);
        if let (Some(name), Values::Names(names)) = (name, &mut self.values) {
            names.push(name, times);
        }
    }

    /// A number in one row.
    pub(crate) fn number(&mut self, value: Option<f64>) {
        self.levels.push(value.is_some().into(), 1);
        if let (Some(value), Values::Numbers(values)) = (value, &mut self.values) {
            values.push(value);
        }
    }

    /// Nothing in so many rows.
    pub(crate) fn absent(&mut self, times: usize) {
        self.levels.push(0, times);
    }

    /// A moment in one row.
    pub(crate) fn time(&mut self, value: i64) {
        self.levels.push(1, 1);
        if let Values::Times(values) = &mut self.values {
            values.push(value);
        }
    }

    /// Forgets its values: they are written.
    pub(super) fn clear(&mut self) {
        self.levels = Runs::default();
        match &mut self.values {
            Values::Times(values) | Values::Integers(values) => values.clear(),
            Values::Numbers(values) => values.clear(),
            Values::Flags(values) => values.clear(),
            Values::Names(names) => *names = Names::default(),
        }
    }

    pub(super) const fn kind(&self) -> i32 {
        match self.values {
            Values::Times(_) | Values::Integers(_) => INT64,
            Values::Numbers(_) => DOUBLE,
            Values::Flags(_) => BOOLEAN,
            Values::Names(_) => BYTE_ARRAY,
        }
    }
}

/// A column in the schema.
pub(super) fn element(column: &Column, utc: bool) -> Vec<u8> {
    let element = Struct::new().i32(1, column.kind()).i32(3, column.optional.into()).bytes(4, column.name.as_bytes());
    match column.values {
        Values::Numbers(_) | Values::Integers(_) | Values::Flags(_) => element.end(),
        Values::Names(_) => element.i32(6, UTF8).inner(10, Struct::new().inner(1, Struct::new())).end(),
        Values::Times(_) => {
            let millis = Struct::new().inner(1, Struct::new());
            let timestamp = Struct::new().flag(1, utc).inner(2, millis);
            // The older name of the type means UTC, so a wall clock's has none.
            let element = if utc { element.i32(6, TIMESTAMP_MILLIS) } else { element };
            element.inner(10, Struct::new().inner(8, timestamp)).end()
        }
    }
}
