//! Commands that a plan may run.

use super::{Forbidden, lines};
use crate::packages::plain;

/// Program and arguments, and the account that they run as.
pub(super) fn check(command: &[String], user: Option<&str>) -> Result<(), Forbidden> {
    let words: Vec<&str> = command.iter().map(String::as_str).collect();
    let Some((path, arguments)) = words.split_first() else { return Err(Forbidden::NoProgram) };
    let Some((folder, program)) = path.rsplit_once('/').filter(|(folder, _)| trusted_folder(folder)) else {
        return Err(Forbidden::Folder);
    };
    let known = match (program, arguments) {
        ("update-grub" | "update-grub2", []) => true,
        ("grub-mkconfig" | "grub2-mkconfig", ["-o", file]) => in_boot(file),
        ("grubby", ["--update-kernel=ALL", change]) => {
            let words = change.strip_prefix("--args=").or_else(|| change.strip_prefix("--remove-args="));
            words.is_some_and(|words| words.split_whitespace().all(boot_word_or_name))
        }
        ("systemctl", ["daemon-reload"]) => true,
        ("systemctl", ["restart", name]) => is_service(name),
        ("tuned-adm", ["profile", profiles @ ..]) => {
            !profiles.is_empty() && profiles.iter().all(|name| plain(name) && !name.starts_with('-'))
        }
        ("pg_ctlcluster", [version, cluster, "restart"]) => {
            [version, cluster].iter().all(|name| plain(name) && !name.starts_with('-'))
        }
        ("psql", ["-X", "-h", socket, "-p", port, "-d", "postgres", "-c", sql]) => {
            socket.starts_with('/') && port.bytes().all(|byte| byte.is_ascii_digit()) && alter_system(sql)
        }
        _ => false,
    };
    let server = folder.starts_with("/usr/lib/postgresql") || folder.starts_with("/usr/pgsql-");
    match (known, program, user) {
        (false, ..) => Err(Forbidden::Command),
        (true, "psql", None | Some("root")) => Err(Forbidden::ClientOfRoot),
        (true, "psql", Some(_)) => Ok(()),
        (true, _, Some(user)) => Err(Forbidden::User(user.to_owned())),
        (true, ..) if server => Err(Forbidden::NoClient),
        (true, ..) => Ok(()),
    }
}

/// A service's name in full: letters, digits and what systemd's own escapes leave.
pub(super) fn is_service(unit: &str) -> bool {
    let name = unit.strip_suffix(".service").unwrap_or_default();
    plain(name) && !name.starts_with(['-', '.'])
}

fn trusted_folder(folder: &str) -> bool {
    let versioned = |prefix: &str| {
        let version = folder.strip_prefix(prefix).and_then(|rest| rest.strip_suffix("/bin"));
        version.is_some_and(|version| version.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.'))
    };
    matches!(folder, "/usr/sbin" | "/usr/bin" | "/sbin" | "/bin")
        || versioned("/usr/lib/postgresql/")
        || versioned("/usr/pgsql-")
}

/// `--remove-args` takes names without values too.
fn boot_word_or_name(word: &str) -> bool {
    lines::boot_word(word) || ["hugepagesz", "default_hugepagesz", "hugepages", "transparent_hugepage"].contains(&word)
}

fn in_boot(path: &str) -> bool {
    path.starts_with("/boot/") && !path.split('/').any(|part| part == "..")
}

/// `ALTER SYSTEM SET huge_pages = 'on'`, or `ALTER SYSTEM RESET huge_pages`: one statement, and a plain value.
fn alter_system(sql: &str) -> bool {
    const SETTINGS: [&str; 3] = ["huge_pages", "huge_page_size", "shared_memory_type"];
    let Some(rest) = sql.strip_prefix("ALTER SYSTEM ") else { return false };
    if let Some(name) = rest.strip_prefix("RESET ") {
        return SETTINGS.contains(&name);
    }
    let set = rest.strip_prefix("SET ").and_then(|rest| rest.split_once(" = "));
    set.is_some_and(|(name, value)| {
        let bare = value.strip_prefix('\'').and_then(|value| value.strip_suffix('\''));
        SETTINGS.contains(&name) && bare.is_some_and(plain)
    })
}

/// Files that these commands rewrite, which are put back from the journal.
pub(super) fn may_rewrite(path: &str) -> bool {
    const KNOWN: [&str; 4] =
        ["/etc/default/grub", "/etc/kernel/cmdline", "/etc/tuned/active_profile", "/etc/tuned/profile_mode"];
    let clean = path.starts_with('/') && !path.split('/').any(|part| part == "..");
    clean && (KNOWN.contains(&path) || in_boot(path) || path.ends_with("/postgresql.auto.conf"))
}
