//! What of each kind of file goes into a capture. Lines that do not are emptied, so that line
//! numbers stay.

use super::Keeps;
use super::arguments::{PASSING_ON, filter_arguments};
use super::boot_loader::{kernel_words, redact_boot_file, words_of};
use super::line_filter::{filter_lines, redact_mounts, redact_section};
use super::processes::process_file;
use super::settings::{redact_binary_settings, redact_setting_line};
use super::shape::{self, NO_VALUE};
use hugewise_config::launchers::is_launcher;
use hugewise_config::unit_conditions::is_told_by_capture;
use hugewise_config::{clusterware, init_system, kernel_config, scripts};

const UNIT_KEYS: [&str; 23] = [
    "Type",
    "User",
    "Group",
    "SupplementaryGroups",
    "DynamicUser",
    "AmbientCapabilities",
    "CapabilityBoundingSet",
    "Slice",
    "Delegate",
    "PrivateUsers",
    "PIDFile",
    "WorkingDirectory",
    "RootDirectory",
    "After",
    "Before",
    "Requires",
    "Wants",
    "WantedBy",
    "RequiredBy",
    "AllowedMemoryNodes",
    "NUMAPolicy",
    "NUMAMask",
    "PAMName",
];

/// The bytes to keep of a file that was read; `None` where nobody vouches for the kind.
pub(super) fn redact_file(path: &str, bytes: &[u8], keeps: &Keeps) -> Option<Vec<u8>> {
    let read_as = path;
    let inner = hugewise_source::split_process_root(path)
        .map(|(root, _)| path.get(root.len()..).unwrap_or_default());
    let path = inner.unwrap_or(path);
    let parts: Vec<&str> =
        path.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    let name = parts.last().copied().unwrap_or_default();
    let has = |part: &str| parts.contains(&part);
    if let Some(script) = init_system::distill_init_script(path, bytes)
        .or_else(|| clusterware::distill_clusterware(path, bytes))
    {
        return Some(script);
    }
    let rewritten = keeps.forms.iter().find_map(|forms| forms.rewrite?(path, bytes));
    match parts.as_slice() {
        _ if has("..") => None,
        ["proc" | "sys", ..] => redact_kernel_file(path, &parts, bytes, keeps),
        _ if keeps.writers.contains(path) && !has("systemd") && !is_profile(&parts) => {
            Some(scripts::distill_script(path, bytes, &keeps.writers))
        }
        ["etc", "cloud", "cloud-init.disabled"] => Some(Vec::new()),
        ["etc", "shadow" | "gshadow" | "shadow-" | "gshadow-", ..] => None,
        ["etc", "passwd"] => Some(filter_lines(bytes, |line| redact_passwd_line(line, keeps))),
        ["etc", "group"] => Some(group_file(bytes, keeps)),
        ["etc" | "usr", .., "os-release"] => Some(filter_lines(bytes, os_release)),
        ["etc", "redhat-release" | "hostname"] | ["hostname"] => {
            Some(filter_lines(bytes, name_alone))
        }
        ["etc", "sysctl.conf"] => Some(filter_lines(bytes, redact_sysctl_line)),
        ["etc", "fstab"] => Some(filter_lines(bytes, redact_fstab_line)),
        _ if has("sysctl.d") => Some(filter_lines(bytes, redact_sysctl_line)),
        ["sos_commands", "kernel", "sysctl_-a"] => {
            Some(filter_lines(bytes, redact_sysctl_listing_line))
        }
        ["etc", "security", ..] => {
            Some(filter_lines(bytes, |line| redact_limits_line(line, keeps)))
        }
        _ if has("tmpfiles.d") => Some(filter_lines(bytes, redact_tmpfiles_line)),
        _ if has("tuned") => Some(redact_tuned_file(path, name, bytes, keeps)),
        _ if has("systemd") && !has("credstore") => Some(redact_unit_file(path, bytes, keeps)),
        _ if kernel_config::is_one(path) => Some(kernel_config::distill_kernel_config(bytes)),
        ["boot", ..]
        | ["efi", ..]
        | ["etc", "default", ..]
        | ["etc", "kernel", ..]
        | ["etc", "grub2.cfg" | "grub.d"] => Some(redact_boot_file(name, bytes)),
        ["var", "log", ..] | ["sos_commands", "kernel", "dmesg", ..] if rewritten.is_none() => {
            Some(filter_lines(bytes, log_line))
        }
        ["sos_commands", ..] | ["uname" | "date"] => None,
        _ if rewritten.is_some() => rewritten,
        _ if bytes.contains(&0) => redact_binary_settings(bytes, name, keeps),
        _ => Some(redact_setting_lines(read_as, bytes, keeps)),
    }
}

