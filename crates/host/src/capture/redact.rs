//! What of each kind of file goes into a capture. Lines that do not are emptied, so that line numbers stay.

use super::Keeps;
use super::boot_loader::{boot, kernel_words, words_of};
use super::processes::process_file;
use super::shape::{self, NO_VALUE};
use super::words::filter_arguments;

/// Keys of systemd units that are kept.
const UNIT_KEYS: [&str; 20] = [
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
    "NUMAPolicy",
    "NUMAMask",
    "PAMName",
];

/// The bytes to keep of a file that was read; `None` where nobody vouches for the kind.
pub(super) fn redact(path: &str, bytes: &[u8], keeps: &Keeps) -> Option<Vec<u8>> {
    let inner = crate::source::split_process_root(path).map(|(root, _)| path.get(root.len()..).unwrap_or_default());
    let path = inner.unwrap_or(path);
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    let name = parts.last().copied().unwrap_or_default();
    let has = |part: &str| parts.contains(&part);
    let rewritten = keeps.rewrites.iter().find_map(|rewrite| rewrite(path, bytes));
    match parts.as_slice() {
        _ if has("..") => None,
        ["proc", "cmdline"] => Some(words_of(bytes)),
        ["proc", "mounts"] => Some(mounts(bytes)),
        ["proc", pid, rest @ ..] if *pid == "self" || pid.bytes().all(|digit| digit.is_ascii_digit()) => {
            process_file(pid, rest, bytes, keeps)
        }
        ["proc" | "sys", ..] => crate::source::kernel_files::is_known(path).then(|| bytes.to_vec()),
        ["etc", "shadow" | "gshadow" | "shadow-" | "gshadow-", ..] => None,
        ["etc", "passwd"] => Some(lines(bytes, |line| passwd(line, keeps))),
        ["etc", "group"] => Some(group_file(bytes, keeps)),
        ["etc" | "usr", .., "os-release"] => Some(lines(bytes, os_release)),
        ["etc", "redhat-release" | "hostname"] | ["hostname"] => Some(lines(bytes, name_alone)),
        ["etc", "sysctl.conf"] => Some(lines(bytes, sysctl)),
        _ if has("sysctl.d") => Some(lines(bytes, sysctl)),
        ["sos_commands", "kernel", "sysctl_-a"] => {
            Some(lines(bytes, |line| match line.strip_prefix("kernel.osrelease = ") {
                Some(release) => shape::is_version(release).then(|| line.to_owned()),
                None => sysctl(line),
            }))
        }
        ["etc", "security", ..] => Some(lines(bytes, |line| limit(line, keeps))),
        _ if has("tmpfiles.d") => Some(lines(bytes, tmpfiles)),
        _ if has("tuned") => Some(tuned(name, bytes)),
        _ if has("systemd") && !has("credstore") => Some(unit(bytes, keeps)),
        ["boot", ..]
        | ["efi", ..]
        | ["etc", "default", ..]
        | ["etc", "kernel", ..]
        | ["etc", "grub2.cfg" | "grub.d"] => Some(boot(name, bytes)),
        ["var", "log", ..] | ["sos_commands", "kernel", "dmesg", ..] => Some(lines(bytes, log_line)),
        ["sos_commands", ..] | ["uname" | "date"] => None,
        _ if name == "PG_VERSION" || name.ends_with("_upgrade_info") => Some(version(bytes)),
        _ if name == "postmaster.pid" => Some(postmaster(bytes)),
        _ if rewritten.is_some() => rewritten,
        _ if name == "mysqld-auto.cnf" => Some(persisted(bytes, keeps)),
        _ if bytes.contains(&0) => binary(bytes, name, keeps),
        _ => Some(lines(bytes, |line| setting(line, keeps))),
    }
}

/// Filters a text line by line; a line that is taken out leaves its number behind.
pub(super) fn lines(bytes: &[u8], keep: impl Fn(&str) -> Option<String>) -> Vec<u8> {
    let text = String::from_utf8_lossy(bytes);
    let kept: Vec<String> =
        text.split('\n').map(|line| keep(line.trim_end_matches('\r')).unwrap_or_default()).collect();
    kept.join("\n").into_bytes()
}

