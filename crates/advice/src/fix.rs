//! Fixes as commands.

use hugewise_model::escape::shell::operand;
use hugewise_model::instance::Mechanism;
use hugewise_model::{Asked, Bytes, Engine, Host, Instance, PageCount, PageSize};

use crate::permission::{Memlock, Right};
use crate::words::{boot_name, kib_up, percent, pool_file, shell_word};
use crate::{chain, need, permission};

/// A pool beyond this part of memory leaves too little for everything else: no command here asks for it.
pub(crate) const LARGEST_POOL: f64 = LARGEST_POOL_PERCENT as f64 / 100.0;

/// The same in percent.
pub const LARGEST_POOL_PERCENT: u8 = 80;

/// Memory that pools may take of `total` at most.
pub fn largest_pools(total: Bytes) -> Bytes {
    total.shared_by(100).unwrap_or_default().times(LARGEST_POOL_PERCENT.into())
}

/// Oracle wants free pages beyond its segments: a pool drained to the last one has made a clean shutdown fail.
const ORACLE_SPARE: PageCount = PageCount(2);

/// Pages that should stay free beyond the demand of these instances.
pub(crate) fn spare<'a>(mut instances: impl Iterator<Item = &'a Instance>) -> PageCount {
    if instances.any(|instance| instance.engine == Engine::Oracle) { ORACLE_SPARE } else { PageCount::ZERO }
}

/// Where a new setting of the pool goes: sorts behind every usual file, and the last file wins.
const SYSCTL_FILE: &str = "/etc/sysctl.d/zz-hugepages.conf";

/// The kernel reports no error where it cannot give all pages: they have to be read back.
const MAY_BE_FEWER: &str = "# may be fewer";

/// The pool of the page size that an instance asks for, large enough for it and for every other
/// instance that asks; then its restart.
pub(crate) fn pool_for(host: &Host, instances: &[Instance], instance: &Instance) -> Vec<String> {
    let Some(page) = need::page_size(host, instance) else {
        return vec![format!("# the page size that {} asks for is not known", instance.title())];
    };
    let Some(target) = target(host, instances, instance, page) else {
        return vec![format!("# its demand in {page} pages is not known; start from the size of its segments")];
    };
    let mut fix = set_pool(host, page, target);
    let title = instance.title();
    if need::rooms(host, instances).iter().any(|room| room.page_size == page && room.instance != title) {
        fix.insert(0, "# room for every server here that asks:".into());
    }
    fix.extend(permission_first(host, instance));
    fix.extend(restart(instance));
    fix
}

/// A pool alone does not help a server that may not use it.
fn permission_first(host: &Host, instance: &Instance) -> Vec<String> {
    if instance.mechanism != Mechanism::SysvShm
        || !matches!(permission::without_memlock(host, instance), Right::Lacks(_))
    {
        return Vec::new();
    }
    let enough = chain::memlock_of(host, instance).1 == Some(true);
    let rules = match permission::memlock(host) {
        Memlock::Buys(_) if enough => return Vec::new(),
        // Rules about permission speak of servers that ask.
        Memlock::Buys(_) if instance.asked == Asked::Cannot => {
            return raise_memlock(instance, kib_up(chain::memlock_needed(host, instance)));
        }
        _ if instance.asked == Asked::Cannot => return permit(host, instance),
        Memlock::Buys(_) => "HW301",
        Memlock::Unknown(_) if !enough => "HW301 and HW303",
        Memlock::Unknown(_) | Memlock::Useless(_) => "HW303",
    };
    vec![format!("# it may not use them yet: the fix of its {rules} before the restart")]
}

/// Pages that the pool needs so that this instance and all that ask fit.
pub(crate) fn target(host: &Host, instances: &[Instance], instance: &Instance, page: PageSize) -> Option<PageCount> {
    let own = need::more(host, instance)?;
    let title = instance.title();
    let others = need::rooms(host, instances);
    let others: PageCount =
        others.iter().filter(|room| room.page_size == page && room.instance != title).map(|room| room.wants).sum();
    let spare = spare(instances.iter().filter(|it| need::page_size(host, it) == Some(page)));
    let (total, available) =
        host.pool(page).and_then(|pool| Some((pool.total.get()?, pool.available()?))).unwrap_or_default();
    Some(total + (own.pages + others + spare).saturating_sub(available))
}