fn redact_kernel_file(path: &str, parts: &[&str], bytes: &[u8], keeps: &Keeps) -> Option<Vec<u8>> {
    match parts {
        ["proc", "cmdline"] => Some(words_of(bytes)),
        ["proc", "mounts"] => Some(redact_mounts(bytes)),
        ["proc", pid, rest @ ..]
            if *pid == "self" || pid.bytes().all(|digit| digit.is_ascii_digit()) =>
        {
            process_file(pid, rest, bytes, keeps)
        }
        _ => hugewise_source::kernel_files::is_known(path).then(|| bytes.to_vec()),
    }
}

fn redact_setting_lines(path: &str, bytes: &[u8], keeps: &Keeps) -> Vec<u8> {
    let own = keeps.lines.get(path);
    filter_lines(bytes, |line| {
        own.and_then(|own| own(line)).or_else(|| redact_setting_line(line, keeps))
    })
}

/// Signs of a size of a hugetlbfs: a number with its unit, or a part of the pool.
const fn is_of_size(sign: char) -> bool {
    matches!(sign, '0'..='9' | 'k' | 'K' | 'm' | 'M' | 'g' | 'G' | 't' | 'T' | '%')
}

/// A mount of a hugetlbfs: others bear servers, users and now and then a password.
fn redact_fstab_line(line: &str) -> Option<String> {
    let mut fields = line.split_whitespace();
    let (device, folder, kind) = (fields.next()?, fields.next()?, fields.next()?);
    let options = fields.next().unwrap_or("defaults");
    let is_size =
        |word: &str| word.strip_prefix("size=").is_some_and(|size| size.chars().all(is_of_size));
    let known = |word: &str| {
        matches!(word, "noauto" | "x-systemd.automount")
            || word.starts_with("pagesize=")
            || is_size(word)
    };
    let options: Vec<&str> = options.split(',').filter(|word| known(word)).collect();
    let options = if options.is_empty() { "defaults".to_owned() } else { options.join(",") };
    (!device.starts_with('#') && kind == "hugetlbfs")
        .then(|| format!("none {folder} hugetlbfs {options} 0 0"))
}

fn redact_passwd_line(line: &str, keeps: &Keeps) -> Option<String> {
    let fields: Vec<&str> = line.split(':').collect();
    let [name, _, uid, gid, _, home, _] = fields.as_slice() else { return None };
    let number = uid.parse().ok();
    let ours = number.is_some_and(|uid| keeps.servers.users.contains(&uid));
    let read = number.is_some_and(|uid| keeps.servers.homes.contains(&uid))
        && shape::ValueShape::Path.matches_value(home);
    let home = if read { home } else { "" };
    (ours && is_number(gid) && is_account(name)).then(|| format!("{name}:x:{uid}:{gid}::{home}:"))
}

fn group_file(bytes: &[u8], keeps: &Keeps) -> Vec<u8> {
    filter_lines(bytes, |line| {
        let fields: Vec<&str> = line.split(':').collect();
        let [name, _, gid, members] = fields.as_slice() else { return None };
        let ours =
            gid.parse().is_ok_and(|gid| keeps.servers.groups.contains(&gid)) && is_account(name);
        let members: Vec<&str> =
            members.split(',').filter(|member| keeps.servers.names.contains(*member)).collect();
        ours.then(|| format!("{name}:x:{gid}:{}", members.join(",")))
    })
}

