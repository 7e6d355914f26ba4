//! The quota on a process's processors, cgroup v1 and v2
//! (Documentation/scheduler/sched-bwc.rst, cgroup-v2.rst "CPU").

use hugewise_model::{Observed, Process};

use super::cgroup_hugetlb::{Hierarchy, cgroup_ancestors};
use super::mounts;
use hugewise_source::{FactReader, ParseError};

/// Whole processors that quotas of a process's cgroups come to, rounded up, where there are any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuQuota {
    /// That of its own cgroup.
    pub own: Option<u64>,
    /// The least of its own and those above.
    pub least: Option<u64>,
}

/// The quotas of a process; absent where no hierarchy has its processors.
pub fn read_quota(door: &mut FactReader<'_>, process: &Process) -> Observed<CpuQuota> {
    process.cgroups.as_ref().and_then(|memberships| {
        let Some(mounts) = mounts::read(door).into_known() else { return Observed::Absent };
        let Some(hierarchy) = Hierarchy::find_hierarchy(door, &mounts, "cpu") else {
            return Observed::Absent;
        };
        let Some(membership) = memberships.iter().find(|membership| hierarchy.is_of(membership))
        else {
            return Observed::Absent;
        };
        let mut quotas = CpuQuota::default();
        for path in cgroup_ancestors(&membership.path) {
            let Some(folder) = hierarchy.cgroup_folder(path) else { continue };
            let quota = if hierarchy.unified {
                door.parse(&format!("{folder}/cpu.max"), parse_max).into_known().flatten()
            } else {
                let mut read = |name: &str| {
                    door.parse(&format!("{folder}/cpu.cfs_{name}_us"), parse_number).into_known()
                };
                // -1: no quota.
                read("quota").zip(read("period")).and_then(|(quota, period)| {
                    round_up(u64::try_from(quota).ok()?, u64::try_from(period).ok()?)
                })
            };
            if path == membership.path {
                quotas.own = quota;
            }
            quotas.least = match (quotas.least, quota) {
                (Some(least), Some(quota)) => Some(least.min(quota)),
                (least, quota) => least.or(quota),
            };
        }
        Observed::Known(quotas)
    })
}

fn round_up(quota: u64, period: u64) -> Option<u64> {
    (quota > 0 && period > 0).then(|| quota.div_ceil(period))
}

fn parse_number(bytes: &[u8]) -> Result<i64, ParseError> {
    let text = String::from_utf8_lossy(bytes);
    text.trim().parse().map_err(|_| ParseError::whole_file("not a number"))
}

/// `100000 100000`, or `max 100000` where there is no quota.
fn parse_max(bytes: &[u8]) -> Result<Option<u64>, ParseError> {
    let text = String::from_utf8_lossy(bytes);
    let mut words = text.split_ascii_whitespace();
    let number = |word: Option<&str>| {
        let word = word.ok_or(ParseError::whole_file("not a quota and a period"))?;
        word.parse::<u64>().map_err(|_| ParseError::whole_file("not a quota and a period"))
    };
    match words.next() {
        Some("max") => Ok(None),
        quota => Ok(round_up(number(quota)?, number(words.next())?)),
    }
}

#[cfg(test)]
mod tests {
    use hugewise_model::process::CgroupMembership;

    use super::*;
    use hugewise_source::MapSource;

    fn quota(
        source: &MapSource,
        hierarchy: u32,
        controllers: &[&str],
        path: &str,
    ) -> (Option<u64>, Option<u64>) {
        let controllers = controllers.iter().map(ToString::to_string).collect();
        let membership = CgroupMembership { hierarchy, controllers, path: path.to_owned() };
        let process =
            Process { pid: 1, cgroups: Observed::Known([membership].into()), ..Process::default() };
        let quota = read_quota(&mut FactReader::new(source), &process).into_known().unwrap();
        (quota.own, quota.least)
    }

    #[test]
    fn the_least_quota_counts_in_both_versions() {
        let one = MapSource::new()
            .with_file(
                "/proc/self/mountinfo",
                "30 1 0:5 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n",
            )
            .with_file("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n")
            .with_file("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n")
            .with_file("/sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "150000\n")
            .with_file("/sys/fs/cgroup/cpu/a/cpu.cfs_period_us", "100000\n");
        assert_eq!(quota(&one, 4, &["cpu"], "/a"), (Some(2), Some(2)));
        assert_eq!(quota(&one, 4, &["cpu"], "/"), (None, None));

        let two = MapSource::new()
            .with_file(
                "/proc/self/mountinfo",
                "30 1 0:5 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
            )
            .with_file("/sys/fs/cgroup/cgroup.controllers", "cpu memory\n")
            .with_file("/sys/fs/cgroup/a.slice/cpu.max", "50000 100000\n")
            .with_file("/sys/fs/cgroup/a.slice/b.service/cpu.max", "max 100000\n");
        assert_eq!(quota(&two, 0, &[], "/a.slice/b.service"), (None, Some(1)));
        assert_eq!(quota(&two, 0, &[], "/c.slice"), (None, None));
    }
}
