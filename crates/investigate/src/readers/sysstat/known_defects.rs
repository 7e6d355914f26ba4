//! Counters known to be false, by the version that wrote them and the kernel.

use hugewise_model::KernelRelease;

use super::version::SysstatVersion;
use crate::Metric;

/// Metrics known to be false, with the reason.
///
/// Sources: sysstat's CHANGES and `read_vmstat_paging` of these versions. Linux 4.8 moved reclaim
/// from zones to nodes; Linux 5.8 added `pgsteal_anon` and `pgsteal_file` beside `pgsteal_kswapd`
/// and `pgsteal_direct`.
pub(super) fn untrusted_metrics(
    version: SysstatVersion,
    kernel: &KernelRelease,
) -> Vec<(Metric, String)> {
    let mut lies = Vec::new();
    let SysstatVersion(major, minor, patch, _) = version;
    let reads_nodes = version >= SysstatVersion(11, 5, 2, 0)
        || matches!((major, minor), (11, 4) if patch >= 2)
        || matches!((major, minor), (11, 2) if patch >= 8);
    if !reads_nodes && kernel.at_least(4, 8) {
        for metric in [Metric::ScanKswapd, Metric::ScanDirect] {
            lies.push((metric, format!("sysstat {version} writes 0 on Linux 4.8 and later")));
        }
    }
    let both = kernel.at_least(5, 8);
    if both && version < SysstatVersion(12, 7, 9, 0) {
        lies.push((
            Metric::Steal,
            format!("sysstat {version} counts each page twice on Linux 5.8 and later"),
        ));
    }
    if !both && version > SysstatVersion(12, 7, 9, 0) {
        lies.push((Metric::Steal, format!("sysstat {version} writes 0 before Linux 5.8")));
    }
    lies
}

/// Whether a zero means that the kernel or the collector lacked it: no running kernel has none.
pub(super) fn never_zero(metric: Metric, kernel: Option<&KernelRelease>) -> bool {
    match metric {
        Metric::MemTotal
        | Metric::PageTables
        | Metric::KernelStack
        | Metric::Slab
        | Metric::Anon
        | Metric::Active
        | Metric::Inactive => true,
        // MemAvailable came in 3.14, and distributions backported it.
        Metric::MemAvailable => kernel.is_some_and(|kernel| !kernel.at_least(3, 14)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lies_of(version: SysstatVersion, major: u32, minor: u32) -> Vec<Metric> {
        let kernel = KernelRelease { text: String::new(), major, minor };
        untrusted_metrics(version, &kernel).into_iter().map(|(metric, _)| metric).collect()
    }

    #[test]
    fn scans_by_zone_are_not_found_by_node() {
        let scans = [Metric::ScanKswapd, Metric::ScanDirect];
        for version in [
            SysstatVersion(10, 1, 5, 0),
            SysstatVersion(11, 2, 7, 0),
            SysstatVersion(11, 3, 5, 0),
            SysstatVersion(11, 4, 1, 0),
        ] {
            assert_eq!(lies_of(version, 4, 9), scans, "{version}");
            assert_eq!(lies_of(version, 3, 10), [], "{version}");
        }
        for version in [
            SysstatVersion(11, 2, 8, 0),
            SysstatVersion(11, 4, 2, 0),
            SysstatVersion(11, 5, 2, 0),
            SysstatVersion(12, 0, 6, 0),
        ] {
            assert_eq!(lies_of(version, 4, 9), [], "{version}");
        }
    }

    #[test]
    fn pages_stolen_are_counted_twice_where_the_kernel_tells_them_twice() {
        assert_eq!(lies_of(SysstatVersion(12, 7, 8, 0), 5, 14), [Metric::Steal]);
        assert_eq!(lies_of(SysstatVersion(12, 7, 8, 0), 4, 18), []);
        assert_eq!(lies_of(SysstatVersion(12, 7, 9, 0), 6, 1), []);
        assert_eq!(lies_of(SysstatVersion(12, 8, 0, 0), 4, 18), [Metric::Steal]);
        assert_eq!(lies_of(SysstatVersion(12, 8, 0, 0), 6, 1), []);
    }
}