/// A name as useradd(8) takes it.
fn is_account(name: &str) -> bool {
    name.len() <= 32
        && name.bytes().all(|sign| sign.is_ascii_alphanumeric() || b"_.-$@".contains(&sign))
}

fn os_release(line: &str) -> Option<String> {
    let (key, value) = line.split_once('=')?;
    let plain = |sign: char| sign.is_alphanumeric() || " \"'()._/+-".contains(sign);
    let ours = matches!(key, "PRETTY_NAME" | "NAME" | "VERSION")
        && value.len() <= 120
        && value.chars().all(plain);
    ours.then(|| line.to_owned())
}

fn name_alone(line: &str) -> Option<String> {
    let plain = |sign: char| sign.is_alphanumeric() || " ()._-".contains(sign);
    (line.len() <= 120 && line.chars().all(plain)).then(|| line.to_owned())
}

/// The rest names processes, and a command line that can hold a disk's or a network's password.
fn log_line(line: &str) -> Option<String> {
    const SIGNS: [&str; 3] =
        ["Using mlock ulimits for SHM_HUGETLB", "page allocation failure", "Out of memory"];
    let stamp = |line: &str| {
        let (inside, _) = line.strip_prefix('[')?.split_once(']')?;
        let seconds = inside.bytes().all(|sign| sign.is_ascii_digit() || b" .".contains(&sign));
        seconds.then(|| format!("[{inside}] "))
    };
    if let Some((_, said)) = line.split_once("HugeTLB: ") {
        let plain = |sign: char| sign.is_ascii_alphanumeric() || " .,:%()/-".contains(sign);
        let ours = said.starts_with("registered")
            || said.starts_with("allocat")
            || said.starts_with(|sign: char| sign.is_ascii_digit());
        let said = if ours && said.len() <= 160 && said.chars().all(plain) { said } else { "" };
        return Some(format!("{}HugeTLB: {said}", stamp(line).unwrap_or_default()));
    }
    let sign = SIGNS.iter().find(|sign| line.contains(**sign))?;
    Some(format!("{}{sign}", stamp(line).unwrap_or_default()))
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|digit| digit.is_ascii_digit())
}

/// Behind a `#` nothing is set, but the sign shows that the line is not what its writer meant.
fn comment_emptied(line: &str) -> String {
    line.split_once('#').map_or_else(|| line.to_owned(), |(before, _)| format!("{before}#"))
}

/// Numbers, and what stands for them: nothing else is set by a sysctl that is read here.
fn redact_sysctl_line(line: &str) -> Option<String> {
    let (written, value) = line.split_once('=')?;
    let key = written.trim().trim_start_matches('-').replace('/', ".");
    // A pattern is made of parts of keys.
    let ours = key.split(['*', '?']).all(|part| SYSCTLS.iter().any(|known| known.contains(part)));
    let whole = SYSCTLS.contains(&key.as_str()) || key.contains(['*', '?']);
    let comment = if value.contains('#') { "#" } else { "" };
    let before = value.split('#').next().unwrap_or_default();
    let number = |sign: char| sign.is_ascii_digit() || " \t-".contains(sign);
    let value =
        if before.chars().all(number) || is_variable(before.trim()) { before } else { " ?" };
    (ours && whole).then(|| format!("{written}={value}{comment}"))
}

/// A line of what `sysctl -a` writes: the kernel's release is among its values.
fn redact_sysctl_listing_line(line: &str) -> Option<String> {
    match line.strip_prefix("kernel.osrelease = ") {
        Some(release) => shape::is_version(release).then(|| line.to_owned()),
        None => redact_sysctl_line(line),
    }
}

