//! Memory that can be had without swapping, on kernels that say it and on those that do not.

use crate::{Bytes, Host, PageSize};

/// So much memory, and who says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Obtainable {
    /// How much.
    pub bytes: Bytes,
    /// Who says so.
    pub by: ObtainableBy,
}

/// Who says how much memory can be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObtainableBy {
    /// The kernel: `MemAvailable`.
    Kernel,
    /// The same reckoned from what older kernels tell.
    Estimate,
    /// `MemFree`, where nothing tells what of the page cache can be had.
    Free,
}

impl Obtainable {
    /// Where it is from: `/proc/meminfo MemAvailable`.
    pub const fn source_name(self) -> &'static str {
        match self.by {
            ObtainableBy::Kernel => "/proc/meminfo MemAvailable",
            ObtainableBy::Estimate => {
                "estimated from /proc/meminfo MemFree, page cache and slabs, as Linux 3.14 and \
                 later do"
            }
            ObtainableBy::Free => "/proc/meminfo MemFree",
        }
    }
}

impl Host {
    /// Memory that can be had without swapping: `MemAvailable` (since 3.14), or before that an
    /// estimate like `si_mem_available()` as it came in
    /// (<https://github.com/torvalds/linux/commit/34e431b0ae398fc54ea69ff85ec700722c9da773>).
    /// Before 2.6.28 the cache's lists are not told apart: what is neither shared memory nor mapped
    /// counts.
    pub fn obtainable_memory(&self) -> Option<Obtainable> {
        let memory = &self.memory;
        if let Some(bytes) = memory.available.get() {
            return Some(Obtainable { bytes, by: ObtainableBy::Kernel });
        }
        let free = memory.free.get()?;
        // A kernel whose MemAvailable cannot be read is not an old one.
        let estimate =
            if memory.available.is_absent() { estimate_obtainable(self, free) } else { None };
        Some(match estimate {
            Some(bytes) => Obtainable { bytes, by: ObtainableBy::Estimate },
            None => Obtainable { bytes: free, by: ObtainableBy::Free },
        })
    }
}

fn estimate_obtainable(host: &Host, free: Bytes) -> Option<Bytes> {
    let low = low_watermarks(host)?;
    let but_for_some =
        |all: Bytes| all.saturating_sub(all.shared_by(2).unwrap_or_default().min(low));
    let slabs = host.memory.slab_reclaimable.get().unwrap_or_default();
    Some(free.saturating_sub(low) + but_for_some(file_cache(host)?) + but_for_some(slabs))
}

fn file_cache(host: &Host) -> Option<Bytes> {
    let memory = &host.memory;
    if let (Some(active), Some(inactive)) = (memory.active_file.get(), memory.inactive_file.get()) {
        return Some(active + inactive);
    }
    let cached = memory.buffers.get().unwrap_or_default() + memory.cached.get()?;
    // The cache includes shared memory; before 2.6.32, which does not say how much, all that is
    // mapped may be that.
    let no_files = memory.shmem.get().or_else(|| memory.mapped.get())?;
    Some(cached.saturating_sub(no_files))
}

/// From /proc/zoneinfo, or as the kernel derives them from vm.min_free_kbytes: a quarter more.
fn low_watermarks(host: &Host) -> Option<Bytes> {
    if let Some(zones) = host.memory.watermarks.as_known() {
        let page = host.base_page.get().unwrap_or(PageSize::KIB_4).bytes();
        return Some(zones.iter().map(|zone| page.saturating_mul(zone.low)).sum());
    }
    let least = host.kernel_settings.min_free.get()?;
    Some(least + least.shared_by(4).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Observed::{Absent, Known, Malformed};
    use crate::host::ZoneWatermarks;

    fn kib(amount: u64) -> crate::Observed<Bytes> {
        Known(Bytes::from_kib(amount))
    }

    /// SLES 11 SP1 with 125 MiB free and 4.0 GiB of cache. By hand: free 128,000 - 42,240; cache
    /// 104,448 + 4,076,544 - 20,000, less 42,240; slabs 150,000 less 42,240.
    fn sles_11() -> Host {
        let mut host = Host { base_page: Known(PageSize::KIB_4), ..Host::default() };
        host.memory.free = kib(128_000);
        host.memory.buffers = kib(104_448);
        host.memory.cached = kib(4_076_544);
        host.memory.shmem = kib(20_000);
        host.memory.slab_reclaimable = kib(150_000);
        let zone = ZoneWatermarks {
            node: 0,
            zone: "Normal".into(),
            min: 8448,
            low: 10_560,
            high: 12_672,
            managed: 0,
        };
        host.memory.watermarks = Known(vec![zone]);
        host
    }

    fn estimated(host: &Host) -> Option<u64> {
        host.obtainable_memory()
            .filter(|obtainable| obtainable.by == ObtainableBy::Estimate)
            .map(|obtainable| obtainable.bytes.get() >> 10)
    }

    #[test]
    fn old_kernels_are_reckoned_as_newer_ones_reckon() {
        let mut host = sles_11();
        assert_eq!(estimated(&host), Some(85_760 + 4_118_752 + 107_760));
        // vm.min_free_kbytes 33,792: the low watermarks are a quarter above, 42,240.
        host.memory.watermarks = Absent;
        host.kernel_settings.min_free = kib(33_792);
        assert_eq!(estimated(&host), Some(85_760 + 4_118_752 + 107_760));
        // Half of a small cache is left to the host: 60,000 - 30,000.
        (host.memory.active_file, host.memory.inactive_file) = (kib(20_000), kib(40_000));
        assert_eq!(estimated(&host), Some(85_760 + 30_000 + 107_760));
    }

    #[test]
    fn shared_memory_in_the_cache_is_not_to_be_had() {
        let mut host = sles_11();
        host.memory.shmem = Absent;
        assert_eq!(
            host.obtainable_memory().map(|obtainable| obtainable.by),
            Some(ObtainableBy::Free),
            "nothing tells what of the cache is shared"
        );
        host.memory.mapped = kib(4_000_000);
        assert_eq!(estimated(&host), Some(85_760 + (180_992 - 42_240) + 107_760));
        host.memory.mapped = kib(9_000_000);
        assert_eq!(estimated(&host), Some(85_760 + 107_760));
    }

    #[test]
    fn what_the_kernel_says_counts_before_any_estimate() {
        let mut host = sles_11();
        host.memory.available = kib(7);
        assert_eq!(
            host.obtainable_memory(),
            Some(Obtainable { bytes: Bytes::from_kib(7), by: ObtainableBy::Kernel })
        );
        host.memory.available = Malformed("x".into());
        assert_eq!(
            host.obtainable_memory().map(|obtainable| obtainable.by),
            Some(ObtainableBy::Free)
        );
        host.memory.free = Absent;
        assert_eq!(host.obtainable_memory(), None);
    }
}
