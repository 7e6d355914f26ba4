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
You can undo several applies in any order. If a newer apply has changed the same thing, that part waits until the newer \
one is undone too; after the last undo everything is as it was before the first apply.

Exit codes: 0 everything is restored, or waits for a newer apply to be undone; 2 nothing was changed, or not \
everything could be restored.";

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Which apply to undo, by its number in --list. Default: the latest that has not been undone.
    #[arg(value_name = "ID", conflicts_with = "list")]
    id: Option<String>,
    /// List past applies and change nothing.
    #[arg(long, conflicts_with = "force")]
    list: bool,
    /// Restore even what somebody has changed since.
    #[arg(long)]
    force: bool,
    /// Text for people, or JSON for programs.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// When to colour text.
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
            "apply {id} is only partly undone: run hugewise undo {id} again, or with --force to leave what could not be restored"
        )
    } else {
        format!("apply {id} is undone except for what it had to leave: run hugewise undo {id} to try that again")
    }))
}
