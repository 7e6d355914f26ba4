//! `hugewise undo`.

use std::io::{self, Write};

use hugewise_change::outcome::RestoreResult;
use hugewise_change::{
    PagesAtRisk, System, find_pages_at_risk, find_shrinking_pools, journal, undo_apply,
};
use hugewise_diagnose::Diagnosis;
use hugewise_report::{JournalListing, plain};

use crate::apply::{apply_failure, show_event};
use crate::format::OutputFormat;
use crate::outcome::{self, CommandFailure, CommandOutcome};
use crate::plan::{diagnosis_options, open_live_system};
use crate::terminal::{self, ColorChoice};

pub(crate) const AFTER_HELP: &str = "\
You can undo several applies in any order. If a newer apply has changed the same thing, that part \
     waits until the newer \
one is undone too; after the last undo everything is as it was before the first apply.

If a running server may still take pages that the undo gives back (a Java heap that has not grown \
     yet), undo names it and \
asks; without a terminal it changes nothing.

Exit codes: 0 everything is restored, or waits for a newer apply to be undone; 2 nothing was \
     changed, or not \
everything could be restored.";

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Which apply to undo, by its number in --list. Default: the latest that has not been undone.
    #[arg(value_name = "ID", conflicts_with = "list")]
    id: Option<String>,
    /// List past applies and change nothing.
    #[arg(long, conflicts_with = "force")]
    list: bool,
    /// Restore even what somebody has changed since, and take back pages that a running server may
    /// still need.
    #[arg(long)]
    force: bool,
    /// Text for people, or JSON for programs.
    #[arg(long, value_enum, default_value_t = OutputFormat::Text)]
    format: OutputFormat,
    /// When to colour text.
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = ColorChoice::Auto)]
    color: ColorChoice,
}

pub(crate) fn run(arguments: &Arguments) -> Result<CommandOutcome, CommandFailure> {
    let system = open_live_system()?;
    if arguments.list {
        let (journals, unreadable) = journal::list_journals(&system).map_err(apply_failure)?;
        let kept = JournalListing { journals: &journals, unreadable: &unreadable };
        outcome::print_output(&arguments.format.render(&kept, arguments.color)?)?;
        return Ok(CommandOutcome::Fine);
    }
    let notes = confirm_taken_pages(arguments, &system)?;
    let mut undone = undo_apply(&system, arguments.id.as_deref(), arguments.force, &mut show_event)
        .map_err(apply_failure)?;
    undone.notes.extend(notes);
    terminal::clear_progress();
    outcome::print_output(&arguments.format.render(&undone, arguments.color)?)?;
    if undone.complete {
        return Ok(CommandOutcome::Fine);
    }
    let id = &undone.journal;
    let failed =
        undone.restored.iter().any(|one| matches!(one.result, RestoreResult::Failed { .. }));
    Err(CommandFailure::new(if failed {
        format!(
            "apply {id} is only partly undone: run hugewise undo {id} again, or with --force to \
                 leave what could not be restored"
        )
    } else {
        format!(
            "apply {id} is undone except for what it had to leave: run hugewise undo {id} to try \
                 that again"
        )
    }))
}

/// Pages that somebody who runs may still need are taken only from whoever was asked. What strangers
/// say they may need holds nobody up, and comes back as notes.
fn confirm_taken_pages(
    arguments: &Arguments,
    system: &dyn System,
) -> Result<Vec<String>, CommandFailure> {
    if arguments.force || system.check_can_change().is_err() {
        return Ok(Vec::new());
    }
    // What keeps journals from being read is the undo's to say.
    let shrinking = find_shrinking_pools(system, arguments.id.as_deref()).unwrap_or_default();
    if shrinking.is_empty() {
        return Ok(Vec::new());
    }
    let source = outcome::open_source(None)?;
    let seen = Diagnosis::run(source.as_ref(), &diagnosis_options(false));
    let mut notes = Vec::new();
    for risk in find_pages_at_risk(&shrinking, &seen.host, &seen.instances) {
        let (vouched, others) = risk.split_by_trust();
        if let Some(risk) = vouched {
            ask_to_take_pages(&risk)?;
        }
        notes.extend(others.map(|risk| risk.to_string()));
    }
    Ok(notes)
}

const FIRST: &str = "Stop them first, or start them with all of their heap (-Xms as large as -Xmx)";

fn ask_to_take_pages(risk: &PagesAtRisk) -> Result<(), CommandFailure> {
    if !terminal::can_ask() {
        return Err(CommandFailure::new(format!(
            "{risk}. {FIRST}. Nothing was changed; --force gives the pages back all the same"
        )));
    }
    let question = format!("{risk}. {FIRST}.");
    let question = plain::escape_line(&question);
    let mut error = io::stderr().lock();
    let shown = write!(error, "{question}\nUndo all the same? [y/N] ");
    shown
        .and_then(|()| error.flush())
        .map_err(|error| CommandFailure::new(format!("the question cannot be shown: {error}")))?;
    match terminal::read_yes() {
        Ok(true) => Ok(()),
        Ok(false) => Err(CommandFailure::new("nothing was changed")),
        Err(error) => Err(CommandFailure::new(format!("the answer cannot be read: {error}"))),
    }
}
