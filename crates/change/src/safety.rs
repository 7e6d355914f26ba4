//! What a plan would bring, now and at the next boot, held against this host's memory and limits.
//!
//! That a line is of a kind that hugewise writes says nothing of its number: a host whose next boot
//! gives all memory to a pool, or where shmget fails, does not come up with its servers.

use std::collections::BTreeMap;

use hugewise_diagnose::sizing::MemoryBudget;
use hugewise_host::config::kernel_value::{sysctl_count, sysfs_count};
use hugewise_host::config::{cmdline, sysctl, tmpfiles, tuned};
use hugewise_host::kernel::{meminfo, zoneinfo};
use hugewise_model::obtainable::ObtainableBy;
use hugewise_model::{Bytes, Host, PageCount, PageSize};

use crate::drift::{Need, changes_to_make};
use crate::plan::{Change, FileChange, Plan, ValueChange};
use crate::{Error, System, SystemFailure, values};

/// Limits of System V memory, which no plan lowers.
const SHM_LIMITS: [&str; 3] =
    ["/proc/sys/kernel/shmmax", "/proc/sys/kernel/shmall", "/proc/sys/kernel/shmmni"];

pub(crate) fn check_shm_limits(
    plan: &Plan,
    system: &dyn System,
    needs: &[Vec<Need>],
) -> Result<(), Error> {
    for (step, change) in changes_to_make(plan, needs) {
        let (what, settings) = match change {
            Change::Value(change) => {
                (&change.path, vec![(change.path.clone(), change.after.clone())])
            }
            Change::File(change) => {
                (&change.path, parse_boot_settings(&change.path, bytes_after(change)))
            }
            Change::Command(_) => continue,
        };
        for (path, value) in
            settings.into_iter().filter(|(path, _)| SHM_LIMITS.contains(&path.as_str()))
        {
            let now = system.read_text(&path)?.and_then(|text| sysctl_count(text.trim()));
            if let (Some(now), Some(after)) = (now, sysctl_count(&value))
                && after < now
            {
                let why = format!(
                    "{path} is {now}, and no plan lowers it: {after} would keep servers from \
                         starting"
                );
                return Err(Error::NotAllowed { step: step.id.clone(), what: what.clone(), why });
            }
        }
    }
    Ok(())
}

fn bytes_after(change: &FileChange) -> &[u8] {
    change.after.as_ref().map(|after| after.content.bytes()).unwrap_or_default()
}

pub(crate) fn check_memory_now(
    plan: &Plan,
    system: &dyn System,
    needs: &[Vec<Need>],
) -> Result<(), Error> {
    if let Some(refusal) = &plan.refusal {
        return Err(Error::Refused { reasons: refusal.reasons.clone() });
    }
    let (mut grows, mut shrinks) = (Bytes::ZERO, Bytes::ZERO);
    for (_, change) in changes_to_make(plan, needs) {
        let Change::Value(ValueChange { pool: Some(pool), path, after, .. }) = change else {
            continue;
        };
        // With surplus pages, which are taken from memory already.
        let now = values::read(system, path, None)?.and_then(|now| now.parse::<u64>().ok());
        let (now, after) = (now.unwrap_or_default(), after.parse::<u64>().unwrap_or_default());
        grows += PageCount(after.saturating_sub(now)).to_bytes(pool.page_size);
        shrinks += PageCount(now.saturating_sub(after)).to_bytes(pool.page_size);
    }
    let growth = grows.saturating_sub(shrinks);
    let Some(available) = read_available_memory(system)?.filter(|_| growth > Bytes::ZERO) else {
        return Ok(());
    };
    let floor = Bytes(plan.budget.floor_bytes);
    if growth + floor <= available {
        return Ok(());
    }
    let left = available.saturating_sub(growth);
    let reason = format!(
        "the pools would grow by {growth} now; of {available} of available memory (/proc/meminfo) \
         that would leave {left}, less than the {floor} that must stay for page cache and whatever \
         is not counted"
    );
    Err(Error::Refused { reasons: vec![reason] })
}

