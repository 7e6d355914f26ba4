//! What a pool of nodes needs for a manifest's pods, as each platform takes it.

use std::collections::BTreeMap;

use hugewise_model::PageSize;

use crate::report::PodReport;

hugewise_model::named_enum! {
    /// Where nodes get their settings.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum NodePlatform as_str {
        /// Red Hat OpenShift: Tuned, PerformanceProfile or MachineConfig.
        OpenShift = "openshift",
        /// Google Kubernetes Engine: the node pool's system configuration.
        Gke = "gke",
        /// Azure Kubernetes Service: a DaemonSet, as its node pools have no such setting.
        Aks = "aks",
        /// Amazon EKS with Amazon Linux: user data.
        Eks = "eks",
        /// Bottlerocket: its settings.
        Bottlerocket = "bottlerocket",
        /// Talos: its machine configuration.
        Talos = "talos",
        /// Kubespray: group variables.
        Kubespray = "kubespray",
    }
}

impl NodePlatform {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::OpenShift,
        Self::Gke,
        Self::Aks,
        Self::Eks,
        Self::Bottlerocket,
        Self::Talos,
        Self::Kubespray,
    ];
}

/// Pages of each size that one node needs if all pods that may share one do.
struct NodeDemand {
    pages: BTreeMap<PageSize, u64>,
    /// How they come about, a line each.
    reasons: Vec<String>,
}

/// The platform's own text; none where no pod needs huge pages.
pub fn render_node_pool(report: &PodReport, platform: NodePlatform) -> Option<String> {
    let demand = NodeDemand::from_report(report);
    if demand.pages.is_empty() {
        return None;
    }
    let text = match platform {
        NodePlatform::OpenShift => demand.for_openshift(),
        NodePlatform::Gke => demand.for_gke(),
        NodePlatform::Aks => demand.for_aks(),
        NodePlatform::Eks => demand.for_eks(),
        NodePlatform::Bottlerocket => demand.for_bottlerocket(),
        NodePlatform::Talos => demand.for_talos(),
        NodePlatform::Kubespray => demand.for_kubespray(),
    };
    Some(demand.comment() + &text)
}

impl NodeDemand {
    fn from_report(report: &PodReport) -> Self {
        let mut demand = Self { pages: BTreeMap::new(), reasons: Vec::new() };
        for workload in &report.workloads {
            for (page, bytes) in &workload.needed {
                let each = bytes.div_ceil(page.bytes().get());
                let all = each.saturating_mul(workload.pods_per_node);
                if all == 0 {
                    continue;
                }
                let sum = demand.pages.entry(*page).or_default();
                *sum = sum.saturating_add(all);
                demand.reasons.push(format!(
                    "{} {}: {} x {each} pages of {page}",
                    workload.kind, workload.name, workload.pods_per_node
                ));
            }
        }
        demand
    }

    fn comment(&self) -> String {
        let mut text = "# For one node, if all pods that may share one do:\n".to_owned();
        for reason in &self.reasons {
            // A name in a manifest may hold anything.
            let clean: String = reason.chars().filter(|sign| !sign.is_control()).collect();
            text += &format!("#   {clean}\n");
        }
        text
    }

    /// `hugepagesz=2M hugepages=1024`, in the order that the kernel's parser needs.
    fn boot_words(&self) -> String {
        let words = self
            .pages
            .iter()
            .map(|(page, count)| format!("hugepagesz={} hugepages={count}", page.boot_name()));
        words.collect::<Vec<_>>().join(" ")
    }

    /// Pages of 2 MiB, and whether there are others, which only the boot line brings.
    fn default_pages(&self) -> (u64, bool) {
        let count = self.pages.get(&PageSize::MIB_2).copied().unwrap_or_default();
        (count, self.pages.keys().any(|page| *page != PageSize::MIB_2))
    }

    fn for_openshift(&self) -> String {
        let words = self.boot_words();
        let mut pages = String::new();
        for (page, count) in &self.pages {
            pages += &format!("    - size: {}\n      count: {count}\n", page.boot_name());
        }
        format!(
            "# Nodes in the MachineConfigPool worker-hugepages reboot once. Label them first:\n\
             #   oc label node NODE node-role.kubernetes.io/worker-hugepages=\n\
             apiVersion: machineconfiguration.openshift.io/v1\n\
             kind: MachineConfigPool\n\
             metadata:\n  name: worker-hugepages\n  labels:\n    worker-hugepages: \"\"\n\
             spec:\n  machineConfigSelector:\n    matchExpressions:\n    \
             - {{key: machineconfiguration.openshift.io/role, operator: In, values: [worker, \
             worker-hugepages]}}\n  \
             nodeSelector:\n    matchLabels:\n      node-role.kubernetes.io/worker-hugepages: \"\"\n\
             ---\n\
             apiVersion: tuned.openshift.io/v1\n\
             kind: Tuned\n\
             metadata:\n  name: hugepages\n  namespace: openshift-cluster-node-tuning-operator\n\
             spec:\n  profile:\n  - name: openshift-node-hugepages\n    data: |\n      \
             [main]\n      summary=Huge pages at boot\n      include=openshift-node\n      \
             [bootloader]\n      cmdline_openshift_node_hugepages={words}\n  \
             recommend:\n  - machineConfigLabels:\n      worker-hugepages: \"\"\n    \
             priority: 30\n    profile: openshift-node-hugepages\n\
             # Where the pool has a PerformanceProfile, put this into that instead:\n\
             # spec:\n#   hugepages:\n#     pages:\n{}\
             # Without the Node Tuning Operator, a MachineConfig has it as\n\
             # spec.kernelArguments: [{}]\n",
            pages.lines().map(|line| format!("# {line}\n")).collect::<String>(),
            words.replace(' ', ", ")
        )
    }

