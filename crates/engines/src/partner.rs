//! Instances of another node that may be started on this one, as a failover does: they count as if they stood here and did not
//! run.

use hugewise_model::vouch::Voucher;
use hugewise_model::{
    Asked, Asleep, AtBoot, Demand, Host, HugePageUse, Instance, NextStart, Observed, PageSize, Process, Trait,
};

use crate::{Found, Kind, described};

/// The instances of another node that ask for huge pages, as they would be on this one. `known_by` names what was read of that
/// node. ASM is left out: each node has its own.
pub fn of(host: &Host, there: &Host, found: &Found, known_by: &str) -> Vec<Instance> {
    let node = there.name.known().map_or(known_by, String::as_str);
    let asks = |it: &&Instance| {
        let holds = matches!(it.huge_pages, HugePageUse::All | HugePageUse::Partly);
        matches!(it.asked, Asked::Try | Asked::Must | Asked::Raises) || holds
    };
    let moves = |it: &&Instance| it.is_vouched() && !it.containered && !it.traits.contains(&Trait::Asm);
    found.instances.iter().filter(moves).filter(asks).map(|instance| here(host, instance, node, known_by)).collect()
}

fn here(host: &Host, instance: &Instance, node: &str, known_by: &str) -> Instance {
    let page = host.default_huge_page.get().filter(|_| !(Kind::of(instance.engine).names_page_size)(instance));
    let demands = demands(instance, page);
    let mut asleep =
        Asleep::new(known_by, AtBoot::Unknown(format!("it belongs to {node}, whose failover may start it here")));
    asleep.process = process(host, &instance.owner).map(Box::new);
    let mut moved = Instance {
        name: format!("{} of {node}", instance.name),
        owner: instance.owner.clone(),
        asked_page_size: page.map_or_else(|| instance.asked_page_size.clone(), Observed::Known),
        vouchers: vec![Voucher::Listed],
        // Its files are not here.
        data_directory: Observed::Absent,
        endpoints: Vec::new(),
        startup: None,
        on_smaller: Vec::new(),
        perhaps: demands.iter().filter(|demand| demand.error_percent().is_some()).map(Demand::at_most).collect(),
        ..described::without_process(instance.clone())
    };
    for setting in moved.settings.values_mut().chain(moved.setting.as_mut()) {
        if let Some(place) = &mut setting.place {
            place.file = format!("{} on {node}", place.file);
        }
    }
    let setting = moved.setting.clone();
    moved.next = Observed::Known(NextStart { asked: instance.asked, setting, demands: demands.clone() });
    let mut demands = demands.into_iter();
    (moved.demand, moved.beside) = (demands.next(), demands.collect());
    moved.asleep = Some(asleep);
    moved
}

/// What it asks for at a start: by its files where they were changed since it runs, otherwise what it has; on the pages of this
/// host where it takes those that there are.
fn demands(instance: &Instance, page: Option<PageSize>) -> Vec<Demand> {
    let changed = instance.next.known().map(|next| next.demands.clone()).filter(|demands| !demands.is_empty());
    let demands = changed.unwrap_or_else(|| instance.demands().cloned().collect());
    match (demands.as_slice(), page) {
        ([only], Some(page)) if only.page_size != page => vec![only.on(page)],
        _ => demands,
    }
}

/// The process that it would be here: of the account of that name.
fn process(host: &Host, owner: &str) -> Option<Process> {
    let (uid, user) = host.accounts.users.iter().find(|(_, user)| user.name == owner)?;
    let groups = host.accounts.groups_of(*uid).into_iter().collect();
    let ipc_lock = Observed::Known(*uid == 0);
    Some(Process { uid: *uid, gid: user.gid, groups, ipc_lock, ..Process::default() })
}

#[cfg(test)]
mod tests {
    use hugewise_host::source::MapSource;
    use hugewise_model::host::User;
    use hugewise_model::{DemandSource, Engine, PageCount};

    use super::*;
    use crate::Scene;

    fn node(name: &str) -> Host {
        Host {
            name: Observed::Known(name.into()),
            default_huge_page: Observed::Known(PageSize::MIB_2),
            ..Host::default()
        }
    }

    fn oracle(name: &str, asked: Asked) -> Instance {
        let (host, source) = (Host::default(), MapSource::new());
        let scene = Scene::new(&host, &source);
        let mut instance =
            scene.instance(Engine::Oracle, name.into(), &Process { pid: 7, ..Process::default() }, Vec::new());
        let source = DemandSource::Measured;
        instance.demand = Some(Demand { page_size: PageSize::MIB_2, pages: PageCount(4096), source });
        (instance.asked, instance.owner, instance.vouchers) = (asked, "oracle".into(), vec![Voucher::Listed]);
        instance
    }

    #[test]
    fn who_asks_there_would_ask_here_as_the_account_of_this_host() {
        let mut here = node("node1");
        here.accounts.users.insert(1001, User { name: "oracle".into(), gid: 1002, home: None });
        let mut asm = oracle("+ASM", Asked::Try);
        asm.traits = vec![Trait::Asm];
        let stranger = Instance { vouchers: Vec::new(), ..oracle("HIS", Asked::Must) };
        let instances = vec![oracle("PROD", Asked::Must), oracle("OFF", Asked::No), asm, stranger];
        let found = Found { instances, ..Found::default() };
        let moved = of(&here, &node("node2"), &found, "node2.tar.gz");
        let [prod] = moved.as_slice() else { panic!("{moved:?}") };
        assert_eq!((prod.name.as_str(), prod.pid, prod.asked), ("PROD of node2", 0, Asked::Must));
        let asleep = prod.asleep.as_ref().unwrap();
        assert_eq!(asleep.process.as_ref().map(|process| (process.uid, process.gid)), Some((1001, 1002)));
        assert_eq!(prod.demand.as_ref().map(|demand| demand.pages), Some(PageCount(4096)));
        // This host has larger pages: 8 GiB are 8 of them.
        here.default_huge_page = Observed::Known(PageSize::GIB_1);
        let moved = of(&here, &node("node2"), &found, "node2.tar.gz");
        assert_eq!(
            moved[0].demand.as_ref().map(|demand| (demand.page_size, demand.pages)),
            Some((PageSize::GIB_1, PageCount(8)))
        );
    }
}