/// As the kernel says, or as it is reckoned of those before 3.14.
fn read_available_memory(system: &dyn System) -> Result<Option<Bytes>, SystemFailure> {
    let mut host = Host::default();
    let meminfo = system.read_text(meminfo::PATH)?.unwrap_or_default();
    if let Ok(all) = meminfo::parse(meminfo.as_bytes()) {
        host.memory = all.memory;
    }
    let zones = system.read_text(zoneinfo::PATH)?;
    host.memory.watermarks = zones.and_then(|text| zoneinfo::parse(text.as_bytes()).ok()).into();
    // What is free and no more would stop pools that page cache makes room for.
    let memory = host.obtainable_memory().filter(|memory| memory.by != ObtainableBy::Free);
    Ok(memory.map(|memory| memory.bytes))
}

pub(crate) fn check_memory_at_boot(plan: &Plan, system: &dyn System) -> Result<(), Error> {
    let mut files: BTreeMap<&str, &[u8]> = BTreeMap::new();
    let mut pools = NextBootReservations::default();
    for (_, change) in plan.changes() {
        match change {
            Change::File(change) => {
                // Of what is written several times the last one stays.
                files.insert(&change.path, bytes_after(change));
            }
            Change::Command(change) => {
                let words = change.command.iter().filter_map(|word| word.strip_prefix("--args="));
                words.for_each(|words| pools.add_kernel_words(words.split_whitespace()));
            }
            Change::Value(_) => {}
        }
    }
    for (path, text) in files {
        if path.starts_with("/etc/default/grub.d/") {
            let text = String::from_utf8_lossy(text);
            for line in text.lines().filter(|line| !line.trim_start().starts_with('#')) {
                pools.add_kernel_words(
                    line.split(|sign: char| sign.is_whitespace() || matches!(sign, '"' | '\'')),
                );
            }
        }
        for (path, value) in parse_boot_settings(path, text) {
            pools.add_setting(&path, &value);
        }
    }
    if pools.default.is_some() {
        // What asks for pages of the default size now asks for as many of another size then.
        let now = system.read_text("/proc/sys/vm/nr_hugepages")?;
        let now = now.and_then(|text| text.trim().parse().ok());
        pools.add(ReservedPageSize::Default, None, now.unwrap_or_default());
    }
    let (Some(total), false) = (read_meminfo_amount(system, "MemTotal:")?, pools.pages.is_empty())
    else {
        return Ok(());
    };
    let all = pools.total_bytes(system)?;
    let floor = Bytes(plan.budget.floor_bytes).max(MemoryBudget::floor_of(total));
    if Bytes(all.get().saturating_add(floor.get())) <= total {
        return Ok(());
    }
    let reason = format!(
        "the next boot would bring pools of {all}, and this host has {total} (/proc/meminfo), of \
         which {floor} must stay for page cache and whatever is not counted"
    );
    Err(Error::Refused { reasons: vec![reason] })
}

/// `name` is as in the file: `MemTotal:`.
pub(crate) fn read_meminfo_amount(
    system: &dyn System,
    name: &str,
) -> Result<Option<Bytes>, SystemFailure> {
    let text = system.read_text("/proc/meminfo")?.unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    Ok(line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).map(Bytes::from_kib))
}

fn parse_boot_settings(path: &str, text: &[u8]) -> Vec<(String, String)> {
    if path.starts_with("/etc/sysctl.d/") {
        let settings = sysctl::parse(path, text).into_iter();
        settings.map(|setting| (sysctl::file_of(&setting.key), setting.value)).collect()
    } else if path.starts_with("/etc/tmpfiles.d/") {
        let writes = tmpfiles::parse(path, text).into_iter();
        writes.map(|write| (write.path, write.value)).collect()
    } else if path.starts_with("/etc/tuned/") {
        let file = |key: &str| sysctl::file_of(&sysctl::to_dotted_key(key));
        let mut sections = tuned::parse(path, text).unwrap_or_default();
        let options = sections.remove("sysctl").into_iter().flatten();
        options.map(|option| (file(&option.key), option.value)).collect()
    } else {
        Vec::new()
    }
}

