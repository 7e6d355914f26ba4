//! What a plan may hold: a plan file from elsewhere must not become a root shell.
//!
//! The checksum tells a plan that was edited; it keeps nobody from making a whole one. So every path, every line of a
//! file and every word of a command has to be of a kind that a plan of hugewise has: drop-ins whose names say whose they
//! are, and in them nothing but the settings that this is about.

mod commands;
mod lines;

use crate::Error;
use crate::plan::{Change, CommandChange, Content, FileChange, FileState, NewFile, Plan, ValueChange};

/// Refuses a plan with a change that hugewise does not make.
///
/// # Errors
/// [`Error::NotAllowed`] names the first.
pub(crate) fn check(plan: &Plan) -> Result<(), Error> {
    for (step, change) in plan.changes() {
        let (what, checked) = match change {
            Change::Value(change) => (change.path.clone(), value(change)),
            Change::File(change) => (change.path.clone(), file(change)),
            Change::Command(change) => (change.command.join(" "), command(change)),
        };
        checked.map_err(|why| Error::NotAllowed { step: step.id.clone(), what, why })?;
    }
    Ok(())
}

fn value(change: &ValueChange) -> Result<(), String> {
    lines::kernel_value(&change.path, &change.after)?;
    let pool = change.pool.map(crate::values::pool_path);
    match (change.path.ends_with("/nr_hugepages"), pool) {
        (false, None) => Ok(()),
        (true, Some(path)) if path == change.path => Ok(()),
        (true, _) => Err("a pool's pages are counted back, and the plan does not say which pool this is".into()),
        (false, Some(_)) => Err("it is no pool".into()),
    }
}

fn file(change: &FileChange) -> Result<(), String> {
    let (folder, name) = change.path.rsplit_once('/').unwrap_or(("", &change.path));
    let kind = kind(folder, name).ok_or("it is no drop-in of hugewise")?;
    let Some(after) = &change.after else { return Ok(()) };
    if !safe_owner(after, change.before.as_ref()) {
        return Err("others than root could write it".into());
    }
    let Content::Text(text) = &after.content else { return Err("it is no text".into()) };
    if text.chars().any(|it| it == '\\' || (it.is_control() && it != '\n')) {
        return Err("it has signs that no setting has".into());
    }
    lines::check(kind, text)
}

/// Of root and writable for nobody else, or as it is already.
fn safe_owner(after: &NewFile, before: Option<&FileState>) -> bool {
    let kept = before.is_some_and(|old| (old.mode, old.uid, old.gid) == (after.mode, after.uid, after.gid));
    kept || (after.uid == 0 && after.gid == 0 && after.mode.0 & !0o644 == 0)
}

/// What a drop-in may hold, by where it lies.
fn kind(folder: &str, name: &str) -> Option<lines::Kind> {
    use lines::Kind;
    let ours = |text: &str| text.contains("hugewise") && plain(text);
    let parts: Vec<&str> = folder.split('/').skip(1).collect();
    if !folder.starts_with('/') || parts.iter().any(|part| part.is_empty() || *part == "." || *part == "..") {
        return None;
    }
    match parts.as_slice() {
        ["etc", "tuned", profile] | ["etc", "tuned", "profiles", profile] if name == "tuned.conf" => {
            ours(profile).then_some(Kind::Tuned)
        }
        _ if !ours(name) => None,
        ["etc", "sysctl.d"] if name.ends_with(".conf") => Some(Kind::Sysctl),
        ["etc", "tmpfiles.d"] if name.ends_with(".conf") => Some(Kind::Tmpfiles),
        ["etc", "security", "limits.d"] if name.ends_with(".conf") => Some(Kind::Limits),
        ["etc", "systemd", "system", unit] if unit.ends_with(".d") && name.ends_with(".conf") => Some(Kind::Unit),
        ["etc", "default", "grub.d"] if name.ends_with(".cfg") => Some(Kind::Grub),
        // Where a server's own files include others from is the server's affair: what they may hold is harmless.
        _ if name.ends_with(".cnf") => Some(Kind::MySql),
        _ if name.ends_with(".conf") => Some(Kind::PostgreSql),
        _ => None,
    }
}

/// Letters, digits and what names and numbers have besides.
fn plain(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|it| it.is_ascii_alphanumeric() || "_.,:@-".contains(it))
}

fn command(change: &CommandChange) -> Result<(), String> {
    commands::check(&change.command, change.user.as_deref())?;
    if let Some(undo) = &change.undo {
        commands::check(undo, change.user.as_deref()).map_err(|why| format!("{}: {why}", undo.join(" ")))?;
    }
    match change.files.iter().find(|path| !commands::may_rewrite(path)) {
        Some(path) => Err(format!("it has no business with {path}")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
