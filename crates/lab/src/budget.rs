//! How much room the host has: measured, never assumed, and watched while an experiment runs.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use hugewise_host::kernel::{cgroup_hugetlb, meminfo, mounts};
use hugewise_host::process::cgroup;
use hugewise_host::source::Live;
use hugewise_host::{Door, ParseError};
use hugewise_model::{Bytes, Limit, PageSize};

use crate::cancel::Cancel;
use crate::looking::Looking;

/// What stays free at least, on however small a host.
const LEAST_FLOOR: Bytes = Bytes::from_mib(512);
/// And the part of memory that stays free: one twentieth.
const FLOOR_SHARE: u64 = 20;
/// How often memory is looked at while an experiment runs. A core can fill a gigabyte in this time, which the floor
/// on a host with several cores must hold.
const INTERVAL: Duration = Duration::from_millis(50);

/// A fact that the kernel does not tell.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotTold {
    /// `MemAvailable` or `MemTotal`.
    #[error("/proc/meminfo does not say how much memory is available")]
    Available,
    /// `PageTables`.
    #[error("no PageTables in /proc/meminfo")]
    PageTables,
    /// `VmPTE` of a process, which may be gone.
    #[error("no VmPTE in /proc/{0}/status")]
    PageTablesOf(u32),
}

/// Memory and processes that may be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Available {
    /// `MemTotal`.
    pub total: Bytes,
    /// `MemAvailable`, or less where a cgroup of this process allows less. Swap is not counted.
    pub available: Bytes,
    /// Processes that the cgroups of this process still allow; `None` where nothing limits them.
    pub processes: Option<u64>,
}

impl Available {
    /// What an experiment leaves free at least.
    pub fn floor(&self) -> Bytes {
        self.total.shared_by(FLOOR_SHARE).unwrap_or_default().max(LEAST_FLOOR)
    }

    /// What an experiment may take.
    pub fn spare(&self) -> Bytes {
        self.available.saturating_sub(self.floor())
    }
}

/// One limit of a cgroup above this process, with the file that says how much of it is used.
#[derive(Clone, Debug)]
struct Capped {
    limit: String,
    used: String,
    counts: Counts,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Counts {
    Memory,
    Processes,
}

/// Reads how much room there is, again and again.
#[derive(Debug)]
pub struct Gauge {
    source: Live,
    capped: Vec<Capped>,
}

impl Gauge {
    /// Finds out which cgroups bind this process.
    pub fn new() -> Self {
        let source = Live::new();
        let mut door = Door::new(&source);
        let mounts = mounts::read(&mut door).into_known().unwrap_or_default();
        let memberships = door.parse("/proc/self/cgroup", cgroup::parse).into_known().unwrap_or_default();
        let mut capped = Vec::new();
        for membership in &memberships {
            for (controller, counts, old, new) in [
                (
                    "memory",
                    Counts::Memory,
                    ["memory.limit_in_bytes", "memory.usage_in_bytes"],
                    ["memory.max", "memory.current"],
                ),
                ("pids", Counts::Processes, ["pids.max", "pids.current"], ["pids.max", "pids.current"]),
            ] {
                let unified = membership.controllers.is_empty();
                if !unified && !membership.controllers.iter().any(|name| name == controller) {
                    continue;
                }
                let mount = mounts.iter().find(|mount| match mount.kind.as_str() {
                    "cgroup2" => unified,
                    "cgroup" => !unified && mount.has_option(controller),
                    _ => false,
                });
                let Some(mount) = mount else { continue };
                let [limit, used] = if unified { new } else { old };
                for folder in folders(&mount.path, &membership.path) {
                    capped.push(Capped {
                        limit: format!("{folder}/{limit}"),
                        used: format!("{folder}/{used}"),
                        counts,
                    });
                }
            }
        }
        drop(door);
        Self { source, capped }
    }

