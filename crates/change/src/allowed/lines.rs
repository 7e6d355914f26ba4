//! Lines that files of a plan may hold.

use super::Forbidden;
use hugewise_engines::settable::{Settable, is_plain};

#[derive(Clone, Copy)]
pub(super) enum Language {
    Sysctl,
    Tmpfiles,
    Limits,
    Unit,
    Grub,
    Tuned,
    Server(&'static Settable),
}

const SYSCTLS: [&str; 6] = [
    "vm.nr_hugepages",
    "vm.nr_overcommit_hugepages",
    "vm.hugetlb_shm_group",
    "kernel.shmmax",
    "kernel.shmall",
    "kernel.shmmni",
];

const THP_WORDS: [&str; 10] = [
    "always",
    "madvise",
    "never",
    "inherit",
    "defer",
    "defer+madvise",
    "within_size",
    "advise",
    "deny",
    "force",
];

/// A shell knows these two blanks alone, so that a comment behind any other is none to it; no
/// setting of ours has another sign than ASCII's.
pub(super) fn check_lines(language: Language, text: &str) -> Result<(), Forbidden> {
    let mut section = String::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim_matches([' ', '\t']);
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            section = name.to_owned();
        }
        let known = match language {
            Language::Sysctl => is_sysctl_line(line),
            Language::Tmpfiles => is_tmpfiles_line(line),
            Language::Limits => is_limits_line(line),
            Language::Unit => is_unit_line(line),
            Language::Grub => is_grub_line(line),
            Language::Tuned => is_tuned_line(&section, line),
            Language::Server(settable) => (settable.allows)(line),
        };
        if !known || !line.is_ascii() {
            return Err(Forbidden::Line { number: number + 1, line: line.to_owned() });
        }
    }
    Ok(())
}

/// A decimal number: what begins with a 0 is an octal one to the kernel.
fn is_number(text: &str) -> bool {
    !text.is_empty()
        && text.bytes().all(|byte| byte.is_ascii_digit())
        && (text == "0" || !text.starts_with('0'))
}

fn split_setting(line: &str) -> Option<(&str, &str)> {
    line.split_once('=').map(|(key, value)| (key.trim(), value.trim()))
}

fn is_sysctl_line(line: &str) -> bool {
    split_setting(line).is_some_and(|(key, value)| {
        SYSCTLS.contains(&key) && is_number(value) && !gives_to_nobody(key, value)
    })
}

/// The kernel's overflow group is nobody's, and so are the rights that it is given.
fn gives_to_nobody(key: &str, value: &str) -> bool {
    key == "vm.hugetlb_shm_group" && value.trim_start_matches('0') == "65534"
}

fn is_tmpfiles_line(line: &str) -> bool {
    match line.split_whitespace().collect::<Vec<_>>().as_slice() {
        ["w" | "w!", path, "-", "-", "-", "-", value] => check_kernel_value(path, value).is_ok(),
        _ => false,
    }
}

fn is_limits_line(line: &str) -> bool {
    let amount = |value: &str| is_number(value) || matches!(value, "unlimited" | "infinity" | "-1");
    match line.split_whitespace().collect::<Vec<_>>().as_slice() {
        [who, "-" | "soft" | "hard", "memlock", value] => {
            // An account, and nobody else with it: no group, no range of users, not everybody.
            is_plain(who.strip_suffix('$').unwrap_or(who))
                && !who.contains(['@', ':', '*', '%'])
                && amount(value)
        }
        _ => false,
    }
}

fn is_unit_line(line: &str) -> bool {
    let amount = |value: &str| {
        value == "infinity" || value.split(':').all(|part| part == "infinity" || is_size(part))
    };
    line == "[Service]"
        || split_setting(line).is_some_and(|(key, value)| key == "LimitMEMLOCK" && amount(value))
}

fn is_size(text: &str) -> bool {
    is_number(text.strip_suffix(['K', 'M', 'G', 'T', 'k', 'm', 'g']).unwrap_or(text))
}

/// The shell reads it: only this form, with nothing but words of the kernel's in it.
fn is_grub_line(line: &str) -> bool {
    let words =
        ["GRUB_CMDLINE_LINUX", "GRUB_CMDLINE_LINUX_DEFAULT"].into_iter().find_map(|variable| {
            let value = line
                .strip_prefix(variable)?
                .strip_prefix("=\"$")?
                .strip_prefix(variable)?
                .strip_suffix('"')?;
            value.strip_prefix(' ')
        });
    words.is_some_and(|words| words.split_whitespace().all(is_boot_word))
}

pub(super) fn is_boot_word(word: &str) -> bool {
    match word.split_once('=') {
        Some(("hugepagesz" | "default_hugepagesz", value)) => is_size(value),
        Some(("hugepages", value)) => value.split(',').all(|part| match part.split_once(':') {
            Some((node, pages)) => is_number(node) && is_number(pages),
            None => is_number(part),
        }),
        Some(("transparent_hugepage", value)) => THP_WORDS.contains(&value),
        _ => false,
    }
}

fn is_tuned_line(section: &str, line: &str) -> bool {
    let Some((key, value)) = split_setting(line) else {
        return matches!(line, "[main]" | "[vm]" | "[sysctl]");
    };
    match (section, key) {
        ("main", "summary") => !value.contains(['$', '`']),
        ("main", "include") => is_plain(&value.replace([' ', ','], "")),
        ("vm", "transparent_hugepages" | "transparent_hugepage") => THP_WORDS.contains(&value),
        ("sysctl", _) => is_sysctl_line(line),
        _ => false,
    }
}

pub(super) fn check_kernel_value(path: &str, value: &str) -> Result<(), Forbidden> {
    let parts: Vec<&str> = path.split('/').collect();
    let pool = |name: &str| {
        let kib = name.strip_prefix("hugepages-").and_then(|name| name.strip_suffix("kB"));
        kib.is_some_and(is_number)
    };
    let fits = match parts.as_slice() {
        ["", "proc", "sys", group, name] => {
            let key = format!("{group}.{name}");
            SYSCTLS.contains(&key.as_str()) && is_number(value) && !gives_to_nobody(&key, value)
        }
        [
            "",
            "sys",
            "kernel",
            "mm",
            "hugepages",
            size,
            "nr_hugepages" | "nr_overcommit_hugepages",
        ] => pool(size) && is_number(value),
        ["", "sys", "devices", "system", "node", node, "hugepages", size, "nr_hugepages"] => {
            node.strip_prefix("node").is_some_and(is_number) && pool(size) && is_number(value)
        }
        [
            "",
            "sys",
            "kernel",
            "mm",
            "transparent_hugepage",
            "enabled" | "defrag" | "shmem_enabled",
        ]
        | ["", "sys", "kernel", "mm", "redhat_transparent_hugepage", "enabled" | "defrag"] => {
            THP_WORDS.contains(&value)
        }
        ["", "sys", "kernel", "mm", "transparent_hugepage", size, "enabled" | "shmem_enabled"] => {
            pool(size) && THP_WORDS.contains(&value)
        }
        _ => false,
    };
    if fits { Ok(()) } else { Err(Forbidden::Value(value.to_owned())) }
}
