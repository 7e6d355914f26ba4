//! Rows as Parquet: the small part of the format that rows of numbers need. The library that writes all of it would add
//! a megabyte to the program; the tests read with it what is written here.
//!
//! Row groups of a column chunk each with one data page (version 1, GZIP). Numbers are PLAIN, names are in a dictionary,
//! what is absent is in the definition levels. (Apache Parquet 2.11, `parquet.thrift`, `Encodings.md`.) Times are
//! TIMESTAMP in milliseconds; of UTC where all clocks of the file are.

use std::io::{self, Write};
use std::mem;

use flate2::Compression;
use flate2::write::GzEncoder;
use hugewise_incident::{Clock, Metric, Series};

use super::thrift::{Struct, varint};
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

/// Values of a column that wait for their row group.
struct Column {
    name: &'static str,
    optional: bool,
    /// Present or absent, and how many rows in a row.
    levels: Runs,
    values: Values,
}

enum Values {
    Times(Vec<i64>),
    Numbers(Vec<f64>),
    /// Distinct ones, and for each row which.
    Names(Vec<String>, Runs),
}

/// A number and how many times it follows itself.
#[derive(Default)]
struct Runs(Vec<(u32, u64)>);

impl Runs {
    fn push(&mut self, value: u32, times: usize) {
        let times = u64::try_from(times).unwrap_or(u64::MAX);
        match self.0.last_mut() {
            _ if times == 0 => {}
            Some((last, count)) if *last == value => *count += times,
            _ => self.0.push((value, times)),
        }
    }

    /// Encoded as RLE runs of so many bytes a value.
    fn encoded(&self, width: usize) -> Vec<u8> {
        let mut out = Vec::new();
        for (value, times) in &self.0 {
            varint(&mut out, times << 1);
            out.extend(value.to_le_bytes().into_iter().take(width));
        }
        out
    }

    /// How many of the values are this one.
    fn count(&self, of: u32) -> u64 {
        self.0.iter().filter(|(value, _)| *value == of).map(|(_, times)| times).sum()
    }
}

impl Column {
    fn new(name: &'static str, optional: bool, values: Values) -> Self {
        Self { name, optional, levels: Runs::default(), values }
    }

    fn name(&mut self, name: Option<&str>, times: usize) {
        self.levels.push(name.is_some().into(), times);
        if let (Some(name), Values::Names(names, which)) = (name, &mut self.values) {
            let place = names.iter().position(|known| known == name).unwrap_or_else(|| {
                names.push(name.to_owned());
                names.len() - 1
            });
            which.push(u32::try_from(place).unwrap_or(u32::MAX), times);
        }
    }

    fn number(&mut self, value: Option<f64>) {
        self.levels.push(value.is_some().into(), 1);
        if let (Some(value), Values::Numbers(values)) = (value, &mut self.values) {
            values.push(value);
        }
    }

    fn time(&mut self, value: i64) {
        self.levels.push(1, 1);
        if let Values::Times(values) = &mut self.values {
            values.push(value);
        }
    }

    const fn kind(&self) -> i32 {
        match self.values {
            Values::Times(_) => INT64,
            Values::Numbers(_) => DOUBLE,
            Values::Names(..) => BYTE_ARRAY,
        }
    }
}

