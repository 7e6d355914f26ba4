//! Lines that files of a plan may hold.

use super::Forbidden;
use hugewise_engines::settable::{Settable, is_plain};

/// The language of a file.
#[derive(Clone, Copy)]
pub(super) enum Language {
    Sysctl,
    Tmpfiles,
    Limits,
    Unit,
    Grub,
    Tuned,
    /// Of a server's settings.
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

const THP_WORDS: [&str; 10] =
    ["always", "madvise", "never", "inherit", "defer", "defer+madvise", "within_size", "advise", "deny", "force"];

/// Every line, but for comments and empty ones. Of blanks a shell knows these two alone: a comment behind any other is none to
/// it, and no setting of ours has another sign than ASCII's.
pub(super) fn check(language: Language, text: &str) -> Result<(), Forbidden> {
    let mut section = String::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim_matches([' ', '\t']);
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if !line.is_ascii() {
            return Err(Forbidden::Line { number: number + 1, line: line.to_owned() });
        }
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            section = name.to_owned();
        }
        let known = match language {
            Language::Sysctl => sysctl(line),
            Language::Tmpfiles => tmpfiles(line),
            Language::Limits => limits(line),
            Language::Unit => unit(line),
            Language::Grub => grub(line),
            Language::Tuned => tuned(&section, line),
            Language::Server(settable) => (settable.allows)(line),
        };
        if !known {
            return Err(Forbidden::Line { number: number + 1, line: line.to_owned() });
        }
    }
    Ok(())
}

fn number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn setting(line: &str) -> Option<(&str, &str)> {
    line.split_once('=').map(|(key, value)| (key.trim(), value.trim()))
}

fn sysctl(line: &str) -> bool {
    setting(line).is_some_and(|(key, value)| SYSCTLS.contains(&key) && number(value) && !gives_to_nobody(key, value))
}

/// The kernel's overflow group is nobody's, and so are the rights that it is given.
fn gives_to_nobody(key: &str, value: &str) -> bool {
    key == "vm.hugetlb_shm_group" && value.trim_start_matches('0') == "65534"
}

fn tmpfiles(line: &str) -> bool {
    match line.split_whitespace().collect::<Vec<_>>().as_slice() {
        ["w" | "w!", path, "-", "-", "-", "-", value] => kernel_value(path, value).is_ok(),
        _ => false,
    }
}

fn limits(line: &str) -> bool {
    let amount = |value: &str| number(value) || matches!(value, "unlimited" | "infinity" | "-1");
    match line.split_whitespace().collect::<Vec<_>>().as_slice() {
        [who, "-" | "soft" | "hard", "memlock", value] => {
            // An account, and nobody else with it: no group, no range of users, not everybody.
            is_plain(who.strip_suffix('$').unwrap_or(who)) && !who.contains(['@', ':', '*', '%']) && amount(value)
        }
        _ => false,
    }
}

fn unit(line: &str) -> bool {
    let amount = |value: &str| value == "infinity" || value.split(':').all(|part| part == "infinity" || size(part));
    line == "[Service]" || setting(line).is_some_and(|(key, value)| key == "LimitMEMLOCK" && amount(value))
}

fn size(text: &str) -> bool {
    number(text.strip_suffix(['K', 'M', 'G', 'T', 'k', 'm', 'g']).unwrap_or(text))
}

/// The shell reads it: the one form, and in it nothing but words of the kernel's.
fn grub(line: &str) -> bool {
    let words = ["GRUB_CMDLINE_LINUX", "GRUB_CMDLINE_LINUX_DEFAULT"].into_iter().find_map(|variable| {
        let value = line.strip_prefix(variable)?.strip_prefix("=\"$")?.strip_prefix(variable)?.strip_suffix('"')?;
        value.strip_prefix(' ')
    });
    words.is_some_and(|words| words.split_whitespace().all(boot_word))
}

/// A word of the kernel's command line.
pub(super) fn boot_word(word: &str) -> bool {
    match word.split_once('=') {
        Some(("hugepagesz" | "default_hugepagesz", value)) => size(value),
        Some(("hugepages", value)) => value.split(',').all(|part| match part.split_once(':') {
            Some((node, pages)) => number(node) && number(pages),
            None => number(part),
        }),
        Some(("transparent_hugepage", value)) => THP_WORDS.contains(&value),
        _ => false,
    }
}

fn tuned(section: &str, line: &str) -> bool {
    let Some((key, value)) = setting(line) else {
        return matches!(line, "[main]" | "[vm]" | "[sysctl]");
    };
    match (section, key) {
        ("main", "summary") => !value.contains(['$', '`']),
        ("main", "include") => is_plain(&value.replace([' ', ','], "")),
        ("vm", "transparent_hugepages" | "transparent_hugepage") => THP_WORDS.contains(&value),
        ("sysctl", _) => sysctl(line),
        _ => false,
    }
}

/// A kernel value that a plan may set.
pub(super) fn kernel_value(path: &str, value: &str) -> Result<(), Forbidden> {
    let parts: Vec<&str> = path.split('/').collect();
    let pool = |name: &str| {
        let kib = name.strip_prefix("hugepages-").and_then(|name| name.strip_suffix("kB"));
        kib.is_some_and(number)
    };
    let fits = match parts.as_slice() {
        ["", "proc", "sys", group, name] => {
            let key = format!("{group}.{name}");
            SYSCTLS.contains(&key.as_str()) && number(value) && !gives_to_nobody(&key, value)
        }
        ["", "sys", "kernel", "mm", "hugepages", size, "nr_hugepages" | "nr_overcommit_hugepages"] => {
            pool(size) && number(value)
        }
        ["", "sys", "devices", "system", "node", node, "hugepages", size, "nr_hugepages"] => {
            node.strip_prefix("node").is_some_and(number) && pool(size) && number(value)
        }
        ["", "sys", "kernel", "mm", "transparent_hugepage", "enabled" | "defrag" | "shmem_enabled"]
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
