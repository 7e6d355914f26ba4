//! `Condition…=` and `Assert…=` of units (`systemd.unit(5)`): whether the next boot passes a unit
//! over that something wants. What cannot be told from here is undecided, and never taken for met.

use std::cell::OnceCell;

use hugewise_model::Limit;
use hugewise_source::{FactReader, Source};

use crate::unit::UnitAssignment;
use crate::{bls, boot, pattern, unit_values};

/// What the conditions of a unit come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConditionVerdict {
    Met,
    Unmet,
    Undecided,
}

/// What conditions are judged by, each read when the first one asks for it.
pub(crate) struct ConditionFacts<'a> {
    source: &'a dyn Source,
    command_line: OnceCell<Option<Vec<String>>>,
}

/// What each reading of a host asks for: where one of these is absent the kernel lacks it. Other
/// files may be missing from a capture alone.
const ALWAYS_READ: [&str; 4] = [
    "/proc/sys/vm/nr_hugepages",
    "/sys/kernel/mm/hugepages",
    "/sys/kernel/mm/transparent_hugepage",
    "/sys/kernel/mm/transparent_hugepage/enabled",
];

const MOST_OF_FILE: u64 = 1 << 20;

impl<'a> ConditionFacts<'a> {
    pub(crate) const fn new(source: &'a dyn Source) -> Self {
        Self { source, command_line: OnceCell::new() }
    }

    /// All plain ones must hold, and one of those with a `|`, where there are any.
    pub(crate) fn judge(&self, assignments: &[UnitAssignment]) -> ConditionVerdict {
        let (conditions, assertions) =
            (self.judge_list(assignments, "Condition"), self.judge_list(assignments, "Assert"));
        match (conditions, assertions) {
            (Some(true), Some(true)) => ConditionVerdict::Met,
            (Some(false), _) | (_, Some(false)) => ConditionVerdict::Unmet,
            _ => ConditionVerdict::Undecided,
        }
    }

    fn judge_list(&self, assignments: &[UnitAssignment], list: &str) -> Option<bool> {
        let (mut plain, mut triggers) = (Vec::new(), Vec::new());
        for one in assignments.iter().filter(|one| one.section == "Unit") {
            let Some(kind) = one.key.strip_prefix(list) else { continue };
            if one.value.is_empty() {
                plain.clear();
                triggers.clear();
                continue;
            }
            let (is_trigger, value) = strip_sign(&one.value, '|');
            let (is_negated, value) = strip_sign(value, '!');
            let answer = self.test_condition(kind, value).map(|holds| holds != is_negated);
            if is_trigger { triggers.push(answer) } else { plain.push(answer) }
        }
        let all = decide_all(plain.into_iter());
        let any = decide_all(triggers.iter().map(|answer| answer.map(|holds| !holds)));
        let triggered = if triggers.is_empty() { Some(true) } else { any.map(|none| !none) };
        decide_all([all, triggered].into_iter())
    }

    fn test_condition(&self, kind: &str, value: &str) -> Option<bool> {
        // Specifiers, and what a capture has taken out.
        if value.contains(['%', '?']) {
            return None;
        }
        match kind {
            "KernelCommandLine" => Some(has_kernel_word(self.command_line()?, value)),
            "PathExists" => self.test_path(value),
            "PathIsDirectory" => self.test_path(value).map(|there| there && self.is_folder(value)),
            // Whoever looks at a host looks after its first boot.
            "FirstBoot" => parse_boolean(value).map(|first| !first),
            "Virtualization" => self.test_virtualization(value),
            "Memory" => compare_memory(self.total_memory()?, value),
            "KernelVersion" | "Version" => self.test_kernel_version(value),
            _ => None,
        }
    }

    /// The words of the next boot, or of the running one where no loader tells.
    fn command_line(&self) -> Option<&[String]> {
        let read = || {
            let mut door = FactReader::new(self.source);
            let entry = boot::read(&mut door);
            if entry.is_absent() {
                let running = self.source.read("/proc/cmdline").into_known()?;
                let running = String::from_utf8_lossy(&running).into_owned();
                return Some(running.split_ascii_whitespace().map(str::to_owned).collect());
            }
            Some(entry.into_known()?.command_line)
        };
        self.command_line.get_or_init(read).as_deref()
    }

