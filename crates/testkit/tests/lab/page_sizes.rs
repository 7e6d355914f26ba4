//! The page size of a mapping, asked of the kernel, on a page of a pool that this test provides.

#![allow(unsafe_code, reason = "the page is mapped by hand")]

use hugewise_host::kernel::{meminfo, release};
use hugewise_host::process::smaps;
use hugewise_host::source::{LiveSource, ProcessSource as _};
use hugewise_host::{FactReader, Source};
use hugewise_lab::guard::PoolGuard;
use hugewise_model::{Observed, PageCount};
use hugewise_testkit::{Skip, require};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

#[test]
fn a_real_huge_page_is_told_from_a_base_page() {
    let live = LiveSource::new();
    let meminfo = meminfo::read(&mut FactReader::new(&live)).into_known().unwrap();
    let huge = meminfo.default_huge_page.get().unwrap();
    let pools = require!(PoolGuard::take_for_test());
    require!(pools.provide_pages(huge, PageCount(1)));
    let length = usize::try_from(huge.bytes().get()).unwrap();
    let flags = MapFlags::PRIVATE | MapFlags::HUGETLB;
    // SAFETY: a new anonymous mapping at an address of the kernel's choice, unmapped below and
    // never touched.
    let mapped = unsafe { mmap_anonymous(std::ptr::null_mut(), length, ProtFlags::READ, flags) };
    let address =
        require!(mapped.map_err(|error| Skip(format!("another process took the page: {error}"))));
    let start = address.addr() as u64;
    let by_query = live.mapping_page_size(std::process::id(), start);
    let smaps = live.read("/proc/self/smaps").into_known().unwrap();
    let by_smaps = smaps::page_size_at(&smaps, start).unwrap();
    // SAFETY: the mapping made above, of which nothing is borrowed.
    unsafe { munmap(address, length) }.unwrap();
    assert_eq!(by_smaps, Some(huge));
    // Distributions carry the call back to older kernels; since 6.11 every kernel has it.
    let kernel = release::parse(rustix::system::uname().release().to_bytes()).unwrap();
    let older = !kernel.at_least(6, 11);
    assert!(
        by_query == Observed::Known(huge) || older && by_query == Observed::Absent,
        "{by_query:?}"
    );
}
