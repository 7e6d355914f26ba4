//! Rows of series as Parquet. Times are of UTC where all clocks of the file are.

use std::io::{self, Write};

use hugewise_investigate::{Clock, Metric, Series};

use super::{FIRST, LAST, clock_word};
use crate::parquet::{self, ColumnKind, ParquetColumn};

/// Writes rows as they come.
pub(super) struct SeriesParquetWriter<W> {
    table: parquet::ParquetWriter<W>,
    all_utc: bool,
}

impl<W: Write> SeriesParquetWriter<W> {
    pub(super) fn new(out: W) -> io::Result<Self> {
        let [host, source, time, interval] = FIRST;
        let mut columns = vec![
            ParquetColumn::new(host, ColumnKind::Text, true),
            ParquetColumn::new(source, ColumnKind::Text, false),
            ParquetColumn::new(time, ColumnKind::Time, false),
            ParquetColumn::new(interval, ColumnKind::Number, true),
        ];
        columns.extend(
            Metric::ALL
                .iter()
                .map(|metric| ParquetColumn::new(metric.name(), ColumnKind::Number, true)),
        );
        columns.push(ParquetColumn::new(LAST, ColumnKind::Text, false));
        Ok(Self { table: parquet::ParquetWriter::new(out, "series", columns)?, all_utc: true })
    }

    /// Takes the rows of a series, and writes those for which there is no room.
    pub(super) fn add(&mut self, host: Option<&str>, series: &Series) -> io::Result<()> {
        if !series.samples().is_empty() {
            self.all_utc &= matches!(series.clock, Clock::Utc { .. });
        }
        let mut from = 0;
        while from < series.samples().len() {
            let to = series.samples().len().min(from + self.table.rows_until_full());
            self.write_rows(host, series, from, to)?;
            from = to;
        }
        Ok(())
    }

    fn write_rows(
        &mut self,
        host: Option<&str>,
        series: &Series,
        from: usize,
        to: usize,
    ) -> io::Result<()> {
        let samples = series.samples().get(from..to).unwrap_or_default();
        let mut columns = self.table.columns_mut();
        if let Some(column) = columns.next() {
            column.push_text_run(host, samples.len());
        }
        if let Some(column) = columns.next() {
            column.push_text_run(Some(&series.source), samples.len());
        }
        if let Some(column) = columns.next() {
            samples.iter().for_each(|sample| column.push_time(sample.at.0));
        }
        if let Some(column) = columns.next() {
            samples.iter().for_each(|sample| {
                column.push_number(sample.interval.map(|interval| interval.as_secs_f64()))
            });
        }
        for metric in Metric::ALL {
            let Some(column) = columns.next() else { break };
            match series.column(*metric) {
                Some(values) => (from..to).for_each(|row| column.push_number(values.get(row))),
                None => column.push_nulls(samples.len()),
            }
        }
        if let Some(column) = columns.next() {
            column.push_text_run(Some(clock_word(&series.clock)), samples.len());
        }
        self.table.commit_rows(samples.len())
    }

    /// Writes what is left, and the footer.
    pub(super) fn finish(self) -> io::Result<W> {
        self.table.finish(self.all_utc)
    }
}

#[cfg(test)]
mod tests;
