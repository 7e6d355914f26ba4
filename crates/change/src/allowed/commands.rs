//! Commands that a plan may run.

use super::{Forbidden, lines};
use hugewise_engines::settable::{ByItself, is_plain};
use hugewise_engines::{restarters, settables};

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
            !profiles.is_empty() && profiles.iter().all(|name| is_plain(name) && !name.starts_with('-'))
        }
        _ => restarters().any(|it| it.program == program && (it.allows)(arguments)),
    };
    let client = clients().find(|client| client.program == program);
    let known = known || client.is_some_and(|client| (client.allows)(arguments));
    match (known, client, user) {
        (false, ..) => Err(Forbidden::Command),
        (true, Some(_), None | Some("root")) => Err(Forbidden::ClientOfRoot),
        (true, Some(_), Some(_)) => Ok(()),
        (true, None, Some(user)) => Err(Forbidden::User(user.to_owned())),
        (true, None, None) if !of_the_system(folder) => Err(Forbidden::NoClient),
        (true, None, None) => Ok(()),
    }
}

/// Clients that tell servers their settings.
fn clients() -> impl Iterator<Item = &'static ByItself> {
    settables().filter_map(|settable| settable.by_itself.as_ref())
}

/// A service's name in full: letters, digits and what systemd's own escapes leave.
pub(super) fn is_service(unit: &str) -> bool {
    let name = unit.strip_suffix(".service").unwrap_or_default();
    is_plain(name) && !name.starts_with(['-', '.'])
}

fn trusted_folder(folder: &str) -> bool {
    let versioned = |prefix: &&str| {
        let version = folder.strip_prefix(*prefix).and_then(|rest| rest.strip_suffix("/bin"));
        version.is_some_and(|version| version.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.'))
    };
    of_the_system(folder) || clients().any(|client| client.folders.iter().any(versioned))
}

fn of_the_system(folder: &str) -> bool {
    matches!(folder, "/usr/sbin" | "/usr/bin" | "/sbin" | "/bin")
}

/// `--remove-args` takes names without values too.
fn boot_word_or_name(word: &str) -> bool {
    lines::boot_word(word) || ["hugepagesz", "default_hugepagesz", "hugepages", "transparent_hugepage"].contains(&word)
}

fn in_boot(path: &str) -> bool {
    path.starts_with("/boot/") && !path.split('/').any(|part| part == "..")
}

/// Files that these commands rewrite, which are put back from the journal.
pub(super) fn may_rewrite(path: &str) -> bool {
    const KNOWN: [&str; 4] =
        ["/etc/default/grub", "/etc/kernel/cmdline", "/etc/tuned/active_profile", "/etc/tuned/profile_mode"];
    let clean = path.starts_with('/') && !path.split('/').any(|part| part == "..");
    let of_server = |name: &str| clients().any(|client| client.file == name);
    clean && (KNOWN.contains(&path) || in_boot(path) || path.rsplit('/').next().is_some_and(of_server))
}