/// The page size in `hugepages-2048kB`.
fn parse_pool_folder(name: &str) -> Option<PageSize> {
    name.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok().and_then(PageSize::from_kib)
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum ReservedPageSize {
    /// The default size of the next boot.
    Default,
    /// Of whatever size stands on the kernel's line before what the plan adds.
    Unnamed,
    Size(PageSize),
}

/// Where several say it, the largest number counts: the host's other files decide who wins.
#[derive(Default)]
struct NextBootReservations {
    pages: BTreeMap<(ReservedPageSize, Option<u32>), u64>,
    default: Option<PageSize>,
}

impl NextBootReservations {
    fn add(&mut self, size: ReservedPageSize, node: Option<u32>, pages: u64) {
        let most = self.pages.entry((size, node)).or_default();
        *most = pages.max(*most);
    }

    fn add_setting(&mut self, path: &str, value: &str) {
        let size = |folder: &str| {
            parse_pool_folder(folder).map_or(ReservedPageSize::Unnamed, ReservedPageSize::Size)
        };
        match path.split('/').collect::<Vec<_>>().as_slice() {
            ["", "proc", "sys", "vm", "nr_hugepages"] => {
                self.add(ReservedPageSize::Default, None, sysctl_count(value).unwrap_or_default());
            }
            ["", "sys", "kernel", "mm", "hugepages", name, "nr_hugepages"] => {
                self.add(size(name), None, sysfs_count(value).unwrap_or_default());
            }
            ["", "sys", "devices", "system", "node", node, "hugepages", name, "nr_hugepages"] => {
                let node = node.strip_prefix("node").and_then(|node| node.parse().ok());
                self.add(size(name), node, sysfs_count(value).unwrap_or_default());
            }
            _ => {}
        }
    }

    /// A number that the kernel cannot hold counts as the largest.
    fn add_kernel_words<'a>(&mut self, words: impl Iterator<Item = &'a str>) {
        let number = |text: &str| text.parse().unwrap_or(u64::MAX);
        let mut size = ReservedPageSize::Unnamed;
        for (name, value) in words.filter_map(|word| word.split_once('=')) {
            match name {
                "hugepagesz" => {
                    size = cmdline::parse_size(value)
                        .map_or(ReservedPageSize::Unnamed, ReservedPageSize::Size)
                }
                "default_hugepagesz" => {
                    self.default = cmdline::parse_size(value).max(self.default);
                    size = ReservedPageSize::Default;
                }
                "hugepages" => {
                    for part in value.split(',') {
                        match part.split_once(':') {
                            Some((node, pages)) => self.add(size, node.parse().ok(), number(pages)),
                            None => self.add(size, None, number(part)),
                        }
                    }
                }
                _ => {}
            }
        }
    }

    fn total_bytes(&self, system: &dyn System) -> Result<Bytes, SystemFailure> {
        let now = read_meminfo_amount(system, "Hugepagesize:")?
            .and_then(|bytes| PageSize::new(bytes.get()));
        let default = self.default.or(now).unwrap_or(PageSize::MIB_2);
        let names = system.list_folder("/sys/kernel/mm/hugepages")?.unwrap_or_default();
        let largest = names.iter().filter_map(|name| parse_pool_folder(name)).max();
        let largest = largest.unwrap_or(default).max(default);
        // By size: of the whole host, and of all nodes together.
        let mut sizes: BTreeMap<PageSize, (u64, BTreeMap<u32, u64>)> = BTreeMap::new();
        for ((size, node), pages) in &self.pages {
            let size = match size {
                ReservedPageSize::Default => default,
                ReservedPageSize::Unnamed => largest,
                ReservedPageSize::Size(size) => *size,
            };
            let (whole, nodes) = sizes.entry(size).or_default();
            let most = node.map_or(whole, |node| nodes.entry(node).or_default());
            *most = (*most).max(*pages);
        }
        let of_size = |(size, (whole, nodes)): (&PageSize, &(u64, BTreeMap<u32, u64>))| {
            let all = nodes.values().copied().fold(0, u64::saturating_add).max(*whole);
            PageCount(all).to_bytes(*size).get()
        };
        Ok(Bytes(sizes.iter().map(of_size).fold(0, u64::saturating_add)))
    }
}