    /// The room there is now.
    ///
    /// # Errors
    /// Where the kernel does not say how much memory is available.
    pub fn read(&self) -> Result<Available, NotTold> {
        let mut door = Door::new(&self.source);
        let memory = meminfo::read(&mut door).into_known().map(|all| all.memory);
        let (total, available) = memory
            .and_then(|memory| Some((memory.total.into_known()?, memory.available.into_known()?)))
            .ok_or(NotTold::Available)?;
        let mut room = Available { total, available, processes: None };
        for capped in &self.capped {
            let limit = door.parse(&capped.limit, cgroup_hugetlb::parse).into_known();
            let Some(Limit::At(limit)) = limit else { continue };
            let used = door.parse(&capped.used, cgroup_hugetlb::parse).into_known();
            let Some(Limit::At(used)) = used else { continue };
            let left = limit.saturating_sub(used);
            match capped.counts {
                Counts::Memory => room.available = room.available.min(left),
                Counts::Processes => {
                    room.processes = Some(room.processes.map_or(left.get(), |other| other.min(left.get())));
                }
            }
        }
        Ok(room)
    }

    /// Of the kernel's counters in /proc/vmstat; 0 where it has no such counter.
    pub fn counter(&self, name: &str) -> u64 {
        let mut door = Door::new(&self.source);
        let all = door.parse("/proc/vmstat", hugewise_host::kernel::vmstat::parse).into_known().unwrap_or_default();
        all.get(name).unwrap_or(0)
    }

    /// `MemFree` of /proc/meminfo: what may be had without taking a page cache from anybody.
    pub fn free(&self) -> Option<Bytes> {
        let mut door = Door::new(&self.source);
        meminfo::read(&mut door).into_known().and_then(|all| all.memory.free.into_known())
    }

    /// Memory in free blocks of at least one page of `page`, all zones together; `None` where the kernel keeps no
    /// lists of blocks so large, or does not tell.
    pub(crate) fn free_in_blocks(&self, page: PageSize, base: PageSize) -> Option<Bytes> {
        let order = usize::try_from(page.bytes().get().checked_div(base.bytes().get())?.checked_ilog2()?).ok()?;
        let mut door = Door::new(&self.source);
        let zones = door.parse("/proc/buddyinfo", hugewise_host::kernel::buddyinfo::parse).into_known()?;
        let largest = zones.iter().map(|zone| zone.blocks.len()).max()?;
        let blocks = |zone: &hugewise_model::host::ZoneFreeBlocks| -> Bytes {
            let orders = (0..).zip(&zone.blocks).skip(order);
            orders.map(|(order, count): (u32, _)| base.bytes().times(count.saturating_mul(1 << order.min(63)))).sum()
        };
        (order < largest).then(|| zones.iter().map(blocks).sum())
    }

    /// `PageTables` of /proc/meminfo.
    ///
    /// # Errors
    /// Where the kernel does not tell.
    pub fn page_tables(&self) -> Result<Bytes, NotTold> {
        let mut door = Door::new(&self.source);
        let memory = meminfo::read(&mut door).into_known().map(|all| all.memory);
        memory.and_then(|memory| memory.page_tables.into_known()).ok_or(NotTold::PageTables)
    }

    /// `VmPTE` of a process.
    ///
    /// # Errors
    /// Where it is gone, or the kernel does not tell.
    pub(crate) fn process_page_tables(&self, pid: u32) -> Result<Bytes, NotTold> {
        let path = format!("/proc/{pid}/status");
        let mut door = Door::new(&self.source);
        let status = door.parse(&path, hugewise_host::process::status::parse).into_known();
        status.and_then(|status| status.page_tables.into_known()).ok_or(NotTold::PageTablesOf(pid))
    }

