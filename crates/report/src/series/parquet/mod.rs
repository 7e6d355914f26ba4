//! Rows as Parquet: the small part of the format that rows of numbers need. The library that writes all of it would add
//! a megabyte to the program; the tests read with it what is written here.
//!
//! Row groups of a column chunk each with one data page (version 1, GZIP). Numbers are PLAIN, names are in a dictionary,
//! what is absent is in the definition levels. (Apache Parquet 2.11, `parquet.thrift`, `Encodings.md`.) Times are
//! TIMESTAMP in milliseconds; of UTC where all clocks of the file are.

mod chunk;
mod column;

use std::io::{self, Write};
use std::mem;

use hugewise_incident::{Clock, Metric, Series};

use self::chunk::Chunk;
use self::column::{Column, Runs, Values, element, names};
use super::thrift::Struct;
use super::{FIRST, LAST, clock_word, fits};

/// Rows that are held back until they are written: some thirty megabytes where every metric is there.
const GROUP: usize = if cfg!(test) { 1 << 9 } else { 1 << 16 };

const MAGIC: &[u8; 4] = b"PAR1";
const INT64: i32 = 2;
const DOUBLE: i32 = 5;
const BYTE_ARRAY: i32 = 6;
const PLAIN: i32 = 0;
const RLE: i32 = 3;
const RLE_DICTIONARY: i32 = 8;
const GZIP: i32 = 2;
const DATA_PAGE: i32 = 0;
const DICTIONARY_PAGE: i32 = 2;
const UTF8: i32 = 0;
const TIMESTAMP_MILLIS: i32 = 9;

/// Writes rows as they come, a row group at a time.
pub(super) struct Writer<W> {
    out: W,
    at: i64,
    rows: usize,
    all_rows: i64,
    columns: Vec<Column>,
    groups: Vec<Vec<u8>>,
    all_utc: bool,
}

impl<W: Write> Writer<W> {
    pub(super) fn new(mut out: W) -> io::Result<Self> {
        out.write_all(MAGIC)?;
        let [host, source, time, interval] = FIRST;
        let mut columns = vec![
            Column::new(host, true, names()),
            Column::new(source, false, names()),
            Column::new(time, false, Values::Times(Vec::new())),
            Column::new(interval, true, Values::Numbers(Vec::new())),
        ];
        columns.extend(Metric::ALL.iter().map(|metric| Column::new(metric.name(), true, Values::Numbers(Vec::new()))));
        columns.push(Column::new(LAST, false, names()));
        Ok(Self { out, at: 4, rows: 0, all_rows: 0, columns, groups: Vec::new(), all_utc: true })
    }

    /// Takes the rows of a series, and writes those for which there is no room.
    pub(super) fn add(&mut self, host: Option<&str>, series: &Series) -> io::Result<()> {
        if !series.samples().is_empty() {
            self.all_utc &= matches!(series.clock, Clock::Utc { .. });
        }
        let mut from = 0;
        while from < series.samples().len() {
            let to = series.samples().len().min(from + GROUP - self.rows);
            self.take(host, series, from, to);
            if self.rows == GROUP {
                self.write_group()?;
            }
            from = to;
        }
        Ok(())
    }

    fn take(&mut self, host: Option<&str>, series: &Series, from: usize, to: usize) {
        let samples = series.samples().get(from..to).unwrap_or_default();
        let mut columns = self.columns.iter_mut();
        let mut next = || columns.next();
        if let Some(column) = next() {
            column.name(host, samples.len());
        }
        if let Some(column) = next() {
            column.name(Some(&series.source), samples.len());
        }
        if let Some(column) = next() {
            samples.iter().for_each(|sample| column.time(sample.at.0));
        }
        if let Some(column) = next() {
            samples.iter().for_each(|sample| column.number(sample.interval.map(|interval| interval.as_secs_f64())));
        }
        for metric in Metric::ALL {
            let Some(column) = next() else { break };
            match series.column(*metric) {
                Some(values) => (from..to).for_each(|row| column.number(values.get(row))),
                None => column.levels.push(0, samples.len()),
            }
        }
        if let Some(column) = next() {
            column.name(Some(clock_word(&series.clock)), samples.len());
        }
        self.rows += samples.len();
    }

    fn write_group(&mut self) -> io::Result<()> {
        let rows: i64 = fits(mem::take(&mut self.rows))?;
        let start = self.at;
        let mut chunks = Vec::with_capacity(self.columns.len());
        let (mut plain_size, mut size) = (0, 0);
        for column in &mut self.columns {
            let chunk = Chunk::of(column, rows)?;
            self.out.write_all(&chunk.bytes)?;
            chunks.push(chunk.about(column, self.at, rows)?);
            plain_size += chunk.plain_size;
            size += fits::<_, i64>(chunk.bytes.len())?;
            self.at += fits::<_, i64>(chunk.bytes.len())?;
            column.levels = Runs::default();
            match &mut column.values {
                Values::Times(values) => values.clear(),
                Values::Numbers(values) => values.clear(),
                Values::Names(names, which) => {
                    names.clear();
                    *which = Runs::default();
                }
            }
        }
        self.all_rows += rows;
        let group = Struct::new().structs(1, &chunks).i64(2, plain_size).i64(3, rows);
        self.groups.push(group.i64(5, start).i64(6, size).end());
        Ok(())
    }

    /// Writes what is left, and the footer.
    pub(super) fn finish(mut self) -> io::Result<W> {
        if self.rows > 0 {
            self.write_group()?;
        }
        let root = Struct::new().bytes(4, b"series").i32(5, fits(self.columns.len())?).end();
        let mut schema = vec![root];
        schema.extend(self.columns.iter().map(|column| element(column, self.all_utc)));
        // Statistics are in the order of each type.
        let order = Struct::new().inner(1, Struct::new()).end();
        let footer = Struct::new()
            .i32(1, 1)
            .structs(2, &schema)
            .i64(3, self.all_rows)
            .structs(4, &self.groups)
            .bytes(6, concat!("hugewise version ", env!("CARGO_PKG_VERSION")).as_bytes())
            .structs(7, &vec![order; self.columns.len()])
            .end();
        self.out.write_all(&footer)?;
        self.out.write_all(&fits::<_, u32>(footer.len())?.to_le_bytes())?;
        self.out.write_all(MAGIC)?;
        Ok(self.out)
    }
}

#[cfg(test)]
mod tests;
