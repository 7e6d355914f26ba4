//! What the files and words of a plan would bring at the next boot, held against this host.
//!
//! A checksum tells a plan that was edited, and not who made one; and that a line is of a kind that hugewise writes says nothing
//! of its number. A host whose next boot gives all memory to a pool, or where shmget fails, does not come up with its servers.

use std::collections::BTreeMap;

use hugewise_advice::sizing::Budget;
use hugewise_host::config::kernel_value::{sysctl_count, sysfs_count};
use hugewise_host::config::{cmdline, sysctl, tmpfiles, tuned};
use hugewise_model::{Bytes, PageCount, PageSize};

use crate::drift::Need;
use crate::plan::{Change, Plan};
use crate::{Error, Failure, System};

/// Limits of System V memory, which no plan lowers.
const SHM_LIMITS: [&str; 3] = ["/proc/sys/kernel/shmmax", "/proc/sys/kernel/shmall", "/proc/sys/kernel/shmmni"];

/// Refuses a change that makes a limit of System V memory lower than it is, now or at the next boot.
pub(crate) fn lowers_nothing(plan: &Plan, system: &dyn System, needs: &[Vec<Need>]) -> Result<(), Error> {
    let changes = plan.steps.iter().zip(needs).flat_map(|(step, needs)| {
        let made = step.changes.iter().zip(needs).filter(|(_, need)| **need == Need::Make);
        made.map(move |(change, _)| (step, change))
    });
    for (step, change) in changes {
        let (what, said) = match change {
            Change::Value(change) => (&change.path, vec![(change.path.clone(), change.after.clone())]),
            Change::File(change) => {
                let text = change.after.as_ref().map(|after| after.content.bytes()).unwrap_or_default();
                (&change.path, settings(&change.path, text))
            }
            Change::Command(_) => continue,
        };
        for (path, value) in said {
            if !SHM_LIMITS.contains(&path.as_str()) {
                continue;
            }
            let now = system.text(&path)?.and_then(|text| sysctl_count(text.trim()));
            if let (Some(now), Some(after)) = (now, sysctl_count(&value))
                && after < now
            {
                let why = format!("{path} is {now}, and no plan lowers it: {after} would keep servers from starting");
                return Err(Error::NotAllowed { step: step.id.clone(), what: what.clone(), why });
            }
        }
    }
    Ok(())
}

/// Refuses pools for the next boot that leave this host less memory than has to stay.
pub(crate) fn leaves_room(plan: &Plan, system: &dyn System) -> Result<(), Error> {
    let mut files: BTreeMap<&str, &[u8]> = BTreeMap::new();
    let mut pools = Pools::default();
    for (_, change) in plan.changes() {
        match change {
            Change::File(change) => {
                // Of what is written several times the last one stays.
                let text = change.after.as_ref().map(|after| after.content.bytes()).unwrap_or_default();
                files.insert(&change.path, text);
            }
            Change::Command(change) => {
                let words = change.command.iter().filter_map(|word| word.strip_prefix("--args="));
                words.for_each(|words| pools.words(words.split_whitespace()));
            }
            Change::Value(_) => {}
        }
    }
    for (path, text) in files {
        if path.starts_with("/etc/default/grub.d/") {
            let text = String::from_utf8_lossy(text);
            for line in text.lines().filter(|line| !line.trim_start().starts_with('#')) {
                pools.words(line.split(|sign: char| sign.is_whitespace() || matches!(sign, '"' | '\'')));
            }
        }
        settings(path, text).iter().for_each(|(path, value)| pools.setting(path, value));
    }
    if pools.default.is_some() {
        // What asks for pages of the default size now asks for as many of another one then.
        let now = system.text("/proc/sys/vm/nr_hugepages")?.and_then(|text| text.trim().parse().ok());
        pools.add(Of::Default, None, now.unwrap_or_default());
    }
    let (Some(total), false) = (amount(system, "MemTotal:")?, pools.pages.is_empty()) else { return Ok(()) };
    let all = pools.bytes(system)?;
    let floor = Bytes(plan.budget.floor_bytes).max(Budget::floor_of(total));
    if Bytes(all.get().saturating_add(floor.get())) > total {
        return Err(Error::Refused {
            reasons: vec![format!(
                "the next boot would bring pools of {all}, and this host has {total} (/proc/meminfo), of which {floor} must \
                 stay for page cache and whatever is not counted"
            )],
        });
    }
    Ok(())
}

/// An amount of /proc/meminfo: `MemTotal:`.
pub(crate) fn amount(system: &dyn System, name: &str) -> Result<Option<Bytes>, Failure> {
    let text = system.text("/proc/meminfo")?.unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    Ok(line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).map(Bytes::from_kib))
}

