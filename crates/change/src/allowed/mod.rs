//! What a plan may hold: a plan file from elsewhere must not become a root shell.
//!
//! A checksum catches edits, but not a plan that somebody made whole: so every path, line and word
//! of a command has to be of a kind that hugewise writes.

mod commands;
mod lines;

use hugewise_engines::all_settables;
use hugewise_engines::settable::is_plain;

use crate::Error;
use crate::plan::{
    Change, CommandChange, FileChange, FileContent, FileState, NewFile, Plan, ValueChange,
};
use crate::planner::owned_files;
use lines::Language;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum Forbidden {
    #[error("a pool's pages are counted back, and the plan does not say which pool this is")]
    UnnamedPool,
    #[error("it is not a pool")]
    NoPool,
    #[error("no plan sets {0:?} there")]
    Value(String),
    #[error("it is not one of hugewise's drop-ins")]
    NotOurs,
    #[error("users other than root could write it")]
    Loose,
    #[error("it is not text")]
    NoText,
    #[error("it has characters that no setting has")]
    Signs,
    #[error("line {number}: no plan sets {line:?} there")]
    Line { number: usize, line: String },
    #[error("no program")]
    NoProgram,
    #[error("the program is not in a system folder")]
    Folder,
    #[error("hugewise runs no such command")]
    Command,
    #[error("a server's client does not run as root")]
    ClientOfRoot,
    #[error("it does not run as {0}")]
    User(String),
    #[error("only a server's client may be there")]
    NoClient,
    #[error("it has nothing to do with {0}")]
    Rewrites(String),
    #[error("the plan does not name the file that it rewrites, so nobody could restore it")]
    Unnamed,
    #[error("{command}: {why}")]
    Undo { command: String, why: Box<Forbidden> },
}

/// Refuses a plan with a change that hugewise does not make.
///
/// # Errors
/// [`Error::NotAllowed`] names the first.
pub fn check_plan_allowed(plan: &Plan) -> Result<(), Error> {
    for (step, change) in plan.changes() {
        let (what, checked) = match change {
            Change::Value(change) => (change.path.clone(), check_value_change(change)),
            Change::File(change) => (change.path.clone(), check_file_change(change)),
            Change::Command(change) => (change.command.join(" "), check_command_change(change)),
        };
        let step = step.id.clone();
        checked.map_err(|why| Error::NotAllowed { step, what, why: why.to_string() })?;
    }
    Ok(())
}

fn check_value_change(change: &ValueChange) -> Result<(), Forbidden> {
    lines::check_kernel_value(&change.path, &change.after)?;
    let pool = change.pool.map(crate::values::pool_path);
    match (change.path.ends_with("/nr_hugepages"), pool) {
        (false, None) => Ok(()),
        (true, Some(path)) if path == change.path => Ok(()),
        (true, Some(_)) if change.is_only_pool() => Ok(()),
        (true, _) => Err(Forbidden::UnnamedPool),
        (false, Some(_)) => Err(Forbidden::NoPool),
    }
}

fn check_file_change(change: &FileChange) -> Result<(), Forbidden> {
    let (folder, name) = change.path.rsplit_once('/').unwrap_or(("", &change.path));
    let language = drop_in_language(folder, name).ok_or(Forbidden::NotOurs)?;
    let Some(after) = &change.after else { return Ok(()) };
    if !has_safe_owner(after, change.before.as_ref()) {
        return Err(Forbidden::Loose);
    }
    let FileContent::Text(text) = &after.content else { return Err(Forbidden::NoText) };
    if text.contains(|sign: char| sign == '\\' || (sign.is_control() && sign != '\n')) {
        return Err(Forbidden::Signs);
    }
    lines::check_lines(language, text)
}

/// Of root and writable for nobody else, or as it is already.
fn has_safe_owner(after: &NewFile, before: Option<&FileState>) -> bool {
    let kept = before
        .is_some_and(|old| (old.mode, old.uid, old.gid) == (after.mode, after.uid, after.gid));
    kept || (after.uid == 0 && after.gid == 0 && after.mode.0 & !0o644 == 0)
}

/// The folders and names that the planner uses, and no others.
fn drop_in_language(folder: &str, name: &str) -> Option<Language> {
    let ours = |text: &str| text.contains("hugewise") && is_plain(text);
    match (folder, name) {
        ("/etc/tuned/hugewise" | "/etc/tuned/profiles/hugewise", "tuned.conf") => {
            return Some(Language::Tuned);
        }
        _ if !ours(name) => return None,
        ("/etc/sysctl.d", _) if name.ends_with(".conf") => return Some(Language::Sysctl),
        ("/etc/tmpfiles.d", _) if name.ends_with(".conf") => return Some(Language::Tmpfiles),
        ("/etc/security/limits.d", _) if name.ends_with(".conf") => return Some(Language::Limits),
        ("/etc/default/grub.d", _) if name.ends_with(".cfg") => return Some(Language::Grub),
        _ => {}
    }
    if let Some(settable) = all_settables()
        .find(|settable| name == owned_files::of_server(settable) && (settable.is_packaged)(folder))
    {
        return Some(Language::Server(settable));
    }
    let unit = folder.strip_prefix("/etc/systemd/system/")?.strip_suffix(".d")?;
    (commands::is_service(unit) && name.ends_with(".conf")).then_some(Language::Unit)
}

fn check_command_change(change: &CommandChange) -> Result<(), Forbidden> {
    commands::check_command(&change.command, change.user.as_deref())?;
    if let Some(undo) = &change.undo {
        commands::check_command(undo, change.user.as_deref())
            .map_err(|why| Forbidden::Undo { command: undo.join(" "), why: Box::new(why) })?;
    }
    match change.files.iter().find(|path| !commands::may_rewrite(path)) {
        Some(path) => Err(Forbidden::Rewrites(path.clone())),
        None if !commands::tells_what_it_rewrites(&change.command, &change.files) => {
            Err(Forbidden::Unnamed)
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
