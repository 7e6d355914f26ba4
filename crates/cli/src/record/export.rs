//! `hugewise record export`.

use std::path::{Path, PathBuf};

use hugewise_investigate::{Moment, named_span};
use hugewise_record::record::USUAL_FOLDER;
use hugewise_record::status::read_status;
use hugewise_report::recorded::{ExportSpan, export, export_oswatcher};
use hugewise_report::series::SeriesFile;

use crate::outcome::{self, CommandFailure, CommandOutcome};

/// Output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum ExportFormat {
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
    /// Leave out everything before this time: 2026-11-21T08:00:00+01:00, "2026-11-21 08:00", or
    /// 08:00 on the last day, by the host's clock.
    #[arg(long, value_name = "TIME")]
    from: Option<String>,
    /// Leave out everything after this time; same formats as --from.
    #[arg(long, value_name = "TIME")]
    to: Option<String>,
    /// Output format.
    #[arg(long, value_enum)]
    format: ExportFormat,
    /// File to write; for oswatcher, the folder to create.
    #[arg(long, value_name = "PATH")]
    out: PathBuf,
}

pub(crate) fn run(arguments: &Arguments) -> Result<CommandOutcome, CommandFailure> {
    let rings = find_rings(&arguments.path)?;
    let span = requested_span(arguments, &rings)?;
    let out = &arguments.out;
    match arguments.format {
        ExportFormat::Oswatcher => {
            // The ring of minutes would add a second sample to each minute: it is the last resort.
            let ring = rings
                .first()
                .ok_or_else(|| CommandFailure::for_path(&arguments.path, "no recording found"))?;
            export_oswatcher(ring, span, out)
                .map_err(|error| CommandFailure::for_path(out, error))?;
        }
        ExportFormat::Json => {
            let mut text = outcome::create_file(out)?;
            for ring in &rings {
                export::export_json_lines(ring, span, &mut text)
                    .map_err(|error| CommandFailure::for_path(out, error))?;
            }
        }
        ExportFormat::Csv | ExportFormat::Parquet => {
            let extension = if arguments.format == ExportFormat::Csv { "csv" } else { "parquet" };
            if out.extension().is_none_or(|name| !name.eq_ignore_ascii_case(extension)) {
                return Err(CommandFailure::for_path(
                    out,
                    format!("its name does not end in .{extension}"),
                ));
            }
            let mut file =
                SeriesFile::create(out).map_err(|error| CommandFailure::for_path(out, error))?;
            for ring in &rings {
                let stream = hugewise_record::status::open_ring(ring)
                    .map_err(|error| CommandFailure::for_path(ring, error))?;
                let series =
                    hugewise_investigate::readers::read(stream, &ring.display().to_string());
                for mut series in series.map_err(|error| CommandFailure::for_path(ring, error))? {
                    series.clip_to_window(span.from.map(Moment), span.to.map(Moment));
                    file.add(None, &series)
                        .map_err(|error| CommandFailure::for_path(out, error))?;
                }
            }
            file.finish().map_err(|error| CommandFailure::for_path(out, error))?;
        }
    }
    Ok(CommandOutcome::Fine)
}

/// By the host's clock; fails if no sample lies there.
fn requested_span(arguments: &Arguments, rings: &[PathBuf]) -> Result<ExportSpan, CommandFailure> {
    if arguments.from.is_none() && arguments.to.is_none() {
        return Ok(ExportSpan::default());
    }
    let mut spans = Vec::new();
    let mut offset = 0;
    for ring in rings {
        let failed = |why: &dyn std::fmt::Display| CommandFailure::for_path(ring, why);
        let file = hugewise_record::status::open_ring(ring).map_err(|error| failed(&error))?;
        let told = read_status(&file).map_err(|error| failed(&error))?;
        // The ring of seconds comes first.
        if spans.is_empty() {
            offset = told.summary.header.about.offset;
        }
        spans.extend(told.span);
    }
    let first = spans.iter().map(|(first, _)| *first).min();
    let last = spans.iter().map(|(_, last)| *last).max();
    let Some(all) = first.zip(last) else {
        return Err(CommandFailure::new("the recording has no sample"));
    };
    let offset = i32::try_from(offset).unwrap_or(0);
    let (from, to) = (arguments.from.as_deref(), arguments.to.as_deref());
    let named = named_span(from, to, offset, (Moment(all.0), Moment(all.1)));
    let (from, to) = named.map_err(CommandFailure::new)?;
    let span = ExportSpan { from: from.map(|from| from.0), to: to.map(|to| to.0) };
    // The recorder may have been off then.
    for ring in rings {
        let found = export::has_sample(ring, span);
        if found.map_err(|error| CommandFailure::for_path(ring, error))? {
            return Ok(span);
        }
    }
    Err(CommandFailure::new("no sample is between --from and --to: nothing was recorded then"))
}

/// The one ring, or the existing ones of the folder.
fn find_rings(path: &Path) -> Result<Vec<PathBuf>, CommandFailure> {
    let there = |path: &PathBuf| rustix::fs::lstat(path.as_path()).is_ok();
    let of_folder: Vec<PathBuf> = hugewise_record::status::ring_paths(path)
        .into_iter()
        .map(|(_, path)| path)
        .filter(there)
        .collect();
    if !of_folder.is_empty() {
        return Ok(of_folder);
    }
    match rustix::fs::stat(path) {
        Ok(stat) if rustix::fs::FileType::from_raw_mode(stat.st_mode).is_file() => {
            Ok(vec![path.to_owned()])
        }
        Ok(_) => Err(CommandFailure::for_path(path, "no recording found")),
        Err(error) => Err(CommandFailure::for_path(path, std::io::Error::from(error))),
    }
}
