//! Rows as text: RFC 4180 with line feeds.

use std::io::{self, Write};

use hugewise_investigate::{Metric, MetricColumn, Series};
use hugewise_model::escape::csv::escape_csv_cell;

use super::{FIRST, LAST, clock_word};

pub(super) struct SeriesCsvWriter<W> {
    out: W,
}

impl<W: Write> SeriesCsvWriter<W> {
    pub(super) fn new(mut out: W) -> io::Result<Self> {
        out.write_all(FIRST.join(",").as_bytes())?;
        for metric in Metric::ALL {
            write!(out, ",{}", metric.name())?;
        }
        writeln!(out, ",{LAST}")?;
        Ok(Self { out })
    }

    pub(super) fn add(&mut self, host: Option<&str>, series: &Series) -> io::Result<()> {
        let (host, source) =
            (escape_csv_cell(host.unwrap_or_default()), escape_csv_cell(&series.source));
        let columns: Vec<Option<&MetricColumn>> =
            Metric::ALL.iter().map(|metric| series.column(*metric)).collect();
        let clock = clock_word(&series.clock);
        for (row, sample) in series.samples().iter().enumerate() {
            let time = series.clock.format_known(sample.at).unwrap_or_default();
            write!(self.out, "{host},{source},{time},")?;
            if let Some(interval) = sample.interval {
                write!(self.out, "{}", interval.as_secs_f64())?;
            }
            for column in &columns {
                match column.and_then(|column| column.get(row)) {
                    Some(value) => write!(self.out, ",{value}")?,
                    None => self.out.write_all(b",")?,
                }
            }
            writeln!(self.out, ",{clock}")?;
        }
        Ok(())
    }

    pub(super) fn finish(self) -> W {
        self.out
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use hugewise_investigate::{Clock, Moment};

    use super::*;
    use crate::testing::sample_investigations;

    fn written(series: &[(Option<&str>, &Series)]) -> String {
        let mut writer = SeriesCsvWriter::new(Vec::new()).unwrap();
        for (host, series) in series {
            writer.add(*host, series).unwrap();
        }
        String::from_utf8(writer.finish()).unwrap()
    }

    fn at<'a>(text: &'a str, row: usize, column: &str) -> &'a str {
        let place =
            text.lines().next().unwrap().split(',').position(|name| name == column).unwrap();
        text.lines().nth(row).unwrap().split(',').nth(place).unwrap()
    }

    #[test]
    fn every_value_is_in_its_column_and_what_is_absent_is_empty() {
        let storm = sample_investigations::storm_investigation();
        let history = &storm.hosts[0];
        let text = written(&[(history.host.as_deref(), &history.series[0])]);
        assert!(
            text.starts_with("host,source,time,interval_seconds,cpu_user_percent,"),
            "{}",
            &text[..200]
        );
        assert_eq!(text.lines().count(), 144);
        let first = |column| at(&text, 1, column);
        assert_eq!(
            [
                first("host"),
                first("source"),
                first("time"),
                first("interval_seconds"),
                first("clock")
            ],
            ["db7", "/var/log/sa/sa02", "2026-03-02T00:10:00-05:00", "", "utc"]
        );
        assert_eq!(
            (at(&text, 2, "interval_seconds"), first("mem_total_bytes")),
            ("600", "21474836480")
        );
        assert_eq!((first("huge_total_bytes"), first("buffers_bytes")), ("0", ""));
        let rows = text.lines().map(|line| line.split(',').count());
        assert!(
            rows.clone().all(|count| count == Metric::ALL.len() + 5),
            "{:?}",
            rows.collect::<Vec<_>>()
        );
    }

    #[test]
    fn hosts_and_clocks_stand_beside_each_other_and_names_are_quoted() {
        let mut series = Series::new(
            "a,b\n\"c\"",
            hugewise_investigate::SourceFormat::Loop(hugewise_investigate::CollectedTool::Vmstat),
        );
        series.push(Moment(1_500), Some(Duration::from_millis(500)));
        series.set_value(Metric::RunQueue, 1e-7);
        let mut other = Series::new(
            "/x",
            hugewise_investigate::SourceFormat::Loop(hugewise_investigate::CollectedTool::Vmstat),
        );
        other.clock = Clock::Utc { offsets: Vec::new() };
        other.push(Moment(i64::MAX), None);
        other.push(Moment(0), None);
        let text = written(&[(None, &series), (Some("web"), &other)]);
        let body = text.split_once('\n').unwrap().1;
        assert!(body.starts_with(",\"a,b\n\"\"c\"\"\",1970-01-01T00:00:01.5,0.5,,"), "{body}");
        assert!(body.contains(",0.0000001,"), "{body}");
        assert!(
            body.contains("\nweb,/x,,,,") && body.contains("\nweb,/x,1970-01-01T00:00:00Z,,"),
            "{body}"
        );
    }
}
