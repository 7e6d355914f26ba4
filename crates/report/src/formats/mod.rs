//! The plan for those who apply it their own way: a shell script, an Ansible playbook, a cloud-config.
//!
//! All three end where `hugewise apply` ends, and running them again changes nothing. Before they change anything they
//! see that this is the host of the plan (a cloud-config is for hosts that are not there yet) and that it has the memory.
//! Everything that came off the host is escaped by `escape`: no path, value or name of a plan can become a command.

use std::borrow::Cow;
use std::fmt;

use hugewise_change::plan::{CommandChange, Content, FileChange, Instruction, NewFile, Plan, Step};
use hugewise_change::planner::ours;
use hugewise_model::escape::{comment, plain, shell as sh};

mod ansible;
mod cloud_init;
mod memory;
mod shell;

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

pub use ansible::ansible;
pub use cloud_init::cloud_init;
pub use shell::shell;

/// A plan that this format cannot say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unwritable {
    /// The plan itself says that it should not be applied.
    Refused(Vec<String>),
    /// A path, value or argument with characters that would end its line or act on a terminal, or that no file can hold.
    Characters(String),
}

impl fmt::Display for Unwritable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(reasons) => {
                write!(f, "this plan should not be applied: {}", plain::clean(&reasons.join("; ")))
            }
            Self::Characters(text) => {
                write!(f, "\"{}\" has characters that a script cannot contain", plain::name(text))
            }
        }
    }
}

impl std::error::Error for Unwritable {}

/// Functions that all three formats share, for any POSIX shell with coreutils or busybox.
///
/// They print `ok: ...` where nothing was to be done and `changed: ...` where something was.
const TOOLS: &str = include_str!("tools.sh");

/// What every shell of ours begins with.
const START: &str = "set -eu\numask 022\nLC_ALL=C\n\
                     PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\nexport LC_ALL PATH\n";

/// Where the tools keep what was there before, and which commands have run.
fn kept(plan: &Plan) -> String {
    let sum: String = plan.checksum.chars().filter(char::is_ascii_alphanumeric).take(16).collect();
    format!("/var/lib/hugewise/plans/{}", if sum.is_empty() { "unsealed" } else { &sum })
}

/// The tools with their folder set, and the memory in kB that has to stay beside pools that grow.
fn tools(plan: &Plan, force: bool) -> String {
    let floor = if force { 0 } else { plan.budget.floor_bytes >> 10 };
    format!("{START}kept={}\nfloor={floor}\n{TOOLS}", kept(plan))
}

/// The line that stops everything on another host.
fn for_host(plan: &Plan) -> Result<String, Unwritable> {
    let (id, name) = match &plan.host.machine_id {
        Some(id) => (id.as_str(), ""),
        None => ("", plan.host.name.as_str()),
    };
    Ok(format!("for_host {}\n", words([id, name])?))
}

/// The line that stops everything where the memory is not there.
fn fits(plan: &Plan) -> String {
    format!("fits {}\n", memory::Pools::of(plan).arguments(plan).join(" "))
}

/// A plan that may be written: one that says itself that it should not be applied is not, but by `force`.
fn writable(plan: &Plan, force: bool) -> Result<(), Unwritable> {
    match &plan.refusal {
        Some(refusal) if !force => Err(Unwritable::Refused(refusal.reasons.clone())),
        _ => Ok(()),
    }
}

/// One word for a POSIX shell. The same ones are refused in all formats.
fn word(text: &str) -> Result<String, Unwritable> {
    sh::exact(text).ok_or_else(|| Unwritable::Characters(text.to_owned()))
}

fn words<'a>(texts: impl IntoIterator<Item = &'a str>) -> Result<String, Unwritable> {
    let words: Vec<String> = texts.into_iter().map(word).collect::<Result<_, _>>()?;
    Ok(words.join(" "))
}

/// A command as the words that run it, as whom it has to run.
fn command_words(change: &CommandChange) -> Vec<&str> {
    let mut words = Vec::new();
    if let Some(user) = &change.user {
        words.extend(["runuser", "-u", user.as_str(), "--"]);
    }
    words.extend(change.command.iter().map(String::as_str));
    words
}

/// A command as people read it.
pub(crate) fn shown_words(change: &CommandChange) -> String {
    command_words(change).into_iter().map(sh::argument).collect::<Vec<_>>().join(" ")
}

/// What every format begins with.
fn header(plan: &Plan, how: &str) -> String {
    let host = if plan.host.name.is_empty() { "a host without a name" } else { &plan.host.name };
    let about = format!("The plan of hugewise {} for {host}, made {}.", plan.hugewise, plan.made_at);
    let mut text = comment::line("", &about);
    text += &comment::lines("", how);
    for warning in &plan.warnings {
        text += &comment::line("", &format!("Mind: {warning}"));
    }
    text
}

/// The instance that an instruction is for, where its title does not say so.
pub(crate) fn whose(instruction: &Instruction) -> Option<&str> {
    instruction.instance.as_deref().filter(|instance| !instruction.title.contains(instance))
}

/// What is left to people, as comments.
fn by_hand(plan: &Plan) -> String {
    let mut text = String::new();
    for instruction in &plan.instructions {
        let of = whose(instruction).map(|instance| format!(" ({instance})")).unwrap_or_default();
        text += &comment::line("", &format!("By hand: {}{of}", instruction.title));
        text += &comment::lines("", &instruction.text.lines().map(|line| format!("  {line}\n")).collect::<String>());
    }
    text
}

/// What a step is, and why, as comments.
fn about(indent: &str, step: &Step) -> String {
    let of = step.instance.as_deref().map(|instance| format!(" of {instance}")).unwrap_or_default();
    let title = format!("{} ({}{of}): {}", step.id, step.risk.as_str(), step.title);
    comment::line(indent, &title) + &comment::line(indent, &step.why)
}

/// A file as these formats write it: what stands at its head of taking it back is true of them. `copy` is where the file
/// that was there before is kept.
fn written<'a>(change: &FileChange, after: &'a NewFile, copy: &str) -> Cow<'a, Content> {
    let how = match change.before {
        None => "remove this file".to_owned(),
        Some(_) => format!("put back the copy that is kept {copy}"),
    };
    match &after.content {
        Content::Text(text) => match ours::taken_back_by(text, &how) {
            Some(text) => Cow::Owned(Content::Text(text)),
            None => Cow::Borrowed(&after.content),
        },
        Content::Base64(_) => Cow::Borrowed(&after.content),
    }
}

/// A text that can stand in a script as it is: lines that end, nothing that acts on a terminal.
fn plain_text(content: &Content) -> Option<&str> {
    let Content::Text(text) = content else { return None };
    let harmless = text.split('\n').all(|line| line.split('\t').all(plain::is_clean));
    (text.ends_with('\n') && harmless).then_some(text)
}

/// Bytes in base64, as `base64 -d` takes them.
fn base64(bytes: &[u8]) -> String {
    String::from(hugewise_change::plan::Base64(bytes.to_owned()))
}
