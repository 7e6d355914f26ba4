//! Reads a host.
//!
//! The machine is read through one door, [`Source`]: the live `/`, a folder that looks like
//! one, or a tar of such a folder. Behind it stands one file a kernel interface or
//! configuration file, each a pure parser from bytes to a type. [`read`] puts them together.

pub mod caged;
pub mod capture;
pub mod compressed;
pub mod config;
pub mod confined;
pub mod directory;
pub mod door;
mod hidden;
pub mod host_namespaces;
pub mod kernel;
pub mod process;
pub mod source;
pub mod sys;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod testing;
pub mod tlb;
pub mod trust;

pub use door::{Door, ParseError};
use hugewise_model::{Host, Observed, PageCount, Reason, Unread};
pub use source::Source;

/// Reads a whole host. What is there and could not be read is in [`Host::unread`].
pub fn read(source: &dyn Source) -> Host {
    read_after(source, None)
}

/// The same for who reads one host again and again: processes that have not run since the reading before are not
/// read whole again, see [`process::Earlier`].
pub fn read_after(source: &dyn Source, earlier: Option<process::Earlier<'_>>) -> Host {
    let mut door = Door::new(source);
    let machine = source.machine();
    let mut host = Host {
        live: machine.live,
        base_page: machine.base_page,
        read_at: machine.read_at,
        read_as: machine.read_as,
        architecture: machine.architecture,
        namespaces: process::namespaces(source, "self"),
        hidden: machine.hidden,
        confined: confined::read(source, machine.live, &machine.own_root),
        ..Host::default()
    };
    host.processors.tlb = machine.tlb;
    let files = earlier.and_then(|earlier| earlier.files);
    let mounts = kernel::read_after(&mut door, &mut host, files.map(|files| &files.processors));
    if host.live {
        host.hidden = hidden::by_mount(source, &mounts);
    }
    config::read(&mut door, &mut host, files);
    let facts = process::Facts {
        base_page: host.base_page.get(),
        default_huge_page: host.default_huge_page.get(),
        hugetlbfs: host.hugetlbfs_mounts.known().map_or(&[], Vec::as_slice),
        smallest_huge_page: host.pools.known().and_then(|pools| pools.iter().map(|pool| pool.page_size).min()),
        one_size: host.one_huge_page_size,
        has_reserved: host.pools.known().into_iter().flatten().any(|pool| pool.reserved.get() != Some(PageCount::ZERO)),
    };
    let found = process::read(&mut door, facts, earlier);
    (host.processes, host.others) = (found.processes, found.others);
    if host.live && host.processes.is_absent() {
        // Every kernel shows at least who reads.
        host.processes = Observed::Malformed("/proc shows no process".to_owned());
    } else if host.live {
        let sees_itself = !matches!(host.namespaces.mount, Observed::Malformed(_));
        host.hidden = host.hidden.or_else(|| hidden::by_sight(sees_itself, found.sees_first));
    }
    host.hidden = host.hidden.or_else(|| hidden::by_number(found.unseen));
    let processes = || host.processes.known().into_iter().flatten().map(AsRef::as_ref);
    host.hugetlb_cgroups = kernel::cgroup_hugetlb::read(&mut door, &mounts, processes());
    host.configuration.units = config::read_units(&mut door, processes(), files);
    host.unread = door.unread;
    host.unread.extend(host.hidden.iter().map(|why| Unread::new("/proc", Reason::untold(why.clone()))));
    host.unread.extend(source.problems());
    host.torn = source.torn();
    host.unread.sort();
    host.unread.dedup();
    host
}
