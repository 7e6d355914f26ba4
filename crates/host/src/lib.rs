//! Reads a host: puts together what the crates below tell of it.

pub mod capture;
pub mod container;
mod hidepid;
pub mod host_namespaces;

pub use hugewise_config::{self as config, directory, sandbox};
use hugewise_model::{Host, Observed, PageCount, Reason, Unread};
pub use hugewise_procfs::{kernel, process};
pub use hugewise_source::{
    self as source, FactReader, ParseError, Source, compressed, sys, tlb, trust,
};

use config::HostConfigCache;
use process::PreviousProcesses;

/// Reads a whole host. What is there and could not be read is in [`Host::unread`].
pub fn read(source: &dyn Source) -> Host {
    read_after(source, None)
}

/// What readings of one machine again and again take from those before.
#[derive(Clone, Copy, Debug)]
pub struct PreviousReading<'a> {
    /// Processes that have not run since are not read again.
    pub processes: PreviousProcesses<'a>,
    /// What configuration files said within the last minute.
    pub files: &'a HostConfigCache,
    /// What rarely changes of the kernel's own files, likewise.
    pub kernel: &'a kernel::KernelFactCache,
}

/// The same for who reads one host again and again.
pub fn read_after(source: &dyn Source, before: Option<PreviousReading<'_>>) -> Host {
    let mut door = FactReader::new(source);
    let machine = source.machine_facts();
    let mut host = Host {
        live: machine.live,
        base_page: machine.base_page,
        read_at: machine.read_at,
        read_as: machine.read_as,
        architecture: machine.architecture,
        namespaces: process::read_namespaces(source, "self"),
        hidden: machine.hidden,
        confined: container::read(source, machine.live, &machine.own_root),
        ..Host::default()
    };
    host.processors.tlb = machine.tlb;
    let files = before.map(|before| before.files);
    let mounts = match before {
        Some(before) => kernel::read_after(&mut door, &mut host, before.kernel),
        None => kernel::read(&mut door, &mut host),
    };
    if host.live {
        host.hidden = hidepid::by_mount(source, &mounts);
    }
    config::read(&mut door, &mut host, files);
    let pools = || host.pools.as_known().into_iter().flatten();
    let facts = process::PageSizeFacts {
        base_page: host.base_page.get(),
        default_huge_page: host.default_huge_page.get(),
        hugetlbfs: host.hugetlbfs_mounts.as_known().map_or(&[], Vec::as_slice),
        smallest_huge_page: pools().map(|pool| pool.page_size).min(),
        is_captured: !host.live,
        one_size: host.one_huge_page_size,
        has_reserved: pools().any(|pool| pool.reserved.get() != Some(PageCount::ZERO)),
    };
    let found = process::read(&mut door, facts, before.map(|before| before.processes));
    (host.processes, host.others) = (found.processes, found.others);
    if host.live && host.processes.is_absent() {
        // Every kernel shows at least who reads.
        host.processes = Observed::Malformed("/proc shows no process".to_owned());
    } else if host.live {
        let sees_itself = !matches!(host.namespaces.mount, Observed::Malformed(_));
        host.hidden = host.hidden.or_else(|| hidepid::by_sight(sees_itself, found.sees_first));
    }
    host.hidden = host.hidden.or_else(|| hidepid::by_number(found.unseen));
    let processes = || host.processes.as_known().into_iter().flatten().map(AsRef::as_ref);
    host.hugetlb_cgroups = kernel::cgroup_hugetlb::read(&mut door, &mounts, processes());
    host.memory_cgroups =
        kernel::cgroup_memory::read_accounted_limits(&mut door, &mounts, processes());
    host.configuration.units = config::read_units(&mut door, processes(), files);
    host.unread = door.unread;
    host.unread
        .extend(host.hidden.iter().map(|why| Unread::new("/proc", Reason::from_text(why.clone()))));
    host.unread.extend(source.list_problems());
    host.torn = source.truncated_at();
    host.unread.sort();
    host.unread.dedup();
    host
}
