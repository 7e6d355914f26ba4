//! Kernel command lines and boot loaders' files: the words about memory, and what chooses an entry.

use super::line_filter::filter_lines;
use super::shape::{NO_VALUE, ValueShape, is_harmless};

const KERNEL_WORDS: [&str; 17] = [
    "hugepages",
    "hugepagesz",
    "default_hugepagesz",
    "hugetlb_cma",
    "hugetlb_cma_only",
    "hugetlb_free_vmemmap",
    "hugepage_alloc_threads",
    "transparent_hugepage",
    "transparent_hugepage_shmem",
    "transparent_hugepage_tmpfs",
    "thp_anon",
    "thp_shmem",
    "numa",
    "numa_balancing",
    "mem",
    "isolcpus",
    "quiet",
];

pub(super) fn words_of(bytes: &[u8]) -> Vec<u8> {
    filter_lines(bytes, |line| Some(kernel_words(line)))
}

pub(super) fn kernel_words(line: &str) -> String {
    let ours = |word: &&str| {
        let word = word.trim_matches(['"', '\'']).trim_start_matches(['+', '-']);
        // A variable holds other words, which are looked at where it is set.
        word.starts_with('$') || KERNEL_WORDS.contains(&word.split('=').next().unwrap_or_default())
    };
    line.split_ascii_whitespace().filter(ours).collect::<Vec<_>>().join(" ")
}

/// Names an entry; what could be more than that ends the line.
fn redact_entry_choice(line: &str) -> String {
    let plain =
        |sign: char| sign.is_alphanumeric() || " \t_.,:;+-/()[]{}<>=|&!@~$'\"\\".contains(sign);
    let end = line.find(|sign: char| !plain(sign)).unwrap_or(line.len());
    let kept = line.get(..end).unwrap_or_default();
    // After the brace that opens an entry nothing belongs to it.
    let kept = kept
        .rfind('{')
        .and_then(|at| kept.get(..=at))
        .filter(|_| kept.trim_start().contains("menu"))
        .unwrap_or(kept);
    if is_harmless(kept) { kept.trim_end().to_owned() } else { String::new() }
}

pub(super) fn redact_boot_file(name: &str, bytes: &[u8]) -> Vec<u8> {
    if name == "cmdline" {
        return words_of(bytes);
    }
    filter_lines(bytes, redact_boot_line)
}

fn redact_boot_line(line: &str) -> Option<String> {
    let indent: String = line.chars().take_while(char::is_ascii_whitespace).collect();
    let trimmed = line.trim();
    let first = trimmed
        .split(|sign: char| sign.is_ascii_whitespace() || sign == '=')
        .next()
        .unwrap_or_default();
    match first {
        "linux" | "linux16" | "linuxefi" | "kernel" | "module" => {
            Some(format!("{indent}{first} {}", redact_kernel_image(trimmed)).trim_end().to_owned())
        }
        "options" => Some(format!(
            "options {}",
            kernel_words(trimmed.get(first.len()..).unwrap_or_default())
        )),
        _ if matches!(first, "kernelopts" | "tuned_params")
            || first.starts_with("GRUB_CMDLINE") =>
        {
            let value = trimmed.split_once('=').map(|(_, value)| value).unwrap_or_default();
            let quote = ['"', '\''].into_iter().find(|quote| value.starts_with(*quote));
            let quote = quote.map(String::from).unwrap_or_default();
            let words = kernel_words(value.trim_matches(['"', '\'']));
            Some(format!("{first}={quote}{words}{quote}"))
        }
        "}" | "blscfg" => Some(format!("{indent}{first}")),
        "menuentry" | "submenu" | "title" | "version" | "default" | "saved_entry"
        | "next_entry" | "GRUB_DEFAULT" | "GRUB_ENABLE_BLSCFG" | "sort-key" | "machine-id"
        | "id" => Some(redact_entry_choice(line)),
        "set" => redact_grub_assignment(line, &indent),
        "if" | "elif" if trimmed.contains("next_entry") || trimmed.contains("kernelopts") => {
            Some(redact_entry_choice(line))
        }
        "if" | "elif" | "else" | "fi" => {
            Some(format!("{indent}{}", if first == "if" { "if false ; then" } else { first }))
        }
        "#" if trimmed == "# GRUB Environment Block" => Some(line.to_owned()),
        _ => None,
    }
}

/// `linux /vmlinuz-6.1 root=... quiet`. GRUB before version 2 says `kernel`, and under Xen
/// `module`, and may have options before the file.
fn redact_kernel_image(line: &str) -> String {
    let mut behind =
        line.split_ascii_whitespace().skip(1).skip_while(|word| word.starts_with("--"));
    let file = behind.next().unwrap_or_default();
    let file = if ValueShape::Path.matches_value(file) { file } else { NO_VALUE };
    format!("{file} {}", kernel_words(&behind.collect::<Vec<_>>().join(" ")))
}

/// `set default="0"`, `set kernelopts="..."` and the tests around them.
fn redact_grub_assignment(line: &str, indent: &str) -> Option<String> {
    let (key, value) = line.trim().strip_prefix("set")?.trim_start().split_once('=')?;
    match key {
        "default" | "saved_entry" => Some(redact_entry_choice(line)),
        "kernelopts" | "default_kernelopts" | "tuned_params" => {
            let words = kernel_words(value.trim_matches(['"', '\'']));
            Some(format!("{indent}set {key}=\"{words}\""))
        }
        _ => None,
    }
}