const SYSCTLS: [&str; 18] = [
    "vm.nr_hugepages",
    "vm.nr_hugepages_mempolicy",
    "vm.nr_overcommit_hugepages",
    "vm.hugetlb_shm_group",
    "vm.hugepages_treat_as_movable",
    "vm.overcommit_memory",
    "vm.overcommit_ratio",
    "vm.overcommit_kbytes",
    "vm.min_free_kbytes",
    "vm.swappiness",
    "vm.max_map_count",
    "vm.zone_reclaim_mode",
    "kernel.shmmax",
    "kernel.shmall",
    "kernel.shmmni",
    "kernel.shm_rmid_forced",
    "kernel.sem",
    "kernel.numa_balancing",
];

/// `${x_pages}` in a profile of TuneD.
fn is_variable(word: &str) -> bool {
    let name = word.strip_prefix("${").and_then(|rest| rest.strip_suffix('}'));
    name.is_some_and(|name| {
        name.len() <= 64 && name.bytes().all(|sign| sign.is_ascii_alphanumeric() || sign == b'_')
    })
}

fn is_words(text: &str) -> bool {
    let sign =
        |sign: char| sign.is_ascii_alphanumeric() || " \t_.,:@%/+*?[]|^$(){}\\-~".contains(sign);
    text.len() <= 512 && text.chars().all(sign) && shape::is_harmless(text)
}

/// `DOMAIN TYPE memlock VALUE`.
fn redact_limits_line(line: &str, keeps: &Keeps) -> Option<String> {
    let plain = line.split('#').next().unwrap_or_default();
    let mut words = plain.split_ascii_whitespace();
    let (domain, kind) = (words.next()?, words.next()?);
    let item = words.next().filter(|item| *item == "memlock")?;
    // Everybody, ids, and the names of those who own servers: what others may lock is not read.
    let numbers = |text: &str| text.bytes().all(|sign| sign.is_ascii_digit() || sign == b':');
    let bare = domain.trim_start_matches(['@', '%']);
    let ours =
        domain == "*" || numbers(bare) || bare == "root" || keeps.servers.names.contains(bare);
    let kind = if matches!(kind, "soft" | "hard" | "-") { kind } else { NO_VALUE };
    let value = words.next().map_or("", |value| {
        let fits =
            matches!(value, "unlimited" | "infinity") || is_number(value.trim_start_matches('-'));
        if fits { value } else { NO_VALUE }
    });
    ours.then(|| format!("{domain} {kind} {item} {value}"))
}

/// What tmpfiles.d writes to the kernel's files, without a comment behind it.
fn redact_tmpfiles_line(line: &str) -> Option<String> {
    let path = line.split_ascii_whitespace().nth(1)?.trim_start_matches('"');
    let ours = path.starts_with("/sys/kernel/mm/") || path.starts_with("/proc/sys/vm/");
    let kept = comment_emptied(line);
    let plain = is_words(kept.trim_end_matches('#').trim_matches('"'));
    (ours && !line.trim_start().starts_with('#'))
        .then(|| if plain { kept } else { format!("w {path} - - - - ?") })
}

fn is_profile(parts: &[&str]) -> bool {
    parts.contains(&"tuned") && parts.last() == Some(&"tuned.conf")
}