/// Mounts of the kernel's own file systems: others bear servers, users and now and then a password in their options.
pub(super) fn mounts(bytes: &[u8]) -> Vec<u8> {
    const KINDS: [&str; 6] = ["hugetlbfs", "tmpfs", "cgroup", "cgroup2", "proc", "sysfs"];
    lines(bytes, |line| {
        let kind = match line.split_once(" - ") {
            Some((_, after)) => after.split(' ').next(),
            None => line.split(' ').nth(2),
        };
        kind.filter(|kind| KINDS.contains(kind)).map(|_| line.to_owned())
    })
}

fn passwd(line: &str, keeps: &Keeps) -> Option<String> {
    let fields: Vec<&str> = line.split(':').collect();
    let [name, _, uid, gid, ..] = fields.as_slice() else { return None };
    let ours = uid.parse().is_ok_and(|uid| keeps.servers.users.contains(&uid));
    (fields.len() == 7 && ours && is_number(gid) && is_account(name)).then(|| format!("{name}:x:{uid}:{gid}:::"))
}

/// Groups of servers' owners, with these for members.
fn group_file(bytes: &[u8], keeps: &Keeps) -> Vec<u8> {
    lines(bytes, |line| {
        let fields: Vec<&str> = line.split(':').collect();
        let [name, _, gid, members] = fields.as_slice() else { return None };
        let ours = gid.parse().is_ok_and(|gid| keeps.servers.groups.contains(&gid)) && is_account(name);
        let members: Vec<&str> = members.split(',').filter(|member| keeps.servers.names.contains(*member)).collect();
        ours.then(|| format!("{name}:x:{gid}:{}", members.join(",")))
    })
}

/// A name as useradd(8) takes it.
fn is_account(name: &str) -> bool {
    name.len() <= 32 && name.bytes().all(|sign| sign.is_ascii_alphanumeric() || b"_.-$@".contains(&sign))
}

/// The fields of os-release(5) that are read.
fn os_release(line: &str) -> Option<String> {
    let (key, value) = line.split_once('=')?;
    let plain = |sign: char| sign.is_alphanumeric() || " \"'()._/+-".contains(sign);
    let ours = matches!(key, "PRETTY_NAME" | "NAME" | "VERSION") && value.len() <= 120 && value.chars().all(plain);
    ours.then(|| line.to_owned())
}

fn name_alone(line: &str) -> Option<String> {
    let plain = |sign: char| sign.is_alphanumeric() || " ()._-".contains(sign);
    (line.len() <= 120 && line.chars().all(plain)).then(|| line.to_owned())
}

