//! What a person types: commands, and `#` lines between them. The plan is the only place that
//! prints any. On hosts without systemd, what nothing would read at boot goes by hand into files
//! that are read but are not hugewise's to edit.

use hugewise_diagnose::wording::{pool_switch, shell_word};
use hugewise_diagnose::{boot, permission};
use hugewise_engines::EngineKind;
use hugewise_host::Source;
use hugewise_model::configuration::{SysctlAssignment, SysctlFiles};
use hugewise_model::escape::shell::quote_operand;
use hugewise_model::{Host, Instance, PageCount, PageSize};

use super::PlanRequest;

pub(super) fn restart_commands(host: &Host, instance: &Instance) -> Vec<String> {
    match &instance.unit {
        Some(unit) if can_restart_service(instance) => {
            vec![format!("systemctl restart {}", quote_operand(unit))]
        }
        _ => match &EngineKind::for_engine(instance.engine).restart.starter {
            Some(starter) => (starter.how)(host, instance),
            None if instance.containered => {
                vec![format!("# restart {} (it runs in a container)", instance.title())]
            }
            None => vec![format!("# restart {}", instance.title())],
        },
    }
}

/// Whether a restart of its service restarts this server alone, and root may trust its word.
pub(super) fn can_restart_service(instance: &Instance) -> bool {
    let own = instance.unit.as_ref().is_some_and(|unit| unit.ends_with(".service"))
        && instance.unit_is_its_own;
    own && instance.is_known_to_the_host()
        && !instance.containered
        && EngineKind::for_engine(instance.engine).restart.starter.is_none()
}

/// Where `must` and the engine can, it then refuses to start without them.
pub(super) fn huge_page_commands(host: &Host, instance: &Instance, must: bool) -> Vec<String> {
    (EngineKind::for_engine(instance.engine).settings.commands)(host, instance, must)
}

pub(super) fn shm_group_commands(host: &Host, instance: &Instance) -> Vec<String> {
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
                fix.push(format!(
                    "# user {owner} is not in a local account file: have its directory add it to \
                     {name}"
                ));
            } else {
                fix.push(format!(
                    "usermod -aG {} {}",
                    shell_word(&name),
                    quote_operand(&instance.owner)
                ));
            }
            fix.push("# logins and services started after that have the group".into());
            fix
        }
        (_, Some(gid)) if permission::may_be_given(host, gid) => vec![
            format!("sysctl -w vm.hugetlb_shm_group={gid}"),
            format!(
                "printf 'vm.hugetlb_shm_group = {gid}\\n' > /etc/sysctl.d/zz-hugetlb-shm-group.conf"
            ),
        ],
        _ => vec![format!(
            "# set vm.hugetlb_shm_group to the ID of a group that {} is in",
            instance.owner
        )],
    }
}

/// The file of settings that every boot without systemd reads.
pub(super) const CONF: &str = "/etc/sysctl.conf";

/// Scripts that run late in each boot: of Red Hat, SUSE, and others.
const RC_LOCAL: [&str; 3] = ["/etc/rc.d/rc.local", "/etc/init.d/boot.local", "/etc/rc.local"];

/// What [`sysctl_conf_lines`] has a person make of that file; `None` where it cannot be read.
pub(super) fn edited_sysctl_conf(
    host: &Host,
    files: &dyn Source,
    settings: &[(&str, &str)],
) -> Option<String> {
    let bytes = files.read(CONF).into_known().unwrap_or_default();
    let mut lines: Vec<String> =
        String::from_utf8(bytes).ok()?.lines().map(str::to_owned).collect();
    for (key, value) in settings {
        let text = format!("{key} = {value}");
        let there = find_conf_setting(host, key).and_then(|one| one.place.line.checked_sub(1));
        match there.and_then(|at| lines.get_mut(usize::try_from(at).ok()?)) {
            Some(line) => *line = text,
            None => lines.push(text),
        }
    }
    Some(lines.iter().map(|line| format!("{line}\n")).collect())
}

fn find_conf_setting<'a>(host: &'a Host, key: &str) -> Option<&'a SysctlAssignment> {
    let mut there = host.configuration.sysctl.as_known().into_iter().flatten();
    there.rfind(|one| one.key == *key && one.place.file == CONF)
}

pub(super) fn sysctl_conf_lines(host: &Host, settings: &[(&str, &str)]) -> Vec<String> {
    let mut lines = ignored_file_lines(host, "sysctl.d");
    if let SysctlFiles::Nothing { switched_on_by } = host.configuration.sysctl_files {
        lines.push(switched_on_by.to_owned());
    }
    for (key, value) in settings {
        let there = find_conf_setting(host, key);
        let instead =
            there.map(|one| format!(", instead of {} in line {}", one.value, one.place.line));
        lines.push(format!("# in {CONF}: {key} = {value}{}", instead.unwrap_or_default()));
    }
    lines
}

