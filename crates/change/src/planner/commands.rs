//! What a person types: commands, and `#` lines between them. The plan is the only place that prints any.

use hugewise_advice::permission;
use hugewise_advice::words::shell_word;
use hugewise_engines::Kind;
use hugewise_model::escape::shell::operand;
use hugewise_model::{Host, Instance};

/// Restarts an instance: huge pages come at its start alone.
pub(super) fn restart(host: &Host, instance: &Instance) -> Vec<String> {
    match &instance.unit {
        Some(unit) if restarts(instance) => vec![format!("systemctl restart {}", operand(unit))],
        _ => match &Kind::of(instance.engine).starter {
            Some(starter) => (starter.how)(host, instance),
            None if instance.containered => vec![format!("# restart {} (it runs in a container)", instance.title())],
            None => vec![format!("# restart {}", instance.title())],
        },
    }
}

/// Whether a restart of an instance's service restarts this server and nothing else, and root may do it on its word.
pub(super) fn restarts(instance: &Instance) -> bool {
    let own = instance.unit.as_ref().is_some_and(|unit| unit.ends_with(".service")) && instance.unit_is_its_own;
    own && instance.is_known_to_the_host() && !instance.containered && Kind::of(instance.engine).starter.is_none()
}

/// Makes an instance ask for huge pages, and refuse to start without them where `must` and the engine can.
pub(super) fn ask(host: &Host, instance: &Instance, must: bool) -> Vec<String> {
    (Kind::of(instance.engine).ask)(host, instance, must)
}

/// Lets an instance's owner use SHM_HUGETLB.
pub(super) fn permit(host: &Host, instance: &Instance) -> Vec<String> {
    let process = permission::process_of(host, instance);
    let account = process.and_then(|process| host.accounts.users.get(&process.uid));
    // A container's accounts are not the host's; the group that it runs with is.
    let gid = account.map(|user| user.gid).or_else(|| process.map(|process| process.gid));
    match (host.kernel_settings.hugetlb_shm_group.get(), gid) {
        (Some(group), _) if group != 0 => {
            let name = host.accounts.groups.get(&group).map(|group| group.name.clone());
            let mut fix = Vec::new();
            // usermod(8) takes a group that exists, by number too.
            if name.is_none() && !host.accounts.groups.is_empty() {
                fix.push(format!("groupadd -g {group} hugepages"));
            }
            let name = name.unwrap_or_else(|| group.to_string());
            if instance.owner_is_number() {
                let owner = &instance.owner;
                fix.push(format!("# user {owner} is not in a local account file: have its directory add it to {name}"));
            } else {
                fix.push(format!("usermod -aG {} {}", shell_word(&name), operand(&instance.owner)));
            }
            fix.push("# logins and services started after that have the group".into());
            fix
        }
        (_, Some(gid)) if permission::may_be_given(host, gid) => vec![
            format!("sysctl -w vm.hugetlb_shm_group={gid}"),
            format!("printf 'vm.hugetlb_shm_group = {gid}\\n' > /etc/sysctl.d/zz-hugetlb-shm-group.conf"),
        ],
        _ => vec![format!("# set vm.hugetlb_shm_group to the ID of a group that {} is in", instance.owner)],
    }
}

#[cfg(test)]
mod tests {
    use hugewise_model::Observed;
    use hugewise_model::host::Accounts;

    use super::*;

    /// Oracle of a captured host on which vm.hugetlb_shm_group is this.
    fn scene(group: u32) -> (Host, Instance) {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/hosts/oracle-many-sessions");
        let source = hugewise_host::source::open(Some(std::path::Path::new(path))).unwrap();
        let mut host = hugewise_host::read(&*source);
        host.kernel_settings.hugetlb_shm_group = Observed::Known(group);
        let instance = hugewise_engines::find(&host, &*source).instances.remove(0);
        (host, instance)
    }

    #[test]
    fn a_group_that_has_no_name_is_made_before_anyone_joins_it() {
        let (host, instance) = scene(999);
        assert_eq!(permit(&host, &instance)[..2], ["groupadd -g 999 hugepages", "usermod -aG 999 oracle"]);
    }

    #[test]
    fn a_server_of_an_unknown_account_is_let_in_by_its_group() {
        let (mut host, instance) = scene(0);
        host.accounts = Accounts::default();
        let Observed::Known(processes) = &mut host.processes else { panic!("no processes") };
        processes.iter_mut().for_each(|process| std::sync::Arc::make_mut(process).gid = 1001);
        assert_eq!(permit(&host, &instance)[0], "sysctl -w vm.hugetlb_shm_group=1001");
    }

    #[test]
    fn a_unit_is_no_option_and_a_number_no_name() {
        let (host, instance) = scene(0);
        let unit = Instance {
            engine: hugewise_model::Engine::PostgreSql,
            unit: Some("--host=elsewhere.service".into()),
            unit_is_its_own: true,
            vouchers: vec![hugewise_model::vouch::Voucher::Account],
            ..instance
        };
        assert_eq!(restart(&host, &unit), ["systemctl restart -- '--host=elsewhere.service'"]);
        let unknown = Instance { owner: "4242".into(), unit: None, ..unit };
        assert!(
            ask(&Host::default(), &unknown, true).iter().all(|line| line.starts_with('#')),
            "{:?}",
            ask(&Host::default(), &unknown, true)
        );
    }
}
