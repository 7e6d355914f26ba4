//! What a plan may hold: a plan file from elsewhere must not become a root shell.
//!
//! The checksum tells a plan that was edited; it keeps nobody from making a whole one. So every path, every line of a
//! file and every word of a command has to be of a kind that a plan of hugewise has: drop-ins whose names say whose they
//! are, and in them nothing but the settings that this is about.

mod commands;
mod lines;

use crate::Error;
use crate::plan::{Change, CommandChange, Content, FileChange, FileState, NewFile, Plan, ValueChange};
use crate::planner::ours;

/// Refuses a plan with a change that hugewise does not make.
///
/// # Errors
/// [`Error::NotAllowed`] names the first.
pub fn check(plan: &Plan) -> Result<(), Error> {
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

/// What a drop-in may hold, by where it lies: the folders and names that the planner has, and no others.
fn kind(folder: &str, name: &str) -> Option<lines::Kind> {
    use lines::Kind;
    let ours = |text: &str| text.contains("hugewise") && plain(text);
    match (folder, name) {
        ("/etc/tuned/hugewise" | "/etc/tuned/profiles/hugewise", "tuned.conf") => return Some(Kind::Tuned),
        _ if !ours(name) => return None,
        ("/etc/sysctl.d", _) if name.ends_with(".conf") => return Some(Kind::Sysctl),
        ("/etc/tmpfiles.d", _) if name.ends_with(".conf") => return Some(Kind::Tmpfiles),
        ("/etc/security/limits.d", _) if name.ends_with(".conf") => return Some(Kind::Limits),
        ("/etc/default/grub.d", _) if name.ends_with(".cfg") => return Some(Kind::Grub),
        (_, ours::DROP_IN_CNF) if mysql_folder(folder) => return Some(Kind::MySql),
        (_, ours::DROP_IN_CONF) if postgresql_folder(folder) => return Some(Kind::PostgreSql),
        _ => {}
    }
    let unit = folder.strip_prefix("/etc/systemd/system/")?.strip_suffix(".d")?;
    (commands::is_service(unit) && name.ends_with(".conf")).then_some(Kind::Unit)
}

/// Whether a folder of option files is one that MySQL's and MariaDB's packages make: what a server's own files include is
/// its owner's word.
pub(crate) fn mysql_folder(folder: &str) -> bool {
    const FOLDERS: [&str; 6] = [
        // RHEL, Oracle Linux, SLES.
        "/etc/my.cnf.d",
        "/etc/mysql/my.cnf.d",
        // Debian and Ubuntu.
        "/etc/mysql/conf.d",
        "/etc/mysql/mariadb.conf.d",
        "/etc/mysql/mysql.conf.d",
        // Percona.
        "/etc/percona-server.conf.d",
    ];
    FOLDERS.contains(&folder)
}

/// Whether a folder is that of a cluster of Debian's packages: `/etc/postgresql/15/main/conf.d`. Elsewhere the server
/// keeps its settings itself (ALTER SYSTEM).
pub(crate) fn postgresql_folder(folder: &str) -> bool {
    let version = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    match folder.split('/').collect::<Vec<_>>().as_slice() {
        ["", "etc", "postgresql", number, cluster, "conf.d"] => {
            version(number) && *number != "." && *number != ".." && plain(cluster) && !cluster.starts_with(['.', '-'])
        }
        _ => false,
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
