//! `hugewise record export`.

use std::path::{Path, PathBuf};

use hugewise_record::record::USUAL_FOLDER;
use hugewise_report::recorded::{export, export_oswatcher};
use hugewise_report::series::SeriesFile;

use crate::outcome::{self, Failure, Outcome};

/// Output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// Oracle's OSWatcher: a folder with oswmeminfo and oswvmstat, one file an hour.
    Oswatcher,
    /// One table, a row for each sample.
    Csv,
    /// The same table as Parquet.
    Parquet,
    /// Everything, one JSON object a line: samples, processes, servers and kernel messages.
    Json,
}

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The recording's folder, or a single ring file.
    #[arg(value_name = "PATH", default_value = USUAL_FOLDER)]
    path: PathBuf,
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
    let out = &arguments.out;
    match arguments.format {
        Format::Oswatcher => {
            // One of minutes would make a second sample of each minute: it is taken where there is nothing else.
            let ring = rings.first().ok_or_else(|| failed(&arguments.path, &"no recording found"))?;
            export_oswatcher(ring, out).map_err(|error| failed(out, &error))?;
        }
        Format::Json => {
            let mut text = outcome::create_file(out)?;
            for ring in &rings {
                export::lines(ring, &mut text).map_err(|error| failed(out, &error))?;
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
                for series in series.map_err(|error| failed(ring, &error))? {
                    file.add(None, &series).map_err(|error| failed(out, &error))?;
                }
            }
            file.finish().map_err(|error| failed(out, &error))?;
        }
    }
    Ok(Outcome::Fine)
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
