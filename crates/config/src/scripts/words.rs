//! Lines of shell that write a pool or switch THP: a redirection to its file, `tee`, `dd`, `sysctl
//! key=value`, `hugeadm`. What only reads is none.

use std::borrow::Cow;

use hugewise_model::PageSize;
use hugewise_model::configuration::WrittenPool;

use crate::files::{numbered_lines, split_while};

/// What a pool's file is called; `nr_hugepages_mempolicy` is the same pool.
const NAME: &str = "nr_hugepages";

/// What THP's switch is called, below its folder: RHEL 6 has `redhat_transparent_hugepage`.
const THP: &str = "transparent_hugepage/enabled";

const RED_HAT: &str = "redhat_";

const THP_WORDS: [&str; 3] = ["always", "madvise", "never"];

/// What a line writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BootWrite {
    /// A pool.
    Pool(WrittenPool),
    /// THP's switch; `None` where the word cannot be told.
    Thp(Option<&'static str>),
    /// The switch of RHEL 6, which no other kernel has.
    RedHatThp(Option<&'static str>),
}

const ENDS: [char; 14] = [' ', '\t', '\'', '"', '=', '<', '>', '|', ';', '&', '(', ')', '`', ','];

pub(super) fn may_write(bytes: &[u8]) -> bool {
    let holds = |name: &str| bytes.windows(name.len()).any(|part| part == name.as_bytes());
    holds("huge") && (holds(NAME) || holds("hugeadm") || holds("transparent_hugepage"))
}

pub(super) fn join_continued_lines(bytes: &[u8]) -> Vec<(u64, String)> {
    let mut all: Vec<(u64, String)> = Vec::new();
    let mut open = false;
    for (number, line) in numbered_lines(bytes) {
        let (text, goes_on) = match line.strip_suffix('\\') {
            Some(text) => (text, true),
            None => (line.as_ref(), false),
        };
        match all.last_mut().filter(|_| open) {
            Some((_, before)) => {
                before.push(' ');
                before.push_str(text);
            }
            None => all.push((number, text.to_owned())),
        }
        open = goes_on;
    }
    all
}

/// The lines that write a pool or THP's switch, variables replaced that hold a path of one.
pub(super) fn find_writes(lines: &[(u64, String)]) -> Vec<(u64, BootWrite)> {
    let mut variables = Vec::new();
    let mut found = Vec::new();
    for (number, line) in lines {
        let line = without_comment(line);
        variables.extend(parse_variable(line));
        let expanded = expand_shell_variables(line, &variables);
        // A script that knows both folders takes the one that is there.
        let knows_both = !line.contains(RED_HAT)
            && variables.iter().any(|(_, value)| value.starts_with("/sys/kernel/mm/transparent_"));
        let written = parse_writes(&expanded).map(|what| match what {
            BootWrite::RedHatThp(word) if knows_both => BootWrite::Thp(word),
            what => what,
        });
        found.extend(written.map(|what| (*number, what)));
    }
    found
}

/// What one command writes.
pub fn of_command(text: &str) -> Vec<BootWrite> {
    parse_writes(without_comment(text)).collect()
}

fn parse_writes(line: &str) -> impl Iterator<Item = BootWrite> {
    let pool = parse_pool_write(line).map(BootWrite::Pool);
    pool.into_iter().chain(
        parse_thp_write(line)
            .or_else(|| parse_ktune_call(line))
            .or_else(|| parse_hugeadm_thp(line)),
    )
}

/// Functions of RHEL 6's tuned (/etc/tune-profiles/functions), which its profiles call.
fn parse_ktune_call(line: &str) -> Option<BootWrite> {
    let mut words = line.split_ascii_whitespace();
    let word = match words.next()? {
        "set_transparent_hugepages" => words.next()?.trim_matches(['"', '\'']),
        "enable_transparent_hugepages" => "always",
        _ => return None,
    };
    let known = THP_WORDS.into_iter().find(|known| *known == word)?;
    Some(BootWrite::Thp(Some(known)))
}

/// The same as a command that this reads again.
pub fn to_canonical_command(what: &BootWrite) -> String {
    match what {
        BootWrite::Pool(WrittenPool::Default) => format!("> /proc/sys/vm/{NAME}"),
        BootWrite::Pool(WrittenPool::Of(page)) => {
            format!("> /sys/kernel/mm/hugepages/hugepages-{}kB/{NAME}", page.bytes().get() >> 10)
        }
        BootWrite::Pool(WrittenPool::Any) => format!("> {NAME}"),
        BootWrite::Thp(word) => format!("echo {} > /sys/kernel/mm/{THP}", word.unwrap_or("$word")),
        BootWrite::RedHatThp(word) => {
            format!("echo {} > /sys/kernel/mm/{RED_HAT}{THP}", word.unwrap_or("$word"))
        }
    }
}

/// The word that THP's switch is set to: the last that stands before it in the same command.
fn parse_thp_write(line: &str) -> Option<BootWrite> {
    let of_red_hat = |at: usize| line.get(..at).is_some_and(|before| before.ends_with(RED_HAT));
    let written = |(at, _)| {
        let word = parse_thp_word(line, at)?;
        let is_red_hats = of_red_hat(at);
        Some(if is_red_hats { BootWrite::RedHatThp(word) } else { BootWrite::Thp(word) })
    };
    let mut all = line.match_indices(THP).filter_map(written);
    let first = all.next()?;
    // A line that writes both writes the one that is there.
    Some(all.find(|what| matches!(what, BootWrite::Thp(_))).unwrap_or(first))
}

fn parse_thp_word(line: &str, at: usize) -> Option<Option<&'static str>> {
    let start = line.get(..at)?.rfind(ENDS).map_or(0, |end| end + 1);
    let before = line.get(..start)?.trim_end_matches([' ', '\t', '\'', '"']);
    let command = before.rsplit([';', '&', '`', '(']).next().unwrap_or_default();
    let last = command.rsplit('|').next().unwrap_or_default();
    let is_tee = split_shell_words(last).any(|word| word.rsplit('/').next() == Some("tee"));
    let redirected = before.ends_with('>') || before.ends_with(">|") || before.ends_with("of=");
    let each = command.split(ENDS).flat_map(split_shell_words);
    let said = || each.filter_map(|word| THP_WORDS.into_iter().find(|known| *known == word)).last();
    (redirected || is_tee).then(said)
}