/// Of a line of the kernel's log the words that it is read for: the rest names processes, and a command line that can hold a
/// disk's or a network's password.
fn log_line(line: &str) -> Option<String> {
    const SIGNS: [&str; 3] = ["Using mlock ulimits for SHM_HUGETLB", "page allocation failure", "Out of memory"];
    let stamp = |line: &str| {
        let inside = line.strip_prefix('[').and_then(|rest| rest.split_once(']')).map(|(inside, _)| inside)?;
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

/// The version in a file of one line: one by its name that holds anything else may be a link to secrets.
fn version(bytes: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(bytes);
    let first = text.lines().next().unwrap_or_default().trim_matches(|sign: char| sign.is_whitespace() || sign == '\0');
    if shape::is_version(first) { format!("{first}\n").into_bytes() } else { b"?\n".to_vec() }
}

/// Process, port and folder of the socket of postmaster.pid, and whether it listens.
fn postmaster(bytes: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(bytes);
    let mut all = text.lines().map(str::trim);
    let pid = all.next().unwrap_or_default();
    if !is_number(pid.trim_start_matches('-')) {
        return b"?\n".to_vec();
    }
    let mut rest = all.skip(2);
    let mut next = || rest.next().unwrap_or_default();
    let port = Some(next()).filter(|port| port.bytes().all(|digit| digit.is_ascii_digit())).unwrap_or(NO_VALUE);
    let folder = Some(next()).filter(|folder| shape::Shape::Path.fits(folder)).unwrap_or_default();
    let listens = if next().is_empty() { "" } else { "*" };
    format!("{pid}\n\n\n{port}\n{folder}\n{listens}\n").into_bytes()
}

/// A line of a file whose comments stand on lines of their own: what stands behind a `#` is no part of what is set
/// but shows that the line is not what its writer meant, so the sign stays.
fn comment_emptied(line: &str) -> String {
    line.split_once('#').map_or_else(|| line.to_owned(), |(before, _)| format!("{before}#"))
}

/// Numbers, and what stands for them: nothing else is set by a sysctl that is read here.
fn sysctl(line: &str) -> Option<String> {
    let (written, value) = line.split_once('=')?;
    let key = written.trim().trim_start_matches('-').replace('/', ".");
    // A pattern is made of parts of keys.
    let ours = key.split(['*', '?']).all(|part| SYSCTLS.iter().any(|known| known.contains(part)));
    let whole = SYSCTLS.contains(&key.as_str()) || key.contains(['*', '?']);
    let comment = if value.contains('#') { "#" } else { "" };
    let before = value.split('#').next().unwrap_or_default();
    let number = |sign: char| sign.is_ascii_digit() || " \t-".contains(sign);
    let value = if before.chars().all(number) || is_variable(before.trim()) { before } else { " ?" };
    (ours && whole).then(|| format!("{written}={value}{comment}"))
}

/// The kernel's values that bear on huge pages and shared memory.
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
    name.is_some_and(|name| name.len() <= 64 && name.bytes().all(|sign| sign.is_ascii_alphanumeric() || sign == b'_'))
}

/// Words and numbers, with what joins them.
fn is_words(text: &str) -> bool {
    let sign = |sign: char| sign.is_ascii_alphanumeric() || " \t_.,:@%/+*?[]|^$(){}\\-~".contains(sign);
    text.len() <= 512 && text.chars().all(sign) && super::words::harmless(text)
}

/// `DOMAIN TYPE memlock VALUE`.
fn limit(line: &str, keeps: &Keeps) -> Option<String> {
    let plain = line.split('#').next().unwrap_or_default();
    let mut words = plain.split_ascii_whitespace();
    let (domain, kind, item) = (words.next()?, words.next()?, words.next().filter(|item| *item == "memlock")?);
    // Everybody, ids, and the names of those who own servers: what others may lock is not read.
    let numbers = |text: &str| text.bytes().all(|sign| sign.is_ascii_digit() || sign == b':');
    let bare = domain.trim_start_matches(['@', '%']);
    let ours = domain == "*" || numbers(bare) || bare == "root" || keeps.servers.names.contains(bare);
    let kind = if matches!(kind, "soft" | "hard" | "-") { kind } else { NO_VALUE };
    let value = words.next().map_or("", |value| {
        let fits = matches!(value, "unlimited" | "infinity") || is_number(value.trim_start_matches('-'));
        if fits { value } else { NO_VALUE }
    });
    ours.then(|| format!("{domain} {kind} {item} {value}"))
}

/// What tmpfiles.d writes to the kernel's files, without a comment behind it.
fn tmpfiles(line: &str) -> Option<String> {
    let path = line.split_ascii_whitespace().nth(1)?.trim_start_matches('"');
    let ours = path.starts_with("/sys/kernel/mm/") || path.starts_with("/proc/sys/vm/");
    let kept = comment_emptied(line);
    let plain = is_words(kept.trim_end_matches('#').trim_matches('"'));
    (ours && !line.trim_start().starts_with('#')).then(|| if plain { kept } else { format!("w {path} - - - - ?") })
}

fn tuned(name: &str, bytes: &[u8]) -> Vec<u8> {
    if matches!(name, "active_profile" | "profile_mode") {
        return lines(bytes, |line| (line.len() < 256 && is_words(line)).then(|| line.to_owned()));
    }
    lines(bytes, |line| {
        let trimmed = line.trim();
        if trimmed.starts_with('[') {
            return section(trimmed);
        }
        let (key, value) = trimmed.split_once('=').filter(|_| !trimmed.starts_with(['#', ';']))?;
        let key = key.trim();
        if key.starts_with("cmdline") {
            return Some(format!("{key}={}", kernel_words(value)));
        }
        // A section without its condition would be every machine's; the pattern is often a variable's.
        let condition = key.ends_with("uname_regex") || key.ends_with("cpuinfo_regex");
        let ours = matches!(
            key,
            "include" | "type" | "enabled" | "replace" | "drop" | "priority" | "default_profile" | "profile_dirs"
        );
        let ours = ours || condition || key.contains("hugepage");
        if ours && is_words(key) {
            let kept = comment_emptied(line);
            let value = kept.split_once('=').map_or("", |(_, value)| value).trim_end_matches('#');
            return Some(if is_words(value) { kept } else { format!("{key}=?") });
        }
        sysctl(line)
    })
}

/// A systemd unit: sections and the keys that are vouched for. A line that goes takes its continuations along.
fn unit(bytes: &[u8], keeps: &Keeps) -> Vec<u8> {
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
        kept.push(unit_line(&logical, keeps).unwrap_or_default());
        kept.extend((1..length).map(|_| String::new()));
        logical.clear();
        length = 0;
    }
    kept.extend((0..length).map(|_| String::new()));
    kept.join("\n").into_bytes()
}

