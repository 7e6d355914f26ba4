//! Counters that are known to be false, by the version that wrote them and the kernel that it read.

use hugewise_model::KernelRelease;

use super::version::Version;
use crate::Metric;

/// What is known to be false, with the reason.
///
/// sysstat's CHANGES and `read_vmstat_paging` of these versions; Linux 4.8 moved reclaim from zones to nodes, Linux 5.8
/// added `pgsteal_anon` and `pgsteal_file` beside `pgsteal_kswapd` and `pgsteal_direct`.
pub(super) fn lies(version: Version, kernel: &KernelRelease) -> Vec<(Metric, String)> {
    let mut lies = Vec::new();
    let Version(major, minor, patch, _) = version;
    let reads_nodes = version >= Version(11, 5, 2, 0)
        || matches!((major, minor), (11, 4) if patch >= 2)
        || matches!((major, minor), (11, 2) if patch >= 8);
    if !reads_nodes && kernel.at_least(4, 8) {
        for metric in [Metric::ScanKswapd, Metric::ScanDirect] {
            lies.push((metric, format!("sysstat {version} writes 0 on Linux 4.8 and later")));
        }
    }
    let both = kernel.at_least(5, 8);
    if both && version < Version(12, 7, 9, 0) {
        lies.push((Metric::Steal, format!("sysstat {version} counts each page twice on Linux 5.8 and later")));
    }
    if !both && version > Version(12, 7, 9, 0) {
        lies.push((Metric::Steal, format!("sysstat {version} writes 0 before Linux 5.8")));
    }
    lies
}

/// Whether a zero says that the kernel or the collector did not know: no running kernel has none of it.
pub(super) fn never_zero(metric: Metric, kernel: Option<&KernelRelease>) -> bool {
    match metric {
        Metric::MemTotal
        | Metric::PageTables
        | Metric::KernelStack
        | Metric::Slab
        | Metric::Anon
        | Metric::Active
        | Metric::Inactive => true,
        // MemAvailable came in 3.14, and distributions carried it back.
        Metric::MemAvailable => kernel.is_some_and(|kernel| !kernel.at_least(3, 14)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lies_of(version: Version, major: u32, minor: u32) -> Vec<Metric> {
        let kernel = KernelRelease { text: String::new(), major, minor };
        lies(version, &kernel).into_iter().map(|(metric, _)| metric).collect()
    }

    #[test]
    fn scans_by_zone_are_not_found_by_node() {
        let scans = [Metric::ScanKswapd, Metric::ScanDirect];
        for version in [Version(10, 1, 5, 0), Version(11, 2, 7, 0), Version(11, 3, 5, 0), Version(11, 4, 1, 0)] {
            assert_eq!(lies_of(version, 4, 9), scans, "{version}");
            assert_eq!(lies_of(version, 3, 10), [], "{version}");
        }
        for version in [Version(11, 2, 8, 0), Version(11, 4, 2, 0), Version(11, 5, 2, 0), Version(12, 0, 6, 0)] {
            assert_eq!(lies_of(version, 4, 9), [], "{version}");
        }
    }

    #[test]
    fn pages_stolen_are_counted_twice_where_the_kernel_tells_them_twice() {
        assert_eq!(lies_of(Version(12, 7, 8, 0), 5, 14), [Metric::Steal]);
        assert_eq!(lies_of(Version(12, 7, 8, 0), 4, 18), []);
        assert_eq!(lies_of(Version(12, 7, 9, 0), 6, 1), []);
        assert_eq!(lies_of(Version(12, 8, 0, 0), 4, 18), [Metric::Steal]);
        assert_eq!(lies_of(Version(12, 8, 0, 0), 6, 1), []);
    }
}
