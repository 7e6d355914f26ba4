//! The pages that a plan asks for, now and at the next boot: the host needs memory for them first.

use std::collections::BTreeMap;

use hugewise_change::plan::{Change, CommandChange, FileContent, Plan};
use hugewise_diagnose::wording::parse_size;

/// By page size in kB.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PlannedPools {
    /// Of the host's default size.
    default: u64,
    sized: BTreeMap<u64, u64>,
}

impl PlannedPools {
    /// The largest pools that any change asks for.
    pub(super) fn from_plan(plan: &Plan) -> Self {
        let mut pools = Self::default();
        let mut values = Writes::default();
        for (_, change) in plan.changes() {
            match change {
                Change::Value(change) => values.add(&change.path, &change.after),
                Change::File(change) => {
                    if let Some(FileContent::Text(text)) =
                        change.after.as_ref().map(|after| &after.content)
                    {
                        pools.merge_largest(&in_file(text));
                    }
                }
                Change::Command(CommandChange { command, .. }) => {
                    let words = command.iter().filter_map(|word| word.strip_prefix("--args="));
                    words.for_each(|words| pools.merge_largest(&on_command_line(words)));
                }
            }
        }
        pools.merge_largest(&values.into_pools());
        pools
    }

    fn merge_largest(&mut self, other: &Self) {
        self.default = self.default.max(other.default);
        for (size, pages) in &other.sized {
            let most = self.sized.entry(*size).or_default();
            *most = (*most).max(*pages);
        }
    }

    /// Arguments of the tools' `fits`: memory in kB to leave, pages of the default size, then size
    /// and pages of the others. Numbers are capped so that a shell can add them up.
    pub(super) fn fits_arguments(&self, plan: &Plan) -> Vec<String> {
        let budget = &plan.budget;
        let rest = budget.needs_bytes.saturating_add(budget.floor_bytes);
        // Not above what the plan's host has left: a plan that gives pages back starves nobody.
        let left = budget.total_bytes.map(|total| total.saturating_sub(budget.pools_bytes));
        let rest = left.map_or(rest, |left| rest.min(left));
        let mut arguments = vec![(rest >> 10).to_string(), self.default.min(1 << 32).to_string()];
        for (size, pages) in self.sized.iter().filter(|(size, _)| **size > 0) {
            arguments.extend([size.to_string(), (*pages).min((1 << 52) / size).to_string()]);
        }
        arguments
    }
}

#[derive(Default)]
struct Writes {
    default: u64,
    whole: BTreeMap<u64, u64>,
    nodes: BTreeMap<u64, u64>,
}

impl Writes {
    fn add(&mut self, path: &str, value: &str) {
        let Some(pages) = parse_saturating(value) else { return };
        if path == "/proc/sys/vm/nr_hugepages" {
            self.default = self.default.max(pages);
        }
        let Some((folder, size)) =
            path.strip_suffix("kB/nr_hugepages").and_then(|path| path.rsplit_once("/hugepages-"))
        else {
            return;
        };
        let Some(size) = parse_saturating(size) else { return };
        if folder.starts_with("/sys/devices/system/node/") {
            let all = self.nodes.entry(size).or_default();
            *all = all.saturating_add(pages);
        } else {
            let all = self.whole.entry(size).or_default();
            *all = (*all).max(pages);
        }
    }

    fn into_pools(self) -> PlannedPools {
        let mut pools = PlannedPools { default: self.default, sized: self.whole };
        pools.merge_largest(&PlannedPools { default: 0, sized: self.nodes });
        pools
    }
}

/// Lines of sysctl.d, tmpfiles.d and GRUB's defaults; other files set no pools.
fn in_file(text: &str) -> PlannedPools {
    let mut writes = Writes::default();
    let mut pools = PlannedPools::default();
    for line in text.lines().map(str::trim).filter(|line| !line.starts_with('#')) {
        match line.split_once('=').map(|(key, value)| (key.trim(), value.trim())) {
            Some(("vm.nr_hugepages", pages)) => writes.add("/proc/sys/vm/nr_hugepages", pages),
            Some((key, words)) if key.starts_with("GRUB_CMDLINE_LINUX") => {
                pools.merge_largest(&on_command_line(words.trim_matches(['"', '\''])));
            }
            _ => {}
        }
        if let ["w" | "w!" | "w+", path, .., pages] =
            line.split_whitespace().collect::<Vec<_>>().as_slice()
        {
            writes.add(path, pages);
        }
    }
    pools.merge_largest(&writes.into_pools());
    pools
}

