//! The plan for those who apply it their own way: a shell script, an Ansible playbook, a cloud-config.
//!
//! All three end where `hugewise apply` ends, and running them again changes nothing. Everything that came off the
//! host is quoted: no path, value or name of a plan can become a command.

use std::fmt;

use hugewise_change::plan::{Change, CommandChange, Content, FileChange, Instruction, NewFile, Plan, Step};

use crate::plain::clean;

mod ansible;
mod cloud_init;
mod shell;
mod yaml;

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
    /// A path, value or argument with characters that would act on a terminal, or that no file can hold.
    Characters(String),
}

impl fmt::Display for Unwritable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(reasons) => write!(f, "this plan should not be applied: {}", reasons.join("; ")),
            Self::Characters(text) => {
                write!(f, "{:?} has characters that have no place in a script", clean(text))
            }
        }
    }
}

impl std::error::Error for Unwritable {}

/// Functions that all three formats share, for any POSIX shell with coreutils or busybox.
///
/// They print `ok: ...` where nothing was to be done and `changed: ...` where something was.
const TOOLS: &str = include_str!("tools.sh");

/// Where the tools keep what was there before, and which commands have run.
fn kept(plan: &Plan) -> String {
    let sum: String = plan.checksum.chars().filter(char::is_ascii_alphanumeric).take(16).collect();
    format!("/var/lib/hugewise/plans/{}", if sum.is_empty() { "unsealed" } else { &sum })
}

/// The tools with their folder set, and the memory in kB that has to stay beside pools that grow.
fn tools(plan: &Plan, force: bool) -> String {
    let floor = if force { 0 } else { plan.budget.floor_bytes >> 10 };
    format!("kept={}\nfloor={floor}\n{TOOLS}", kept(plan))
}

/// A plan that may be written: one that says itself that it should not be applied is not, but by `force`.
fn writable(plan: &Plan, force: bool) -> Result<(), Unwritable> {
    match &plan.refusal {
        Some(refusal) if !force => Err(Unwritable::Refused(refusal.reasons.clone())),
        _ => Ok(()),
    }
}

/// One word for a POSIX shell.
fn word(text: &str) -> Result<String, Unwritable> {
    if text
        .chars()
        .any(|character| character != '\n' && clean(character.encode_utf8(&mut [0; 4])) != character.to_string())
    {
        return Err(Unwritable::Characters(text.to_owned()));
    }
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-./:=@%+,".contains(&byte);
    if !text.is_empty() && text.bytes().all(plain) {
        return Ok(text.to_owned());
    }
    Ok(format!("'{}'", text.replace('\'', r"'\''")))
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
    let quoted = |text: &str| word(text).unwrap_or_else(|_| format!("'{}'", clean(text)));
    command_words(change).into_iter().map(quoted).collect::<Vec<_>>().join(" ")
}

/// Lines of a comment, each behind `# ` and harmless.
fn comment(indent: &str, text: &str) -> String {
    let line = |line: &str| format!("{indent}# {}", clean(line)).trim_end().to_owned() + "\n";
    text.lines().map(line).collect()
}

/// What every format begins with.
fn header(plan: &Plan, how: &str) -> String {
    let host = if plan.host.name.is_empty() { "a host without a name" } else { &plan.host.name };
    let mut text = comment("", &format!("The plan of hugewise {} for {host}, made {}.", plan.hugewise, plan.made_at));
    text += &comment("", how);
    for warning in &plan.warnings {
        text += &comment("", &format!("Mind: {warning}"));
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
        text += &comment("", &format!("By hand: {}{of}", instruction.title));
        text += &comment("", &instruction.text.lines().map(|line| format!("  {line}\n")).collect::<String>());
    }
    text
}

/// What a step is, on one line.
fn about(step: &Step) -> String {
    let of = step.instance.as_deref().map(|instance| format!(" of {instance}")).unwrap_or_default();
    format!("{} ({}{of}): {}", step.id, step.risk.as_str(), step.title)
}

/// A text that can stand in a script as it is: lines that end, nothing that acts on a terminal.
fn plain_text(content: &Content) -> Option<&str> {
    let Content::Text(text) = content else { return None };
    let harmless = text.split('\n').all(|line| line.split('\t').all(|part| clean(part) == part));
    (text.ends_with('\n') && harmless).then_some(text)
}

/// The folder that a file is in.
fn folder(path: &str) -> &str {
    match path.rsplit_once('/') {
        Some(("", _)) | None => "/",
        Some((folder, _)) => folder,
    }
}

/// Every file that is written.
fn written(plan: &Plan) -> impl Iterator<Item = (&FileChange, &NewFile)> {
    plan.changes().filter_map(|(_, change)| match change {
        Change::File(change) => change.after.as_ref().map(|after| (change, after)),
        Change::Value(_) | Change::Command(_) => None,
    })
}

/// Bytes in base64, as `base64 -d` takes them.
fn base64(bytes: &[u8]) -> String {
    String::from(hugewise_change::plan::Base64(bytes.to_owned()))
}