/// No file of settings names a pool of another than the default size.
pub(super) fn rc_local_lines(
    ask: &PlanRequest<'_>,
    page: PageSize,
    pages: PageCount,
) -> Vec<String> {
    let mut lines = ignored_file_lines(ask.host, "tmpfiles.d");
    let switch = pool_switch(ask.host, page);
    lines.push(format!("# in {}: echo {} > {switch}", find_rc_local(ask.source), pages.get()));
    let early =
        "# or on the kernel command line, which reserves them before memory is in use (--early)";
    lines.push(early.to_owned());
    lines
}

/// The boot loader says it first, rc.local last.
pub(super) fn thp_boot_lines(ask: &PlanRequest<'_>, word: &str) -> Vec<String> {
    let mut lines = ignored_file_lines(ask.host, "tmpfiles.d");
    let feeds = boot::find_cmdline_source(ask.host);
    lines.push(format!("# add transparent_hugepage={word} to the kernel's command line:"));
    lines.extend(feeds.how);
    let switch = ask.host.thp.switch_path("enabled");
    lines.push(format!("# or in {}: echo {word} > {switch}", find_rc_local(ask.source)));
    lines
}

fn find_rc_local(source: &dyn Source) -> &'static str {
    let is_there =
        |path: &str| !source.read(path).is_absent() || !source.list_folder(path).is_absent();
    let [red_hat, suse, other] = RC_LOCAL;
    if let Some(script) = RC_LOCAL.into_iter().find(|path| !source.read(path).is_absent()) {
        script
    } else if is_there("/etc/rc.d/rc3.d") || is_there("/etc/redhat-release") {
        red_hat
    } else if is_there("/etc/init.d/boot.sysctl") {
        suse
    } else {
        other
    }
}

fn ignored_file_lines(host: &Host, folder: &str) -> Vec<String> {
    boot::find_ignored_files(host, folder).iter().map(|ignored| format!("# {ignored}")).collect()
}

#[cfg(test)]
mod tests {
    use hugewise_model::Observed;
    use hugewise_model::host::Accounts;

    use super::*;

    /// Oracle of a captured host on which vm.hugetlb_shm_group is this.
    fn scene(group: u32) -> (Host, Instance) {
        let path =
            concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/hosts/oracle-many-sessions");
        let source = hugewise_host::source::open_source(Some(std::path::Path::new(path))).unwrap();
        let mut host = hugewise_host::read(&*source);
        host.kernel_settings.hugetlb_shm_group = Observed::Known(group);
        let instance = hugewise_engines::find_instances(&host, &*source).instances.remove(0);
        (host, instance)
    }

    #[test]
    fn a_group_that_has_no_name_is_made_before_anyone_joins_it() {
        let (host, instance) = scene(999);
        assert_eq!(
            shm_group_commands(&host, &instance)[..2],
            ["groupadd -g 999 hugepages", "usermod -aG 999 oracle"]
        );
    }

    #[test]
    fn a_server_of_an_unknown_account_is_let_in_by_its_group() {
        let (mut host, instance) = scene(0);
        host.accounts = Accounts::default();
        let Observed::Known(processes) = &mut host.processes else { panic!("no processes") };
        processes.iter_mut().for_each(|process| std::sync::Arc::make_mut(process).gid = 1001);
        assert_eq!(shm_group_commands(&host, &instance)[0], "sysctl -w vm.hugetlb_shm_group=1001");
    }

    #[test]
    fn a_unit_is_no_option_and_a_number_no_name() {
        let (host, instance) = scene(0);
        let unit = Instance {
            engine: hugewise_model::Engine::PostgreSql,
            unit: Some("--host=elsewhere.service".into()),
            unit_is_its_own: true,
            trusted_by: vec![hugewise_model::trusted_by::TrustReason::Account],
            ..instance
        };
        assert_eq!(
            restart_commands(&host, &unit),
            ["systemctl restart -- '--host=elsewhere.service'"]
        );
        let unknown = Instance { owner: "4242".into(), unit: None, ..unit };
        assert!(
            huge_page_commands(&Host::default(), &unknown, true)
                .iter()
                .all(|line| line.starts_with('#')),
            "{:?}",
            huge_page_commands(&Host::default(), &unknown, true)
        );
    }
}
