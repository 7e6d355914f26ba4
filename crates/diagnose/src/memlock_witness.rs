//! What a server that runs shows of its kernel: whether that accepts memlock for SHM_HUGETLB.

use hugewise_model::{Host, HugePageMode, HugePageUse, Instance, PageCount};

use crate::ipc_privileges::IpcPrivileges;
use crate::memlock_charges::{self, MemlockNeeded};
use crate::{boot, demand};

/// That a server asked with memlock enough, beside enough pages, and got none: then memlock does
/// not give the right. Only pages of the kernel's own command line are known to be older than it.
pub(crate) fn find_refused_memlock(host: &Host, instance: &Instance) -> Option<String> {
    let asked = matches!(instance.asked, HugePageMode::Try | HugePageMode::Raises)
        // Files that were changed since may say what it was not started with.
        && instance.next.is_absent()
        && !instance.is_stopped()
        && instance.pid != 0;
    if !asked || instance.huge_pages != HugePageUse::None {
        return None;
    }
    let needs = MemlockNeeded::without_others(memlock_charges::own_segment_bytes(host, instance));
    let (limit, enough) = IpcPrivileges::from_running_process(host, instance).memlock_for(needs);
    let needed = demand::find_demand(host, instance)?.at_most();
    let pool = host.find_pool(needed.page_size)?;
    let reserved = boot::reserved_by_command_line(host, needed.page_size)?;
    let is_unused = pool.total == pool.free && pool.committed_pages()? == PageCount::ZERO;
    let shows = enough == Some(true) && is_unused && reserved >= needed.pages;
    let pages = reserved.in_pages_of(needed.page_size);
    shows.then(|| {
        format!("it started with {limit} beside {pages} of the kernel's command line, and has none")
    })
}
