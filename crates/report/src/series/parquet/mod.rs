//! Rows of series as Parquet. Times are of UTC where all clocks of the file are.

use std::io::{self, Write};

use hugewise_incident::{Clock, Metric, Series};

use super::{FIRST, LAST, clock_word};
use crate::parquet::{self, Column};

/// Writes rows as they come.
pub(super) struct Writer<W> {
    table: parquet::Writer<W>,
    all_utc: bool,
}

impl<W: Write> Writer<W> {
    pub(super) fn new(out: W) -> io::Result<Self> {
        let [host, source, time, interval] = FIRST;
        let mut columns = vec![
            Column::texts(host, true),
            Column::texts(source, false),
            Column::times(time, false),
            Column::numbers(interval, true),
        ];
        columns.extend(Metric::ALL.iter().map(|metric| Column::numbers(metric.name(), true)));
        columns.push(Column::texts(LAST, false));
        Ok(Self { table: parquet::Writer::new(out, "series", columns)?, all_utc: true })
    }

    /// Takes the rows of a series, and writes those for which there is no room.
    pub(super) fn add(&mut self, host: Option<&str>, series: &Series) -> io::Result<()> {
        if !series.samples().is_empty() {
            self.all_utc &= matches!(series.clock, Clock::Utc { .. });
        }
        let mut from = 0;
        while from < series.samples().len() {
            let to = series.samples().len().min(from + self.table.room());
            self.take(host, series, from, to)?;
            from = to;
        }
        Ok(())
    }

    fn take(&mut self, host: Option<&str>, series: &Series, from: usize, to: usize) -> io::Result<()> {
        let samples = series.samples().get(from..to).unwrap_or_default();
        let mut columns = self.table.columns();
        if let Some(column) = columns.next() {
            column.name(host, samples.len());
        }
        if let Some(column) = columns.next() {
            column.name(Some(&series.source), samples.len());
        }
        if let Some(column) = columns.next() {
            samples.iter().for_each(|sample| column.time(sample.at.0));
        }
        if let Some(column) = columns.next() {
            samples.iter().for_each(|sample| column.number(sample.interval.map(|interval| interval.as_secs_f64())));
        }
        for metric in Metric::ALL {
            let Some(column) = columns.next() else { break };
            match series.column(*metric) {
                Some(values) => (from..to).for_each(|row| column.number(values.get(row))),
                None => column.absent(samples.len()),
            }
        }
        if let Some(column) = columns.next() {
            column.name(Some(clock_word(&series.clock)), samples.len());
        }
        self.table.added(samples.len())
    }

    /// Writes what is left, and the footer.
    pub(super) fn finish(self) -> io::Result<W> {
        self.table.finish(self.all_utc)
    }
}

#[cfg(test)]
mod tests;
