//! Commands that a plan may run.

use super::{Forbidden, lines};
use hugewise_engines::options::file_name;
use hugewise_engines::settable::{ByItself, is_plain};
use hugewise_engines::{all_restarters, all_settables};

pub(super) fn check_command(command: &[String], user: Option<&str>) -> Result<(), Forbidden> {
    let words: Vec<&str> = command.iter().map(String::as_str).collect();
    let Some((path, arguments)) = words.split_first() else { return Err(Forbidden::NoProgram) };
    let Some((folder, program)) =
        path.rsplit_once('/').filter(|(folder, _)| is_trusted_folder(folder))
    else {
        return Err(Forbidden::Folder);
    };
    let known = match (program, arguments) {
        ("update-grub" | "update-grub2", []) => true,
        ("grub-mkconfig" | "grub2-mkconfig", ["-o", file]) => is_menu(file),
        ("grubby", ["--update-kernel=ALL", change]) => {
            let words =
                change.strip_prefix("--args=").or_else(|| change.strip_prefix("--remove-args="));
            words.is_some_and(|words| words.split([' ', '\t']).all(is_boot_word_or_name))
        }
        ("systemctl", ["daemon-reload"]) => true,
        ("systemctl", ["restart", name]) => is_service(name),
        ("tuned-adm", ["profile", profiles @ ..]) => {
            !profiles.is_empty()
                && profiles.iter().all(|name| is_plain(name) && !name.starts_with('-'))
        }
        _ => all_restarters()
            .any(|restarter| restarter.program == program && (restarter.allows)(arguments)),
    };
    let client = server_clients().find(|client| client.program == program);
    let known = known || client.is_some_and(|client| (client.allows)(arguments));
    match (known, client, user) {
        (false, ..) => Err(Forbidden::Command),
        (true, Some(_), None | Some("root")) => Err(Forbidden::ClientOfRoot),
        (true, Some(_), Some(_)) => Ok(()),
        (true, None, Some(user)) => Err(Forbidden::User(user.to_owned())),
        (true, None, None) if !is_system_folder(folder) => Err(Forbidden::NoClient),
        (true, None, None) => Ok(()),
    }
}

fn server_clients() -> impl Iterator<Item = &'static ByItself> {
    all_settables().filter_map(|settable| settable.by_itself.as_ref())
}

/// A service's name in full: letters, digits and what systemd's own escapes leave.
pub(super) fn is_service(unit: &str) -> bool {
    let name = unit.strip_suffix(".service").unwrap_or_default();
    is_plain(name) && !name.starts_with(['-', '.'])
}

fn is_trusted_folder(folder: &str) -> bool {
    let versioned = |prefix: &&str| {
        let version = folder.strip_prefix(*prefix).and_then(|rest| rest.strip_suffix("/bin"));
        version.is_some_and(|version| {
            version.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
        })
    };
    is_system_folder(folder) || server_clients().any(|client| client.folders.iter().any(versioned))
}

fn is_system_folder(folder: &str) -> bool {
    matches!(folder, "/usr/sbin" | "/usr/bin" | "/sbin" | "/bin")
}

/// `--remove-args` takes names without values too.
fn is_boot_word_or_name(word: &str) -> bool {
    lines::is_boot_word(word)
        || ["hugepagesz", "default_hugepagesz", "hugepages", "transparent_hugepage"].contains(&word)
}

fn is_menu(path: &str) -> bool {
    in_boot(path).is_some_and(|(_, name)| name == "grub.cfg")
}

/// GRUB's menu and environment, and entries (the Boot Loader Specification).
fn is_boot_loader_file(path: &str) -> bool {
    in_boot(path).is_some_and(|(folder, name)| {
        let entry = folder.ends_with("/loader/entries") && name.ends_with(".conf");
        entry || matches!(name, "grub.cfg" | "grub.*" | "grubenv")
    })
}

/// Folder and name of a file below /boot.
fn in_boot(path: &str) -> Option<(&str, &str)> {
    let below = path.starts_with("/boot/") && !path.split('/').any(|part| part == "..");
    path.rsplit_once('/').filter(|_| below)
}

/// Whether a command names what it rewrites, so that it can be put back.
pub(super) fn tells_what_it_rewrites(command: &[String], files: &[String]) -> bool {
    let words: Vec<&str> = command.iter().map(|word| file_name(word)).collect();
    match words.as_slice() {
        ["grub-mkconfig" | "grub2-mkconfig", _, _] => {
            command.last().is_some_and(|menu| files.contains(menu))
        }
        ["update-grub" | "update-grub2"] | ["grubby", ..] => {
            files.iter().any(|file| is_boot_loader_file(file))
        }
        _ => true,
    }
}

/// Files that these commands rewrite, which are put back from the journal.
pub(super) fn may_rewrite(path: &str) -> bool {
    const KNOWN: [&str; 4] = [
        "/etc/default/grub",
        "/etc/kernel/cmdline",
        "/etc/tuned/active_profile",
        "/etc/tuned/profile_mode",
    ];
    let clean = path.starts_with('/') && !path.split('/').any(|part| part == "..");
    let of_server = |name: &str| server_clients().any(|client| client.file == name);
    clean
        && (KNOWN.contains(&path)
            || in_boot(path).is_some()
            || path.rsplit('/').next().is_some_and(of_server))
}
