//! `hugewise undo`.

use hugewise_change::{journal, undo};
use hugewise_report::{Kept, UndoneReport};

use crate::apply::{failed, say};
use crate::check::Format;
use crate::outcome::{self, Failure, Outcome};
use crate::plan::live;
use crate::terminal::{self, ColorChoice};

pub(crate) const AFTER_HELP: &str = "\
Exit codes: 0 everything is as before; 2 nothing was changed, or not everything could be taken back.";

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Which apply, as --list numbers them; without it the last one that is not undone.
    #[arg(value_name = "ID", conflicts_with = "list")]
    id: Option<String>,
    /// List what was applied here, and change nothing.
    #[arg(long, conflicts_with = "force")]
    list: bool,
    /// Take back even what somebody has changed since.
    #[arg(long)]
    force: bool,
    /// Text for people or JSON for programs.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Colour in text.
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = ColorChoice::Auto)]
    color: ColorChoice,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Outcome, Failure> {
    let system = live()?;
    let layout = terminal::layout(arguments.color, false);
    let mut text = Vec::new();
    let unwritten = |error| Failure::new(format!("the report cannot be made: {error}"));
    if arguments.list {
        let journals = journal::list(&system).map_err(failed)?;
        let kept = Kept(&journals);
        let written = match arguments.format {
            Format::Text => kept.write_text(&mut text, layout),
            Format::Json => kept.write_json(&mut text),
        };
        written.map_err(unwritten)?;
        outcome::print(&text)?;
        return Ok(Outcome::Fine);
    }
    let undone = undo(&system, arguments.id.as_deref(), arguments.force, &mut say).map_err(failed)?;
    crate::apply::clear();
    let report = UndoneReport(&undone);
    let written = match arguments.format {
        Format::Text => report.write_text(&mut text, layout),
        Format::Json => report.write_json(&mut text),
    };
    written.map_err(unwritten)?;
    outcome::print(&text)?;
    if undone.complete {
        return Ok(Outcome::Fine);
    }
    Err(Failure::new(format!(
        "apply {} is not wholly undone; hugewise undo {} tries again",
        undone.journal, undone.journal
    )))
}
