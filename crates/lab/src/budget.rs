//! How much room the host has: measured, and watched while an experiment runs.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use hugewise_host::FactReader;
use hugewise_host::kernel::{buddyinfo, cgroup_hugetlb, meminfo, mounts, number, vmstat};
use hugewise_host::process::{cgroup, status};
use hugewise_host::source::LiveSource;
use hugewise_model::host::{HostMemory, ZoneFreeBlocks};
use hugewise_model::{Bytes, Limit, PageSize};

use crate::cancel::Cancel;
use crate::periodic_task::PeriodicTask;

/// Even on a small host.
const LEAST_FLOOR: Bytes = Bytes::from_mib(512);
const FLOOR_SHARE: u64 = 20;
/// Between two looks at memory. A core can fill a gigabyte meanwhile, which a large host's floor
/// has to hold.
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

/// Memory and processes that are available.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AvailableResources {
    /// `MemTotal`.
    pub total: Bytes,
    /// `MemAvailable`, or less where a cgroup allows less; without swap.
    pub available: Bytes,
    /// Processes that the cgroups still allow; `None` without a limit.
    pub processes: Option<u64>,
}

impl AvailableResources {
    pub(crate) fn memory_floor(&self) -> Bytes {
        self.total.shared_by(FLOOR_SHARE).unwrap_or_default().max(LEAST_FLOOR)
    }

    pub(crate) fn spare_memory(&self) -> Bytes {
        self.available.saturating_sub(self.memory_floor())
    }
}

