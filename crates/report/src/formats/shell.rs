//! `hugewise plan --format shell`: a script for any POSIX shell.

use hugewise_change::plan::{Change, FileChange, Plan};
use hugewise_model::escape::comment;
use hugewise_model::escape::shell::end_of;

use super::{
    Unwritable, by_hand, check_writable, command_words, content_to_write, for_host, plain_text,
    quote_word, quote_words, render_fits_check, render_header, render_step_comment, render_tools,
    render_value_command, state_folder,
};

/// Writes a script. `force` writes a plan that is refused, too.
///
/// # Errors
/// Where the plan is refused, or has text that no script should have.
pub fn render_shell(plan: &Plan, force: bool) -> Result<String, Unwritable> {
    check_writable(plan, force)?;
    let how = "Run it as root. Running it again changes nothing. It stops at the first error.";
    let mut text = String::from("#!/bin/sh\n");
    text += &render_header(plan, how);
    text += &comment::comment_line(
        "",
        &format!("The previous values and files are kept in {}.", state_folder(plan)),
    );
    text += &comment::comment_line(
        "",
        "On another host it does nothing, unless HUGEWISE_ANY_HOST=yes is in its environment.",
    );
    text += "\n";
    text += &render_tools(plan, force);
    text += "\n[ \"$(id -u)\" = 0 ] || fail \"run this as root\"\n";
    text += &for_host(plan)?;
    text += &render_fits_check(plan);
    text += "next=1\n";
    let mut next = 1;
    for step in &plan.steps {
        text += "\n";
        text += &render_step_comment("", step);
        for change in &step.changes {
            match change {
                Change::Value(change) => {
                    text += &render_value_command(change)?;
                }
                Change::File(change) => text += &render_file_command(plan, change)?,
                Change::Command(change) => {
                    let command = quote_words(command_words(change))?;
                    text += &comment::comment_line("", &change.why);
                    text += &match &change.unless {
                        Some(holds) => {
                            format!(
                                "run_unless {} {command}\n",
                                quote_words([holds.path.as_str(), holds.line.as_str()])?
                            )
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

pub(super) fn render_file_command(plan: &Plan, change: &FileChange) -> Result<String, Unwritable> {
    let path = quote_word(&change.path)?;
    let Some(after) = &change.after else { return Ok(format!("drop_file {path}\n")) };
    let content = content_to_write(change, after, &format!("in {}/files", state_folder(plan)));
    let attributes = format!("{path} {} {} {}", after.mode, after.uid, after.gid);
    Ok(match plain_text(&content) {
        Some(text) => {
            let end = end_of(text);
            format!("put_file {attributes} <<'{end}'\n{text}{end}\n")
        }
        None => {
            format!(
                "put_base64 {attributes} {}\n",
                quote_word(&super::encode_base64(content.bytes()))?
            )
        }
    })
}