fn unit_line(line: &str, keeps: &Keeps) -> Option<String> {
    let trimmed = line.trim();
    if trimmed.starts_with('[') && trimmed.ends_with(']') {
        return section(trimmed);
    }
    let (key, value) = trimmed.split_once('=')?;
    let key = key.trim();
    if key == "ExecStart" {
        return Some(format!("{key}={}", quoted_command(value.trim(), keeps)));
    }
    let ours = key.starts_with("Limit") || key.starts_with("DefaultLimit") || UNIT_KEYS.contains(&key);
    ours.then(|| if is_words(value) { trimmed.to_owned() } else { format!("{key}=?") })
}

/// `[Service]`; what is written like one and is none has another's name.
fn section(line: &str) -> Option<String> {
    let (name, _) = line.strip_prefix('[')?.split_once(']')?;
    let sign = |sign: u8| sign.is_ascii_alphanumeric() || b"_.-@ ".contains(&sign);
    let plain = name.len() <= 64 && name.bytes().all(sign) && super::words::harmless(name);
    Some(if plain { format!("[{name}]") } else { "[-]".to_owned() })
}

/// A command line as text: `/usr/sbin/mysqld $OPTS "--x=y"`.
fn quoted_command(line: &str, keeps: &Keeps) -> String {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let Some((program, arguments)) = words.split_first() else { return String::new() };
    let bare: Vec<&str> = arguments.iter().map(|word| word.trim_matches(['"', '\''])).collect();
    let kept = filter_arguments(program.trim_start_matches(['-', '@', '+', '!', ':', '|']), &bare, keeps);
    let quote =
        |(word, original): (String, &&str)| if original.starts_with('"') { format!("\"{word}\"") } else { word };
    let mut all = vec![(*program).to_owned()];
    all.extend(kept.into_iter().zip(arguments).map(quote));
    all.join(" ")
}

/// What SET PERSIST of MySQL keeps: settings by section, each with its value and who set it when.
fn persisted(bytes: &[u8], keeps: &Keeps) -> Vec<u8> {
    use serde_json::{Map, Value, json};
    fn collect(section: &Value, keeps: &Keeps, kept: &mut Map<String, Value>) {
        for (name, content) in section.as_object().into_iter().flatten() {
            match content.get("Value").unwrap_or(content) {
                inner @ Value::Object(_) => collect(inner, keeps, kept),
                value if keeps.has_setting(name) => {
                    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                    kept.insert(name.clone(), json!({ "Value": keeps.shape_of(name).shown(&text) }));
                }
                _ => {}
            }
        }
    }
    let mut kept = Map::new();
    match serde_json::from_slice::<Value>(bytes) {
        Ok(file) => collect(&file, keeps, &mut kept),
        // As broken as it was.
        Err(_) => return b"?".to_vec(),
    }
    Value::Object(kept).to_string().into_bytes()
}

