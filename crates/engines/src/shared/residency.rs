//! On which pages shared memory is where there are no maps, as in a sosreport.
//!
//! /proc/PID/status tells what a process has touched: `HugetlbPages` its huge pages, `RssShmem` the
//! base pages of shared memory. A segment is wholly on pages of one size.

use crate::each_known;
use hugewise_model::host::SysvSegment;
use hugewise_model::instance::{Segment, SegmentKind};
use hugewise_model::{Bytes, Host, Observed, PageSize, Process};

pub(crate) fn on_huge_pages(host: &Host, pids: &[u32], sizes: &[Bytes]) -> Vec<Observed<bool>> {
    let bytes_of = |fact: fn(&Process) -> &Observed<Bytes>| {
        let processes = pids.iter().filter_map(|pid| host.find_process(*pid));
        processes.filter_map(|process| fact(process).get()).max()
    };
    let (Some(page), Some(huge)) =
        (host.default_huge_page.get(), bytes_of(|process| &process.hugetlb))
    else {
        return sizes.iter().map(|_| Observed::Absent).collect();
    };
    let all_known = pids
        .iter()
        .filter_map(|pid| host.find_process(*pid))
        .all(|process| process.hugetlb.is_known());
    let some_on_base =
        bytes_of(|process| &process.rss_shmem).is_some_and(|touched| touched > Bytes::ZERO);
    let in_pages = |size: Bytes| page.pages_for(size).to_bytes(page);
    let total: Bytes = sizes.iter().map(|size| in_pages(*size)).sum();
    let decide = |size: &Bytes| {
        if huge > total.saturating_sub(in_pages(*size)) {
            // The others together cannot hold all the huge pages that one process has touched.
            Observed::Known(true)
        } else if huge == Bytes::ZERO && all_known && some_on_base {
            Observed::Known(false)
        } else {
            Observed::Absent
        }
    };
    sizes.iter().map(decide).collect()
}

/// An instance's System V segments, without maps: its user's, where another instance of his runs
/// only those that `pids` made.
pub(crate) fn sysv_segments(host: &Host, pids: &[u32], uid: u32, alone: bool) -> Vec<Segment> {
    let all = each_known(&host.sysv_segments);
    let own = all.filter(|segment| segment.uid == uid && segment.attached > 0);
    let own = own.filter(|segment| alone || pids.contains(&segment.creator));
    let mut own: Vec<_> = own.collect();
    own.sort_by_key(|segment| (std::cmp::Reverse(segment.size), segment.id));
    let sizes: Vec<Bytes> = own.iter().map(|segment| segment.size).collect();
    let huge = on_huge_pages(host, pids, &sizes);
    let on_base = touched_on_base(host, pids);
    let describe = |(segment, touched): (&&SysvSegment, Observed<bool>)| {
        let resident = segment.rss.get().filter(|resident| *resident > Bytes::ZERO);
        let whole = resident
            .zip(host.default_huge_page.get())
            .map(|(resident, page)| page.pages_for(resident).to_bytes(page));
        let huge = match (resident, on_base) {
            // No huge page is resident by parts.
            (Some(_), _) if whole != resident => Observed::Known(false),
            // More of it is resident than all the processes have touched of base pages together.
            (Some(resident), Some(on_base)) if on_base < resident => {
                touched.or_else_absent(|| Observed::Known(true))
            }
            _ => touched,
        };
        Segment {
            kind: SegmentKind::SystemV,
            name: format!("shmid {}", segment.id),
            size: segment.size,
            page_size: page_size(host, &huge),
            huge,
            mappers: segment.attached,
            identity: (0, segment.id),
        }
    };
    own.iter().zip(huge).map(describe).collect()
}

/// Base pages of shared memory that all processes have touched; none where one does not tell.
fn touched_on_base(host: &Host, pids: &[u32]) -> Option<Bytes> {
    pids.iter()
        .filter_map(|pid| host.find_process(*pid))
        .map(|process| process.rss_shmem.get())
        .sum()
}

/// The host's default huge page, which these servers use unless told otherwise, or the base page.
pub(crate) fn page_size(host: &Host, huge: &Observed<bool>) -> Observed<PageSize> {
    huge.as_ref().and_then(|huge| {
        if *huge { host.default_huge_page.clone() } else { host.base_page.clone() }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    fn host(touched: &[(u64, u64)]) -> Host {
        let process = |(pid, (huge, base)): (u32, &(u64, u64))| Process {
            pid,
            hugetlb: Observed::Known(Bytes::from_mib(*huge)),
            rss_shmem: Observed::Known(Bytes::from_mib(*base)),
            ..Process::default()
        };
        Host {
            base_page: Observed::Known(PageSize::KIB_4),
            default_huge_page: Observed::Known(PageSize::MIB_2),
            processes: testing::known((1..).zip(touched).map(process)),
            ..Host::default()
        }
    }

    fn decided(touched: &[(u64, u64)], mib: &[u64]) -> Vec<Option<bool>> {
        let sizes: Vec<_> = mib.iter().map(|mib| Bytes::from_mib(*mib)).collect();
        on_huge_pages(&host(touched), &[1, 2], &sizes).iter().map(Observed::get).collect()
    }

    #[test]
    fn what_the_others_cannot_hold_is_in_this_one() {
        assert_eq!(decided(&[(8, 0), (1010, 0)], &[1000, 10]), [Some(true), Some(true)]);
        assert_eq!(decided(&[(8, 0), (500, 0)], &[1000, 10]), [Some(true), None]);
        assert_eq!(decided(&[(8, 0), (9, 0)], &[1000, 10]), [None, None]);
    }

    #[test]
    fn no_huge_page_in_any_process_means_base_pages() {
        assert_eq!(decided(&[(0, 8), (0, 900)], &[1000, 10]), [Some(false), Some(false)]);
        assert_eq!(decided(&[(0, 0), (0, 0)], &[1000]), [None]);
        let mut old = host(&[(0, 1), (0, 1)]);
        testing::processes(&mut old)
            .into_iter()
            .for_each(|process| process.hugetlb = Observed::Absent);
        assert_eq!(on_huge_pages(&old, &[1, 2], &[Bytes::from_gib(1)]), [Observed::Absent]);
    }
}