/// The kernel's files that a drop-in has written at boot, with what is written.
fn settings(path: &str, text: &[u8]) -> Vec<(String, String)> {
    if path.starts_with("/etc/sysctl.d/") {
        return sysctl::parse(path, text).into_iter().map(|it| (sysctl::file_of(&it.key), it.value)).collect();
    }
    if path.starts_with("/etc/tmpfiles.d/") {
        return tmpfiles::parse(path, text).into_iter().map(|it| (it.path, it.value)).collect();
    }
    if path.starts_with("/etc/tuned/") {
        let sections = tuned::parse(path, text).unwrap_or_default();
        let of_sysctl = sections.into_iter().filter(|(name, _)| name == "sysctl").flat_map(|(_, section)| section);
        return of_sysctl.map(|it| (sysctl::file_of(&sysctl::dotted(&it.key)), it.value)).collect();
    }
    Vec::new()
}

/// Which pages a number is about.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Of {
    /// The default size of the next boot.
    Default,
    /// Of whatever size stands on the kernel's line before what the plan adds.
    Unnamed,
    Size(PageSize),
}

/// Pages that the next boot is told to reserve. Where several say it, the largest number counts: which of them has the last word
/// is the host's other files' to decide.
#[derive(Default)]
struct Pools {
    pages: BTreeMap<(Of, Option<u32>), u64>,
    default: Option<PageSize>,
}

impl Pools {
    fn add(&mut self, of: Of, node: Option<u32>, pages: u64) {
        let most = self.pages.entry((of, node)).or_default();
        *most = pages.max(*most);
    }

    fn setting(&mut self, path: &str, value: &str) {
        let size =
            |name: &str| name.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok().and_then(PageSize::from_kib);
        match path.split('/').collect::<Vec<_>>().as_slice() {
            ["", "proc", "sys", "vm", "nr_hugepages"] => {
                self.add(Of::Default, None, sysctl_count(value).unwrap_or_default());
            }
            ["", "sys", "kernel", "mm", "hugepages", name, "nr_hugepages"] => {
                let of = size(name).map_or(Of::Unnamed, Of::Size);
                self.add(of, None, sysfs_count(value).unwrap_or_default());
            }
            ["", "sys", "devices", "system", "node", node, "hugepages", name, "nr_hugepages"] => {
                let of = size(name).map_or(Of::Unnamed, Of::Size);
                let node = node.strip_prefix("node").and_then(|node| node.parse().ok());
                self.add(of, node, sysfs_count(value).unwrap_or_default());
            }
            _ => {}
        }
    }

    /// Words of the kernel's line. What the kernel makes of a number that it cannot hold is no number to rely on.
    fn words<'a>(&mut self, words: impl Iterator<Item = &'a str>) {
        let number = |text: &str| text.parse().unwrap_or(u64::MAX);
        let mut of = Of::Unnamed;
        for (name, value) in words.filter_map(|word| word.split_once('=')) {
            match name {
                "hugepagesz" => of = cmdline::parse_size(value).map_or(Of::Unnamed, Of::Size),
                "default_hugepagesz" => {
                    self.default = cmdline::parse_size(value).max(self.default);
                    of = Of::Default;
                }
                "hugepages" => {
                    for part in value.split(',') {
                        match part.split_once(':') {
                            Some((node, pages)) => self.add(of, node.parse().ok(), number(pages)),
                            None => self.add(of, None, number(part)),
                        }
                    }
                }
                _ => {}
            }
        }
    }

    fn bytes(&self, system: &dyn System) -> Result<Bytes, Failure> {
        let now = amount(system, "Hugepagesize:")?.and_then(|bytes| PageSize::new(bytes.get()));
        let default = self.default.or(now).unwrap_or(PageSize::MIB_2);
        let names = system.list("/sys/kernel/mm/hugepages")?.unwrap_or_default();
        let kib = names.iter().filter_map(|name| name.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok());
        let largest = kib.filter_map(PageSize::from_kib).max().unwrap_or(default).max(default);
        // By size: of the whole host, and of all nodes together.
        let mut sizes: BTreeMap<PageSize, (u64, BTreeMap<u32, u64>)> = BTreeMap::new();
        for ((of, node), pages) in &self.pages {
            let size = match of {
                Of::Default => default,
                Of::Unnamed => largest,
                Of::Size(size) => *size,
            };
            let (whole, nodes) = sizes.entry(size).or_default();
            let most = node.map_or(whole, |node| nodes.entry(node).or_default());
            *most = (*most).max(*pages);
        }
        let of_size = |(size, (whole, nodes)): (&PageSize, &(u64, BTreeMap<u32, u64>))| {
            let all = nodes.values().copied().fold(0, u64::saturating_add).max(*whole);
            PageCount(all).of(*size).get()
        };
        Ok(Bytes(sizes.iter().map(of_size).fold(0, u64::saturating_add)))
    }
}
