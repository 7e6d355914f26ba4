//! What of each kind of file goes into a capture. Lines that do not are emptied, so that line numbers stay.

use super::Keeps;
use super::boot_loader::{boot, kernel_words, words_of};
use super::words::{command_line, filter_arguments};

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
            process_file(rest, bytes, keeps)
        }
        ["proc" | "sys", ..] => crate::source::kernel_files::is_known(path).then(|| bytes.to_vec()),
        ["etc", "shadow" | "gshadow" | "shadow-" | "gshadow-", ..] => None,
        ["etc", "passwd"] => Some(lines(bytes, passwd)),
        ["etc", "group"] => Some(lines(bytes, group)),
        ["etc" | "usr", .., "os-release"] | ["etc", "redhat-release" | "hostname"] | ["hostname"] => {
            Some(bytes.to_vec())
        }
        ["etc", "sysctl.conf"] => Some(lines(bytes, sysctl)),
        _ if has("sysctl.d") => Some(lines(bytes, sysctl)),
        ["sos_commands", "kernel", "sysctl_-a"] => Some(lines(bytes, |line| {
            if line.starts_with("kernel.osrelease = ") { Some(line.to_owned()) } else { sysctl(line) }
        })),
        ["etc", "security", ..] => Some(lines(bytes, |line| third_word(line, "memlock"))),
        _ if has("tmpfiles.d") => Some(lines(bytes, tmpfiles)),
        _ if has("tuned") => Some(tuned(name, bytes)),
        _ if has("systemd") && !has("credstore") => Some(unit(bytes, keeps)),
        ["boot", ..]
        | ["efi", ..]
        | ["etc", "default", ..]
        | ["etc", "kernel", ..]
        | ["etc", "grub2.cfg" | "grub.d"] => Some(boot(name, bytes)),
        ["var", "log", ..] | ["sos_commands", "kernel", "dmesg", ..] => Some(lines(bytes, |line| {
            let lower = line.to_ascii_lowercase();
            // The kernel's command line, which its log repeats, can hold a disk's or a network's password.
            if lower.contains("command line") || lower.contains("kernel parameters") {
                return None;
            }
            ["huge", "page allocation failure", "oom-kill"]
                .iter()
                .any(|word| lower.contains(word))
                .then(|| line.to_owned())
        })),
        ["sos_commands", ..] | ["uname" | "date"] => None,
        _ if name == "PG_VERSION" || name.ends_with("_upgrade_info") => Some(lines(bytes, version)),
        _ if name == "postmaster.pid" => Some(postmaster(bytes)),
        _ if name == "postmaster.opts" => Some(lines(bytes, |line| started_as(line, keeps))),
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

fn process_file(rest: &[&str], bytes: &[u8], keeps: &Keeps) -> Option<Vec<u8>> {
    match rest {
        ["cmdline"] => Some(command_line(bytes, keeps)),
        ["mounts" | "mountinfo"] => Some(mounts(bytes)),
        [
            "status" | "limits" | "maps" | "cgroup" | "numa_maps" | "smaps" | "stat" | "statm" | "comm"
            | "oom_score_adj",
        ]
        | ["net", "unix" | "tcp" | "tcp6"] => Some(bytes.to_vec()),
        _ => None,
    }
}

/// Mounts of the kernel's own file systems: others bear servers, users and now and then a password in their options.
fn mounts(bytes: &[u8]) -> Vec<u8> {
    const KINDS: [&str; 6] = ["hugetlbfs", "tmpfs", "cgroup", "cgroup2", "proc", "sysfs"];
    lines(bytes, |line| {
        let kind = match line.split_once(" - ") {
            Some((_, after)) => after.split(' ').next(),
            None => line.split(' ').nth(2),
        };
        kind.filter(|kind| KINDS.contains(kind)).map(|_| line.to_owned())
    })
}

fn passwd(line: &str) -> Option<String> {
    let fields: Vec<&str> = line.split(':').collect();
    let [name, _, uid, gid, ..] = fields.as_slice() else { return None };
    (fields.len() == 7 && is_number(uid) && is_number(gid)).then(|| format!("{name}:x:{uid}:{gid}:::"))
}

fn group(line: &str) -> Option<String> {
    let fields: Vec<&str> = line.split(':').collect();
    let [name, _, gid, members] = fields.as_slice() else { return None };
    is_number(gid).then(|| format!("{name}:x:{gid}:{members}"))
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|digit| digit.is_ascii_digit())
}

/// `15`, `10.11.6-MariaDB`: a file by that name that holds anything else may be a link to one with secrets.
fn version(line: &str) -> Option<String> {
    let sign = |sign: u8| sign.is_ascii_alphanumeric() || b".-+~".contains(&sign);
    let ours = line.starts_with(|first: char| first.is_ascii_digit()) && line.len() <= 40 && line.bytes().all(sign);
    ours.then(|| line.to_owned())
}

/// Process, data directory, start, port, folder of the socket, address, segment and state: nothing else by that name.
fn postmaster(bytes: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(bytes);
    let digits = |line: &str| line.bytes().all(|sign| sign.is_ascii_digit() || b" -".contains(&sign));
    let word = |line: &str| line.bytes().all(|sign| sign.is_ascii_alphanumeric() || b".:*_- @/".contains(&sign));
    let ours = text.split('\n').next().is_some_and(|line| !line.is_empty() && digits(line.trim_end()));
    let keep = |(at, line): (usize, &str)| {
        let fits = match at {
            0 | 2 | 3 | 6 => digits(line),
            1 | 4 => line.is_empty() || line.starts_with(['/', '@']),
            5 | 7 => line.len() <= 64 && word(line),
            _ => false,
        };
        if fits && ours && line.len() <= 4096 { line.to_owned() } else { String::new() }
    };
    text.split('\n').enumerate().map(keep).collect::<Vec<_>>().join("\n").into_bytes()
}