    /// A small file of one number.
    pub fn number(&self, path: &str) -> Option<u64> {
        let parse = |bytes: &[u8]| {
            let text = String::from_utf8_lossy(bytes);
            text.trim().parse::<u64>().map_err(|_| ParseError::whole("no number"))
        };
        Door::new(&self.source).parse(path, parse).into_known()
    }
}

impl Default for Gauge {
    fn default() -> Self {
        Self::new()
    }
}

/// A cgroup's folder and those above it, below the mount.
fn folders(mount: &str, path: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut path = path.trim_end_matches('/');
    loop {
        found.push(format!("{mount}{path}"));
        match path.rfind('/') {
            Some(at) => path = path.get(..at).unwrap_or_default(),
            None => return found,
        }
    }
}

/// Looks at memory while an experiment runs, and ends it when less than half of the floor is left: whatever was
/// forgotten in its budget, or taken by others meanwhile, the host shall not begin to swap for it.
#[derive(Debug)]
pub struct Watch {
    lowest: Arc<Mutex<Option<Bytes>>>,
    _looking: Looking,
}

impl Watch {
    /// Begins to look. What is available below half of `floor` stops `cancel`.
    ///
    /// # Errors
    /// Where no thread can be had.
    pub fn start(floor: Bytes, cancel: &Cancel) -> std::io::Result<Self> {
        let lowest = Arc::new(Mutex::new(None));
        let limit = floor.shared_by(2).unwrap_or_default();
        let (cancel, seen, gauge) = (cancel.clone(), Arc::clone(&lowest), Gauge::new());
        let looking = Looking::start("memory watch", INTERVAL, move || match gauge.read() {
            Ok(room) => {
                if let Ok(mut lowest) = seen.lock() {
                    *lowest = Some(lowest.map_or(room.available, |before: Bytes| before.min(room.available)));
                }
                if room.available < limit {
                    cancel.stop(format!("only {} of memory is left, less than {limit}", room.available));
                }
            }
            Err(error) => cancel.stop(error.to_string()),
        })?;
        Ok(Self { lowest, _looking: looking })
    }

    /// The least memory that was available since the start.
    pub fn lowest(&self) -> Option<Bytes> {
        self.lowest.lock().ok().and_then(|lowest| *lowest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_floor_is_a_twentieth_and_never_tiny() {
        let room = |total, available| Available {
            total: Bytes::from_gib(total),
            available: Bytes::from_gib(available),
            processes: None,
        };
        assert_eq!(room(100, 50).floor(), Bytes::from_gib(5));
        assert_eq!(room(100, 50).spare(), Bytes::from_gib(45));
        assert_eq!(room(2, 1).floor(), Bytes::from_mib(512));
        assert_eq!(room(100, 4).spare(), Bytes::ZERO);
    }

    #[test]
    fn a_cgroup_is_bound_by_those_above_it() {
        assert_eq!(folders("/sys/fs/cgroup", "/a/b"), ["/sys/fs/cgroup/a/b", "/sys/fs/cgroup/a", "/sys/fs/cgroup"]);
        assert_eq!(folders("/m", "/"), ["/m"]);
    }

    #[test]
    fn this_host_has_some_room() {
        let gauge = Gauge::new();
        let room = gauge.read().unwrap();
        assert!(room.available > Bytes::ZERO && room.available <= room.total, "{room:?}");
        assert!(gauge.page_tables().unwrap() > Bytes::ZERO);
        assert!(gauge.process_page_tables(std::process::id()).unwrap() > Bytes::ZERO);
        assert!(gauge.process_page_tables(u32::MAX).is_err());
        assert!(gauge.counter("pgfault") > 0);
        let base = crate::variant::base_page();
        let (free, blocks) = (gauge.free().unwrap(), gauge.free_in_blocks(base, base).unwrap());
        // The rest is in the processors' own lists.
        assert!(blocks > Bytes::ZERO && blocks <= free + Bytes::from_gib(1), "{blocks} of {free}");
        assert_eq!(gauge.free_in_blocks(PageSize::new(1 << 50).unwrap(), base), None);
    }

    #[test]
    fn a_watch_stops_what_takes_too_much() {
        let cancel = Cancel::never();
        let watch = Watch::start(Bytes(u64::MAX), &cancel).unwrap();
        let stopped = cancel.sleep(Duration::from_secs(20)).unwrap_err();
        assert!(stopped.0.contains("of memory is left"), "{stopped}");
        assert!(watch.lowest().is_some());
    }
}
