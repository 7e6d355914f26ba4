//! A plan as a shell script, an Ansible playbook or a cloud-config.
//!
//! All three end where `hugewise apply` ends, and running them again changes nothing. First they
//! check that this is the plan's host (but for cloud-config, whose hosts do not exist yet) and that
//! it has the memory. Everything from the host is escaped by `escape`: no path, value or name of a
//! plan can become a command.

use std::borrow::Cow;

use hugewise_change::plan::{
    CommandChange, FileChange, FileContent, Instruction, NewFile, Plan, Step, ValueChange,
};
use hugewise_change::planner::owned_files;
use hugewise_model::escape::{comment, plain, shell as sh};

mod ansible;
mod cloud_init;
mod memory;
mod shell;

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

pub use ansible::render_ansible;
pub use cloud_init::cloud_init;
pub use shell::render_shell;

/// Why a plan cannot be written as a script.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unwritable {
    /// The plan is refused, for these reasons.
    #[error("this plan should not be applied: {}", plain::escape_line(&.0.join("; ")))]
    Refused(Vec<String>),
    /// This text has characters that end a line, act on a terminal or fit in no file.
    #[error("\"{}\" has characters that a script cannot contain", plain::escape_name(.0))]
    Characters(String),
}

/// Functions for any POSIX shell. They print `ok: ...` or, where something was done, `changed:
/// ...`.
const TOOLS: &str = include_str!("tools.sh");

const START: &str = "set -eu\numask 022\nLC_ALL=C\n\
                     PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\nexport \
     LC_ALL PATH\n";

/// Where the tools keep previous values and note which commands have run.
fn state_folder(plan: &Plan) -> String {
    let sum: String = plan.checksum.chars().filter(char::is_ascii_alphanumeric).take(16).collect();
    format!("/var/lib/hugewise/plans/{}", if sum.is_empty() { "unsealed" } else { &sum })
}

/// The tools, with their folder and the memory in kB that must stay free beside growing pools.
fn render_tools(plan: &Plan, force: bool) -> String {
    let floor = if force { 0 } else { plan.budget.floor_bytes >> 10 };
    format!("{START}kept={}\nfloor={floor}\n{TOOLS}", state_folder(plan))
}

fn for_host(plan: &Plan) -> Result<String, Unwritable> {
    let (id, name) = match &plan.host.machine_id {
        Some(id) => (id.as_str(), ""),
        None => ("", plan.host.name.as_str()),
    };
    Ok(format!("for_host {}\n", quote_words([id, name])?))
}

fn render_fits_check(plan: &Plan) -> String {
    format!("fits {}\n", memory::PlannedPools::from_plan(plan).fits_arguments(plan).join(" "))
}

fn check_writable(plan: &Plan, force: bool) -> Result<(), Unwritable> {
    match &plan.refusal {
        Some(refusal) if !force => Err(Unwritable::Refused(refusal.reasons.clone())),
        _ => Ok(()),
    }
}

fn quote_word(text: &str) -> Result<String, Unwritable> {
    sh::quote_exact(text).ok_or_else(|| Unwritable::Characters(text.to_owned()))
}

fn quote_words<'a>(texts: impl IntoIterator<Item = &'a str>) -> Result<String, Unwritable> {
    let words: Vec<String> = texts.into_iter().map(quote_word).collect::<Result<_, _>>()?;
    Ok(words.join(" "))
}

/// The line of the tool that sets a value.
fn render_value_command(change: &ValueChange) -> Result<String, Unwritable> {
    let words = quote_words([change.path.as_str(), change.after.as_str()])?;
    Ok(format!("{} {words}\n", value_tool(change)))
}

const fn value_tool(change: &ValueChange) -> &'static str {
    if change.pool.is_some() { "set_pool" } else { "set_value" }
}

/// The words that run it, as its user.
fn command_words(change: &CommandChange) -> Vec<&str> {
    let mut words = Vec::new();
    if let Some(user) = &change.user {
        words.extend(["runuser", "-u", user.as_str(), "--"]);
    }
    words.extend(change.command.iter().map(String::as_str));
    words
}

pub(crate) fn shown_words(change: &CommandChange) -> String {
    command_words(change).into_iter().map(sh::quote_argument).collect::<Vec<_>>().join(" ")
}

fn render_header(plan: &Plan, how: &str) -> String {
    let host = if plan.host.name.is_empty() { "a host without a name" } else { &plan.host.name };
    let about =
        format!("The plan of hugewise {} for {host}, made {}.", plan.hugewise, plan.made_at);
    let mut text = comment::comment_line("", &about);
    text += &comment::comment_lines("", how);
    for warning in &plan.warnings {
        text += &comment::comment_line("", &format!("Mind: {warning}"));
    }
    text
}

pub(crate) fn unnamed_instance(instruction: &Instruction) -> Option<&str> {
    instruction.instance.as_deref().filter(|instance| !instruction.title.contains(instance))
}

fn by_hand(plan: &Plan) -> String {
    let mut text = String::new();
    for instruction in &plan.instructions {
        let other_text = unnamed_instance(instruction)
            .map(|instance| format!(" ({instance})"))
            .unwrap_or_default();
        text += &comment::comment_line("", &format!("By hand: {}{other_text}", instruction.title));
        text += &comment::comment_lines(
            "",
            &instruction.text.lines().map(|line| format!("  {line}\n")).collect::<String>(),
        );
    }
    text
}

fn render_step_comment(indent: &str, step: &Step) -> String {
    let text =
        step.instance.as_deref().map(|instance| format!(" of {instance}")).unwrap_or_default();
    let title = format!("{} ({}{text}): {}", step.id, step.risk.as_str(), step.title);
    comment::comment_line(indent, &title) + &comment::comment_line(indent, &step.why)
}

/// A file whose header says truthfully how to undo it; `copy` is where the previous file is kept.
fn content_to_write<'a>(
    change: &FileChange,
    after: &'a NewFile,
    copy: &str,
) -> Cow<'a, FileContent> {
    let how = match change.before {
        None => "remove this file".to_owned(),
        Some(_) => format!("put back the copy that is kept {copy}"),
    };
    match &after.content {
        FileContent::Text(text) => match owned_files::taken_back_by(text, &how) {
            Some(text) => Cow::Owned(FileContent::Text(text)),
            None => Cow::Borrowed(&after.content),
        },
        FileContent::Base64(_) => Cow::Borrowed(&after.content),
    }
}

/// Text that can stand in a script as it is: whole lines, nothing that acts on a terminal.
fn plain_text(content: &FileContent) -> Option<&str> {
    let FileContent::Text(text) = content else { return None };
    let harmless = text.split('\n').all(|line| line.split('\t').all(plain::is_clean));
    (text.ends_with('\n') && harmless).then_some(text)
}

fn encode_base64(bytes: &[u8]) -> String {
    String::from(hugewise_change::plan::Base64(bytes.to_owned()))
}