/// A line of a file whose comments stand on lines of their own: what stands behind a `#` is no part of what is set
/// but shows that the line is not what its writer meant, so the sign stays.
fn comment_emptied(line: &str) -> String {
    line.split_once('#').map_or_else(|| line.to_owned(), |(before, _)| format!("{before}#"))
}

fn sysctl(line: &str) -> Option<String> {
    let key = line.trim_start().trim_start_matches('-').replace('/', ".");
    let ours =
        ["vm.", "kernel.sh", "kernel.sem", "kernel.numa", "kernel.msg"].iter().any(|start| key.starts_with(start));
    (ours && line.contains('=')).then(|| comment_emptied(line))
}

fn third_word(line: &str, word: &str) -> Option<String> {
    let comment = line.trim_start().starts_with('#');
    let plain = line.split('#').next().unwrap_or_default();
    (!comment && plain.split_ascii_whitespace().nth(2) == Some(word)).then(|| plain.to_owned())
}

fn tmpfiles(line: &str) -> Option<String> {
    let path = line.split_ascii_whitespace().nth(1)?.trim_start_matches('"');
    let ours = path.starts_with("/sys/kernel/mm/") || path.starts_with("/proc/sys/vm/");
    (ours && !line.trim_start().starts_with('#')).then(|| comment_emptied(line))
}

fn tuned(name: &str, bytes: &[u8]) -> Vec<u8> {
    if matches!(name, "active_profile" | "profile_mode") {
        return lines(bytes, |line| (line.len() < 256 && !line.contains('=')).then(|| line.to_owned()));
    }
    lines(bytes, |line| {
        let trimmed = line.trim();
        if trimmed.starts_with('[') {
            return Some(line.to_owned());
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
        if ours { Some(comment_emptied(line)) } else { sysctl(line) }
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
        return Some(trimmed.to_owned());
    }
    let (key, value) = trimmed.split_once('=')?;
    let key = key.trim();
    if key == "ExecStart" {
        return Some(format!("{key}={}", quoted_command(value.trim(), keeps)));
    }
    let ours = key.starts_with("Limit") || key.starts_with("DefaultLimit") || UNIT_KEYS.contains(&key);
    ours.then(|| trimmed.to_owned())
}

/// How a postmaster was started; anything else by that name may hold secrets.
fn started_as(line: &str, keeps: &Keeps) -> Option<String> {
    let program = line.split_ascii_whitespace().next()?.trim_matches('"').rsplit('/').next()?;
    ["postgres", "postmaster", "edb-postgres", "edb-postmaster"].contains(&program).then(|| quoted_command(line, keeps))
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
                    kept.insert(name.clone(), json!({ "Value": value }));
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

/// A server's configuration file: sections, includes, and settings that rules look at.
fn setting(line: &str, keeps: &Keeps) -> Option<String> {
    let trimmed = line.trim();
    if trimmed.is_empty() || trimmed.starts_with(['#', ';']) {
        return None;
    }
    if trimmed.starts_with('[') && trimmed.ends_with(']') {
        return Some(trimmed.to_owned());
    }
    let list_item = trimmed.starts_with("- ");
    if trimmed.starts_with('-') && !list_item {
        // An argument file of Java.
        let words: Vec<&str> = trimmed.split_ascii_whitespace().collect();
        return Some(filter_arguments("java", &words, keeps).join(" "));
    }
    let key =
        trimmed.split(|sign: char| sign.is_ascii_whitespace() || "=:'\"".contains(sign)).next().unwrap_or_default();
    let include = matches!(
        key.trim_start_matches('!').to_ascii_lowercase().as_str(),
        "include" | "includedir" | "include_dir" | "include_if_exists" | "ifile" | "spfile"
    );
    // `wiredTiger:` of a YAML file holds others.
    let parent = trimmed.strip_suffix(':').is_some_and(|name| name.bytes().all(|sign| sign.is_ascii_alphanumeric()));
    let key = key.rsplit('.').next().unwrap_or_default();
    let ours = (include || parent || keeps.has_setting(key)) && !list_item;
    let url_with_user = trimmed.contains("://") && trimmed.contains('@');
    ours.then(|| without_comment(line)).filter(|_| !url_with_user)
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
            kept.extend_from_slice(line);
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
            "security:\n\nstorage:\n  engineConfig:\n    cacheSizeGB: 2\n"
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
            ("/etc/x.conf", "huge_pages = 'a # b' # S3", "huge_pages = 'a # b'"),
            ("/etc/x.conf", "huge_pages = 'it''s # b' # S3", "huge_pages = 'it''s # b'"),
            ("/etc/x.conf", "huge_pages = on # it's S3", "huge_pages = on"),
            ("/etc/x.conf", "huge_pages = 'on # S3", "huge_pages = 'on"),
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
            assert_eq!(kept(path, shadow).trim(), "", "{path}");
        }
        let real = "4242\n/var/lib/postgresql/15/main\n1700000000\n5432\n/var/run/postgresql\nlocalhost\n  5432001         7\nready   \n";
        assert_eq!(kept("/d/postmaster.pid", real), real);
        assert_eq!(kept("/d/PG_VERSION", "15\n"), "15\n");
        assert_eq!(kept("/d/mysql_upgrade_info", "10.11.6-MariaDB"), "10.11.6-MariaDB");
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
