//! What becomes of one container's memory, and the resources that it should have.

use std::collections::BTreeMap;

use hugewise_model::{
    Demand, HugePageMode, Instance, Level, PageSize, group_thousands, instance::Mechanism,
    instance::Startup,
};

use crate::container_view::{ViewedServer, view_server};
use crate::node::NodeFacts;
use crate::quantity::format_bytes;
use crate::report::{ContainerReport, Fate, PodDemand, PodFinding, PodServer};
use crate::resources::{UnclearAmount, resource_name};
use crate::start::{ContainerStart, ServerStart, engine_name, find_start};
use crate::wanted_resources::{WantedResources, find_wanted_resources};
use crate::workload::{ContainerSpec, Workload};

pub(crate) struct JudgedContainer {
    pub(crate) report: ContainerReport,
    pub(crate) wanted: WantedResources,
    /// Bytes of huge pages that it should have, by page size.
    pub(crate) needed: BTreeMap<PageSize, u64>,
}

pub(crate) fn judge_container(
    workload: &Workload,
    container: &ContainerSpec,
    node: Option<&NodeFacts>,
) -> JudgedContainer {
    let sizes = container.resources.page_sizes().into_iter();
    let limits = sizes.map(|page| (page, container.resources.limit_bytes(page)));
    let report = ContainerReport {
        name: container.name.clone(),
        line: container.line,
        is_init: container.is_init,
        limits: limits.collect(),
        server: None,
        fate: Fate::NoServer,
        fate_without_reservations: None,
        why: Vec::new(),
        findings: Vec::new(),
        notes: Vec::new(),
        questions: Vec::new(),
    };
    let mut judge = ContainerJudge { workload, container, node, report, asking: None };
    match find_start(container) {
        ContainerStart::Unrecognized => judge.judge_unrecognized(),
        ContainerStart::Open(questions) => {
            judge.report.fate = Fate::Unknown;
            judge.report.questions = questions;
        }
        ContainerStart::Server(start) => judge.judge_server(&start),
    }
    judge.judge_amounts();
    let demands = judge.asking.iter().flat_map(|asking| &asking.demands);
    let counts = node.is_some_and(|node| node.counts_huge_pages);
    let (wanted, needed) = find_wanted_resources(&container.resources, demands, counts);
    JudgedContainer { report: judge.report, wanted, needed }
}

struct ContainerJudge<'a> {
    workload: &'a Workload,
    container: &'a ContainerSpec,
    node: Option<&'a NodeFacts>,
    report: ContainerReport,
    /// The server that asks for huge pages, and whether it insists.
    asking: Option<AskingServer>,
}

struct AskingServer {
    demands: Vec<PodDemand>,
    insists: bool,
    name: &'static str,
    setting: String,
    needs_group: bool,
}

