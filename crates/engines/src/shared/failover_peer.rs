//! Instances of another node that a failover may start on this one: they count like stopped ones.

use hugewise_host::Source;
use hugewise_model::trusted_by::TrustReason;
use hugewise_model::{
    AtBoot, Demand, Host, HugePageMode, HugePageUse, Instance, NextStart, Observed, PageSize,
    Process, StoppedInstance, Trait, Unread,
};

use crate::shared::described;
use crate::{EngineKind, FoundInstances, read_host_and_instances};

const MACHINE_ID: &str = "/etc/machine-id";

/// Another node of a cluster, whose instances may be started on this one.
pub struct FailoverPeer {
    host: Host,
    found: FoundInstances,
    machine_id: Option<Vec<u8>>,
    /// The path of its capture.
    pub known_by: String,
}

impl FailoverPeer {
    /// Reads a node from its capture.
    pub fn read(source: &dyn Source, known_by: String) -> Self {
        let (host, found) = read_host_and_instances(source);
        Self { host, found, machine_id: read_machine_id(source), known_by }
    }

    /// Whether it is the host itself, by machine id or else by name.
    pub fn is_same_host(&self, host: &Host, source: &dyn Source) -> bool {
        let same_id =
            self.machine_id.as_ref().zip(read_machine_id(source)).map(|(peer, own)| *peer == own);
        let same_name = || host.name.is_known() && self.host.name == host.name;
        same_id.unwrap_or_else(same_name)
    }

    /// Its instances that ask for huge pages, as they would be on this host.
    pub fn instances_on(&self, host: &Host) -> Vec<Instance> {
        failover_instances(host, &self.host, &self.found, &self.known_by)
    }

    /// What could not be read of it.
    pub fn unread_notes(&self) -> impl Iterator<Item = Unread> {
        let node = self.host.name.as_known().unwrap_or(&self.known_by);
        let notes = self.host.unread.iter().chain(&self.found.unread);
        notes.map(move |note| Unread::new(format!("{} on {node}", note.what), note.why.clone()))
    }
}

fn read_machine_id(source: &dyn Source) -> Option<Vec<u8>> {
    source.read(MACHINE_ID).into_known().filter(|id| !id.trim_ascii().is_empty())
}

/// The other node's instances as they would be here. ASM is left out: each node has its own.
fn failover_instances(
    host: &Host,
    there: &Host,
    found: &FoundInstances,
    known_by: &str,
) -> Vec<Instance> {
    let node = there.name.as_known().map_or(known_by, String::as_str);
    let asks = |instance: &&Instance| {
        let holds = matches!(instance.huge_pages, HugePageUse::All | HugePageUse::Partly);
        matches!(instance.asked, HugePageMode::Try | HugePageMode::Must | HugePageMode::Raises)
            || holds
    };
    let moves = |instance: &&Instance| {
        instance.is_trusted() && !instance.containered && !instance.traits.contains(&Trait::Asm)
    };
    found
        .instances
        .iter()
        .filter(moves)
        .filter(asks)
        .map(|instance| place_on_host(host, instance, node, known_by))
        .collect()
}

fn place_on_host(host: &Host, instance: &Instance, node: &str, known_by: &str) -> Instance {
    let page = host
        .default_huge_page
        .get()
        .filter(|_| !(EngineKind::for_engine(instance.engine).page_size.is_named)(instance));
    let demands = failover_demands(instance, page);
    let mut asleep = StoppedInstance::new(
        known_by,
        AtBoot::Unknown(format!("it belongs to {node}, whose failover may start it here")),
    );
    asleep.process = process_of_owner(host, &instance.owner).map(Box::new);
    let mut moved = Instance {
        name: format!("{} of {node}", instance.name),
        owner: instance.owner.clone(),
        asked_page_size: page.map_or_else(|| instance.asked_page_size.clone(), Observed::Known),
        trusted_by: vec![TrustReason::Listed],
        // Its files are not here.
        data_directory: Observed::Absent,
        endpoints: Vec::new(),
        startup: None,
        on_smaller: Vec::new(),
        possible_demands: demands
            .iter()
            .filter(|demand| demand.error_percent().is_some())
            .map(Demand::at_most)
            .collect(),
        ..described::without_process(instance.clone())
    };
    for setting in moved.settings.values_mut().chain(moved.setting.as_mut()) {
        if let Some(place) = &mut setting.place {
            place.file = format!("{} on {node}", place.file);
        }
    }
    let setting = moved.setting.clone();
    moved.next =
        Observed::Known(NextStart { asked: instance.asked, setting, demands: demands.clone() });
    let mut demands = demands.into_iter();
    (moved.demand, moved.other_demands) = (demands.next(), demands.collect());
    moved.stopped = Some(asleep);
    moved
}

