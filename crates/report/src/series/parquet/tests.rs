use std::fs::File;
use std::time::Duration;

use ::parquet::file::reader::{FileReader, SerializedFileReader};
use ::parquet::record::{Field, Row, RowAccessor};
use hugewise_investigate::series::Offset;
use hugewise_investigate::{Moment, Series};
use proptest::prelude::*;

use super::*;
use crate::parquet::GROUP;
use crate::testing::sample_investigations;

fn written(series: &[(Option<&str>, &Series)]) -> SerializedFileReader<File> {
    let mut writer = SeriesParquetWriter::new(tempfile::tempfile().unwrap()).unwrap();
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
    let storm = sample_investigations::storm_investigation();
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
    assert_eq!(
        reader.metadata().file_metadata().created_by().unwrap().split(' ').next(),
        Some("hugewise")
    );
    let time = reader.metadata().row_group(0).column(2).statistics().unwrap();
    assert_eq!(time.min_bytes_opt().unwrap(), series.samples()[0].at.0.to_le_bytes());
    let buffers = Metric::ALL.iter().position(|metric| *metric == Metric::Buffers).unwrap();
    let buffers = reader.metadata().row_group(0).column(4 + buffers).statistics().unwrap();
    assert_eq!((buffers.null_count_opt(), buffers.min_bytes_opt()), (Some(143), None));
}

#[test]
fn more_rows_than_a_group_holds_and_more_hosts_than_a_byte_counts() {
    let mut long = Series::new(
        "/long",
        hugewise_investigate::SourceFormat::Loop(hugewise_investigate::CollectedTool::Vmstat),
    );
    long.clock = Clock::Utc { offsets: vec![Offset { from: Moment(0), seconds: 3600 }] };
    let rows_of = i64::try_from(GROUP).unwrap() + 1000;
    for row in 0..rows_of {
        long.push(Moment::from_seconds(row), Some(Duration::from_secs(1)));
        long.set_value(Metric::RunQueue, f64::from(u32::try_from(row % 7).unwrap()));
    }
    let mut short = Series::new(
        "/short",
        hugewise_investigate::SourceFormat::Loop(hugewise_investigate::CollectedTool::Vmstat),
    );
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
    assert_eq!(
        rows(&written(&[(
            None,
            &Series::new(
                "/empty",
                hugewise_investigate::SourceFormat::Loop(
                    hugewise_investigate::CollectedTool::Vmstat
                )
            )
        )]))
        .len(),
        0
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn any_rows_come_back(values in prop::collection::vec((any::<i64>(), prop::option::of(0.0_f64..1e300)), 0..80), name in "\\PC{0,12}") {
        let mut series = Series::new(name.clone(), hugewise_investigate::SourceFormat::Loop(hugewise_investigate::CollectedTool::Vmstat));
        for (at, value) in &values {
            series.push(Moment(*at), None);
            value.iter().for_each(|value| series.set_value(Metric::Load1, *value));
        }
        let rows = rows(&written(&[(Some(&name), &series)]));
        prop_assert_eq!(rows.len(), values.len());
        for (row, (at, value)) in rows.iter().zip(&values) {
            prop_assert_eq!(field(row, "time"), &Field::TimestampMillis(*at));
            prop_assert_eq!(field(row, "load_1"), &value.map_or(Field::Null, Field::Double));
            prop_assert_eq!(field(row, "host"), &Field::Str(name.clone()));
        }
    }
}