    fn test_path(&self, path: &str) -> Option<bool> {
        let is_there =
            self.is_folder(path) || self.source.read_limited(path, MOST_OF_FILE).is_known();
        is_there.then_some(true).or_else(|| ALWAYS_READ.contains(&path).then_some(false))
    }

    fn is_folder(&self, path: &str) -> bool {
        self.source.list_folder(path).is_known()
    }

    /// Of x86: other processors do not say that they are a hypervisor's.
    fn test_virtualization(&self, value: &str) -> Option<bool> {
        let cpuinfo = self.source.read("/proc/cpuinfo").into_known()?;
        let cpuinfo = String::from_utf8_lossy(&cpuinfo).into_owned();
        let flags = cpuinfo.lines().find(|line| line.starts_with("flags"))?;
        let is_machine = flags.split_ascii_whitespace().any(|flag| flag == "hypervisor");
        match value {
            // What is read is a whole host with its own boot.
            "container" => Some(false),
            "vm" => Some(is_machine),
            _ => parse_boolean(value).map(|any| any == is_machine),
        }
    }

    fn total_memory(&self) -> Option<u64> {
        let meminfo = self.source.read("/proc/meminfo").into_known()?;
        let meminfo = String::from_utf8_lossy(&meminfo).into_owned();
        let total = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
        total.split_ascii_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
    }

    fn test_kernel_version(&self, value: &str) -> Option<bool> {
        let release = self.source.read("/proc/sys/kernel/osrelease").into_known()?;
        let release = String::from_utf8_lossy(&release).trim().to_owned();
        let mut waiting = None;
        let mut answers = Vec::new();
        for word in value.split_ascii_whitespace() {
            let (operator, version) = split_operator(word);
            match (waiting.take().or(operator), version) {
                (operator, "") => waiting = operator,
                (None, glob) => answers.push(Some(pattern::covers_path(glob, &release))),
                (Some(operator), version) => {
                    let order = bls::compare_versions(&release, version);
                    answers.push(Some(operator.contains_order(order)));
                }
            }
        }
        decide_all(answers.into_iter())
    }
}

/// Whether a condition says the same of a capture, which has not every word of the kernel's and
/// not every file.
pub fn is_told_by_capture(key: &str, value: &str, is_word_there: &dyn Fn(&str) -> bool) -> bool {
    let kind = key.strip_prefix("Condition").or_else(|| key.strip_prefix("Assert"));
    let (_, value) = strip_sign(value, '|');
    let (_, value) = strip_sign(value, '!');
    match kind {
        Some("KernelCommandLine") => is_word_there(value),
        Some("PathExists" | "PathIsDirectory") => ALWAYS_READ.contains(&value),
        Some("FirstBoot" | "Virtualization" | "Memory" | "KernelVersion" | "Version") => true,
        _ => value.is_empty(),
    }
}

/// All of them, as far as they are known.
fn decide_all(answers: impl Iterator<Item = Option<bool>>) -> Option<bool> {
    let mut all = Some(true);
    for answer in answers {
        match answer {
            Some(true) => {}
            Some(false) => return Some(false),
            None => all = None,
        }
    }
    all
}

fn strip_sign(value: &str, sign: char) -> (bool, &str) {
    value.strip_prefix(sign).map_or((false, value), |rest| (true, rest.trim_start()))
}

/// A word with its value has to be there as it stands; one without counts with any value.
fn has_kernel_word(words: &[String], wanted: &str) -> bool {
    words.iter().any(|word| {
        let rest = word.strip_prefix(wanted);
        rest.is_some_and(|rest| rest.is_empty() || (!wanted.contains('=') && rest.starts_with('=')))
    })
}

fn parse_boolean(value: &str) -> Option<bool> {
    match value.to_ascii_lowercase().as_str() {
        "1" | "yes" | "y" | "true" | "t" | "on" => Some(true),
        "0" | "no" | "n" | "false" | "f" | "off" => Some(false),
        _ => None,
    }
}

