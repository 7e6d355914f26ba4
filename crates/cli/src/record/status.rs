//! `hugewise record status`.

use std::fmt::Display;
use std::io;
use std::path::PathBuf;

use hugewise_record::record::USUAL_FOLDER;
use hugewise_record::status;
use hugewise_report::recorded::RecordingFolder;
use hugewise_report::recorded::status::{write_json, write_text};

use crate::format::OutputFormat;
use crate::outcome::{self, CommandFailure, CommandOutcome};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The recording's folder.
    #[arg(value_name = "FOLDER", default_value = USUAL_FOLDER)]
    folder: PathBuf,
    /// Output format: text or JSON.
    #[arg(long, value_enum, default_value_t = OutputFormat::Text)]
    format: OutputFormat,
}

pub(crate) fn run(arguments: &Arguments) -> Result<CommandOutcome, CommandFailure> {
    let now = hugewise_record::status::now_ms();
    let mut recording =
        RecordingFolder { folder: arguments.folder.display().to_string(), rings: Vec::new(), now };
    for (_, path) in status::ring_paths(&arguments.folder) {
        let wrong = |why: &dyn Display| CommandFailure::for_path(&path, why);
        match status::open_ring(&path) {
            Ok(file) => {
                recording.rings.push(status::read_status(&file).map_err(|why| wrong(&why))?)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                return Err(wrong(&"permission denied; run it as root"));
            }
            Err(error) => return Err(wrong(&error)),
        }
    }
    let text = outcome::render_report(|out| match arguments.format {
        OutputFormat::Text => write_text(&recording, out),
        OutputFormat::Json => write_json(&recording, out),
    })?;
    outcome::print_output(&text)?;
    Ok(if recording.is_alive() { CommandOutcome::Fine } else { CommandOutcome::Found })
}