fn parse_pool_write(line: &str) -> Option<WrittenPool> {
    let by_name = line.match_indices(NAME).find_map(|(at, _)| parse_write_target(line, at));
    by_name.or_else(|| parse_hugeadm(line))
}

fn parse_write_target(line: &str, at: usize) -> Option<WrittenPool> {
    let start = line.get(..at)?.rfind(ENDS).map_or(0, |end| end + 1);
    let rest = line.get(at + NAME.len()..)?;
    let rest = rest.strip_prefix("_mempolicy").unwrap_or(rest);
    if rest.starts_with(|sign: char| sign.is_alphanumeric() || "._-/".contains(sign)) {
        return None;
    }
    let word = line.get(start..at)?;
    if !(word.is_empty() || word.ends_with(['/', '.'])) {
        return None;
    }
    let before = line.get(..start)?.trim_end_matches([' ', '\t', '\'', '"']);
    let command = before.rsplit(['|', ';', '&', '`', '(']).next().unwrap_or_default();
    let calls = |program: &str| {
        split_shell_words(command).any(|word| word.rsplit('/').next() == Some(program))
    };
    let redirected = before.ends_with('>') || before.ends_with(">|") || before.ends_with("of=");
    let set = || calls("sysctl") && rest.trim_start().starts_with('=');
    (redirected || calls("tee") || set()).then(|| pool_of_path(word))
}

fn split_shell_words(text: &str) -> impl Iterator<Item = &str> {
    text.split([' ', '\t', '\'', '"', ',', '[', ']', '{', '}', '!', '@', '+', ':'])
        .filter(|word| !word.is_empty())
}

fn pool_of_path(word: &str) -> WrittenPool {
    if let Some((_, rest)) = word.split_once("hugepages-") {
        let kib = rest.split_once("kB").and_then(|(kib, _)| kib.parse().ok());
        return kib.and_then(PageSize::from_kib).map_or(WrittenPool::Any, WrittenPool::Of);
    }
    let setting = word.ends_with("vm.") || word.ends_with("vm/");
    if setting { WrittenPool::Default } else { WrittenPool::Any }
}

/// `hugeadm --pool-pages-min 2MB:512`.
fn parse_hugeadm(line: &str) -> Option<WrittenPool> {
    let (_, rest) = line.split_once("hugeadm")?.1.split_once("--pool-pages-min")?;
    let value =
        rest.trim_start_matches([' ', '\t', '=', '\'', '"']).split(':').next().unwrap_or_default();
    if value.eq_ignore_ascii_case("default") {
        return Some(WrittenPool::Default);
    }
    let digits = value.trim_end_matches(|sign: char| sign.is_ascii_alphabetic());
    let shift = match value.get(digits.len()..)?.to_ascii_uppercase().trim_end_matches('B') {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        _ => return Some(WrittenPool::Any),
    };
    let bytes = digits.parse::<u64>().ok().and_then(|count| count.checked_mul(1 << shift));
    Some(bytes.and_then(PageSize::new).map_or(WrittenPool::Any, WrittenPool::Of))
}