    fn for_gke(&self) -> String {
        let mut text = "# gcloud container node-pools create POOL --cluster CLUSTER \\\n\
             #   --system-config-from-file FILE\n\
             linuxConfig:\n  hugepageConfig:\n"
            .to_owned();
        for (page, count) in &self.pages {
            let name = page.boot_name().to_ascii_lowercase();
            text += &format!("    hugepage_size{name}: {count}\n");
        }
        text
    }

    fn for_aks(&self) -> String {
        let (count, others) = self.default_pages();
        let note = self.boot_note(others);
        format!(
            "{note}# AKS has no such setting. This writes the pool on each node of a pool labelled\n\
             # hugepages=true, and restarts the kubelet, which reads it only when it starts.\n\
             apiVersion: apps/v1\n\
             kind: DaemonSet\n\
             metadata:\n  name: hugepages\n  namespace: kube-system\n\
             spec:\n  selector:\n    matchLabels: {{app: hugepages}}\n  template:\n    \
             metadata:\n      labels: {{app: hugepages}}\n    spec:\n      hostPID: true\n      \
             nodeSelector: {{hugepages: \"true\"}}\n      initContainers:\n      \
             - name: pool\n        image: mcr.microsoft.com/azurelinux/base/core:3.0\n        \
             securityContext: {{privileged: true}}\n        \
             command: [nsenter, -t, \"1\", -m, --, sh, -ec]\n        args:\n        - |\n          \
             echo 'vm.nr_hugepages = {count}' > /etc/sysctl.d/90-hugepages.conf\n          \
             before=$(cat /proc/sys/vm/nr_hugepages)\n          \
             sysctl -p /etc/sysctl.d/90-hugepages.conf\n          \
             [ \"$before\" = \"$(cat /proc/sys/vm/nr_hugepages)\" ] || systemctl restart kubelet\n      \
             containers:\n      - name: pause\n        image: registry.k8s.io/pause:3.10\n"
        )
    }

    fn for_eks(&self) -> String {
        let (count, others) = self.default_pages();
        let note = self.boot_note(others);
        format!(
            "{note}# User data of the launch template (Amazon Linux); it runs before the kubelet starts.\n\
             MIME-Version: 1.0\n\
             Content-Type: multipart/mixed; boundary=\"//\"\n\n\
             --//\n\
             Content-Type: text/x-shellscript; charset=\"us-ascii\"\n\n\
             #!/bin/sh\n\
             echo 'vm.nr_hugepages = {count}' > /etc/sysctl.d/90-hugepages.conf\n\
             sysctl -p /etc/sysctl.d/90-hugepages.conf\n\n\
             --//--\n"
        )
    }

    fn for_bottlerocket(&self) -> String {
        let mut text = "# A change needs a reboot. With essential, a node without its pages does \
                        not join.\n\
                        [settings.kernel.hugepages.static]\nessential = true\n"
            .to_owned();
        for (page, count) in &self.pages {
            let size = crate::quantity::format_bytes(page.bytes().get());
            text +=
                &format!("\n[settings.kernel.hugepages.static.\"{size}\"]\ncount = \"{count}\"\n");
        }
        text
    }

    fn for_talos(&self) -> String {
        let (count, others) = self.default_pages();
        let mut text = "machine:\n".to_owned();
        if count > 0 {
            text += &format!("  sysctls:\n    vm.nr_hugepages: \"{count}\"\n");
        }
        if others {
            text += &format!(
                "  install:\n    extraKernelArgs:\n{}",
                self.boot_words()
                    .split(' ')
                    .map(|word| format!("      - {word}\n"))
                    .collect::<String>()
            );
        }
        text
    }

    fn for_kubespray(&self) -> String {
        let (count, others) = self.default_pages();
        let note = self.boot_note(others);
        format!(
            "{note}# inventory/NAME/group_vars/k8s_cluster/k8s-cluster.yml; then restart the kubelets.\n\
             additional_sysctl:\n  - {{name: vm.nr_hugepages, value: {count}}}\n"
        )
    }

    /// Pages of other sizes than the default are surest at boot.
    fn boot_note(&self, others: bool) -> String {
        if !others {
            return String::new();
        }
        format!(
            "# On the kernel's command line, as a sysctl sets only one size: {}\n",
            self.boot_words()
        )
    }
}
