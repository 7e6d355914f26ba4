//! Pages that a plan asks for, now and at the next boot: whatever it is run on has to have the memory for them before
//! anything is written.

use std::collections::BTreeMap;

use hugewise_advice::words::parse_size;
use hugewise_change::plan::{Change, CommandChange, Content, Plan};

/// Pages of pools, by page size in kB.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Pools {
    /// Of the default size, which is that of the host that it is run on.
    default: u64,
    sized: BTreeMap<u64, u64>,
}

impl Pools {
    /// The largest that anything of the plan asks for.
    pub(super) fn of(plan: &Plan) -> Self {
        let mut pools = Self::default();
        let mut values = Writes::default();
        for (_, change) in plan.changes() {
            match change {
                Change::Value(change) => values.add(&change.path, &change.after),
                Change::File(change) => {
                    if let Some(Content::Text(text)) = change.after.as_ref().map(|after| &after.content) {
                        pools.join(&in_file(text));
                    }
                }
                Change::Command(CommandChange { command, .. }) => {
                    let words = command.iter().filter_map(|word| word.strip_prefix("--args="));
                    words.for_each(|words| pools.join(&on_command_line(words)));
                }
            }
        }
        pools.join(&values.pools());
        pools
    }

    fn join(&mut self, other: &Self) {
        self.default = self.default.max(other.default);
        for (size, pages) in &other.sized {
            let most = self.sized.entry(*size).or_default();
            *most = (*most).max(*pages);
        }
    }

    /// What the tools' `fits` takes: memory that has to stay, pages of the default size, then size and pages of the others.
    /// No number is so large that a shell could not add it up.
    pub(super) fn arguments(&self, plan: &Plan) -> Vec<String> {
        let budget = &plan.budget;
        let rest = budget.needs_bytes.saturating_add(budget.floor_bytes);
        // No more than the host of the plan has: a plan that gives pages back starves nobody, however little is left.
        let left = budget.total_bytes.map(|total| total.saturating_sub(budget.pools_bytes));
        let rest = left.map_or(rest, |left| rest.min(left));
        let mut arguments = vec![(rest >> 10).to_string(), self.default.min(1 << 32).to_string()];
        for (size, pages) in self.sized.iter().filter(|(size, _)| **size > 0) {
            arguments.extend([size.to_string(), (*pages).min((1 << 52) / size).to_string()]);
        }
        arguments
    }
}

/// Pools that are set by their files.
#[derive(Default)]
struct Writes {
    default: u64,
    whole: BTreeMap<u64, u64>,
    nodes: BTreeMap<u64, u64>,
}

impl Writes {
    fn add(&mut self, path: &str, value: &str) {
        let Some(pages) = number(value) else { return };
        if path == "/proc/sys/vm/nr_hugepages" {
            self.default = self.default.max(pages);
        }
        let Some((folder, size)) =
            path.strip_suffix("kB/nr_hugepages").and_then(|path| path.rsplit_once("/hugepages-"))
        else {
            return;
        };
        let Some(size) = number(size) else { return };
        if folder.starts_with("/sys/devices/system/node/") {
            let all = self.nodes.entry(size).or_default();
            *all = all.saturating_add(pages);
        } else {
            let all = self.whole.entry(size).or_default();
            *all = (*all).max(pages);
        }
    }

    fn pools(self) -> Pools {
        let mut pools = Pools { default: self.default, sized: self.whole };
        pools.join(&Pools { default: 0, sized: self.nodes });
        pools
    }
}