/// `hugeadm --thp-never`.
fn parse_hugeadm_thp(line: &str) -> Option<BootWrite> {
    let (_, rest) = line.split_once("hugeadm")?;
    let said = split_shell_words(rest).filter_map(|word| {
        THP_WORDS.into_iter().find(|known| word.strip_prefix("--thp-") == Some(known))
    });
    said.last().map(|word| BootWrite::Thp(Some(word)))
}

fn without_comment(line: &str) -> &str {
    let mut quote = None;
    let mut before = ' ';
    for (at, sign) in line.char_indices() {
        match quote {
            Some(open) if open == sign => quote = None,
            Some(_) => {}
            None if matches!(sign, '\'' | '"') => quote = Some(sign),
            None if sign == '#' && before.is_whitespace() => {
                return line.get(..at).unwrap_or_default();
            }
            None => {}
        }
        before = sign;
    }
    line
}

/// Whether a word gives a variable the path of a file that this is about.
pub(super) fn names_kernel_path(word: &str) -> bool {
    parse_variable(word).is_some()
}

/// `F=/proc/sys/vm/nr_hugepages`, `for f in /sys/.../nr_hugepages`.
fn parse_variable(line: &str) -> Option<(String, String)> {
    let is_name = |text: &str| {
        !text.is_empty()
            && text.bytes().all(|sign| sign.is_ascii_alphanumeric() || sign == b'_')
            && text.len() < 64
    };
    let line = line.trim_start();
    let line = ["export ", "local ", "readonly "]
        .iter()
        .find_map(|word| line.strip_prefix(word))
        .unwrap_or(line);
    let (name, value) = match line.strip_prefix("for ").and_then(|rest| rest.split_once(" in ")) {
        Some((name, values)) => (
            name.trim(),
            values.split_whitespace().find(|value| value.contains("hugepage")).unwrap_or_default(),
        ),
        None => line.split_once('=')?,
    };
    let value = read_shell_word(value);
    let is_path = ["/proc/sys/vm", "/sys/kernel/mm", "/sys/devices/system/node"];
    let is_path = is_path.iter().any(|folder| value.starts_with(folder));
    (is_name(name) && is_path && value.len() < 256).then(|| (name.to_owned(), value))
}

/// A word without its quotes: `hugepages-"$SIZE"kB/nr_hugepages` is one.
fn read_shell_word(text: &str) -> String {
    let mut quote = None;
    let mut word = String::new();
    for sign in text.chars() {
        match quote {
            Some(open) if open == sign => quote = None,
            None if matches!(sign, '"' | '\'') => quote = Some(sign),
            None if matches!(sign, ' ' | '\t' | ';') => break,
            _ => word.push(sign),
        }
    }
    word
}

