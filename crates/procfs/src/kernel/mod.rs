//! Kernel interfaces, one file each: a pure parser, and reading apart from it.

pub mod buddyinfo;
pub mod cgroup_cpu;
pub mod cgroup_hugetlb;
pub mod cgroup_memory;
pub mod cmdline;
pub mod cpuinfo;
pub mod hugepages;
pub mod log;
pub mod meminfo;
pub mod mounts;
pub mod nodes;
pub mod number;
pub mod online;
pub mod release;
pub mod settings;
pub mod stat;
pub mod swaps;
pub mod sysvipc_shm;
pub mod tcp;
mod text;
pub mod thp;
pub mod vmstat;
pub mod zoneinfo;

use hugewise_model::host::ThpSize;
use hugewise_model::{Host, Observed, PageSize};

use hugewise_source::{ConfigCache, FactReader};

/// What changes by an administrator's hand at most, or is long to read: the log, THP sizes,
/// processors.
#[derive(Debug, Default)]
pub struct KernelFactCache {
    log: ConfigCache<(), Observed<Vec<String>>>,
    thp_sizes: ConfigCache<&'static str, Vec<ThpSize>>,
    processors: ConfigCache<(), (Observed<u64>, Observed<cpuinfo::Cpuinfo>)>,
}

/// Reads what the kernel's files tell of the host as a whole, and returns the mounts. Architecture
/// and base page are inferred only where [`Machine`](hugewise_source::Machine) did not know them.
pub fn read(door: &mut FactReader<'_>, host: &mut Host) -> Observed<Vec<mounts::Mount>> {
    read_after(door, host, &KernelFactCache::default())
}

/// The same for repeated readings: takes from `facts` what is less than a minute old.
pub fn read_after(
    door: &mut FactReader<'_>,
    host: &mut Host,
    facts: &KernelFactCache,
) -> Observed<Vec<mounts::Mount>> {
    // Only a capture has the output of commands.
    let kept =
        if host.live { Observed::Absent } else { door.parse(settings::SYSCTL, settings::parse) };
    host.kernel = settings::read_setting(door, &kept, "kernel.osrelease", release::parse)
        .or_else_absent(|| door.parse(release::VERSION, release::parse));
    host.command_line = door.parse(cmdline::PATH, cmdline::parse);
    host.kernel_settings = settings::read(door, &kept);
    host.kernel_log = facts.log.read(door, (), log::read);

    let meminfo = meminfo::read(door);
    read_memory(door, host, &meminfo);
    let nodes = nodes::read_node_ids(door);
    host.nodes = nodes::read(door, &nodes);
    host.default_huge_page = meminfo.as_ref().and_then(|all| all.default_huge_page.clone());
    host.pools =
        hugepages::read(door, &nodes, &meminfo, &host.kernel_settings.nr_overcommit_hugepages);
    host.one_huge_page_size = hugepages::is_one_size(door, &host.kernel);
    let mounts = mounts::read(door);
    host.hugetlbfs_mounts = mounts
        .as_ref()
        .parse(|mounts| mounts::find_hugetlbfs_mounts(mounts, &host.default_huge_page));
    if mounts.is_known() {
        door.note_unknown("mounts", &host.hugetlbfs_mounts);
    }
    host.sysv_segments = door.parse(sysvipc_shm::PATH, sysvipc_shm::parse);
    host.thp = thp::read(door, &facts.thp_sizes);
    read_processors(door, host, facts);

    if host.architecture.is_absent() {
        host.architecture = infer_architecture(host).into();
    }
    if host.base_page.is_absent() {
        host.base_page = base_page(host).into();
    }
    mounts
}

fn read_memory(door: &mut FactReader<'_>, host: &mut Host, meminfo: &Observed<meminfo::Meminfo>) {
    match meminfo {
        Observed::Known(all) => host.memory = all.memory.clone(),
        // Why the file is not known is why none of its fields is.
        unread => meminfo::set_unknown(&mut host.memory, unread),
    }
    host.memory.vmstat = door.parse(vmstat::PATH, vmstat::parse);
    host.memory.free_blocks = door.parse(buddyinfo::PATH, buddyinfo::parse);
    host.memory.watermarks = door.parse(zoneinfo::PATH, zoneinfo::parse);
    host.memory.swaps = door.parse(swaps::PATH, swaps::parse);
}

fn read_processors(door: &mut FactReader<'_>, host: &mut Host, facts: &KernelFactCache) {
    let (online, cpuinfo) = facts.processors.read(door, (), |door| {
        (door.parse(online::PATH, online::parse), door.parse(cpuinfo::PATH, cpuinfo::parse))
    });
    let cpuinfo = cpuinfo.as_ref();
    host.processors.online =
        online.or_else_absent(|| cpuinfo.clone().and_then(|all| all.processors.clone()));
    host.processors.vendor = cpuinfo.clone().and_then(|all| all.vendor.clone());
    host.processors.model = cpuinfo.clone().and_then(|all| all.model.clone());
    host.processors.gib_pages = cpuinfo.and_then(|all| all.gib_pages.clone());
}

/// Without `uname -m`: distributions end the release with it, only x86 has `flags`, and only arm64
/// has pages of 32 or 512 MiB (arch/arm64/mm/hugetlbpage.c).
fn infer_architecture(host: &Host) -> Option<String> {
    const NAMED: [&str; 4] = ["x86_64", "aarch64", "ppc64le", "s390x"];
    let release = host.kernel.as_known().map_or("", |kernel| kernel.text.as_str());
    let named = NAMED.into_iter().find(|name| release.ends_with(&format!(".{name}")));
    let x86 = host.processors.gib_pages.is_known().then_some("x86_64");
    let arm64 = || arm64_base_page(host).map(|_| "aarch64");
    named.or(x86).or_else(arm64).map(str::to_owned)
}

/// x86-64 has one size; on arm64 a page of 8-byte entries maps `page / 8` pages, which makes the
/// THP size page²/8.
fn base_page(host: &Host) -> Option<PageSize> {
    match host.architecture.as_known()?.as_str() {
        "x86_64" => Some(PageSize::KIB_4),
        "aarch64" => match host.thp.pmd_size.get() {
            Some(pmd) => [4_u64, 16, 64]
                .into_iter()
                .filter_map(PageSize::from_kib)
                .find(|page| page.bytes().saturating_mul(page.bytes().get() / 8) == pmd.bytes()),
            None => arm64_base_page(host),
        },
        _ => None,
    }
}

/// The base page by the sizes of pools that no other one has.
fn arm64_base_page(host: &Host) -> Option<PageSize> {
    let pools = host.pools.as_known()?;
    let has = |mib: u64| {
        let size = mib.checked_mul(1024).and_then(PageSize::from_kib);
        pools.iter().any(|pool| Some(pool.page_size) == size)
    };
    let has_64_kib = || pools.iter().any(|pool| Some(pool.page_size) == PageSize::from_kib(64));
    let kib = match (has(512), has(32)) {
        (true, _) => 64,
        (false, true) if has_64_kib() => 4,
        (false, true) => 16,
        (false, false) => return None,
    };
    PageSize::from_kib(kib)
}

#[cfg(test)]
mod tests;
