//! `hugewise undo`.

use hugewise_change::outcome::RestoreResult;
use hugewise_change::{journal, undo};
use hugewise_report::{Kept, UndoneReport};

use crate::apply::{failed, say};
use crate::format::Format;
use crate::outcome::{self, Failure, Outcome};
use crate::plan::live;
use crate::terminal::{self, ColorChoice};

pub(crate) const AFTER_HELP: &str = "\
An older apply may be undone before a younger one. What the younger one has changed since waits, and is taken back \
together with it: in whatever order, what was there before all of them comes back.

Exit codes: 0 everything is as before, or waits for the undo of a younger apply; 2 nothing was changed, or not \
everything could be taken back.";

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
        let (journals, unreadable) = journal::list(&system).map_err(failed)?;
        let kept = Kept { journals: &journals, unreadable: &unreadable };
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
    let id = &undone.journal;
    let failed = undone.restored.iter().any(|one| matches!(one.result, RestoreResult::Failed { .. }));
    Err(Failure::new(if failed {
        format!(
            "apply {id} is not wholly undone; hugewise undo {id} tries again, and with --force leaves what is in the way"
        )
    } else {
        format!("apply {id} is undone but for what was left; hugewise undo {id} tries that again")
    }))
}
