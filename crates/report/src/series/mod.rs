//! What was read, row by row, for those who keep their own lake: CSV or Parquet.
//!
//! Columns are `host`, `source`, `time`, `interval_seconds`, then every metric by its name, then `clock`: `utc`, or `wall`
//! where only the host's wall clock is known. What a source does not have is empty. Rows go to the disk as they come.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufWriter};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use hugewise_incident::{Clock, History, Series};

mod csv;
mod parquet;

/// Columns before the metrics.
const FIRST: [&str; 4] = ["host", "source", "time", "interval_seconds"];
/// The column behind them.
const LAST: &str = "clock";

/// A file of rows that is being written. It takes its name, and the place of another of that name, when it is
/// [finished](Self::finish): until then, and where that never happens, there is nothing under it.
pub struct SeriesFile {
    format: Format,
    file: Unnamed,
}

enum Format {
    Csv(csv::Writer<BufWriter<File>>),
    Parquet(Box<parquet::Writer<BufWriter<File>>>),
}

impl SeriesFile {
    /// Begins a file, readable by its owner alone; the end of its name says which format: `.csv` or `.parquet`.
    ///
    /// # Errors
    /// Where the name ends otherwise, or the folder takes no file.
    pub fn create(path: &Path) -> io::Result<Self> {
        let ends_in = |end: &str| path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case(end));
        let (csv, parquet) = (ends_in("csv"), ends_in("parquet"));
        if !csv && !parquet {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "its name ends in neither .csv nor .parquet"));
        }
        if path.is_dir() {
            return Err(io::Error::from(io::ErrorKind::IsADirectory));
        }
        let (file, out) = Unnamed::create(path)?;
        let out = BufWriter::with_capacity(1 << 16, out);
        let format = if csv {
            Format::Csv(csv::Writer::new(out)?)
        } else {
            Format::Parquet(Box::new(parquet::Writer::new(out)?))
        };
        Ok(Self { format, file })
    }

    /// Writes the rows of a series. The host's name is that of the series where none is given.
    ///
    /// # Errors
    /// Where the disk takes no more.
    pub fn add(&mut self, host: Option<&str>, series: &Series) -> io::Result<()> {
        let host = host.or(series.host.as_deref());
        match &mut self.format {
            Format::Csv(csv) => csv.add(host, series),
            Format::Parquet(parquet) => parquet.add(host, series),
        }
    }

    /// Writes the rows of all series of a host.
    ///
    /// # Errors
    /// As [`add`](Self::add).
    pub fn add_all(&mut self, history: &History) -> io::Result<()> {
        history.series.iter().try_for_each(|series| self.add(history.host.as_deref(), series))
    }

    /// Writes the end, waits until all is on the disk, and gives the file its name.
    ///
    /// # Errors
    /// Where the disk takes no more, or the name is not to be had; nothing is left then.
    pub fn finish(self) -> io::Result<()> {
        let out = match self.format {
            Format::Csv(csv) => csv.finish(),
            Format::Parquet(parquet) => parquet.finish()?,
        };
        let out = out.into_inner().map_err(io::IntoInnerError::into_error)?;
        self.file.name(&out)
    }
}

/// A file under a name that nobody asked for; it goes when it is dropped before it got its own.
struct Unnamed {
    temporary: PathBuf,
    target: PathBuf,
}

impl Unnamed {
    fn create(target: &Path) -> io::Result<(Self, File)> {
        let name = target.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let mut last = None;
        for attempt in 0..100_u32 {
            let mut hidden = OsString::from(".");
            hidden.push(name);
            hidden.push(format!(".{}-{attempt}.part", std::process::id()));
            let temporary = target.with_file_name(hidden);
            match File::options().write(true).create_new(true).mode(0o600).open(&temporary) {
                Ok(file) => return Ok((Self { temporary, target: target.to_owned() }, file)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => last = Some(error),
                Err(error) => return Err(error),
            }
        }
        Err(last.unwrap_or_else(|| io::ErrorKind::AlreadyExists.into()))
    }

    fn name(self, written: &File) -> io::Result<()> {
        written.sync_all()?;
        std::fs::rename(&self.temporary, &self.target)
    }
}

impl Drop for Unnamed {
    fn drop(&mut self) {
        // After it got its name there is none of this one.
        let _ = std::fs::remove_file(&self.temporary);
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
    use crate::stories;

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> = walk(folder);
        names.sort();
        names
    }

    #[allow(clippy::disallowed_methods)]
    fn walk(folder: &Path) -> Vec<String> {
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn a_file_is_there_when_it_is_whole_and_its_owners_alone() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["out.csv", "out.PARQUET"] {
            let path = folder.path().join(name);
            let mut file = SeriesFile::create(&path).unwrap();
            file.add_all(&stories::storm().hosts[0]).unwrap();
            assert!(!path.exists());
            drop(file);
            assert_eq!(names(folder.path()), [""; 0]);

            std::fs::write(&path, "old").unwrap();
            let mut file = SeriesFile::create(&path).unwrap();
            file.add_all(&stories::storm().hosts[0]).unwrap();
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
        let missing = SeriesFile::create(&folder.path().join("none/out.csv")).map(|_| ()).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
        assert_eq!(names(folder.path()), [""; 0]);
    }
}
