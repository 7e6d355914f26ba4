//! The columns of a file, and what of them waits for its row group.

use super::super::thrift::{Struct, varint};
use super::{BYTE_ARRAY, DOUBLE, INT64, TIMESTAMP_MILLIS, UTF8};

/// Values of a column that wait for their row group.
pub(super) struct Column {
    pub(super) name: &'static str,
    pub(super) optional: bool,
    /// Present or absent, and how many rows in a row.
    pub(super) levels: Runs,
    pub(super) values: Values,
}

pub(super) enum Values {
    Times(Vec<i64>),
    Numbers(Vec<f64>),
    /// Distinct ones, and for each row which.
    Names(Vec<String>, Runs),
}

/// A number and how many times it follows itself.
#[derive(Default)]
pub(super) struct Runs(Vec<(u32, u64)>);

impl Runs {
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
    pub(super) fn new(name: &'static str, optional: bool, values: Values) -> Self {
        Self { name, optional, levels: Runs::default(), values }
    }

    pub(super) fn name(&mut self, name: Option<&str>, times: usize) {
        self.levels.push(name.is_some().into(), times);
        if let (Some(name), Values::Names(names, which)) = (name, &mut self.values) {
            let place = names.iter().position(|known| known == name).unwrap_or_else(|| {
                names.push(name.to_owned());
                names.len() - 1
            });
            which.push(u32::try_from(place).unwrap_or(u32::MAX), times);
        }
    }

    pub(super) fn number(&mut self, value: Option<f64>) {
        self.levels.push(value.is_some().into(), 1);
        if let (Some(value), Values::Numbers(values)) = (value, &mut self.values) {
            values.push(value);
        }
    }

    pub(super) fn time(&mut self, value: i64) {
        self.levels.push(1, 1);
        if let Values::Times(values) = &mut self.values {
            values.push(value);
        }
    }

    pub(super) const fn kind(&self) -> i32 {
        match self.values {
            Values::Times(_) => INT64,
            Values::Numbers(_) => DOUBLE,
            Values::Names(..) => BYTE_ARRAY,
        }
    }
}

pub(super) fn names() -> Values {
    Values::Names(Vec::new(), Runs::default())
}

/// A column in the schema.
pub(super) fn element(column: &Column, utc: bool) -> Vec<u8> {
    let element = Struct::new().i32(1, column.kind()).i32(3, column.optional.into()).bytes(4, column.name.as_bytes());
    match column.values {
        Values::Numbers(_) => element.end(),
        Values::Names(..) => element.i32(6, UTF8).inner(10, Struct::new().inner(1, Struct::new())).end(),
        Values::Times(_) => {
            let millis = Struct::new().inner(1, Struct::new());
            let timestamp = Struct::new().flag(1, utc).inner(2, millis);
            // The older name of the type means UTC, so a wall clock's has none.
            let element = if utc { element.i32(6, TIMESTAMP_MILLIS) } else { element };
            element.inner(10, Struct::new().inner(8, timestamp)).end()
        }
    }
}