/// Sets a pool now and for the next boot.
pub(crate) fn set_pool(host: &Host, page: PageSize, pages: PageCount) -> Vec<String> {
    let count = pages.get();
    if let Some(part) = host.memory.total.get().and_then(|total| pages.of(page).part_of(total))
        && part > LARGEST_POOL
    {
        let part = percent(part);
        return vec![format!("# {pages} pages of {page} would be {part} of memory: make the segment smaller first")];
    }
    let mut fix = Vec::new();
    let now = host.pool(page).and_then(hugewise_model::Pool::memory).unwrap_or_default();
    let extra = pages.of(page).saturating_sub(now);
    if host.memory.free.get().is_some_and(|free| extra > free) {
        fix.push(format!("# {extra} has to be free first: stop the server before, or reserve the pool at boot"));
    }
    if host.default_huge_page.get() == Some(page) {
        fix.push(format!("sysctl -w vm.nr_hugepages={count}"));
        fix.push(format!("grep HugePages_Total /proc/meminfo  {MAY_BE_FEWER}"));
        if let Some(winner) =
            host.configuration.sysctl_winner("vm.nr_hugepages").filter(|it| it.place.file != SYSCTL_FILE)
        {
            fix.push(format!(
                "# {} sets {} for the next boot; this file is read later and wins:",
                winner.place, winner.value
            ));
        }
        fix.push(format!("printf 'vm.nr_hugepages = {count}\\n' > {SYSCTL_FILE}"));
    } else {
        let file = pool_file(page, "nr_hugepages");
        let name = boot_name(page);
        fix.push(format!("echo {count} > {file}"));
        fix.push(format!("cat {file}  {MAY_BE_FEWER}"));
        fix.push(format!("printf 'w {file} - - - - {count}\\n' > /etc/tmpfiles.d/hugepages-{name}.conf"));
        if page >= PageSize::GIB_1 {
            fix.push(format!("# pages this large are surest at boot: hugepagesz={name} hugepages={count}"));
        }
    }
    fix
}

/// Restarts an instance: huge pages come at its start alone.
pub fn restart(instance: &Instance) -> Vec<String> {
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
pub fn restarts(instance: &Instance) -> bool {
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
pub fn ask(instance: &Instance, must: bool) -> Vec<String> {
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

/// Raises the memlock limit where the instance gets it from: its unit, or a log-in of its owner.
pub fn raise_memlock(instance: &Instance, kib: u64) -> Vec<String> {
    match instance.unit.as_deref().filter(|_| instance.is_known_to_the_host()) {
        Some(unit) => {
            let folder = shell_word(&format!("/etc/systemd/system/{unit}.d"));
            vec![
                format!("mkdir -p {folder}"),
                format!("printf '[Service]\\nLimitMEMLOCK=infinity\\n' > {folder}/memlock.conf"),
                "systemctl daemon-reload".into(),
            ]
        }
        None => {
            let owner = &instance.owner;
            let plain = owner.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c));
            if instance.owner_is_number() {
                // A number alone would be taken for a name.
                vec![
                    format!("# user {owner} is in no local account file: in /etc/security/limits.d, by number,"),
                    format!("# {owner}:{owner} - memlock {kib}"),
                ]
            } else if plain {
                vec![
                    format!("printf '{owner} - memlock {kib}\\n' > /etc/security/limits.d/99-hugepages.conf"),
                    "# holds for log-ins from now on".into(),
                ]
            } else {
                vec![format!("# in /etc/security/limits.d, for its owner: - memlock {kib}")]
            }
        }
    }
}

/// Lets an instance's owner use SHM_HUGETLB.
pub fn permit(host: &Host, instance: &Instance) -> Vec<String> {
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
    use super::*;
    use crate::testing;

    #[test]
    fn an_owner_without_a_name_is_told_by_number_and_no_command_takes_the_number_for_a_name() {
        let mut case = testing::quiet();
        let instance = case.postgresql("main", testing::gib(8));
        (instance.owner, instance.unit, instance.containered) = ("4242".into(), None, false);
        let instance = instance.clone();
        assert_eq!(instance.owner_in_words(), "user 4242 (in no local account file)");
        for line in raise_memlock(&instance, 64).iter().chain(&ask(&instance, true)) {
            assert!(line.starts_with('#'), "{line}");
        }
        assert!(raise_memlock(&instance, 64)[1].contains("4242:4242 - memlock 64"));
        let named = Instance { owner: "pg15".into(), ..instance };
        assert_eq!(named.owner_in_words(), "pg15");
        assert!(raise_memlock(&named, 64)[0].contains("printf 'pg15 - memlock 64"));
    }
}