/// A server's configuration file: sections, includes, and settings that rules look at, each with a value of its kind. What
/// stands in a value's place and is none becomes `?`, and words behind it too, as a server would refuse them.
fn setting(line: &str, keeps: &Keeps) -> Option<String> {
    let trimmed = line.trim();
    if trimmed.is_empty() || trimmed.starts_with(['#', ';']) {
        return None;
    }
    if trimmed.starts_with('[') {
        // A group that has no end makes the whole file none.
        return if trimmed.contains(']') { section(trimmed) } else { Some("[".to_owned()) };
    }
    let list_item = trimmed.starts_with("- ");
    if trimmed.starts_with('-') && !list_item {
        // An argument file of Java.
        let words: Vec<&str> = trimmed.split_ascii_whitespace().collect();
        return Some(filter_arguments("java", &words, keeps).join(" "));
    }
    let of_key = |sign: char| !sign.is_ascii_whitespace() && !"=:'\"#;".contains(sign);
    let end = trimmed.find(|sign: char| !of_key(sign)).unwrap_or(trimmed.len());
    let (written, rest) = trimmed.split_at_checked(end)?;
    let include = matches!(
        written.trim_start_matches('!').to_ascii_lowercase().as_str(),
        "include" | "includedir" | "include_dir" | "include_if_exists" | "ifile" | "spfile"
    );
    let (prefix, name) = written.rsplit_once('.').map_or(("", written), |(prefix, name)| (prefix, name));
    let indent = line.get(..line.len() - line.trim_start().len()).unwrap_or_default();
    let indent: String = indent.chars().filter(|sign| matches!(sign, ' ' | '\t')).collect();
    let ours = (include || keeps.has_setting(name)) && !list_item;
    if !ours {
        // A block of a YAML file holds others: `security:`, whatever it is called.
        let block = rest.trim_end() == ":" && written.bytes().all(|sign| sign.is_ascii_alphanumeric());
        return block.then(|| format!("{indent}x:"));
    }
    // `*.sga_target`, `PROD1.sga_target`, `storage.dbPath`.
    let plain = |sign: u8| sign.is_ascii_alphanumeric() || b"*_$#+-.".contains(&sign);
    if prefix.len() > 64 || !prefix.bytes().all(plain) || !super::words::harmless(prefix) {
        return None;
    }
    let between =
        rest.len() - rest.trim_start_matches(|sign: char| sign.is_ascii_whitespace() || "=:".contains(sign)).len();
    let (between, value) = rest.split_at_checked(between)?;
    let value = without_comment(value);
    let shape = if include { shape::Shape::Path } else { keeps.shape_of(name) };
    Some(format!("{indent}{written}{between}{}", value_alone(&value, shape)).trim_end().to_owned())
}

/// A value with the quotes that it had; `?` for each word of what is none.
fn value_alone(value: &str, shape: shape::Shape) -> String {
    let quote = value.chars().next().filter(|first| matches!(first, '\'' | '"'));
    let inner = quote.map_or(value, |quote| {
        let inner = value.get(1..).unwrap_or_default();
        inner.strip_suffix(quote).unwrap_or(inner)
    });
    if !inner.contains(['\'', '"']) && shape.fits(inner) && (quote.is_none() || value.len() == inner.len() + 2) {
        return value.to_owned();
    }
    let Some(quote) = quote else {
        let mut words = value.split_ascii_whitespace();
        let first = words.next().filter(|first| shape.fits(first)).unwrap_or(NO_VALUE);
        return if words.next().is_some() { format!("{first} {NO_VALUE}") } else { first.to_owned() };
    };
    // Closed, and perhaps something behind it; or without end.
    let closed = closing(value.get(1..).unwrap_or_default(), quote);
    match closed {
        Some(behind) if behind.trim().is_empty() => format!("{quote}{NO_VALUE}{quote}"),
        Some(_) => format!("{quote}{NO_VALUE}{quote} {NO_VALUE}"),
        None => format!("{quote}{NO_VALUE}"),
    }
}