fn failover_demands(instance: &Instance, page: Option<PageSize>) -> Vec<Demand> {
    let changed = instance
        .next
        .as_known()
        .map(|next| next.demands.clone())
        .filter(|demands| !demands.is_empty());
    let demands = changed.unwrap_or_else(|| instance.demands().cloned().collect());
    match (demands.as_slice(), page) {
        ([only], Some(page)) if only.page_size != page => vec![only.with_page_size(page)],
        _ => demands,
    }
}

fn process_of_owner(host: &Host, owner: &str) -> Option<Process> {
    let (uid, user) = host.accounts.users.iter().find(|(_, user)| user.name == owner)?;
    let groups = host.accounts.groups_of(*uid);
    let ipc_lock = Observed::Known(*uid == 0);
    Some(Process { uid: *uid, gid: user.gid, groups, ipc_lock, ..Process::default() })
}

#[cfg(test)]
mod tests {
    use hugewise_host::source::MapSource;
    use hugewise_model::host::User;
    use hugewise_model::{DemandSource, Engine, PageCount};

    use super::*;
    use crate::EngineContext;

    fn node(name: &str) -> Host {
        Host {
            name: Observed::Known(name.into()),
            default_huge_page: Observed::Known(PageSize::MIB_2),
            ..Host::default()
        }
    }

    fn oracle(name: &str, asked: HugePageMode) -> Instance {
        let (host, source) = (Host::default(), MapSource::new());
        let scene = EngineContext::new(&host, &source);
        let mut instance = scene.new_instance(
            Engine::Oracle,
            name.into(),
            &Process { pid: 7, ..Process::default() },
            Vec::new(),
        );
        let source = DemandSource::Measured;
        instance.demand =
            Some(Demand { page_size: PageSize::MIB_2, pages: PageCount(4096), source });
        (instance.asked, instance.owner, instance.trusted_by) =
            (asked, "oracle".into(), vec![TrustReason::Listed]);
        instance
    }

    #[test]
    fn who_asks_there_would_ask_here_as_the_account_of_this_host() {
        let mut here = node("node1");
        here.accounts.users.insert(1001, User { name: "oracle".into(), gid: 1002, home: None });
        let mut asm = oracle("+ASM", HugePageMode::Try);
        asm.traits = vec![Trait::Asm];
        let stranger = Instance { trusted_by: Vec::new(), ..oracle("HIS", HugePageMode::Must) };
        let instances = vec![
            oracle("PROD", HugePageMode::Must),
            oracle("OFF", HugePageMode::No),
            asm,
            stranger,
        ];
        let found = FoundInstances { instances, ..FoundInstances::default() };
        let moved = failover_instances(&here, &node("node2"), &found, "node2.tar.gz");
        let [prod] = moved.as_slice() else { panic!("{moved:?}") };
        assert_eq!(
            (prod.name.as_str(), prod.pid, prod.asked),
            ("PROD of node2", 0, HugePageMode::Must)
        );
        let asleep = prod.stopped.as_ref().unwrap();
        assert_eq!(
            asleep.process.as_ref().map(|process| (process.uid, process.gid)),
            Some((1001, 1002))
        );
        assert_eq!(prod.demand.as_ref().map(|demand| demand.pages), Some(PageCount(4096)));
        // This host has larger pages: 8 GiB are 8 of them.
        here.default_huge_page = Observed::Known(PageSize::GIB_1);
        let moved = failover_instances(&here, &node("node2"), &found, "node2.tar.gz");
        assert_eq!(
            moved[0].demand.as_ref().map(|demand| (demand.page_size, demand.pages)),
            Some((PageSize::GIB_1, PageCount(8)))
        );
    }
}