fn expand_shell_variables<'a>(line: &'a str, variables: &[(String, String)]) -> Cow<'a, str> {
    if variables.is_empty() || !line.contains('$') {
        return Cow::Borrowed(line);
    }
    let mut all = String::new();
    let mut rest = line;
    while let Some((before, after)) = rest.split_once('$') {
        all.push_str(before);
        let braced = after.strip_prefix('{').and_then(|inside| inside.split_once('}'));
        let plain = split_while(after, |sign| sign.is_ascii_alphanumeric() || sign == '_');
        let plain = Some(plain).filter(|(name, _)| !name.is_empty());
        let value = |name: &str| {
            variables.iter().rev().find(|(known, _)| known == name).map(|(_, value)| value)
        };
        match braced.or(plain).and_then(|(name, rest)| Some((value(name)?, rest))) {
            Some((value, after)) => {
                all.push_str(value);
                rest = after;
            }
            None => {
                all.push('$');
                rest = after;
            }
        }
        // What was replaced is not looked at again: values name no variables that are known here.
    }
    all.push_str(rest);
    Cow::Owned(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MIB_2: WrittenPool = WrittenPool::Of(PageSize::MIB_2);
    const GIB_1: WrittenPool = WrittenPool::Of(PageSize::GIB_1);

    fn of(text: &str) -> Vec<(u64, WrittenPool)> {
        let pool = |(line, what)| match what {
            BootWrite::Pool(pool) => Some((line, pool)),
            BootWrite::Thp(_) | BootWrite::RedHatThp(_) => None,
        };
        find_writes(&join_continued_lines(text.as_bytes())).into_iter().filter_map(pool).collect()
    }

    /// hugeadm(8).
    #[test]
    fn hugeadm_switches_thp() {
        let never = [BootWrite::Thp(Some("never"))];
        assert_eq!(of_command("/usr/bin/hugeadm --thp-never"), never);
        assert_eq!(of_command("hugeadm --set-recommended-shmmax --thp-never -v"), never);
        assert_eq!(of_command("hugeadm --thp-always"), [BootWrite::Thp(Some("always"))]);
        assert_eq!(of_command("hugeadm --explain"), []);
    }

    #[test]
    fn what_writes_a_pool() {
        let file = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages";
        for (line, pool) in [
            ("echo 100 > /proc/sys/vm/nr_hugepages", WrittenPool::Default),
            ("echo 100 >/proc/sys/vm/nr_hugepages 2>/dev/null || true", WrittenPool::Default),
            ("[ -w /x ] && echo 100 >> '/proc/sys/vm/nr_hugepages'", WrittenPool::Default),
            ("numactl -m 0 echo 5 >| /proc/sys/vm/nr_hugepages_mempolicy", WrittenPool::Default),
            ("/sbin/sysctl -w vm.nr_hugepages=100", WrittenPool::Default),
            ("sysctl -q -w \"vm.nr_hugepages = 100\"", WrittenPool::Default),
            ("sysctl vm/nr_hugepages=$PAGES", WrittenPool::Default),
            (" - [ sysctl, -w, vm.nr_hugepages=540 ]", WrittenPool::Default),
            (" - [ sh, -c, \"echo 540 > /proc/sys/vm/nr_hugepages\" ]", WrittenPool::Default),
            ("/bin/sh -c 'echo 5 | sudo tee /proc/sys/vm/nr_hugepages'", WrittenPool::Default),
            ("dd if=/x of=/proc/sys/vm/nr_hugepages", WrittenPool::Default),
            (&format!("echo 5 | tee -a {file} >/dev/null"), MIB_2),
            ("echo $1 > $nodes_path/$2/hugepages/hugepages-1048576kB/nr_hugepages", GIB_1),
            (
                "echo 4 > /sys/kernel/mm/hugepages/hugepages-${SIZE}kB/nr_hugepages",
                WrittenPool::Any,
            ),
            ("cd /sys/kernel/mm/hugepages/x; echo 4 > nr_hugepages", WrittenPool::Any),
            ("hugeadm --pool-pages-min 2MB:512", MIB_2),
            ("/usr/bin/hugeadm --pool-pages-min=1G:+4", GIB_1),
            ("hugeadm --pool-pages-min DEFAULT:5", WrittenPool::Default),
        ] {
            assert_eq!(of_command(line), [BootWrite::Pool(pool)], "{line}");
        }
    }

    #[test]
    fn what_only_reads_or_says_it() {
        for line in [
            "cat /proc/sys/vm/nr_hugepages > /tmp/pages",
            "N=$(sysctl -n vm.nr_hugepages)",
            "sysctl vm.nr_hugepages",
            "[ $(cat /proc/sys/vm/nr_hugepages) -gt 5 ] && echo 5 > /tmp/x",
            "grep -q 5 < /proc/sys/vm/nr_hugepages",
            "# echo 5 > /proc/sys/vm/nr_hugepages",
            "echo ready # > /proc/sys/vm/nr_hugepages",
            "echo 'vm.nr_hugepages=540' >> /etc/sysctl.conf",
            "sysctl -w vm.nr_overcommit_hugepages=5",
            "echo 5 > /sys/kernel/mm/hugepages/hugepages-2048kB/nr_overcommit_hugepages",
            "hugeadm --pool-list",
            "echo 5 > /srv/nr_hugepages.saved",
        ] {
            assert_eq!(of_command(line), [], "{line}");
        }
    }

    #[test]
    fn variables_and_lines_that_go_on() {
        let text = "#!/bin/sh\nF=/proc/sys/vm/nr_hugepages\nD=\"/sys/kernel/mm/hugepages/hugepages-1048576kB\"\n\
                    cat $F\nsysctl -w \\\n vm.nr_hugepages=5\necho 3 > ${D}/nr_hugepages\necho 5 \
             > \"$F\"\n\
                    for n in \
             /sys/devices/system/node/node*/hugepages/hugepages-2048kB/nr_hugepages; do\n echo 1 \
             > $n\ndone\n";
        assert_eq!(
            of(text),
            [(5, WrittenPool::Default), (7, GIB_1), (8, WrittenPool::Default), (10, MIB_2)]
        );
    }

    proptest! {
        #[test]
        fn any_text_is_survived_and_the_canonical_line_is_read_again(text in "[ -~\\n\\\\é]{0,120}", pages in 0u64..9) {
            of(&text);
            for pool in [WrittenPool::Default, MIB_2, GIB_1, WrittenPool::Any] {
                let pool = BootWrite::Pool(pool);
                prop_assert_eq!(of_command(&to_canonical_command(&pool)), [pool]);
            }
            let pool = BootWrite::Pool(MIB_2);
            prop_assert_eq!(of_command(&format!("echo {pages} {}", to_canonical_command(&pool))), [pool]);
            for word in [None, Some("always"), Some("madvise"), Some("never")] {
                for thp in [BootWrite::Thp(word), BootWrite::RedHatThp(word)] {
                    prop_assert_eq!(of_command(&to_canonical_command(&thp)), [thp]);
                }
            }
        }
    }
}
