//! `hugewise plan --format shell`: a script for any POSIX shell.

use hugewise_change::plan::{Change, FileChange, Plan};

use super::{Unwritable, about, by_hand, command_words, comment, header, plain_text, tools, word, words, writable};

/// The plan as a script. `force` writes one that says itself that it should not be applied.
///
/// # Errors
/// Where it should not be applied, or has text that no script should have.
pub fn shell(plan: &Plan, force: bool) -> Result<String, Unwritable> {
    writable(plan, force)?;
    let kept = super::kept(plan);
    let mut text = String::from("#!/bin/sh\n");
    text += &header(plan, "Run it as root; run again it changes nothing. It stops at the first thing that goes wrong.");
    text += &comment("", &format!("Values and files as they were before are kept in {kept}."));
    text += "\nset -eu\numask 022\nLC_ALL=C\nPATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\nexport LC_ALL PATH\n";
    text += &tools(plan, force);
    text += "\n[ \"$(id -u)\" = 0 ] || fail \"run this as root\"\n";
    text += "next=1\n";
    let mut next = 1;
    for step in &plan.steps {
        text += "\n";
        text += &comment("", &about(step));
        text += &comment("", &step.why);
        for change in &step.changes {
            match change {
                Change::Value(change) => {
                    let tool = if change.pool.is_some() { "set_pool" } else { "set_value" };
                    text += &format!("{tool} {}\n", words([change.path.as_str(), change.after.as_str()])?);
                }
                Change::File(change) => text += &file(change)?,
                Change::Command(change) => {
                    let command = words(command_words(change))?;
                    text += &comment("", &change.why);
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

fn file(change: &FileChange) -> Result<String, Unwritable> {
    let path = word(&change.path)?;
    let Some(after) = &change.after else { return Ok(format!("drop_file {path}\n")) };
    let start = format!("put_file {path} {} {} {}", after.mode, after.uid, after.gid);
    Ok(match plain_text(&after.content) {
        Some(text) => {
            let end = end_of(text);
            format!("{start} <<'{end}'\n{text}{end}\n")
        }
        None => {
            let bytes = word(&super::base64(after.content.bytes()))?;
            format!("put_base64 {path} {} {} {} {bytes}\n", after.mode, after.uid, after.gid)
        }
    })
}

/// A line that the text does not have.
fn end_of(text: &str) -> String {
    let mut end = String::from("END");
    while text.lines().any(|line| line == end) {
        end.push('_');
    }
    end
}
