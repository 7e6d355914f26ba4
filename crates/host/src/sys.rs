//! System calls and instructions that no safe interface offers. The only `unsafe` of this crate.
#![allow(unsafe_code)]

use std::os::fd::BorrowedFd;

use rustix::io::Result;
use rustix::ioctl::{Updater, ioctl, opcode};

/// `struct procmap_query` of include/uapi/linux/fs.h, Linux 6.11.
#[repr(C)]
#[derive(Default)]
struct ProcmapQuery {
    size: u64,
    query_flags: u64,
    query_addr: u64,
    vma_start: u64,
    vma_end: u64,
    vma_flags: u64,
    vma_page_size: u64,
    vma_offset: u64,
    inode: u64,
    dev_major: u32,
    dev_minor: u32,
    vma_name_size: u32,
    build_id_size: u32,
    vma_name_addr: u64,
    build_id_addr: u64,
}

/// PROCFS_IOCTL_MAGIC and the number of PROCMAP_QUERY.
const PROCMAP_QUERY: rustix::ioctl::Opcode = opcode::read_write::<ProcmapQuery>(b'f', 17);

/// Page size in bytes of the mapping that covers `address`, asked of an open /proc/PID/maps.
///
/// # Errors
/// `NOTTY` on kernels before 6.11, `NOENT` where nothing is mapped, `SRCH` when the process is gone.
pub(crate) fn mapping_page_size(maps: BorrowedFd<'_>, address: u64) -> Result<u64> {
    let size = u64::try_from(size_of::<ProcmapQuery>()).unwrap_or(0);
    let mut query = ProcmapQuery { size, query_addr: address, ..ProcmapQuery::default() };
    // SAFETY: the opcode bears the size of this very structure, which has the layout of the kernel's; name and build
    // id sizes are zero, so the kernel writes nothing but the structure itself. Other files answer NOTTY.
    unsafe { ioctl(maps, Updater::<PROCMAP_QUERY, _>::new(&mut query)) }?;
    Ok(query.vma_page_size)
}

/// EAX, EBX, ECX, EDX of one CPUID leaf; `None` above the highest leaf, and on other architectures.
pub fn cpuid(leaf: u32, subleaf: u32) -> Option<[u32; 4]> {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{__cpuid_count, __get_cpuid_max};
        let (highest, _) = __get_cpuid_max(leaf & 0x8000_0000);
        (leaf <= highest).then(|| {
            let answer = __cpuid_count(leaf, subleaf);
            [answer.eax, answer.ebx, answer.ecx, answer.edx]
        })
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = (leaf, subleaf);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_query_has_the_kernels_size() {
        assert_eq!(size_of::<ProcmapQuery>(), 104);
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn leaves_above_the_highest_are_none() {
        let [highest, ..] = cpuid(0, 0).unwrap();
        assert!(cpuid(highest, 0).is_some());
        assert_eq!(cpuid(highest + 1, 0), None);
        assert_eq!(cpuid(0x8fff_ffff, 0), None);
    }
}