#[derive(Clone, Debug)]
struct Capped {
    limit: String,
    used: String,
    counts: CappedResource,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CappedResource {
    Memory,
    Processes,
}

/// Measures the room, repeatedly.
#[derive(Debug)]
pub struct ResourceGauge {
    source: LiveSource,
    capped: Vec<Capped>,
}

impl ResourceGauge {
    /// Finds the cgroups that limit this process.
    pub fn new() -> Self {
        let source = LiveSource::new();
        let mut door = FactReader::new(&source);
        let mounts = mounts::read(&mut door).into_known().unwrap_or_default();
        let memberships =
            door.parse("/proc/self/cgroup", cgroup::parse).into_known().unwrap_or_default();
        let mut capped = Vec::new();
        for membership in &memberships {
            for (controller, counts, old, new) in [
                (
                    "memory",
                    CappedResource::Memory,
                    ["memory.limit_in_bytes", "memory.usage_in_bytes"],
                    ["memory.max", "memory.current"],
                ),
                (
                    "pids",
                    CappedResource::Processes,
                    ["pids.max", "pids.current"],
                    ["pids.max", "pids.current"],
                ),
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
                for folder in cgroup_folders(&mount.path, &membership.path) {
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

    /// The room there is now. Errors: the kernel does not say how much memory is available.
    pub fn read(&self) -> Result<AvailableResources, NotTold> {
        let memory = self.read_meminfo().ok_or(NotTold::Available)?;
        let (Some(total), Some(available)) = (memory.total.get(), memory.available.get()) else {
            return Err(NotTold::Available);
        };
        let mut door = FactReader::new(&self.source);
        let mut room = AvailableResources { total, available, processes: None };
        for capped in &self.capped {
            let limit = door.parse(&capped.limit, cgroup_hugetlb::parse).into_known();
            let Some(Limit::At(limit)) = limit else { continue };
            let used = door.parse(&capped.used, cgroup_hugetlb::parse).into_known();
            let Some(Limit::At(used)) = used else { continue };
            let left = limit.saturating_sub(used);
            match capped.counts {
                CappedResource::Memory => room.available = room.available.min(left),
                CappedResource::Processes => {
                    room.processes =
                        Some(room.processes.map_or(left.get(), |other| other.min(left.get())));
                }
            }
        }
        Ok(room)
    }

    fn read_meminfo(&self) -> Option<HostMemory> {
        meminfo::read(&mut FactReader::new(&self.source)).into_known().map(|all| all.memory)
    }

    /// A counter of /proc/vmstat; 0 where the kernel has none.
    pub(crate) fn read_vmstat_counter(&self, name: &str) -> u64 {
        let all = FactReader::new(&self.source).parse("/proc/vmstat", vmstat::parse).into_known();
        all.and_then(|all| all.get(name)).unwrap_or(0)
    }

    pub(crate) fn read_free_memory(&self) -> Option<Bytes> {
        self.read_meminfo()?.free.get()
    }

    /// Memory in free blocks of at least one page of `page` in all zones; `None` where the kernel
    /// has no blocks so large, or does not tell.
    pub(crate) fn free_in_blocks(&self, page: PageSize, base: PageSize) -> Option<Bytes> {
        let order =
            usize::try_from(page.bytes().get().checked_div(base.bytes().get())?.checked_ilog2()?)
                .ok()?;
        let zones = FactReader::new(&self.source)
            .parse("/proc/buddyinfo", buddyinfo::parse)
            .into_known()?;
        let largest = zones.iter().map(|zone| zone.blocks.len()).max()?;
        let blocks = |zone: &ZoneFreeBlocks| -> Bytes {
            let orders = (0..).zip(&zone.blocks).skip(order);
            orders
                .map(|(order, count): (u32, _)| {
                    base.bytes().saturating_mul(count.saturating_mul(1 << order.min(63)))
                })
                .sum()
        };
        (order < largest).then(|| zones.iter().map(blocks).sum())
    }

    /// `PageTables` of /proc/meminfo. Errors: the kernel does not tell.
    pub fn page_tables(&self) -> Result<Bytes, NotTold> {
        self.read_meminfo().and_then(|memory| memory.page_tables.get()).ok_or(NotTold::PageTables)
    }

    /// `VmPTE` of a process; fails where it has ended, or the kernel does not tell.
    pub(crate) fn process_page_tables(&self, pid: u32) -> Result<Bytes, NotTold> {
        let path = format!("/proc/{pid}/status");
        let status = FactReader::new(&self.source).parse(&path, status::parse).into_known();
        status.and_then(|status| status.process.page_tables.get()).ok_or(NotTold::PageTablesOf(pid))
    }

    /// A file with one number.
    pub fn read_number(&self, path: &str) -> Option<u64> {
        FactReader::new(&self.source).parse(path, number::parse).into_known()
    }
}

impl Default for ResourceGauge {
    fn default() -> Self {
        Self::new()
    }
}

fn cgroup_folders(mount: &str, path: &str) -> Vec<String> {
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

/// Watches memory while an experiment runs, and stops it when less than half of the floor is left,
/// whatever the reason: the host must not begin to swap for it.
#[derive(Debug)]
pub struct MemoryWatch {
    lowest: Arc<Mutex<Option<Bytes>>>,
    _looking: PeriodicTask,
}

impl MemoryWatch {
    /// Begins to watch; stops `cancel` when less than half of `floor` is available.
    /// Errors: no thread can be started.
    pub fn start(floor: Bytes, cancel: &Cancel) -> std::io::Result<Self> {
        let lowest = Arc::new(Mutex::new(None));
        let limit = floor.shared_by(2).unwrap_or_default();
        let (cancel, seen, gauge) = (cancel.clone(), Arc::clone(&lowest), ResourceGauge::new());
        let looking = PeriodicTask::start("memory watch", INTERVAL, move || match gauge.read() {
            Ok(room) => {
                if let Ok(mut lowest) = seen.lock() {
                    *lowest = Some(
                        lowest.map_or(room.available, |before: Bytes| before.min(room.available)),
                    );
                }
                if room.available < limit {
                    cancel.stop(format!(
                        "only {} of memory is left, less than {limit}",
                        room.available
                    ));
                }
            }
            Err(error) => cancel.stop(error.to_string()),
        })?;
        Ok(Self { lowest, _looking: looking })
    }

    pub(crate) fn lowest_available(&self) -> Option<Bytes> {
        self.lowest.lock().ok().and_then(|lowest| *lowest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_floor_is_a_twentieth_and_never_tiny() {
        let room = |total, available| AvailableResources {
            total: Bytes::from_gib(total),
            available: Bytes::from_gib(available),
            processes: None,
        };
        assert_eq!(room(100, 50).memory_floor(), Bytes::from_gib(5));
        assert_eq!(room(100, 50).spare_memory(), Bytes::from_gib(45));
        assert_eq!(room(2, 1).memory_floor(), Bytes::from_mib(512));
        assert_eq!(room(100, 4).spare_memory(), Bytes::ZERO);
    }

    #[test]
    fn a_cgroup_is_bound_by_those_above_it() {
        assert_eq!(
            cgroup_folders("/sys/fs/cgroup", "/a/b"),
            ["/sys/fs/cgroup/a/b", "/sys/fs/cgroup/a", "/sys/fs/cgroup"]
        );
        assert_eq!(cgroup_folders("/m", "/"), ["/m"]);
    }

    #[test]
    fn this_host_has_some_room() {
        let gauge = ResourceGauge::new();
        let room = gauge.read().unwrap();
        assert!(room.available > Bytes::ZERO && room.available <= room.total, "{room:?}");
        assert!(gauge.page_tables().unwrap() > Bytes::ZERO);
        assert!(gauge.process_page_tables(std::process::id()).unwrap() > Bytes::ZERO);
        assert!(gauge.process_page_tables(u32::MAX).is_err());
        assert!(gauge.read_vmstat_counter("pgfault") > 0);
        let base = crate::variant::base_page();
        let (free, blocks) =
            (gauge.read_free_memory().unwrap(), gauge.free_in_blocks(base, base).unwrap());
        // The rest is in the processors' own lists.
        assert!(blocks > Bytes::ZERO && blocks <= free + Bytes::from_gib(1), "{blocks} of {free}");
        assert_eq!(gauge.free_in_blocks(PageSize::new(1 << 50).unwrap(), base), None);
    }

    #[test]
    fn a_watch_stops_what_takes_too_much() {
        let cancel = Cancel::never();
        let watch = MemoryWatch::start(Bytes(u64::MAX), &cancel).unwrap();
        let stopped = cancel.sleep(Duration::from_secs(20)).unwrap_err();
        assert!(stopped.0.contains("of memory is left"), "{stopped}");
        assert!(watch.lowest_available().is_some());
    }
}
