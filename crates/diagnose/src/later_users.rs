//! Programs that take pages while they run, or hand them to others: what is free of a pool is no
//! surplus where one of them runs.

use hugewise_model::{Host, Process};

/// Programs that promise the free pages of a node to what will be started on it: Kubernetes to pods
/// (`hugepages-2Mi`), and in these distributions as a part of one program; OpenStack to machines.
const MANAGERS: [&str; 7] =
    ["kubelet", "kubelite", "k3s-server", "k3s-agent", "k3s", "hyperkube", "nova-compute"];

/// How the memory of DPDK and SPDK is named on hugetlbfs: both take pages as they need them.
const MAPS_OF_DPDK: [&str; 2] = ["rtemap_", "spdk_pid"];

/// Who may take the free pages of this host later, in words. Root's programs alone: others would
/// keep a pool by a name.
pub(crate) fn find_later_user(host: &Host) -> Option<String> {
    let processes = host.processes.as_known()?;
    let mut of_root = processes.iter().filter(|process| process.uid == 0);
    of_root.find_map(|process| match () {
        () if MANAGERS.contains(&process.name.as_str()) => {
            Some(format!("{} may hand them out to what is started here later", process.name))
        }
        () if maps_dpdk_memory(process) => {
            Some(format!("{} takes pages as it needs them (DPDK)", process.name))
        }
        () => None,
    })
}

fn maps_dpdk_memory(process: &Process) -> bool {
    let mut mappings = process.mappings.as_known().into_iter().flatten();
    mappings.any(|mapping| {
        let file = mapping.name.rsplit('/').next().unwrap_or_default();
        MAPS_OF_DPDK.iter().any(|begin| file.contains(begin))
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use hugewise_model::{Level, Process, Remedy};

    use crate::testing::{Case, quiet};

    fn add_process(case: &mut Case, name: &str, uid: u32) {
        let process = Process { pid: 90_000, name: name.into(), uid, ..Process::default() };
        let mut all = case.host.processes.as_known().cloned().unwrap_or_default();
        all.push(Arc::new(process));
        case.host.processes = hugewise_model::Observed::Known(all);
    }

    /// Level of HW202, whether it gives pages back, and whether the boot's loss is told.
    fn judge_unused_pool(name: &str, uid: u32) -> (Option<Level>, bool, bool) {
        let mut case = quiet();
        case.pool(4096, 4096);
        case.host.configuration.sysctl = hugewise_model::Observed::Known(Vec::new());
        add_process(&mut case, name, uid);
        let findings = case.assess().findings;
        let find = |code| findings.iter().find(|finding| finding.code.as_str() == code);
        let gives = findings
            .iter()
            .flat_map(|finding| &finding.remedies)
            .any(|remedy| matches!(remedy, Remedy::GiveBack(_)));
        (find("HW202").map(|finding| finding.level), gives, find("HW601").is_some())
    }

    /// kubelet reports a node's free pages as allocatable (Kubernetes, Manage HugePages).
    #[test]
    fn pages_that_pods_may_get_are_kept_and_missed_after_the_boot() {
        assert_eq!(judge_unused_pool("kubelet", 0), (Some(Level::Info), false, true));
        assert_eq!(judge_unused_pool("kubelet", 1000), (Some(Level::Warn), true, false));
        assert_eq!(judge_unused_pool("sshd", 0), (Some(Level::Warn), true, false));
    }
}
