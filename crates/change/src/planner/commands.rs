//! What a person types: commands, and `#` lines between them. The plan is the only place that prints any.

use hugewise_advice::permission;
use hugewise_advice::words::shell_word;
use hugewise_model::escape::shell::operand;
use hugewise_model::{Asked, Engine, Host, Instance};

/// Restarts an instance: huge pages come at its start alone.
pub(super) fn restart(instance: &Instance) -> Vec<String> {
    match &instance.unit {
        Some(unit) if restarts(instance) => vec![format!("systemctl restart {}", operand(unit))],
        _ if instance.engine == Engine::Oracle => {
            vec![format!(
                "# as {}, in sqlplus / as sysdba of {}: shutdown immediate, then startup",
                instance.owner, instance.name
            )]
        }
        _ if instance.containered => vec![format!("# restart {} (it runs in a container)", instance.title())],
        _ => vec![format!("# restart {}", instance.title())],
    }
}

/// Whether a restart of an instance's service restarts this server and nothing else, and root may do it on its word.
pub(super) fn restarts(instance: &Instance) -> bool {
    let own = instance.unit.as_ref().is_some_and(|unit| unit.ends_with(".service")) && instance.unit_is_its_own;
    own && instance.is_known_to_the_host() && !instance.containered && instance.engine != Engine::Oracle
}

/// Where psql finds a server: ` -h FOLDER -p PORT` of its socket, else its port.
fn psql_target(instance: &Instance) -> String {
    let socket = instance.endpoints.iter().find_map(|endpoint| {
        let (folder, file) = endpoint.rsplit_once('/')?;
        Some((folder, file.strip_prefix(".s.PGSQL.")?))
    });
    let port = instance.endpoints.iter().find(|endpoint| endpoint.parse::<u16>().is_ok());
    match (socket, port) {
        (Some((folder, port)), _) => format!(" -h {} -p {}", shell_word(folder), shell_word(port)),
        (None, Some(port)) => format!(" -p {port}"),
        (None, None) => String::new(),
    }
}

/// Makes an instance ask for huge pages, and refuse to start without them where `must` and the engine can.
pub(super) fn ask(instance: &Instance, must: bool) -> Vec<String> {
    match instance.engine {
        Engine::PostgreSql => {
            let value = if must { "on" } else { "try" };
            let mut settings = Vec::new();
            if instance.asked == Asked::Cannot {
                settings.push(("shared_memory_type", "mmap"));
            }
            let asks = instance.setting_value("huge_pages").is_some_and(|value| value.eq_ignore_ascii_case("try"));
            if must || instance.asked != Asked::Cannot || !asks {
                settings.push(("huge_pages", value));
            }
            let port = psql_target(instance);
            let command = |(name, value): (&str, &str)| {
                let sql = format!("\"ALTER SYSTEM SET {name} = '{value}'\"");
                if instance.containered {
                    format!("# inside its container: psql{port} -c {sql}")
                } else if instance.owner_is_number() {
                    format!("# as user {}, who is in no local account file: psql{port} -c {sql}", instance.owner)
                } else {
                    format!("runuser -u {} -- psql{port} -c {sql}", shell_word(&instance.owner))
                }
            };
            settings.into_iter().map(command).collect()
        }
        Engine::Oracle => {
            let value = if must { "ONLY" } else { "TRUE" };
            vec![format!("# in sqlplus / as sysdba: ALTER SYSTEM SET use_large_pages={value} SCOPE=SPFILE;")]
        }
        Engine::MySql | Engine::MariaDb => {
            vec!["# in the [mysqld] section of its option file: large-pages = ON".into()]
        }
        Engine::Jvm => vec!["# add to its command line: -XX:+UseLargePages".into()],
        Engine::Qemu => {
            vec!["# give it -object memory-backend-memfd,hugetlb=on (libvirt: <memoryBacking><hugepages/></memoryBacking>)".into()]
        }
        Engine::Redis | Engine::Valkey | Engine::MongoDb | Engine::Other => {
            vec!["# turn huge pages on in its own settings, where it has them".into()]
        }
    }
}

/// Lets an instance's owner use SHM_HUGETLB.
pub(super) fn permit(host: &Host, instance: &Instance) -> Vec<String> {
    let process = host.process(instance.pid);
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
                    "# user {owner} is in no local account file: whoever keeps its account adds it to {name}"
                ));
            } else {
                fix.push(format!("usermod -aG {} {}", shell_word(&name), operand(&instance.owner)));
            }
            fix.push("# a log-in or a service started after that has the group".into());
            fix
        }
        (_, Some(gid)) if permission::may_be_given(host, gid) => vec![
            format!("sysctl -w vm.hugetlb_shm_group={gid}"),
            format!("printf 'vm.hugetlb_shm_group = {gid}\\n' > /etc/sysctl.d/zz-hugetlb-shm-group.conf"),
        ],
        _ => vec![format!("# set vm.hugetlb_shm_group to the number of a group that {} is in", instance.owner)],
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
        let (_, instance) = scene(0);
        let unit = Instance {
            engine: hugewise_model::Engine::PostgreSql,
            unit: Some("--host=elsewhere.service".into()),
            unit_is_its_own: true,
            vouchers: vec![hugewise_model::vouch::Voucher::Account],
            ..instance
        };
        assert_eq!(restart(&unit), ["systemctl restart -- '--host=elsewhere.service'"]);
        let unknown = Instance { owner: "4242".into(), unit: None, ..unit };
        assert!(ask(&unknown, true).iter().all(|line| line.starts_with('#')), "{:?}", ask(&unknown, true));
    }
}