fn redact_tuned_file(path: &str, name: &str, bytes: &[u8], keeps: &Keeps) -> Vec<u8> {
    if matches!(name, "active_profile" | "profile_mode") {
        return filter_lines(bytes, |line| {
            (line.len() < 256 && is_words(line)).then(|| line.to_owned())
        });
    }
    filter_lines(bytes, |line| {
        let trimmed = line.trim();
        if trimmed.starts_with('[') {
            return redact_section(trimmed);
        }
        let (key, value) = trimmed.split_once('=').filter(|_| !trimmed.starts_with(['#', ';']))?;
        let key = key.trim();
        if matches!(key, "script" | "script_pre" | "script_post") {
            let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
            let named = value.trim().trim_matches(['"', '\'']);
            let whole = named.replace("${i:PROFILE_DIR}", folder);
            let whole = if whole.starts_with('/') { whole } else { format!("{folder}/{whole}") };
            return keeps.writers.contains(&whole).then(|| format!("{key}={whole}"));
        }
        if key.starts_with("cmdline") {
            return Some(format!("{key}={}", kernel_words(value)));
        }
        // A section without its condition would be every machine's.
        let condition = key.ends_with("uname_regex") || key.ends_with("cpuinfo_regex");
        let ours = matches!(
            key,
            "include"
                | "type"
                | "enabled"
                | "replace"
                | "drop"
                | "priority"
                | "default_profile"
                | "profile_dirs"
        );
        let ours = ours || condition || key.contains("hugepage");
        if ours && is_words(key) {
            let kept = comment_emptied(line);
            let value = kept.split_once('=').map_or("", |(_, value)| value).trim_end_matches('#');
            return Some(if is_words(value) { kept } else { format!("{key}=?") });
        }
        redact_sysctl_line(line)
    })
}

/// A line that goes takes its continuations along.
fn redact_unit_file(path: &str, bytes: &[u8], keeps: &Keeps) -> Vec<u8> {
    let text = String::from_utf8_lossy(bytes);
    let mut kept = Vec::new();
    let mut logical = String::new();
    let mut length = 0_usize;
    for line in text.split('\n') {
        length += 1;
        // systemd lets comments stand between continued lines.
        if length > 1 && line.trim_start().starts_with(['#', ';']) {
            continue;
        }
        if let Some(continued) = line.strip_suffix('\\') {
            logical.push_str(continued);
            logical.push(' ');
            continue;
        }
        logical.push_str(line);
        let number = u64::try_from(kept.len() + 1).unwrap_or_default();
        let started = redact_exec_start(path, number, &logical, keeps);
        kept.push(started.or_else(|| unit_line(&logical, keeps)).unwrap_or_default());
        kept.extend((1..length).map(|_| String::new()));
        logical.clear();
        length = 0;
    }
    kept.extend((0..length).map(|_| String::new()));
    kept.join("\n").into_bytes()
}

/// A line with variables, whose values stand elsewhere, or with quotes for another program: kept
/// are the words that it was read to start.
fn redact_exec_start(path: &str, number: u64, line: &str, keeps: &Keeps) -> Option<String> {
    let (key, value) = line.trim().split_once('=').filter(|(key, _)| key.trim() == "ExecStart")?;
    let all = keeps.starts.get(&(path.to_owned(), number))?;
    let words = all.first().filter(|first| all.iter().all(|other| other == *first))?;
    let (program, arguments) = words.split_first()?;
    let name = program.rsplit('/').next().unwrap_or_default();
    let is_told = value.contains('$') || value.contains(['"', '\'']) || PASSING_ON.contains(&name);
    if !is_told
        || !keeps.has_program(name)
        || !shape::ValueShape::Path.matches_value(program)
        || !scripts::of_command(value).is_empty()
    {
        return None;
    }
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let kept =
        filter_arguments(program, &arguments, keeps).into_iter().map(|word| quoted_word(&word));
    let kept: Vec<String> = std::iter::once(program.clone()).chain(kept).collect();
    Some(format!("{key}={}", kept.join(" ")))
}

fn quoted_word(word: &str) -> String {
    let doubled = word.replace('%', "%%").replace('$', "$$");
    let plain = !doubled.is_empty()
        && !doubled.contains(|sign: char| sign.is_whitespace() || "\"'\\;".contains(sign));
    if plain {
        doubled
    } else {
        format!("\"{}\"", doubled.replace('\\', "\\\\").replace('"', "\\\""))
    }
}