/// What stands behind the quote that closes a text; a doubled one and one behind a backslash are none.
fn closing(text: &str, quote: char) -> Option<&str> {
    let mut signs = text.char_indices().peekable();
    while let Some((at, sign)) = signs.next() {
        if sign == '\\' {
            signs.next();
        } else if sign == quote && signs.next_if(|(_, next)| *next == quote).is_none() {
            return text.get(at + quote.len_utf8()..);
        }
    }
    None
}

/// Cuts `# comment` where no quote holds the sign; a quote that is not closed holds nothing.
fn without_comment(line: &str) -> String {
    let mut quote = None;
    let mut escaped = false;
    let mut first = None;
    for (at, sign) in line.char_indices() {
        match (sign, quote) {
            _ if escaped => escaped = false,
            ('\\', Some(_)) => escaped = true,
            ('#', None) => return line.get(..at).unwrap_or_default().trim_end().to_owned(),
            ('#', Some(_)) => first = first.or(Some(at)),
            ('"' | '\'', None) => quote = Some(sign),
            (_, Some(open)) if open == sign => quote = None,
            _ => {}
        }
    }
    let end = first.filter(|_| quote.is_some()).unwrap_or(line.len());
    line.get(..end).unwrap_or_default().trim_end().to_owned()
}

/// Of an Oracle spfile the parameters that rules look at, one a line; other binary files are not kept.
fn binary(bytes: &[u8], name: &str, keeps: &Keeps) -> Option<Vec<u8>> {
    if !name.starts_with("spfile") {
        return None;
    }
    // A server parameter file of Oracle: blocks of 512 bytes whose header and tail cut its text anywhere.
    let blocks = bytes.chunks(512).take_while(|block| block.starts_with(b"C\""));
    let text: Vec<u8> = blocks.flat_map(|block| block.get(20..508).unwrap_or_default()).copied().collect();
    let mut kept = Vec::new();
    for line in text.split(|byte| !(0x20..0x7f).contains(byte)) {
        let Some(key) = line.split(|byte| *byte == b'=').next().filter(|key| key.len() < line.len()) else { continue };
        let key = String::from_utf8_lossy(key);
        if keeps.has_setting(key.rsplit('.').next().unwrap_or_default().trim()) {
            let line = setting(&String::from_utf8_lossy(line), keeps).unwrap_or_default();
            kept.extend_from_slice(line.as_bytes());
            kept.push(b'\n');
        }
    }
    Some(kept)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn kept(path: &str, text: &str) -> String {
        let keeps = Keeps { settings: vec!["huge_pages", "cacheSizeGB", "sga_target"], ..Keeps::default() };
        String::from_utf8(redact(path, text.as_bytes(), &keeps).unwrap()).unwrap()
    }

    #[test]
    fn boot_loaders_keep_what_brings_huge_pages() {
        assert_eq!(
            kept("/boot/loader/entries/a.conf", "title A\noptions root=x $kernelopts hugepages=3 k=S3 $tuned_params\n"),
            "title A\noptions $kernelopts hugepages=3 $tuned_params\n"
        );
        assert_eq!(
            kept(
                "/boot/grub2/grubenv",
                "# GRUB Environment Block\nsaved_entry=a\nkernelopts=root=x hugepages=3 S3\nother=S3\n"
            ),
            "# GRUB Environment Block\nsaved_entry=a\nkernelopts=hugepages=3\n\n"
        );
        let entry =
            "set default=\"0\"\nmenuentry 'A' --class x {\n\tlinux /vmlinuz root=x hugepages=3 S3\n\tinitrd /i\n}\n";
        assert_eq!(
            kept("/boot/grub/grub.cfg", entry),
            "set default=\"0\"\nmenuentry 'A' --class x {\n\tlinux /vmlinuz hugepages=3\n\n}\n"
        );
    }

    #[test]
    fn servers_files_keep_settings_and_their_line_numbers() {
        assert_eq!(
            kept(
                "/etc/postgresql/15/main/postgresql.conf",
                "# S3\nhuge_pages = on # S3\nprimary_conninfo = 'password=S3'\ninclude_dir 'conf.d'"
            ),
            "\nhuge_pages = on\n\ninclude_dir 'conf.d'"
        );
        assert_eq!(
            kept("/etc/mongod.conf", "security:\n  keyFile: S3\nstorage:\n  engineConfig:\n    cacheSizeGB: 2\n"),
            "x:\n\nx:\n  x:\n    cacheSizeGB: 2\n"
        );
        assert_eq!(kept("/u01/dbs/initPROD.ora", "*.sga_target=1g\n*.other='S3'\n"), "*.sga_target=1g\n\n");
        let text = format!("*.other='S3'{}\n*.sga_target=1g\n", "x".repeat(468));
        let blocks = text.as_bytes().chunks(488).map(|part| {
            let mut block = [b"C\"".as_slice(), &[0; 18], part].concat();
            block.resize(512, 0);
            block
        });
        let blocks: Vec<u8> = blocks.flatten().collect();
        let keeps = Keeps { settings: vec!["sga_target"], ..Keeps::default() };
        let spfile = String::from_utf8(redact("/u01/dbs/spfilePROD.ora", &blocks, &keeps).unwrap()).unwrap();
        assert_eq!(spfile, "*.sga_target=1g\n");
    }

    #[test]
    fn a_path_inside_a_container_counts_as_the_path_that_it_is() {
        assert_eq!(redact("/proc/7/root/etc/shadow", b"a:S3", &Keeps::default()), None);
        assert_eq!(redact("/proc/7/environ", b"S3", &Keeps::default()), None);
        assert_eq!(redact("/proc/7/root/proc/8/environ", b"S3", &Keeps::default()), None);
    }

    #[test]
    fn of_what_mysql_persists_only_settings_that_rules_look_at_stay() {
        let keeps = Keeps { settings: vec!["max_connections"], ..Keeps::default() };
        let file = br#"{"Version":2,"mysql_static_variables":{"secret":{"Value":"S3"},"b":{"max_connections":{"Value":"8","Metadata":{"User":"S3"}}}}}"#;
        let kept = |bytes: &[u8]| redact("/d/mysqld-auto.cnf", bytes, &keeps).unwrap();
        assert_eq!(kept(file), br#"{"max_connections":{"Value":"8"}}"#);
        assert_eq!(kept(&file[..40]), b"?");
    }

    #[test]
    fn comments_hold_secrets_and_go() {
        for (path, text, left) in [
            ("/etc/x.conf", "huge_pages = 'on'\t# S3 'x'", "huge_pages = 'on'"),
            ("/etc/x.conf", "huge_pages = 'on'# S3 'x'", "huge_pages = 'on'"),
            ("/etc/x.conf", "huge_pages = 'a # b' # S3", "huge_pages = '?'"),
            ("/etc/x.conf", "huge_pages = 'it''s # b' # S3", "huge_pages = '?'"),
            ("/etc/x.conf", "huge_pages = on 'S3'", "huge_pages = on ?"),
            ("/etc/x.conf", "huge_pages = 'on' S3", "huge_pages = '?' ?"),
            ("/etc/x.conf", "huge_pages = S3", "huge_pages = ?"),
            ("/etc/x.conf", "[mysqld;S3]", "[-]"),
            ("/etc/x.conf", "[mysqld] S3", "[mysqld]"),
            ("/etc/sysctl.d/a.conf", "vm.nr_hugepages = 8 ; S3", "vm.nr_hugepages = ?"),
            ("/etc/security/limits.conf", "* soft memlock 8 S3", "* soft memlock 8"),
            ("/etc/security/limits.conf", "* soft memlock S3", "* soft memlock ?"),
            ("/etc/x.conf", "huge_pages = on # it's S3", "huge_pages = on"),
            ("/etc/x.conf", "huge_pages = 'on # S3", "huge_pages = '?"),
            ("/etc/sysctl.d/a.conf", "vm.nr_hugepages = 8 # S3", "vm.nr_hugepages = 8 #"),
            (
                "/etc/tmpfiles.d/a.conf",
                "w /proc/sys/vm/nr_hugepages - - - - 8 # S3",
                "w /proc/sys/vm/nr_hugepages - - - - 8 #",
            ),
            ("/etc/tuned/a/tuned.conf", "transparent_hugepages=never # S3", "transparent_hugepages=never #"),
            ("/etc/tuned/a/tuned.conf", "#transparent_hugepages=S3", ""),
            ("/etc/tuned/a/tuned.conf", "cpuinfo_regex=${x_cpuinfo_regex}", "cpuinfo_regex=${x_cpuinfo_regex}"),
            ("/etc/tuned/a/tuned.conf", "x_cpuinfo_regex=CPU part # S3", "x_cpuinfo_regex=CPU part #"),
            ("/var/log/dmesg", "[0] Command line: hugepages=8 luks.key=S3", ""),
            ("/var/log/kern.log", "Jan 1 db1 S3: Out of memory: S3", "Out of memory"),
            ("/var/log/dmesg", "[0] Unknown kernel command line parameters \"hugepages=8 key=S3\"", ""),
            ("/var/log/dmesg", "[0] HugeTLB: registered 2.00 MiB", "[0] HugeTLB: registered 2.00 MiB"),
        ] {
            assert_eq!(kept(path, text), left, "{path}");
        }
    }

    #[test]
    fn a_link_to_a_secret_by_the_name_of_a_servers_file_gives_nothing_away() {
        let shadow = "root:$6$S3:1:2:3:::\nbin:*:1:2:3:::\n";
        for path in ["/d/PG_VERSION", "/d/postmaster.pid", "/d/mysql_upgrade_info", "/d/postmaster.opts", "/d/my.cnf"] {
            assert!(matches!(kept(path, shadow).trim(), "" | "?"), "{path}");
        }
        let real = "4242\n/var/lib/postgresql/15/main\n1700000000\n5432\n/var/run/postgresql\nlocalhost\n  5432001         7\nready   \n";
        assert_eq!(kept("/d/postmaster.pid", real), "4242\n\n\n5432\n/var/run/postgresql\n*\n");
        assert_eq!(kept("/d/PG_VERSION", "15\n"), "15\n");
        assert_eq!(kept("/d/mysql_upgrade_info", "10.11.6-MariaDB"), "10.11.6-MariaDB\n");
        for path in ["/proc/thread-self/environ", "/proc/7/environ", "/proc/kallsyms", "/sys/firmware/x"] {
            assert_eq!(redact(path, b"S3", &Keeps::default()), None, "{path}");
        }
    }

    proptest! {
        #[test]
        fn never_panics(bytes: Vec<u8>, kind in 0_usize..9) {
            let paths = [
                "/proc/7/cmdline", "/etc/systemd/system/a.service", "/boot/grub/grub.cfg", "/etc/passwd", "/etc/group",
                "/etc/sysctl.conf", "/etc/tuned/a/tuned.conf", "/etc/my.cnf", "/etc/tmpfiles.d/a.conf",
            ];
            let _ = redact(paths[kind], &bytes, &Keeps::default());
        }

        #[test]
        fn what_a_sosreport_has_of_sysctl_keeps_what_is_read(name in "[a-z_]{1,9}") {
            let text = format!("kernel.osrelease = 5.4.17\nnet.{name} = S3cret\nvm.nr_hugepages = 7\n");
            let kept = kept("/sos_commands/kernel/sysctl_-a", &text);
            prop_assert_eq!(kept, "kernel.osrelease = 5.4.17\n\nvm.nr_hugepages = 7\n");
        }

        #[test]
        fn lines_keep_their_numbers(text in "[a-z =\\\\#\n]{0,80}") {
            let lines = |text: &str| text.matches('\n').count();
            for path in ["/etc/systemd/system/a.service", "/etc/sysctl.conf", "/etc/my.cnf", "/boot/grub/grub.cfg"] {
                prop_assert_eq!(lines(&kept(path, &text)), lines(&text));
            }
        }
    }
}