#[derive(Clone, Copy)]
struct OrderOperator(&'static str);

impl OrderOperator {
    fn contains_order(self, order: std::cmp::Ordering) -> bool {
        match self.0 {
            "<" => order.is_lt(),
            "<=" => order.is_le(),
            ">" => order.is_gt(),
            ">=" => order.is_ge(),
            "!=" | "<>" => order.is_ne(),
            _ => order.is_eq(),
        }
    }
}

fn split_operator(text: &str) -> (Option<OrderOperator>, &str) {
    const ALL: [&str; 8] = ["<=", ">=", "!=", "<>", "==", "<", ">", "="];
    let found = ALL.into_iter().find_map(|sign| Some((sign, text.strip_prefix(sign)?)));
    found.map_or((None, text), |(sign, rest)| (Some(OrderOperator(sign)), rest.trim_start()))
}

fn compare_memory(total: u64, value: &str) -> Option<bool> {
    let (operator, size) = split_operator(value);
    let Some(Limit::At(size)) = unit_values::parse_bytes(size) else { return None };
    Some(operator.unwrap_or(OrderOperator(">=")).contains_order(total.cmp(&size.get())))
}

#[cfg(test)]
mod tests {
    use hugewise_source::map::MapSource;

    use super::*;
    use crate::unit;

    fn judge(source: &MapSource, text: &str) -> ConditionVerdict {
        let unit = unit::parse(format!("[Unit]\n{text}\n").as_bytes());
        ConditionFacts::new(source).judge(&unit)
    }

    /// Expected is what `systemd-analyze condition` of systemd 252 says of the same lines.
    #[test]
    fn conditions_are_judged_as_systemd_does() {
        let host = MapSource::new()
            .with_file("/proc/cmdline", "ro default_hugepagesz=1G quiet\n")
            .with_file("/proc/meminfo", "MemTotal:       16384000 kB\n")
            .with_file("/proc/cpuinfo", "flags\t\t: fpu vme hypervisor\n")
            .with_file("/proc/sys/kernel/osrelease", "5.10.0-28-amd64\n")
            .with_file("/sys/kernel/mm/transparent_hugepage/enabled", "[always] never\n");
        use ConditionVerdict::{Met, Undecided, Unmet};
        for (text, expected) in [
            ("", Met),
            ("ConditionKernelCommandLine=hugepagesz=1G", Unmet),
            ("ConditionKernelCommandLine=default_hugepagesz=1G", Met),
            ("ConditionKernelCommandLine=default_hugepagesz", Met),
            ("ConditionKernelCommandLine=default_huge", Unmet),
            ("ConditionKernelCommandLine=!hugepagesz", Met),
            ("ConditionKernelCommandLine=|hugepagesz\nConditionKernelCommandLine=|quiet", Met),
            ("ConditionKernelCommandLine=|hugepagesz\nConditionKernelCommandLine=|!quiet", Unmet),
            ("ConditionKernelCommandLine=|quiet\nConditionFirstBoot=yes", Unmet),
            ("ConditionKernelCommandLine=hugepagesz\nConditionFirstBoot=", Met),
            ("ConditionKernelCommandLine=hugepagesz\nAssertKernelCommandLine=", Unmet),
            ("AssertKernelCommandLine=hugepagesz", Unmet),
            ("ConditionPathExists=/sys/kernel/mm/transparent_hugepage/enabled", Met),
            ("ConditionPathIsDirectory=/sys/kernel/mm/transparent_hugepage/enabled", Unmet),
            ("ConditionPathExists=/sys/kernel/mm/hugepages", Unmet),
            ("ConditionPathExists=!/etc/no-pages", Undecided),
            ("ConditionPathExists=/etc/no-pages\nConditionKernelCommandLine=nothing", Unmet),
            ("ConditionPathExists=|/etc/no-pages\nConditionKernelCommandLine=|quiet", Met),
            ("ConditionVirtualization=!container", Met),
            ("ConditionVirtualization=no", Unmet),
            ("ConditionVirtualization=kvm", Undecided),
            ("ConditionMemory=>= 8G", Met),
            ("ConditionMemory=32G", Unmet),
            ("ConditionKernelVersion=>=5.8 <6", Met),
            ("ConditionKernelVersion=>= 5.14", Unmet),
            ("ConditionKernelVersion=5.10.*", Met),
            ("ConditionUser=%u", Undecided),
        ] {
            assert_eq!(judge(&host, text), expected, "{text}");
        }
    }
}
