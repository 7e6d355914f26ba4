//! `hugewise plan --format shell`: a script for any POSIX shell.

use hugewise_change::plan::{Change, FileChange, Plan};
use hugewise_model::escape::comment;
use hugewise_model::escape::shell::end_of;

use super::{
    Unwritable, about, by_hand, command_words, fits, for_host, header, kept, plain_text, tools, word, words, writable,
    written,
};

/// The plan as a script. `force` writes one that says itself that it should not be applied.
///
/// # Errors
/// Where it should not be applied, or has text that no script should have.
pub fn shell(plan: &Plan, force: bool) -> Result<String, Unwritable> {
    writable(plan, force)?;
    let how = "Run it as root. Running it again changes nothing. It stops at the first error.";
    let mut text = String::from("#!/bin/sh\n");
    text += &header(plan, how);
    text += &comment::line("", &format!("The previous values and files are kept in {}.", kept(plan)));
    text += &comment::line("", "On another host it does nothing, unless HUGEWISE_ANY_HOST=yes is in its environment.");
    text += "\n";
    text += &tools(plan, force);
    text += "\n[ \"$(id -u)\" = 0 ] || fail \"run this as root\"\n";
    text += &for_host(plan)?;
    text += &fits(plan);
    text += "next=1\n";
    let mut next = 1;
    for step in &plan.steps {
        text += "\n";
        text += &about("", step);
        for change in &step.changes {
            match change {
                Change::Value(change) => {
                    let tool = if change.pool.is_some() { "set_pool" } else { "set_value" };
                    text += &format!("{tool} {}\n", words([change.path.as_str(), change.after.as_str()])?);
                }
                Change::File(change) => text += &file(plan, change)?,
                Change::Command(change) => {
                    let command = words(command_words(change))?;
                    text += &comment::line("", &change.why);
                    text += &match &change.unless {
                        Some(holds) => {
                            format!("run_unless {} {command}\n", words([holds.path.as_str(), holds.line.as_str()])?)
                        }
                        None => {
                            next += 1;
                            format!("run_once {command}\nnext={next}\n")
                        }
                    };
                }
            }
        }
    }
    let left = by_hand(plan);
    if !left.is_empty() {
        text += "\n";
        text += &left;
    }
    Ok(text)
}

/// The tool that writes or removes a file, with its arguments.
pub(super) fn file(plan: &Plan, change: &FileChange) -> Result<String, Unwritable> {
    let path = word(&change.path)?;
    let Some(after) = &change.after else { return Ok(format!("drop_file {path}\n")) };
    let content = written(change, after, &format!("in {}/files", kept(plan)));
    let of = format!("{path} {} {} {}", after.mode, after.uid, after.gid);
    Ok(match plain_text(&content) {
        Some(text) => {
            let end = end_of(text);
            format!("put_file {of} <<'{end}'\n{text}{end}\n")
        }
        None => format!("put_base64 {of} {}\n", word(&super::base64(content.bytes()))?),
    })
}
