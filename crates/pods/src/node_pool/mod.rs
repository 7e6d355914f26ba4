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
        NodePlatform::Aks => demand.fill_in_sysctl(include_str!("aks.yaml")),
        NodePlatform::Eks => demand.fill_in_sysctl(include_str!("eks.txt")),
        NodePlatform::Bottlerocket => demand.for_bottlerocket(),
        NodePlatform::Talos => demand.for_talos(),
        NodePlatform::Kubespray => demand.fill_in_sysctl(KUBESPRAY),
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
        let pages = self.pages.iter().map(|(page, count)| {
            format!("#     - size: {}\n#       count: {count}\n", page.boot_name())
        });
        include_str!("openshift.yaml")
            .replace("@ARGUMENTS@", &words.replace(' ', ", "))
            .replace("@PAGES@", &pages.collect::<String>())
            .replace("@WORDS@", &words)
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

    /// A platform's file for the pool of the default size, which a sysctl sets.
    fn fill_in_sysctl(&self, text: &str) -> String {
        let (count, others) = self.default_pages();
        let note = match others {
            true => format!(
                "# A sysctl sets only one size. On the kernel's command line: {}\n",
                self.boot_words()
            ),
            false => String::new(),
        };
        note + &text.replace("@COUNT@", &count.to_string())
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
}

/// A variable of Kubespray since 2.21 (its `roles/kubernetes/preinstall`).
const KUBESPRAY: &str = "\
# inventory/NAME/group_vars/k8s_cluster/k8s-cluster.yml; restart the kubelets afterwards.
additional_sysctl:
  - {name: vm.nr_hugepages, value: @COUNT@}
";
