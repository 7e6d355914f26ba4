//! `hugewise record status`.

use std::io;
use std::path::PathBuf;

use hugewise_record::record::USUAL_FOLDER;
use hugewise_record::status;
use hugewise_report::recorded::Recording;
use hugewise_report::recorded::status::{write_json, write_text};

use crate::format::Format;
use crate::outcome::{self, Failure, Outcome};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The recording's folder.
    #[arg(value_name = "FOLDER", default_value = USUAL_FOLDER)]
    folder: PathBuf,
    /// Output format: text or JSON.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Outcome, Failure> {
    let now = hugewise_record::status::now();
    let mut recording = Recording { folder: arguments.folder.display().to_string(), rings: Vec::new(), now };
    for (_, path) in status::rings(&arguments.folder) {
        let wrong = |why: String| Failure::new(format!("{}: {why}", path.display()));
        match status::open(&path) {
            Ok(file) => recording.rings.push(status::status(&file).map_err(|why| wrong(why.to_string()))?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                return Err(wrong("permission denied; run it as root".to_owned()));
            }
            Err(error) => return Err(wrong(error.to_string())),
        }
    }
    let mut text = Vec::new();
    let written = match arguments.format {
        Format::Text => write_text(&recording, &mut text),
        Format::Json => write_json(&recording, &mut text),
    };
    written.map_err(|error| Failure::new(format!("the status cannot be shown: {error}")))?;
    outcome::print(&text)?;
    Ok(if recording.is_alive() { Outcome::Fine } else { Outcome::Found })
}