fn unit_line(line: &str, keeps: &Keeps) -> Option<String> {
    let trimmed = line.trim();
    if trimmed.starts_with('[') && trimmed.ends_with(']') {
        return redact_section(trimmed);
    }
    let (key, value) = trimmed.split_once('=')?;
    let key = key.trim();
    if key.starts_with("ExecStart") || key == "ExecCondition" {
        let written = scripts::of_command(value);
        if !written.is_empty() {
            let written: Vec<String> = written.iter().map(scripts::to_canonical_command).collect();
            return Some(format!("{key}=/bin/sh -c \"{}\"", written.join("; ")));
        }
        if let Some(script) = scripts::find_started_script(value, &keeps.writers) {
            let rights = if scripts::has_all_rights(value) { "+" } else { "" };
            return Some(format!("{key}={rights}{script}"));
        }
    }
    if key == "ExecStart" {
        return Some(format!("{key}={}", quoted_command(value.trim(), keeps)));
    }
    if key == "EnvironmentFile" {
        // What it holds is in the command; whether it was changed since is asked by its name.
        let path = value.trim().trim_start_matches('-');
        return shape::ValueShape::Path.matches_value(path).then(|| match path {
            "" => format!("{key}="),
            path => format!("{key}=-{path}"),
        });
    }
    if key == "Environment" {
        let words = value.split_ascii_whitespace().map(|word| word.trim_matches(['"', '\'']));
        let is_data = |word: &&str| {
            word.strip_prefix("PGDATA=")
                .is_some_and(|path| shape::ValueShape::Path.matches_value(path))
        };
        let data: Vec<&str> = words.filter(is_data).collect();
        return (!data.is_empty()).then(|| format!("{key}={}", data.join(" ")));
    }
    if key.starts_with("Condition") || key.starts_with("Assert") {
        let is_kept = |word: &str| kernel_words(word) == word;
        let is_told = is_told_by_capture(key, value.trim(), &is_kept) && shape::is_harmless(value);
        return Some(format!("{key}={}", if is_told { value.trim() } else { NO_VALUE }));
    }
    let ours =
        key.starts_with("Limit") || key.starts_with("DefaultLimit") || UNIT_KEYS.contains(&key);
    ours.then(|| if is_words(value) { trimmed.to_owned() } else { format!("{key}=?") })
}

/// PostgreSQL's services name their data so; the path stands for it while arguments are looked at.
const DATA: [&str; 2] = ["${PGDATA}", "$PGDATA"];
const DATA_AS_PATH: &str = "/PGDATA";

/// A command line as text: `/usr/sbin/mysqld $OPTS "--x=y"`.
fn quoted_command(line: &str, keeps: &Keeps) -> String {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let Some((program, arguments)) = words.split_first() else { return String::new() };
    let file_name = |word: &str| word.rsplit('/').next().unwrap_or_default().to_owned();
    let behind = arguments.iter().position(|word| keeps.has_program(&file_name(word)));
    if let (true, Some(at)) = (is_launcher(&file_name(program)), behind) {
        let (before, command) = arguments.split_at(at);
        let gone = before.iter().map(|_| "- ").collect::<String>();
        return format!("{program} {gone}{}", quoted_command(&command.join(" "), keeps));
    }
    // The variable that names a data directory is a path in a path's place.
    let bare = arguments.iter().map(|word| word.trim_matches(['"', '\'']));
    let bare: Vec<&str> =
        bare.map(|word| if DATA.contains(&word) { DATA_AS_PATH } else { word }).collect();
    let kept =
        filter_arguments(program.trim_start_matches(['-', '@', '+', '!', ':', '|']), &bare, keeps);
    let named = |word: String| if word == DATA_AS_PATH { "${PGDATA}".to_owned() } else { word };
    let kept = kept.into_iter().map(named);
    let quote = |(word, original): (String, &&str)| {
        if original.starts_with('"') { format!("\"{word}\"") } else { word }
    };
    let mut all = vec![(*program).to_owned()];
    all.extend(kept.zip(arguments).map(quote));
    all.join(" ")
}

#[cfg(test)]
mod tests;
