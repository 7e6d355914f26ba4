//! Which lines of sysctl.d are written, and in which order.

use std::collections::BTreeMap;

use hugewise_model::configuration::{Place, SysctlAssignment};

use super::{Line, Program, file_of, is_pattern};
use crate::config::kernel_value::{sysctl_count, sysctl_int};
use crate::config::pattern::{alternatives, covers};

/// What the kernel reads a setting's text as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A count.
    Count,
    /// A number with a sign, 32 bits.
    Int,
}

/// The settings that bear on huge pages and shared memory: patterns are worked out for these.
pub const SETTINGS: [(&str, Kind); 16] = [
    ("kernel.numa_balancing", Kind::Int),
    ("kernel.shmall", Kind::Count),
    ("kernel.shmmax", Kind::Count),
    ("kernel.shmmni", Kind::Int),
    ("vm.hugetlb_optimize_vmemmap", Kind::Int),
    ("vm.hugetlb_shm_group", Kind::Int),
    ("vm.max_map_count", Kind::Int),
    ("vm.min_free_kbytes", Kind::Int),
    ("vm.nr_hugepages", Kind::Count),
    ("vm.nr_hugepages_mempolicy", Kind::Count),
    ("vm.nr_overcommit_hugepages", Kind::Count),
    ("vm.overcommit_kbytes", Kind::Count),
    ("vm.overcommit_memory", Kind::Int),
    ("vm.overcommit_ratio", Kind::Int),
    ("vm.swappiness", Kind::Int),
    ("vm.zone_reclaim_mode", Kind::Int),
];

/// What was said of one key so far.
#[derive(Default)]
struct Said<'a> {
    /// Its place in the order in which keys are written.
    position: usize,
    value: Option<&'a str>,
    /// Lines that say it, but for those that an exclusion took back.
    lines: Vec<(usize, &'a Line)>,
}

/// Assignments in the order in which they are made, so that the last one of a key wins; those that others override
/// stand before them.
///
/// systemd-sysctl keeps one line of a key. Another value takes the place of the one before and goes to the end of the
/// order; the same value changes nothing. A pattern leaves keys alone that stand by themselves, whatever they say. What
/// the kernel refuses of the line that is kept is lost, with all that it overrides. procps writes every line in turn.
pub fn settled(lines: &[Line], program: Program) -> Vec<SysctlAssignment> {
    let mut said: BTreeMap<&str, Said<'_>> = BTreeMap::new();
    for (at, line) in lines.iter().enumerate() {
        let value = line.value.as_deref();
        let one = said.entry(&line.key).or_default();
        let first = one.lines.is_empty() && one.value.is_none();
        if program == Program::Procps || first || one.value != value {
            (one.position, one.value) = (at, value);
        }
        match (value, program) {
            (None, Program::Systemd) => one.lines.clear(),
            (None, Program::Procps) => {}
            (Some(_), _) => one.lines.push((at, line)),
        }
    }
    let mut found: Vec<((usize, usize), SysctlAssignment)> = Vec::new();
    for (key, one) in &said {
        if is_pattern(key) {
            let winners = match program {
                Program::Systemd => one.value.map(|value| (one.position, value)).into_iter().collect::<Vec<_>>(),
                Program::Procps => {
                    one.lines.iter().filter_map(|(at, line)| Some((*at, line.value.as_deref()?))).collect()
                }
            };
            for (at, value) in winners {
                let Some(line) = lines.get(at) else { continue };
                let matched = matched(key, program).into_iter().filter(|setting| !said.contains_key(setting));
                found.extend(matched.map(|setting| ((at, at), assignment(setting, value, &line.place))));
            }
            continue;
        }
        let lost = |line: &&(usize, &Line)| match line.1.value.as_deref() {
            Some(value) => program == Program::Systemd && one.value != Some(value) && is_refused(key, one.value),
            None => true,
        };
        let kept = one.lines.iter().filter(|line| !lost(line));
        found.extend(kept.filter_map(|(at, line)| {
            let order = if program == Program::Systemd { (*at).min(one.position) } else { *at };
            Some(((order, *at), assignment(key, line.value.as_deref()?, &line.place)))
        }));
    }
    found.sort_by_key(|(order, _)| *order);
    found.into_iter().map(|(_, assignment)| assignment).collect()
}

fn assignment(key: &str, value: &str, place: &Place) -> SysctlAssignment {
    SysctlAssignment { key: key.to_owned(), value: value.to_owned(), place: place.clone() }
}

/// The settings that a pattern is about.
fn matched(pattern: &str, program: Program) -> Vec<&'static str> {
    let path = file_of(pattern);
    // procps leaves braces as they are.
    let paths = if program == Program::Systemd { alternatives(&path) } else { vec![path] };
    let is = |setting: &str| paths.iter().any(|path| covers(path, &file_of(setting)));
    SETTINGS.iter().map(|(setting, _)| *setting).filter(|setting| is(setting)).collect()
}

/// Whether the kernel does not take that text for a setting that is known here.
fn is_refused(key: &str, value: Option<&str>) -> bool {
    let Some(value) = value else { return false };
    match SETTINGS.iter().find(|(setting, _)| *setting == key) {
        Some((_, Kind::Count)) => sysctl_count(value).is_none(),
        Some((_, Kind::Int)) => sysctl_int(value).is_none(),
        None => false,
    }
}
