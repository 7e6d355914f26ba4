//! `hugewise record export`.

use std::path::{Path, PathBuf};

use hugewise_incident::{Moment, named_span};
use hugewise_record::record::USUAL_FOLDER;
use hugewise_record::status::status;
use hugewise_report::recorded::{Span, export, export_oswatcher};
use hugewise_report::series::SeriesFile;

use crate::outcome::{self, Failure, Outcome};

/// Output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// Oracle's OSWatcher: a folder with oswmeminfo and oswvmstat, one file per hour.
    Oswatcher,
    /// One table, one row per sample.
    Csv,
    /// The same table as Parquet.
    Parquet,
    /// Everything, one JSON object per line: samples, processes, servers and kernel messages.
    Json,
}

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The recording's folder, or a single ring file.
    #[arg(value_name = "PATH", default_value = USUAL_FOLDER)]
    path: PathBuf,
    /// Leave out everything before this time: 2026-11-21T08:00:00+01:00, "2026-11-21 08:00", or 08:00 on the last day, by
    /// the host's clock.
    #[arg(long, value_name = "TIME")]
    from: Option<String>,
    /// Leave out everything after this time; same formats as --from.
    #[arg(long, value_name = "TIME")]
    to: Option<String>,
    /// Output format.
    #[arg(long, value_enum)]
    format: Format,
    /// File to write; for oswatcher, the folder to create.
    #[arg(long, value_name = "PATH")]
    out: PathBuf,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Outcome, Failure> {
    let failed = |path: &Path, why: &dyn std::fmt::Display| Failure::new(format!("{}: {why}", path.display()));
    let rings = rings(&arguments.path)?;
    let span = span(arguments, &rings)?;
    let out = &arguments.out;
    match arguments.format {
        Format::Oswatcher => {
            // One of minutes would make a second sample of each minute: it is taken where there is nothing else.
            let ring = rings.first().ok_or_else(|| failed(&arguments.path, &"no recording found"))?;
            export_oswatcher(ring, span, out).map_err(|error| failed(out, &error))?;
        }
        Format::Json => {
            let mut text = outcome::create_file(out)?;
            for ring in &rings {
                export::lines(ring, span, &mut text).map_err(|error| failed(out, &error))?;
            }
        }
        Format::Csv | Format::Parquet => {
            let extension = if arguments.format == Format::Csv { "csv" } else { "parquet" };
            if out.extension().is_none_or(|of| !of.eq_ignore_ascii_case(extension)) {
                return Err(failed(out, &format!("its name does not end in .{extension}")));
            }
            let mut file = SeriesFile::create(out).map_err(|error| failed(out, &error))?;
            for ring in &rings {
                let stream = hugewise_record::status::open(ring).map_err(|error| failed(ring, &error))?;
                let series = hugewise_incident::readers::read(stream, &ring.display().to_string());
                for mut series in series.map_err(|error| failed(ring, &error))? {
                    series.cut(span.from.map(Moment), span.to.map(Moment));
                    file.add(None, &series).map_err(|error| failed(out, &error))?;
                }
            }
            file.finish().map_err(|error| failed(out, &error))?;
        }
    }
    Ok(Outcome::Fine)
}

/// The time that is asked for, by the clock of the host; an error where none of its samples lie there.
fn span(arguments: &Arguments, rings: &[PathBuf]) -> Result<Span, Failure> {
    if arguments.from.is_none() && arguments.to.is_none() {
        return Ok(Span::default());
    }
    let mut spans = Vec::new();
    let mut offset = 0;
    for ring in rings {
        let failed = |why: &dyn std::fmt::Display| Failure::new(format!("{}: {why}", ring.display()));
        let file = hugewise_record::status::open(ring).map_err(|error| failed(&error))?;
        let told = status(&file).map_err(|error| failed(&error))?;
        // The ring of seconds comes first.
        if spans.is_empty() {
            offset = told.summary.header.about.offset;
        }
        spans.extend(told.span);
    }
    let first = spans.iter().map(|(first, _)| *first).min();
    let last = spans.iter().map(|(_, last)| *last).max();
    let Some(all) = first.zip(last) else { return Err(Failure::new("the recording has no sample")) };
    let offset = i32::try_from(offset).unwrap_or(0);
    let (from, to) = (arguments.from.as_deref(), arguments.to.as_deref());
    let named = named_span(from, to, offset, (Moment(all.0), Moment(all.1)));
    let (from, to) = named.map_err(|error| Failure::new(error.to_string()))?;
    let span = Span { from: from.map(|from| from.0), to: to.map(|to| to.0) };
    // The recorder may have been off then.
    for ring in rings {
        let found = export::has_sample(ring, span);
        if found.map_err(|error| Failure::new(format!("{}: {error}", ring.display())))? {
            return Ok(span);
        }
    }
    Err(Failure::new("no sample is between --from and --to: nothing was recorded then"))
}

/// The rings that are meant: the one, or those of the folder that are there.
fn rings(path: &Path) -> Result<Vec<PathBuf>, Failure> {
    let there = |path: &PathBuf| rustix::fs::lstat(path.as_path()).is_ok();
    let of_folder: Vec<PathBuf> =
        hugewise_record::status::rings(path).into_iter().map(|(_, path)| path).filter(there).collect();
    if !of_folder.is_empty() {
        return Ok(of_folder);
    }
    match rustix::fs::stat(path) {
        Ok(stat) if rustix::fs::FileType::from_raw_mode(stat.st_mode).is_file() => Ok(vec![path.to_owned()]),
        Ok(_) => Err(Failure::new(format!("{}: no recording found", path.display()))),
        Err(error) => Err(Failure::new(format!("{}: {}", path.display(), std::io::Error::from(error)))),
    }
}