impl ContainerJudge<'_> {
    fn add_finding(&mut self, level: Level, line: u64, what: impl Into<String>) {
        self.report.findings.push(PodFinding { level, line, what: what.into() });
    }

    fn judge_unrecognized(&mut self) {
        if self.container.resources.has_huge_pages() {
            let question = format!("how many huge pages container {} needs", self.container.name);
            self.report.questions.push(question);
            self.report.fate = Fate::Unknown;
        }
    }

    fn judge_server(&mut self, start: &ServerStart) {
        self.report.notes.extend(start.notes.iter().map(|note| format!("Assumed: {note}.")));
        let Some(ViewedServer { instance, unread }) = view_server(self.container, start, self.node)
        else {
            self.report.fate = Fate::Unknown;
            let what = format!("how container {} starts its server", self.container.name);
            self.report.questions.push(what);
            return;
        };
        let mut demands: Vec<PodDemand> = instance.demands().map(describe_demand).collect();
        self.raise_least_demands(&instance, start, &mut demands);
        let setting = instance.setting.as_ref().map(|setting| self.describe_setting(setting));
        self.report.server = Some(PodServer {
            engine: engine_name(instance.engine),
            version: start.version.clone(),
            setting,
            demands: demands.clone(),
        });
        self.report.questions.extend(start.questions.iter().cloned());
        if self.container.resources.has_huge_pages() || asks(&instance) {
            self.report.questions.extend(start.questions_if_asking.iter().cloned());
        }
        self.report.questions.extend(unread);
        if let Some(Startup::Refuses(why)) = &instance.startup {
            self.report.fate = Fate::RefusesStart;
            let what = format!("{} does not start with {why}", engine_name(instance.engine));
            self.add_finding(Level::Error, self.container.line, self.in_words(&what));
        }
        self.add_file_note(&instance, start);
        self.judge_mapped_folders(start);
        self.judge_request(&instance, demands);
    }

    /// A server that maps files of huge pages needs a volume of them where it looks.
    fn judge_mapped_folders(&mut self, start: &ServerStart) {
        let folder = |word: &String| {
            let options = ["-XX:AllocateHeapAt=", "mem-path="];
            let path = options.iter().find_map(|option| word.split_once(option))?.1;
            path.split(',').next().map(str::to_owned)
        };
        let is_huge = |path: &String| path.contains("hugepages") || path.contains("hugetlb");
        let named = start.words.iter().filter_map(folder).filter(is_huge);
        let mounts = &self.container.hugetlbfs_mounts;
        let is_mounted = |path: &String| mounts.iter().any(|mount| path.starts_with(mount));
        for path in named.filter(|path| !is_mounted(path)).collect::<Vec<_>>() {
            let what = format!(
                "it maps files in {path}, and no volume of huge pages is mounted there: an \
                 emptyDir with medium: HugePages"
            );
            self.add_finding(Level::Error, self.container.line, what);
        }
    }

    /// Libraries only add to what PostgreSQL takes: without them it takes the least.
    fn raise_least_demands(
        &self,
        instance: &Instance,
        start: &ServerStart,
        demands: &mut [PodDemand],
    ) {
        const LIBRARIES: &str = "shared_preload_libraries";
        if instance.setting_value(LIBRARIES).is_none_or(str::is_empty) {
            return;
        }
        let mut words = start.words.clone();
        words.extend(["-c".to_owned(), format!("{LIBRARIES}=")]);
        let plain = ServerStart { words, ..start.clone() };
        let Some(plain) = view_server(self.container, &plain, self.node) else { return };
        for demand in demands {
            let mut others = plain.instance.demands().map(describe_demand);
            if let Some(other) = others.find(|other| other.page_size == demand.page_size) {
                demand.least = demand.least.max(other.least);
            }
        }
    }

    /// What the data volume may hold is in no manifest.
    fn add_file_note(&mut self, instance: &Instance, start: &ServerStart) {
        let by_file = |setting: &hugewise_model::instance::ServerSetting| {
            setting.place.as_ref().is_none_or(|place| !place.is_command_line())
        };
        let has_files = start.kind.is_some_and(|kind| !kind.files.is_empty());
        if has_files && asks(instance) && instance.settings.values().any(by_file) {
            self.report.notes.push(
                "Assumed: nobody has changed the configuration in its data volume (ALTER SYSTEM, \
                 SET PERSIST, an edited file)."
                    .into(),
            );
        }
    }

    fn describe_setting(&self, setting: &hugewise_model::instance::ServerSetting) -> String {
        self.in_words(&setting.to_string())
    }

    /// The view's own paths mean nothing to who wrote the manifest.
    fn in_words(&self, text: &str) -> String {
        let made_by = self.container.made_by.as_ref();
        let place = made_by.map_or("its arguments", |made| made.set_in);
        text.replace("/proc/7/cmdline", place).replace("/proc/0/cmdline", place)
    }

    fn judge_request(&mut self, instance: &Instance, demands: Vec<PodDemand>) {
        let engine = engine_name(instance.engine);
        let is_refused = self.report.fate == Fate::RefusesStart;
        match instance.asked {
            HugePageMode::Cannot => {
                self.report.fate = Fate::CannotUse;
                self.add_unused(&format!("{engine} never uses pages of a pool"));
            }
            HugePageMode::No => {
                self.report.fate = Fate::AsksForNone;
                let how = hugewise_engines::EngineKind::for_engine(instance.engine);
                let how = how.settings.asks_by;
                self.add_unused(&format!("{engine} asks for none; {how} makes it ask"));
            }
            HugePageMode::Unknown => {
                self.report.fate = Fate::Unknown;
                if self.report.questions.is_empty() {
                    let what = format!("whether {engine} asks for huge pages");
                    self.report.questions.push(what);
                }
            }
            HugePageMode::Try | HugePageMode::Must | HugePageMode::Raises if !is_refused => {
                if demands.is_empty() {
                    self.report.fate = Fate::Unknown;
                    if self.report.questions.is_empty() {
                        self.report.questions.push(missing_size(instance));
                    }
                    return;
                }
                let setting = instance
                    .setting
                    .as_ref()
                    .map(|setting| self.describe_setting(setting))
                    .unwrap_or_default();
                self.asking = Some(AskingServer {
                    demands,
                    insists: instance.asked == HugePageMode::Must,
                    name: engine,
                    setting,
                    needs_group: instance.mechanism == Mechanism::SysvShm,
                });
                self.judge_mapping();
            }
            _ => {}
        }
        if is_refused {
            self.report.fate = Fate::RefusesStart;
        }
    }

    fn add_unused(&mut self, why: &str) {
        let limits: Vec<(PageSize, u64)> = self.report.limits.clone();
        for (page, bytes) in limits.into_iter().filter(|(_, bytes)| *bytes > 0) {
            let pages = group_thousands(bytes / page.bytes().get());
            let what = format!("{pages} pages of {page} are set aside for it in vain: {why}");
            self.add_finding(Level::Warn, self.amount_line(page), what);
        }
        if self.report.fate == Fate::AsksForNone {
            self.report.why.push(format!("{why}."));
        }
    }

    /// Where the manifest limits pages of a size.
    fn amount_line(&self, page: PageSize) -> u64 {
        let name = resource_name(page);
        let limit = self.container.resources.limits.get(&name);
        limit.map_or(self.container.line, |limit| limit.line)
    }

    /// Whether the demands fit the limits, the node's pool and its permissions.
    fn judge_mapping(&mut self) {
        let Some(asking) = self.asking.take() else { return };
        self.report.fate = Fate::Maps;
        for demand in &asking.demands {
            self.judge_demand(&asking, *demand);
        }
        if self.report.fate == Fate::Maps {
            self.judge_permission(&asking);
        }
        if self.report.fate == Fate::Maps {
            self.add_praise(&asking);
        }
        self.asking = Some(asking);
    }

    fn judge_demand(&mut self, asking: &AskingServer, demand: PodDemand) {
        let PodDemand { page_size, least, most } = demand;
        let limit = self.container.resources.limit_bytes(page_size);
        let allowed = limit / page_size.bytes().get();
        if allowed < most {
            self.add_shortage(asking, demand, allowed);
            return;
        }
        let pool = self.node.map(|node| node.pools.get(&page_size).copied().unwrap_or_default());
        if let Some(available) = pool.and_then(|pool| pool.available).filter(|pages| *pages < least)
        {
            self.report.fate = fate_of_refusal(asking);
            let what = format!(
                "the node has {} of the {} pages of {page_size} left: programs of the node itself, \
                 or pods without a limit, have the others, and the scheduler does not see that",
                group_thousands(available),
                group_thousands(least)
            );
            self.add_finding(Level::Error, self.amount_line(page_size), what);
        }
    }

    fn add_shortage(&mut self, asking: &AskingServer, demand: PodDemand, allowed: u64) {
        let PodDemand { page_size, least, .. } = demand;
        let limits_reservations = self.node.and_then(|node| node.limits_reservations);
        let refused = fate_of_refusal(asking);
        let node_is_bare = self
            .node
            .is_some_and(|node| node.pools.get(&page_size).is_none_or(|pool| pool.total < least));
        self.report.fate = match limits_reservations {
            Some(false) if !node_is_bare => Fate::Dies,
            _ => refused,
        };
        let other = limits_reservations.is_none() && !node_is_bare;
        self.report.fate_without_reservations = other.then_some(Fate::Dies);
        let name = resource_name(page_size);
        let needs = describe_pages(demand);
        let has = match allowed {
            0 => format!("the container has no limit {name}, which allows it none"),
            _ => format!(
                "its limit {name} allows {} ({})",
                group_thousands(allowed),
                format_bytes(allowed.saturating_mul(page_size.bytes().get()))
            ),
        };
        let may = if allowed < least { "" } else { ", which may be too few" };
        let what = format!("{} needs {needs} and {has}{may}", asking.name);
        let level = if allowed < least { Level::Error } else { Level::Warn };
        self.add_finding(level, self.amount_line(page_size), what);
        self.explain_shortage(asking, demand, allowed);
    }

    fn explain_shortage(&mut self, asking: &AskingServer, demand: PodDemand, allowed: u64) {
        let setting = &asking.setting;
        let memory = demand.least.saturating_mul(demand.page_size.bytes().get());
        let limit = self.container.resources.memory_limit().filter(|limit| *limit <= memory);
        let why = match self.report.fate {
            Fate::RefusesStart => {
                format!(
                    "The kernel refuses the mapping, and with {setting} the server does not start."
                )
            }
            Fate::FallsBack => {
                let killed = limit.map_or_else(String::new, |limit| {
                    let limit = format_bytes(limit);
                    format!(" There it counts as memory, and the limit of {limit} kills it.")
                });
                format!(
                    "The kernel refuses the mapping, and with {setting} the server goes on without \
                     a word: the memory is on small pages for as long as it runs.{killed}"
                )
            }
            _ => String::new(),
        };
        self.report.why.extend(Some(why).filter(|why| !why.is_empty()));
        let dies = format!(
            "the mapping succeeds and SIGBUS kills the server when it touches page {}",
            group_thousands(allowed.saturating_add(1))
        );
        if self.report.fate == Fate::Dies {
            self.report.why.push(format!(
                "This node limits no reservations (kubelet before 1.29, runc before 1.1.10): \
                 {dies}."
            ));
        } else if self.report.fate_without_reservations == Some(Fate::Dies) {
            self.report.why.push(format!(
                "Where the kubelet is older than 1.29 and the node has a pool, {dies}."
            ));
        }
    }

    /// System V memory on huge pages needs a group or a capability.
    fn judge_permission(&mut self, asking: &AskingServer) {
        let shm_group = self.node.and_then(|node| node.shm_group);
        let groups = &self.workload.groups;
        let has_group = match shm_group {
            Some(group) => groups.contains(&u64::from(group)),
            None => !groups.is_empty(),
        };
        if !asking.needs_group || self.container.has_ipc_lock || has_group {
            return;
        }
        self.report.fate = fate_of_refusal(asking);
        let group = shm_group.map_or_else(String::new, |group| format!(" ({group} on this node)"));
        let what = format!(
            "{} takes System V memory (shmget), and the kernel gives it huge pages only with \
             CAP_IPC_LOCK or a group that is vm.hugetlb_shm_group{group}: put that into the pod's \
             securityContext.supplementalGroups",
            asking.name
        );
        self.add_finding(Level::Error, self.container.line, what);
    }

    fn add_praise(&mut self, asking: &AskingServer) {
        let pages: Vec<String> = asking.demands.iter().map(|one| describe_pages(*one)).collect();
        self.report.why.push(format!("Its limit holds what it asks for: {}.", pages.join(" and ")));
        if asking.setting.starts_with("huge_pages=try") {
            self.report.notes.push(
                "huge_pages=on is safe here: the scheduler sets the pages aside before the server \
                 starts. A start without them then fails with a message, where try goes on \
                 silently."
                    .into(),
            );
        }
        for demand in &asking.demands {
            let page = demand.page_size.bytes().get();
            let limit = self.container.resources.limit_bytes(demand.page_size) / page;
            let idle = limit.saturating_sub(demand.most);
            if idle > demand.most / 8 {
                let what = format!(
                    "{} of its {} pages of {} stay idle",
                    group_thousands(idle),
                    group_thousands(limit),
                    demand.page_size
                );
                self.add_finding(Level::Info, self.amount_line(demand.page_size), what);
            }
        }
    }

    /// What the API server refuses, and what templates leave open.
    fn judge_amounts(&mut self) {
        let resources = &self.container.resources;
        for (line, what) in resources.find_refusals() {
            self.add_finding(Level::Error, line, format!("the API server refuses the pod: {what}"));
        }
        if resources.has_huge_pages() && !resources.asks_for_cpu_or_memory() {
            let what = "the API server refuses the pod: huge pages need a request or limit for cpu \
                        or memory beside them";
            self.add_finding(Level::Error, self.container.line, what);
        }
        let is_refused =
            self.report.findings.iter().any(|one| one.what.starts_with("the API server"));
        if is_refused {
            self.report.fate = Fate::NotStarted;
            self.report.fate_without_reservations = None;
        }
        let is_unknown = self.report.fate == Fate::Unknown;
        let matters = self.asking.is_some() || is_unknown || resources.has_huge_pages();
        for (_, unclear) in resources.unclear.iter().filter(|_| matters) {
            if let UnclearAmount::Open(template) = unclear {
                self.report.questions.push(template.clone());
                self.report.fate = Fate::Unknown;
            }
        }
        self.judge_memory_limit();
    }

    /// Whether huge pages count as the container's memory.
    fn judge_memory_limit(&mut self) {
        let resources = &self.container.resources;
        let huge: u64 =
            self.report.limits.iter().map(|(_, bytes)| *bytes).fold(0, u64::saturating_add);
        let Some(limit) = resources.memory_limit().filter(|limit| huge > 0 && *limit <= huge)
        else {
            return;
        };
        let both = format!(
            "limits.memory ({}) has to hold the {} of huge pages, too, where cgroup2 is mounted \
             with memory_hugetlb_accounting",
            format_bytes(limit),
            format_bytes(huge)
        );
        match self.node {
            Some(node) if node.counts_huge_pages => {
                let what = format!("{both}, as on this node: the server is killed");
                self.add_finding(Level::Error, self.container.line, what);
            }
            Some(_) => {}
            None => self.report.notes.push(format!("{both}; elsewhere huge pages are no memory.")),
        }
    }
}

const fn fate_of_refusal(asking: &AskingServer) -> Fate {
    if asking.insists { Fate::RefusesStart } else { Fate::FallsBack }
}

fn asks(instance: &Instance) -> bool {
    matches!(instance.asked, HugePageMode::Try | HugePageMode::Must | HugePageMode::Raises)
}

fn describe_demand(demand: &Demand) -> PodDemand {
    let (least, most) = (demand.at_least().pages.get(), demand.at_most().pages.get());
    PodDemand { page_size: demand.page_size, least, most }
}

/// `556 pages of 2 MiB`, or `556 to 612 pages`.
pub(crate) fn describe_pages(demand: PodDemand) -> String {
    let PodDemand { page_size, least, most } = demand;
    let most = group_thousands(most);
    match group_thousands(least) {
        least if least == most => format!("{most} pages of {page_size}"),
        least => format!("{least} to {most} pages of {page_size}"),
    }
}

/// What the size of a server's memory hangs on.
fn missing_size(instance: &Instance) -> String {
    match instance.engine {
        hugewise_model::Engine::Jvm => {
            "the heap's size: -Xmx, a memory limit, or --node for the node's memory".into()
        }
        engine => format!("how much memory {} takes", engine_name(engine)),
    }
}
