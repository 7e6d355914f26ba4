//! Which lines of sysctl.d are written, and in which order.

use std::collections::BTreeMap;

use hugewise_model::configuration::{FileLocation, SysctlAssignment};

use super::{SysctlLine, SysctlProgram, file_of};
use crate::kernel_value::{sysctl_count, sysctl_int};
use crate::pattern::{covers_path, expand_braces, is_pattern};

/// What the kernel reads a setting's text as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SysctlValueKind {
    /// A count.
    Count,
    /// A number with a sign, 32 bits.
    Int,
}

/// The settings that bear on huge pages and shared memory: patterns are worked out for these.
pub const SETTINGS: [(&str, SysctlValueKind); 16] = [
    ("kernel.numa_balancing", SysctlValueKind::Int),
    ("kernel.shmall", SysctlValueKind::Count),
    ("kernel.shmmax", SysctlValueKind::Count),
    ("kernel.shmmni", SysctlValueKind::Int),
    ("vm.hugetlb_optimize_vmemmap", SysctlValueKind::Int),
    ("vm.hugetlb_shm_group", SysctlValueKind::Int),
    ("vm.max_map_count", SysctlValueKind::Int),
    ("vm.min_free_kbytes", SysctlValueKind::Int),
    ("vm.nr_hugepages", SysctlValueKind::Count),
    ("vm.nr_hugepages_mempolicy", SysctlValueKind::Count),
    ("vm.nr_overcommit_hugepages", SysctlValueKind::Count),
    ("vm.overcommit_kbytes", SysctlValueKind::Count),
    ("vm.overcommit_memory", SysctlValueKind::Int),
    ("vm.overcommit_ratio", SysctlValueKind::Int),
    ("vm.swappiness", SysctlValueKind::Int),
    ("vm.zone_reclaim_mode", SysctlValueKind::Int),
];

#[derive(Default)]
struct KeyAssignments<'a> {
    position: usize,
    value: Option<&'a str>,
    /// Lines that say it, but for those that an exclusion took back.
    lines: Vec<(usize, &'a SysctlLine)>,
}

/// Assignments in the order in which they are made, so that the last one of a key wins; those that
/// others override stand before them.
///
/// systemd-sysctl keeps one line of a key. Another value takes the place of the one before and goes
/// to the end of the order; the same value changes nothing. A pattern leaves keys alone that stand
/// by themselves, whatever they say. What the kernel refuses of the line that is kept is lost, with
/// all that it overrides. procps writes every line in turn.
pub(crate) fn resolve_assignments(
    lines: &[SysctlLine],
    program: SysctlProgram,
) -> Vec<SysctlAssignment> {
    let mut said: BTreeMap<&str, KeyAssignments<'_>> = BTreeMap::new();
    for (at, line) in lines.iter().enumerate() {
        let value = line.value.as_deref();
        let one = said.entry(&line.key).or_default();
        let first = one.lines.is_empty() && one.value.is_none();
        if program == SysctlProgram::Procps || first || one.value != value {
            (one.position, one.value) = (at, value);
        }
        match (value, program) {
            (None, SysctlProgram::Systemd) => one.lines.clear(),
            (None, SysctlProgram::Procps) => {}
            (Some(_), _) => one.lines.push((at, line)),
        }
    }
    let mut found: Vec<((usize, usize), SysctlAssignment)> = Vec::new();
    for (key, one) in &said {
        if is_pattern(key) {
            let every =
                one.lines.iter().filter_map(|(at, line)| Some((*at, line.value.as_deref()?)));
            let winners: Vec<(usize, &str)> = match program {
                SysctlProgram::Systemd => {
                    one.value.map(|value| (one.position, value)).into_iter().collect()
                }
                SysctlProgram::Procps => every.collect(),
            };
            let mut matched = match_settings(key, program);
            matched.retain(|setting| !said.contains_key(setting));
            for (at, value) in winners {
                let Some(line) = lines.get(at) else { continue };
                let assign =
                    |setting: &&str| ((at, at), build_assignment(setting, value, &line.place));
                found.extend(matched.iter().map(assign));
            }
            continue;
        }
        let lost = |line: &&(usize, &SysctlLine)| match line.1.value.as_deref() {
            Some(value) => {
                program == SysctlProgram::Systemd
                    && one.value != Some(value)
                    && is_refused(key, one.value)
            }
            None => true,
        };
        let kept = one.lines.iter().filter(|line| !lost(line));
        found.extend(kept.filter_map(|(at, line)| {
            let order =
                if program == SysctlProgram::Systemd { (*at).min(one.position) } else { *at };
            Some(((order, *at), build_assignment(key, line.value.as_deref()?, &line.place)))
        }));
    }
    found.sort_by_key(|(order, _)| *order);
    found.into_iter().map(|(_, assignment)| assignment).collect()
}

fn build_assignment(key: &str, value: &str, place: &FileLocation) -> SysctlAssignment {
    SysctlAssignment { key: key.to_owned(), value: value.to_owned(), place: place.clone() }
}

fn match_settings(pattern: &str, program: SysctlProgram) -> Vec<&'static str> {
    let path = file_of(pattern);
    // procps leaves braces as they are.
    let paths = if program == SysctlProgram::Systemd { expand_braces(&path) } else { vec![path] };
    let is = |setting: &str| paths.iter().any(|path| covers_path(path, &file_of(setting)));
    SETTINGS.iter().map(|(setting, _)| *setting).filter(|setting| is(setting)).collect()
}

fn is_refused(key: &str, value: Option<&str>) -> bool {
    let Some(value) = value else { return false };
    match SETTINGS.iter().find(|(setting, _)| *setting == key) {
        Some((_, SysctlValueKind::Count)) => sysctl_count(value).is_none(),
        Some((_, SysctlValueKind::Int)) => sysctl_int(value).is_none(),
        None => false,
    }
}
