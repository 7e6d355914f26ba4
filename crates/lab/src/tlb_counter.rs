//! The processor's counters of TLB misses, through perf_event_open(2).

#![allow(unsafe_code, reason = "the C library has no function for perf_event_open")]

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd};

use crate::system_call::check_result;

/// `struct perf_event_attr` of linux/perf_event.h in its first size (`PERF_ATTR_SIZE_VER0`).
#[repr(C)]
#[derive(Default)]
struct PerfEventAttributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint_type: u32,
    breakpoint_address: u64,
}

/// `PERF_TYPE_HW_CACHE`.
const CACHE: u32 = 3;
/// `PERF_COUNT_HW_CACHE_DTLB`, read accesses, misses.
const DATA_TLB_READ_MISSES: u64 = 3 | 1 << 16;
/// The flags `disabled`, `exclude_kernel` and `exclude_hv`.
const DISABLED_USER_ONLY: u64 = 1 | 1 << 5 | 1 << 6;
/// `PERF_FLAG_FD_CLOEXEC`.
const CLOSE_ON_EXEC: libc::c_ulong = 8;
/// `PERF_EVENT_IOC_ENABLE`, `PERF_EVENT_IOC_DISABLE`, `PERF_EVENT_IOC_RESET`.
const ENABLE: libc::c_ulong = 0x2400;
const DISABLE: libc::c_ulong = 0x2401;
const RESET: libc::c_ulong = 0x2403;

#[derive(Debug, thiserror::Error)]
pub(crate) enum NoCounter {
    #[error("this machine has no counter for them")]
    Machine,
    #[error("kernel.perf_event_paranoid keeps this user away")]
    Denied,
    #[error("this kernel has no perf events")]
    Kernel,
    #[error(transparent)]
    Other(#[from] io::Error),
}

#[derive(Debug)]
pub(crate) struct TlbMisses(File);

impl TlbMisses {
    /// Opens the counter. Errors: virtual machines often have no counters, and
    /// `kernel.perf_event_paranoid` may deny them.
    pub(crate) fn open() -> Result<Self, NoCounter> {
        let attributes = PerfEventAttributes {
            kind: CACHE,
            size: u32::try_from(size_of::<PerfEventAttributes>()).unwrap_or(0),
            config: DATA_TLB_READ_MISSES,
            flags: DISABLED_USER_ONLY,
            ..PerfEventAttributes::default()
        };
        // SAFETY: the structure is a whole perf_event_attr of the size that it names; 0 is this
        // thread, -1 any processor and no group.
        let descriptor = unsafe {
            libc::syscall(
                libc::SYS_perf_event_open,
                &raw const attributes,
                0,
                -1,
                -1,
                CLOSE_ON_EXEC,
            )
        };
        match i32::try_from(descriptor) {
            // SAFETY: the kernel has just opened it for us, and nobody else owns it.
            Ok(descriptor) if descriptor >= 0 => Ok(Self(unsafe { File::from_raw_fd(descriptor) })),
            _ => {
                let error = io::Error::last_os_error();
                Err(match error.raw_os_error() {
                    Some(libc::ENOENT | libc::EOPNOTSUPP | libc::ENODEV) => NoCounter::Machine,
                    Some(libc::EACCES | libc::EPERM) => NoCounter::Denied,
                    Some(libc::ENOSYS) => NoCounter::Kernel,
                    _ => error.into(),
                })
            }
        }
    }

    pub(crate) fn count_during(&mut self, work: impl FnOnce()) -> io::Result<u64> {
        self.control_counter(RESET)?;
        self.control_counter(ENABLE)?;
        work();
        self.control_counter(DISABLE)?;
        let mut count = [0; 8];
        self.0.read_exact(&mut count)?;
        Ok(u64::from_ne_bytes(count))
    }

    fn control_counter(&self, request: libc::c_ulong) -> io::Result<()> {
        // SAFETY: these requests take no pointer.
        check_result(unsafe { libc::ioctl(self.0.as_raw_fd(), request, 0) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_counts_or_says_why_not() {
        match TlbMisses::open() {
            // 64 MiB are more than any TLB's base pages reach; but one of huge pages may hold them.
            Ok(mut misses) => {
                let memory = vec![1_u8; 64 << 20];
                let mut sum = 0_u64;
                misses
                    .count_during(|| {
                        sum = memory.iter().step_by(4096).map(|byte| u64::from(*byte)).sum()
                    })
                    .unwrap();
                assert_eq!(sum, 16384);
            }
            Err(reason) => assert!(!reason.to_string().is_empty()),
        }
    }
}
