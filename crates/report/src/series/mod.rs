//! Samples as rows, for those who keep their own lake: CSV or Parquet.
//!
//! Columns are `host`, `source`, `time`, `interval_seconds`, then every metric by its name, then
//! `clock`: `utc`, or `wall` where only the host's wall clock is known. What a source does not have
//! is empty.

use std::fs::File;
use std::io::{self, BufWriter};
use std::path::Path;

use hugewise_investigate::{Clock, IncidentHistory, Series};

use crate::unnamed_file::UnnamedFile;

mod csv;
mod parquet;

const FIRST: [&str; 4] = ["host", "source", "time", "interval_seconds"];
const LAST: &str = "clock";

/// A file of rows that takes its name only when it is [finished](Self::finish).
pub struct SeriesFile {
    format: SeriesFormat,
    file: UnnamedFile,
}

enum SeriesFormat {
    Csv(csv::SeriesCsvWriter<BufWriter<File>>),
    Parquet(Box<parquet::SeriesParquetWriter<BufWriter<File>>>),
}

impl SeriesFile {
    /// Begins a file, readable by its owner alone; its name ends in `.csv` or `.parquet`.
    ///
    /// # Errors
    /// Where the name ends otherwise, or the folder takes no file.
    pub fn create(path: &Path) -> io::Result<Self> {
        let ends_in = |end: &str| {
            path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case(end))
        };
        let (csv, parquet) = (ends_in("csv"), ends_in("parquet"));
        if !csv && !parquet {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "its name ends in neither .csv nor .parquet",
            ));
        }
        if path.is_dir() {
            return Err(io::Error::from(io::ErrorKind::IsADirectory));
        }
        let (file, out) = UnnamedFile::create(path, 0o600)?;
        let out = BufWriter::with_capacity(1 << 16, out);
        let format = if csv {
            SeriesFormat::Csv(csv::SeriesCsvWriter::new(out)?)
        } else {
            SeriesFormat::Parquet(Box::new(parquet::SeriesParquetWriter::new(out)?))
        };
        Ok(Self { format, file })
    }

    /// Writes a series; `host` goes before the series' own name of it.
    ///
    /// # Errors
    /// Where the disk is full.
    pub fn add(&mut self, host: Option<&str>, series: &Series) -> io::Result<()> {
        let host = host.or(series.host.as_deref());
        match &mut self.format {
            SeriesFormat::Csv(csv) => csv.add(host, series),
            SeriesFormat::Parquet(parquet) => parquet.add(host, series),
        }
    }

    /// Writes all series of a host, as [`add`](Self::add) does.
    pub fn add_all(&mut self, history: &IncidentHistory) -> io::Result<()> {
        history.series.iter().try_for_each(|series| self.add(history.host.as_deref(), series))
    }

    /// Syncs the file and gives it its name.
    ///
    /// # Errors
    /// Where the disk is full, or the name cannot be taken; nothing is left then.
    pub fn finish(self) -> io::Result<()> {
        let out = match self.format {
            SeriesFormat::Csv(csv) => csv.finish(),
            SeriesFormat::Parquet(parquet) => parquet.finish()?,
        };
        let out = out.into_inner().map_err(io::IntoInnerError::into_error)?;
        self.file.rename_to_target(&out)
    }
}

const fn clock_word(clock: &Clock) -> &'static str {
    match clock {
        Clock::Utc { .. } => "utc",
        Clock::Wall { .. } => "wall",
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::testing::sample_investigations;

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> = walk(folder);
        names.sort();
        names
    }

    #[allow(clippy::disallowed_methods)]
    fn walk(folder: &Path) -> Vec<String> {
        std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect()
    }

    #[test]
    fn a_file_is_there_when_it_is_whole_and_its_owners_alone() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["out.csv", "out.PARQUET"] {
            let path = folder.path().join(name);
            let mut file = SeriesFile::create(&path).unwrap();
            file.add_all(&sample_investigations::storm_investigation().hosts[0]).unwrap();
            assert!(!path.exists());
            drop(file);
            assert_eq!(names(folder.path()), [""; 0]);

            std::fs::write(&path, "old").unwrap();
            let mut file = SeriesFile::create(&path).unwrap();
            file.add_all(&sample_investigations::storm_investigation().hosts[0]).unwrap();
            file.finish().unwrap();
            assert_eq!(names(folder.path()), [name]);
            #[allow(clippy::disallowed_methods)]
            let about = std::fs::metadata(&path).unwrap();
            assert!(about.len() > 1000 && about.permissions().mode() & 0o777 == 0o600, "{about:?}");
            std::fs::remove_file(&path).unwrap();
        }
    }

    #[test]
    fn a_name_that_says_no_format_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["out", "out.csv.gz", "csv", ".csv"] {
            let refused = SeriesFile::create(&folder.path().join(name)).map(|_| ()).unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::InvalidInput, "{name}");
        }
        let missing =
            SeriesFile::create(&folder.path().join("none/out.csv")).map(|_| ()).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
        assert_eq!(names(folder.path()), [""; 0]);
    }
}