/// `default_hugepagesz=1G hugepages=4 hugepagesz=2M hugepages=0:100,1:50`.
fn on_command_line(words: &str) -> PlannedPools {
    let mut pools = PlannedPools::default();
    let mut size = None;
    for (key, value) in words.split_whitespace().filter_map(|word| word.split_once('=')) {
        match key {
            "hugepagesz" | "default_hugepagesz" => {
                size = parse_size(value).map(|page| page.bytes().get() >> 10)
            }
            "hugepages" => {
                let counts = value
                    .split(',')
                    .map(|part| part.rsplit_once(':').map_or(part, |(_, pages)| pages));
                let pages = counts.filter_map(parse_saturating).fold(0, u64::saturating_add);
                match size {
                    Some(size) => pools.merge_largest(&PlannedPools {
                        default: 0,
                        sized: BTreeMap::from([(size, pages)]),
                    }),
                    None => pools.default = pools.default.max(pages),
                }
            }
            _ => {}
        }
    }
    pools
}

fn parse_saturating(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use hugewise_change::plan::{FileChange, HostIdentity, PoolRef, ValueChange};
    use hugewise_change::{Risk, Step};
    use hugewise_model::PageSize;

    use super::*;

    fn plan(changes: Vec<Change>) -> Plan {
        let mut plan = Plan::new(HostIdentity::default(), "now");
        plan.steps = vec![Step::new("pools", "pools", Risk::Safe, "why")];
        plan.steps[0].changes = changes;
        plan
    }

    #[test]
    fn the_largest_of_what_is_set_now_and_at_boot() {
        let pool = |node| PoolRef { page_size: PageSize::GIB_1, node };
        let plan = plan(vec![
            ValueChange::for_pool(PoolRef { page_size: PageSize::MIB_2, node: None }, 10).into(),
            ValueChange::for_pool(pool(Some(0)), 2).into(),
            ValueChange::for_pool(pool(Some(1)), 3).into(),
            FileChange::write(
                "/etc/sysctl.d/x.conf",
                "# vm.nr_hugepages = 9\nvm.nr_hugepages = \
                 600\n",
            )
            .into(),
            FileChange::write(
                "/etc/tmpfiles.d/x.conf",
                "w /sys/kernel/mm/hugepages/hugepages-64kB/nr_hugepages - - - - 7\n",
            )
            .into(),
            FileChange::write(
                "/etc/default/grub.d/x.cfg",
                "GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX hugepagesz=2M hugepages=0:100,1:50 \
                     hugepagesz=1G hugepages=4\"\n",
            )
            .into(),
        ]);
        let pools = PlannedPools::from_plan(&plan);
        assert_eq!(
            pools,
            PlannedPools {
                default: 600,
                sized: BTreeMap::from([(64, 7), (2048, 150), (1 << 20, 5)])
            }
        );
        assert_eq!(
            pools.fits_arguments(&plan),
            ["0", "600", "64", "7", "2048", "150", "1048576", "5"]
        );
    }

    #[test]
    fn words_of_a_command_and_of_the_default_size() {
        let planned_pools_of = |words: &str| on_command_line(words);
        assert_eq!(planned_pools_of("quiet hugepages=5").default, 5);
        assert_eq!(
            planned_pools_of("default_hugepagesz=1G hugepages=5").sized,
            BTreeMap::from([(1 << 20, 5)])
        );
        let grubby =
            ["/usr/sbin/grubby", "--update-kernel=ALL", "--args=hugepages=99999999999999999999"];
        let plan = plan(vec![CommandChange::new(grubby, "why").into()]);
        assert_eq!(
            PlannedPools::from_plan(&plan).fits_arguments(&plan),
            ["0".to_owned(), (1_u64 << 32).to_string()]
        );
    }

    #[test]
    fn what_has_to_stay_is_no_more_than_the_host_of_the_plan_has() {
        let mut plan = plan(Vec::new());
        (plan.budget.needs_bytes, plan.budget.floor_bytes) = (6 << 30, 2 << 30);
        assert_eq!(PlannedPools::from_plan(&plan).fits_arguments(&plan)[0], (8 << 20).to_string());
        (plan.budget.total_bytes, plan.budget.pools_bytes) = (Some(16 << 30), 12 << 30);
        assert_eq!(PlannedPools::from_plan(&plan).fits_arguments(&plan)[0], (4 << 20).to_string());
    }
}