/// Lines of sysctl.d, tmpfiles.d and of GRUB's defaults: what the other files have are no pools.
fn in_file(text: &str) -> Pools {
    let mut writes = Writes::default();
    let mut pools = Pools::default();
    for line in text.lines().map(str::trim).filter(|line| !line.starts_with('#')) {
        match line.split_once('=').map(|(key, value)| (key.trim(), value.trim())) {
            Some(("vm.nr_hugepages", pages)) => writes.add("/proc/sys/vm/nr_hugepages", pages),
            Some((key, words)) if key.starts_with("GRUB_CMDLINE_LINUX") => {
                pools.join(&on_command_line(words.trim_matches(['"', '\''])));
            }
            _ => {}
        }
        if let ["w" | "w!" | "w+", path, .., pages] = line.split_whitespace().collect::<Vec<_>>().as_slice() {
            writes.add(path, pages);
        }
    }
    pools.join(&writes.pools());
    pools
}

/// `default_hugepagesz=1G hugepages=4 hugepagesz=2M hugepages=0:100,1:50`: the kernel's words.
fn on_command_line(words: &str) -> Pools {
    let mut pools = Pools::default();
    let mut size = None;
    for (key, value) in words.split_whitespace().filter_map(|word| word.split_once('=')) {
        match key {
            "hugepagesz" | "default_hugepagesz" => size = parse_size(value).map(|page| page.bytes().get() >> 10),
            "hugepages" => {
                let counts = value.split(',').map(|part| part.rsplit_once(':').map_or(part, |(_, pages)| pages));
                let pages = counts.filter_map(number).fold(0, u64::saturating_add);
                match size {
                    Some(size) => pools.join(&Pools { default: 0, sized: BTreeMap::from([(size, pages)]) }),
                    None => pools.default = pools.default.max(pages),
                }
            }
            _ => {}
        }
    }
    pools
}

/// One that does not fit is as large as any.
fn number(text: &str) -> Option<u64> {
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
            ValueChange::pool(PoolRef { page_size: PageSize::MIB_2, node: None }, 10).into(),
            ValueChange::pool(pool(Some(0)), 2).into(),
            ValueChange::pool(pool(Some(1)), 3).into(),
            FileChange::write("/etc/sysctl.d/x.conf", "# vm.nr_hugepages = 9\nvm.nr_hugepages = 600\n").into(),
            FileChange::write(
                "/etc/tmpfiles.d/x.conf",
                "w /sys/kernel/mm/hugepages/hugepages-64kB/nr_hugepages - - - - 7\n",
            )
            .into(),
            FileChange::write(
                "/etc/default/grub.d/x.cfg",
                "GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX hugepagesz=2M hugepages=0:100,1:50 hugepagesz=1G hugepages=4\"\n",
            )
            .into(),
        ]);
        let pools = Pools::of(&plan);
        assert_eq!(pools, Pools { default: 600, sized: BTreeMap::from([(64, 7), (2048, 150), (1 << 20, 5)]) });
        assert_eq!(pools.arguments(&plan), ["0", "600", "64", "7", "2048", "150", "1048576", "5"]);
    }

    #[test]
    fn words_of_a_command_and_of_the_default_size() {
        let of = |words: &str| on_command_line(words);
        assert_eq!(of("quiet hugepages=5").default, 5);
        assert_eq!(of("default_hugepagesz=1G hugepages=5").sized, BTreeMap::from([(1 << 20, 5)]));
        let grubby = ["/usr/sbin/grubby", "--update-kernel=ALL", "--args=hugepages=99999999999999999999"];
        let plan = plan(vec![CommandChange::new(grubby, "why").into()]);
        assert_eq!(Pools::of(&plan).arguments(&plan), ["0".to_owned(), (1_u64 << 32).to_string()]);
    }

    #[test]
    fn what_has_to_stay_is_no_more_than_the_host_of_the_plan_has() {
        let mut plan = plan(Vec::new());
        (plan.budget.needs_bytes, plan.budget.floor_bytes) = (6 << 30, 2 << 30);
        assert_eq!(Pools::of(&plan).arguments(&plan)[0], (8 << 20).to_string());
        (plan.budget.total_bytes, plan.budget.pools_bytes) = (Some(16 << 30), 12 << 30);
        assert_eq!(Pools::of(&plan).arguments(&plan)[0], (4 << 20).to_string());
    }
}