fn names() -> Values {
    Values::Names(Vec::new(), Runs::default())
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

/// A column in the schema.
fn element(column: &Column, utc: bool) -> Vec<u8> {
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

/// A column chunk as it is on the disk.
struct Chunk {
    bytes: Vec<u8>,
    /// Size without compression, headers counted.
    plain_size: i64,
    /// Where the data page begins, behind the dictionary.
    data_at: i64,
    least_and_most: Option<(Vec<u8>, Vec<u8>)>,
}

impl Chunk {
    fn of(column: &Column, rows: i64) -> io::Result<Self> {
        let mut chunk = Self { bytes: Vec::new(), plain_size: 0, data_at: 0, least_and_most: None };
        let mut page = Vec::new();
        if column.optional {
            let levels = column.levels.encoded(1);
            page.extend(fits::<_, u32>(levels.len())?.to_le_bytes());
            page.extend(levels);
        }
        let encoding = match &column.values {
            Values::Times(values) => {
                page.extend(values.iter().flat_map(|value| value.to_le_bytes()));
                let bytes = |value: Option<&i64>| value.map(|value| value.to_le_bytes().to_vec());
                chunk.least_and_most = bytes(values.iter().min()).zip(bytes(values.iter().max()));
                PLAIN
            }
            Values::Numbers(values) => {
                page.extend(values.iter().flat_map(|value| value.to_le_bytes()));
                let ends = values.iter().copied().fold(None, |ends: Option<(f64, f64)>, value| {
                    Some(ends.map_or((value, value), |(least, most)| (least.min(value), most.max(value))))
                });
                // A least zero is written as -0, and a most one as +0, so that no reader skips either.
                let least = |value: f64| if value == 0.0 { -0.0_f64 } else { value };
                chunk.least_and_most =
                    ends.map(|(low, high)| (least(low).to_le_bytes().to_vec(), (high + 0.0).to_le_bytes().to_vec()));
                PLAIN
            }
            Values::Names(names, which) => {
                let mut dictionary = Vec::new();
                for name in names {
                    dictionary.extend(fits::<_, u32>(name.len())?.to_le_bytes());
                    dictionary.extend_from_slice(name.as_bytes());
                }
                let about = Struct::new().i32(1, fits(names.len())?).i32(2, PLAIN);
                chunk.page(DICTIONARY_PAGE, 7, about, &dictionary)?;
                let width = 32 - fits::<_, u32>(names.len())?.leading_zeros();
                page.push(fits(width)?);
                page.extend(which.encoded(fits(width.div_ceil(8))?));
                let bytes = |name: Option<&String>| name.map(|name| name.clone().into_bytes());
                chunk.least_and_most = bytes(names.iter().min()).zip(bytes(names.iter().max()));
                RLE_DICTIONARY
            }
        };
        chunk.data_at = fits(chunk.bytes.len())?;
        let about = Struct::new().i32(1, fits(rows)?).i32(2, encoding).i32(3, RLE).i32(4, RLE);
        chunk.page(DATA_PAGE, 5, about, &page)?;
        Ok(chunk)
    }

    fn page(&mut self, kind: i32, field: u8, about: Struct, plain: &[u8]) -> io::Result<()> {
        let mut packer = GzEncoder::new(Vec::new(), Compression::fast());
        packer.write_all(plain)?;
        let packed = packer.finish()?;
        let header = Struct::new().i32(1, kind).i32(2, fits(plain.len())?).i32(3, fits(packed.len())?);
        let header = header.inner(field, about).end();
        self.plain_size += fits::<_, i64>(header.len() + plain.len())?;
        self.bytes.extend(header);
        self.bytes.extend(packed);
        Ok(())
    }

    /// What the footer says of it.
    fn about(&self, column: &Column, at: i64, rows: i64) -> io::Result<Vec<u8>> {
        let named = matches!(column.values, Values::Names(..));
        let encodings: &[i32] = if named { &[PLAIN, RLE, RLE_DICTIONARY] } else { &[PLAIN, RLE] };
        let mut about = Struct::new()
            .i32(1, column.kind())
            .numbers(2, encodings)
            .texts(3, &[column.name])
            .i32(4, GZIP)
            .i64(5, rows)
            .i64(6, self.plain_size)
            .i64(7, fits(self.bytes.len())?)
            .i64(9, at + self.data_at);
        if named {
            about = about.i64(11, at);
        }
        let mut statistics = Struct::new().i64(3, fits(column.levels.count(0))?);
        if let Some((least, most)) = &self.least_and_most {
            statistics = statistics.bytes(5, most).bytes(6, least);
        }
        Ok(Struct::new().i64(2, at).inner(3, about.inner(12, statistics)).end())
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::time::Duration;

    use ::parquet::file::reader::{FileReader, SerializedFileReader};
    use ::parquet::record::{Field, Row, RowAccessor};
    use hugewise_incident::series::Offset;
    use hugewise_incident::{Moment, Series};
    use proptest::prelude::*;

    use super::*;
    use crate::stories;

    fn written(series: &[(Option<&str>, &Series)]) -> SerializedFileReader<File> {
        let mut writer = Writer::new(tempfile::tempfile().unwrap()).unwrap();
        for (host, series) in series {
            writer.add(*host, series).unwrap();
        }
        SerializedFileReader::new(writer.finish().unwrap()).unwrap()
    }

    fn rows(reader: &SerializedFileReader<File>) -> Vec<Row> {
        reader.get_row_iter(None).unwrap().map(Result::unwrap).collect()
    }

    fn field<'a>(row: &'a Row, name: &str) -> &'a Field {
        row.get_column_iter().find(|(column, _)| *column == name).unwrap().1
    }

    #[test]
    fn a_reader_of_others_reads_what_was_written() {
        let storm = stories::storm();
        let series = &storm.hosts[0].series[0];
        let reader = written(&[(Some("db7"), series)]);
        let rows = rows(&reader);
        assert_eq!(rows.len(), series.samples().len());
        assert_eq!(field(&rows[0], "host"), &Field::Str("db7".into()));
        assert_eq!(field(&rows[0], "interval_seconds"), &Field::Null);
        assert_eq!(field(&rows[142], "source"), &Field::Str("/var/log/sa/sa02".into()));
        assert_eq!(field(&rows[142], "clock"), &Field::Str("utc".into()));
        assert_eq!(field(&rows[142], "interval_seconds"), &Field::Double(600.0));
        assert_eq!(field(&rows[142], "buffers_bytes"), &Field::Null);
        for (row, sample) in rows.iter().zip(series.samples()) {
            assert_eq!(field(row, "time"), &Field::TimestampMillis(sample.at.0));
        }
        for metric in series.metrics() {
            for (at, row) in rows.iter().enumerate() {
                let expected = series.value(metric, at).map_or(Field::Null, Field::Double);
                assert_eq!(field(row, metric.name()), &expected, "{} of row {at}", metric.name());
            }
        }
        assert_eq!(reader.metadata().file_metadata().created_by().unwrap().split(' ').next(), Some("hugewise"));
        let time = reader.metadata().row_group(0).column(2).statistics().unwrap();
        assert_eq!(time.min_bytes_opt().unwrap(), series.samples()[0].at.0.to_le_bytes());
        let buffers = Metric::ALL.iter().position(|metric| *metric == Metric::Buffers).unwrap();
        let buffers = reader.metadata().row_group(0).column(4 + buffers).statistics().unwrap();
        assert_eq!((buffers.null_count_opt(), buffers.min_bytes_opt()), (Some(143), None));
    }

    #[test]
    fn more_rows_than_a_group_holds_and_more_hosts_than_a_byte_counts() {
        let mut long = Series::new("/long", "vmstat");
        long.clock = Clock::Utc { offsets: vec![Offset { from: Moment(0), seconds: 3600 }] };
        let rows_of = i64::try_from(GROUP).unwrap() + 1000;
        for row in 0..rows_of {
            long.push(Moment::from_seconds(row), Some(Duration::from_secs(1)));
            long.set(Metric::RunQueue, f64::from(u32::try_from(row % 7).unwrap()));
        }
        let mut short = Series::new("/short", "vmstat");
        short.push(Moment(0), None);
        let names: Vec<String> = (0..300).map(|name| format!("h{name}")).collect();
        let mut all = vec![(None, &long)];
        all.extend(names.iter().map(|name| (Some(name.as_str()), &short)));
        let reader = written(&all);
        // 512 rows a group: 1,512 and 300.
        assert_eq!(reader.metadata().num_row_groups(), 4);
        let rows = rows(&reader);
        assert_eq!(rows.len(), GROUP + 1300);
        assert_eq!(
            (field(&rows[0], "host"), field(&rows[GROUP], "source")),
            (&Field::Null, &Field::Str("/long".into()))
        );
        assert_eq!(
            field(&rows[GROUP + 6], "run_queue"),
            &Field::Double(f64::from(u32::try_from((GROUP + 6) % 7).unwrap()))
        );
        assert_eq!(rows[GROUP + 1299].get_string(0).unwrap(), "h299");
        // One wall clock among them, and no time of the file may be called UTC.
        let element = reader.metadata().file_metadata().schema_descr().column(2);
        let logical = element.logical_type_ref().map(|logical| format!("{logical:?}")).unwrap();
        assert!(logical.contains("adjusted_to_u_t_c: false"), "{logical}");
    }

    #[test]
    fn a_file_without_rows_is_a_file() {
        assert_eq!(rows(&written(&[])).len(), 0);
        assert_eq!(rows(&written(&[(None, &Series::new("/empty", "vmstat"))])).len(), 0);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn any_rows_come_back(values in prop::collection::vec((any::<i64>(), prop::option::of(0.0_f64..1e300)), 0..80), name in "\\PC{0,12}") {
            let mut series = Series::new(name.clone(), "vmstat");
            for (at, value) in &values {
                series.push(Moment(*at), None);
                value.iter().for_each(|value| series.set(Metric::Load1, *value));
            }
            let rows = rows(&written(&[(Some(&name), &series)]));
            prop_assert_eq!(rows.len(), values.len());
            for (row, (_, value)) in rows.iter().zip(&values) {
                prop_assert_eq!(field(row, "load_1"), &value.map_or(Field::Null, Field::Double));
                prop_assert_eq!(field(row, "host"), &Field::Str(name.clone()));
            }
        }
    }
}
