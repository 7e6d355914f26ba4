//! Oracle instances that do not run: the lines of oratab, and others that have run from a home
//! here.

use std::collections::BTreeSet;

use hugewise_host::config::services::ServiceDefinition;
use hugewise_host::{FactReader, Source};
use hugewise_model::configuration::FileLocation;
use hugewise_model::instance::{Mechanism, SessionModel};
use hugewise_model::trusted_by::TrustReason;
use hugewise_model::{AtBoot, Engine, Instance, Observed, Process, StoppedInstance, Trait};

use super::homes::{self, Home};
use super::{OracleProcessTitle, Parameters, described, detect_traits, last_start, starter};
use crate::shared::discovery::{Discovery, MOST, StoppedServer};
use crate::shared::settings::new_setting;
use crate::shared::{instance_names, options};
use crate::{EngineContext, FoundInstances};

/// Where Oracle's installers put the list on Linux, and where Solaris has it.
pub(super) const TABLES: [&str; 2] = ["/etc/oratab", "/var/opt/oracle/oratab"];
/// Grid Infrastructure's registry has a pointer here; it decides what starts at boot.
const CLUSTERWARE: &str = "/etc/oracle/olr.loc";
/// Run by `dbora.service` and the like; it starts instances with a Y.
pub(super) const LAUNCHER: &str = "dbstart";

#[derive(Debug, PartialEq, Eq)]
pub(super) struct OratabLine<'a> {
    pub(super) number: u64,
    pub(super) sid: &'a str,
    pub(super) home: &'a str,
    pub(super) starts: bool,
}

/// The lines of an oratab that name an instance: `*` stands for all without a line; ASM's name
/// begins with `+`, the management database's with `-`.
pub(super) fn parse_oratab(text: &str) -> impl Iterator<Item = OratabLine<'_>> {
    (1..).zip(text.lines()).filter_map(|(number, line)| {
        let mut fields = line.split('#').next()?.trim().split(':').map(str::trim);
        let (sid, home, starts) =
            (fields.next()?, fields.next()?, fields.next().unwrap_or_default());
        (is_name(sid) && home.starts_with('/')).then_some(OratabLine {
            number,
            sid,
            home,
            starts: starts.eq_ignore_ascii_case("y"),
        })
    })
}

fn monitor_title(sid: &str) -> String {
    let prefix = match sid {
        _ if sid.starts_with("+APX") => "apx",
        _ if sid.starts_with('+') => "asm",
        _ if sid.starts_with('-') => "mdb",
        _ => "ora",
    };
    format!("{prefix}_pmon_{sid}")
}

pub(super) fn find_stopped_servers(discovery: &mut Discovery<'_>) {
    let mut facts = FactReader::new(discovery.scene.source);
    let table = TABLES.into_iter().find_map(|path| Some((path, facts.read(path).into_known()?)));
    discovery.add_unreadable_list(Engine::Oracle, facts.unread);
    let (path, bytes) = table.unwrap_or((TABLES[0], Vec::new()));
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let all: Vec<OratabLine<'_>> = parse_oratab(&text).collect();
    let mut named: BTreeSet<String> = all.iter().map(|line| line.sid.to_owned()).collect();
    for line in &all {
        if is_running_from(discovery, line, &all) {
            note_dbstart(discovery, line);
            continue;
        }
        let known_by = format!("{path}:{}", line.number);
        let listed = ListedOracleInstance {
            sid: line.sid,
            home: line.home,
            starts: at_boot(discovery, line, &known_by),
            known_by,
            place: Some(FileLocation { file: path.to_owned(), line: line.number }),
            by_dbstart: line.starts,
        };
        if let Some(server) = build_stopped_instance(discovery, &listed) {
            named.insert(server.instance.name.clone());
            discovery.add(server);
        }
    }
    find_unlisted_instances(discovery, path, &all, &named);
}

/// What runs may have been started by hand: the boot starts all lines with a Y by a service.
fn note_dbstart(discovery: &mut Discovery<'_>, line: &OratabLine<'_>) {
    let is_its = |instance: &&Instance| instance_names::base_name(instance) == line.sid;
    let running = discovery.running_instances(&[Engine::Oracle]).find(is_its);
    let pid = running.map(|instance| instance.pid);
    let service = starter_service(discovery).filter(|_| line.starts && !is_clustered(discovery));
    if let (Some(pid), Some(service)) = (pid, service.cloned()) {
        discovery.note_boot_service(&service, pid);
    }
}

struct ListedOracleInstance<'a> {
    sid: &'a str,
    home: &'a str,
    known_by: String,
    starts: AtBoot,
    place: Option<FileLocation>,
    by_dbstart: bool,
}

/// Instances in no line: their parameter file is in a home that is known here, and their alert log
/// shows that they have run. A file alone may have come with the software, or from another node.
fn find_unlisted_instances(
    discovery: &mut Discovery<'_>,
    table: &str,
    all: &[OratabLine<'_>],
    named: &BTreeSet<String>,
) {
    let homes = list_homes(discovery, all);
    let running: BTreeSet<String> = discovery
        .running_instances(&[Engine::Oracle])
        .map(|instance| instance_names::base_name(instance).to_owned())
        .collect();
    let clustered = is_clustered(discovery);
    let is_known = |sid: &str| {
        let same_database = |other: &String| without_number(other) == without_number(sid);
        named.contains(sid)
            || running.contains(sid)
            || (clustered && named.iter().chain(&running).any(same_database))
    };
    let mut found = BTreeSet::<String>::new();
    for home in homes.iter().take(MOST_HOMES) {
        let Some(software) = Software::from_home(discovery, table, home) else { continue };
        let dbs = software.home.parameter_folder();
        let files = discovery.scene.files_of(&software.main);
        let names = files.list_folder(&dbs).into_known().unwrap_or_default();
        let sids = names.iter().filter_map(|name| sid_of_file(name));
        let sids = sids.filter(|sid| is_name(sid) && !is_known(sid) && !found.contains(*sid));
        let sids: BTreeSet<String> = sids.map(str::to_owned).collect();
        if sids.is_empty() {
            continue;
        }
        for sid in software.home.have_run(&files, &sids) {
            if found.len() > MOST {
                return;
            }
            let known_by = format!("{dbs}, where its parameter file is");
            let none = format!("no line of {table} names it ({known_by})");
            let starts = match clustered {
                true => AtBoot::Unknown(format!("Oracle Grid Infrastructure decides; {none}")),
                false => AtBoot::No(none),
            };
            let listed = ListedOracleInstance {
                sid: &sid,
                home,
                known_by,
                starts,
                place: None,
                by_dbstart: false,
            };
            if let Some(server) = build_stopped_instance(discovery, &listed) {
                discovery.add(server);
                found.insert(sid);
            }
        }
    }
}

fn list_homes(discovery: &Discovery<'_>, all: &[OratabLine<'_>]) -> BTreeSet<String> {
    let running = discovery.running_instances(&[Engine::Oracle]);
    running
        .filter_map(|instance| instance.setting_value("oracle_home"))
        .chain(all.iter().map(|line| line.home))
        .map(|home| home.trim_end_matches('/').to_owned())
        .collect()
}

const MOST_HOMES: usize = 32;

/// The SID of `spfilePROD.ora` or `initPROD.ora`; `initdw.ora` is a sample of up to 11.2.
fn sid_of_file(name: &str) -> Option<&str> {
    let stem = name.strip_suffix(".ora")?;
    let sid = stem.strip_prefix("spfile").or_else(|| stem.strip_prefix("init"))?;
    (!sid.is_empty() && sid != "dw").then_some(sid)
}

fn is_name(sid: &str) -> bool {
    sid.len() <= 64
        && OracleProcessTitle::parse(&monitor_title(sid)).is_some_and(|title| title.sid == sid)
}

/// The database of a cluster's instance: `PROD` of `PROD1` and of `PROD_1`.
fn without_number(sid: &str) -> &str {
    let name = sid.trim_end_matches(|sign: char| sign.is_ascii_digit());
    name.strip_suffix('_').filter(|_| name.len() < sid.len()).unwrap_or(name)
}

/// Whether a line's instance runs. With Grid Infrastructure a line may name a database: its
/// instances have its name and a number, or are told by their alert logs, and have no own line.
fn is_running_from(
    discovery: &Discovery<'_>,
    line: &OratabLine<'_>,
    all: &[OratabLine<'_>],
) -> bool {
    let clustered = is_clustered(discovery);
    let of_home = |instance: &Instance| {
        instance
            .setting_value("oracle_home")
            .is_none_or(|home| options::is_same_path(home, line.home))
    };
    let is_listed = |name: &str| all.iter().any(|other| other.sid == name);
    discovery.running_instances(&[Engine::Oracle]).any(|instance| {
        let name = instance_names::base_name(instance);
        let is_its = || is_numbered(name, line.sid) || writes_as(discovery, instance, line.sid);
        name == line.sid || (clustered && !is_listed(name) && of_home(instance) && is_its())
    })
}

/// Whether it is an instance's name of that database: `PROD1` and `PROD_1` of `PROD`.
fn is_numbered(name: &str, database: &str) -> bool {
    let digits = name.strip_prefix(database).map(|rest| rest.strip_prefix('_').unwrap_or(rest));
    digits.is_some_and(options::is_number)
}

/// Whether a running instance has its alert log among those of a database, whose unique name may
/// differ from its instances' names.
fn writes_as(discovery: &Discovery<'_>, running: &Instance, database: &str) -> bool {
    let Some(process) = discovery.scene.host.find_process(running.pid) else { return false };
    let Some(home) = running.setting_value("oracle_home") else { return false };
    let files = discovery.scene.files_of(process);
    let set = running.setting_value("diagnostic_dest").map(str::to_owned);
    let home = Home::read(&files, "", home).with_bases(set);
    home.instances_of(&files, database).iter().any(|sid| sid == instance_names::base_name(running))
}

fn is_clustered(discovery: &Discovery<'_>) -> bool {
    starter::runs_clusterware(discovery.scene.host)
        || !discovery.scene.source.read(CLUSTERWARE).is_absent()
}

struct Software {
    uid: u32,
    main: Process,
    home: Home,
}

impl Software {
    fn from_home(discovery: &Discovery<'_>, table: &str, home: &str) -> Option<Self> {
        let home = home.trim_end_matches('/');
        let uid = discovery.owner_of(&[table, home, &format!("{home}/dbs")]);
        let executable = Observed::Known(format!("{home}/bin/oracle"));
        let main = Process { executable, ..discovery.new_process(uid, Vec::new()) };
        let files = discovery.scene.files_of(&main);
        let bases = discovery
            .running_instances(&[Engine::Oracle])
            .filter_map(|instance| instance.setting_value("diagnostic_dest"));
        let home = Home::read(&files, "", home).with_bases(bases.map(str::to_owned));
        let is_there = !files.list_folder(&home.parameter_folder()).is_absent();
        is_there.then_some(Self { uid, main, home })
    }

    /// The instance that a line of oratab means: with Grid Infrastructure it may name the database.
    fn resolve_sid(&self, discovery: &Discovery<'_>, listed: &str) -> String {
        if !is_clustered(discovery) || listed.starts_with(['+', '-']) {
            return listed.to_owned();
        }
        let files = discovery.scene.files_of(&self.main);
        let dbs = files.list_folder(&self.home.parameter_folder()).into_known().unwrap_or_default();
        let mut in_files: Vec<&str> = dbs.iter().filter_map(|name| sid_of_file(name)).collect();
        in_files.sort_unstable();
        if in_files.contains(&listed) {
            return listed.to_owned();
        }
        let have_run = self.home.instances_of(&files, listed);
        let of_files = in_files.iter().copied().find(|sid| is_numbered(sid, listed));
        let both = in_files.iter().copied().find(|sid| have_run.iter().any(|text| text == sid));
        let one = both.or(have_run.first().map(String::as_str)).or(of_files);
        one.filter(|sid| is_name(sid)).unwrap_or(listed).to_owned()
    }
}

fn build_stopped_instance(
    discovery: &Discovery<'_>,
    listed: &ListedOracleInstance<'_>,
) -> Option<StoppedServer> {
    let scene = discovery.scene;
    let table = listed.place.as_ref().map_or(TABLES[0], |place| place.file.as_str());
    let software = Software::from_home(discovery, table, listed.home)?;
    let sid = software.resolve_sid(discovery, listed.sid);
    let Software { uid, main, home: software } = software;
    let home = listed.home.trim_end_matches('/');
    let title = monitor_title(&sid);
    let main = Process { command: Observed::Known(vec![title.clone()]), ..main };
    let title = OracleProcessTitle::parse(&title)?;
    let files = scene.files_of(&main);
    let mut notes = FoundInstances::default();
    let mut parameters =
        Parameters::read(scene, &mut notes, &main, &software.parameter_folder(), &sid);
    // Only the log shows that an instance in no table belongs here: it is read so that a capture
    // has it too.
    if !parameters.complete || listed.place.is_none() {
        let destination = parameters.diag_destination(&sid);
        let logs = software.alert_logs(&files, "", homes::kind_of(&sid), &sid, destination);
        let start =
            last_start::read(&scene.logs_of(&main), "", &logs).filter(|_| !parameters.complete);
        start.into_iter().for_each(|start| parameters.take_last_start(start));
    }
    let mut instance = of_parameters(scene, &parameters, &main, &title, home);
    instance.owner = discovery.owner_in_words(uid, "oracle");
    let setting = new_setting("oracle_home", home, listed.place.clone());
    instance.settings.insert("oracle_home".into(), setting);
    let asleep = StoppedInstance::new(listed.known_by.clone(), listed.starts.clone());
    let by_dbstart = listed.by_dbstart && !is_clustered(discovery);
    let starter = starter_service(discovery).filter(|_| by_dbstart);
    Some(StoppedServer {
        process: main,
        instance,
        asleep,
        voucher: TrustReason::Listed,
        starter: starter.map(|service| service.name.clone()),
        unread: notes.unread,
    })
}

fn of_parameters(
    scene: &EngineContext<'_>,
    parameters: &Parameters,
    main: &Process,
    title: &OracleProcessTitle<'_>,
    home: &str,
) -> Instance {
    let mut instance = scene.new_instance(Engine::Oracle, title.sid.to_owned(), main, Vec::new());
    instance.version = homes::version_in_home_path(home).into();
    parameters.fill_settings(title.sid, &mut instance);
    instance.traits = detect_traits(&instance, title);
    parameters.fill_request(&mut instance);
    instance.asked_page_size = scene.host.default_huge_page.clone();
    instance.mechanism = Mechanism::SysvShm;
    instance.session_model = SessionModel::Processes;
    super::fill_max_sessions(&mut instance);
    if scene.host.default_huge_page.is_known() && !instance.traits.contains(&Trait::Amm) {
        instance.demand = described::possible_demand(scene.host, &instance);
    }
    instance
}

fn starter_service<'a>(discovery: &'a Discovery<'_>) -> Option<&'a ServiceDefinition> {
    discovery.services.iter().find(|service| {
        service.command.first().is_some_and(|first| options::file_name(first) == LAUNCHER)
    })
}

fn at_boot(discovery: &Discovery<'_>, line: &OratabLine<'_>, known_by: &str) -> AtBoot {
    let letter = if line.starts { 'Y' } else { 'N' };
    let said = format!("{letter} ({known_by})");
    if is_clustered(discovery) {
        return AtBoot::Unknown(format!(
            "Oracle Grid Infrastructure decides, whatever oratab says: {said}"
        ));
    }
    if !line.starts {
        return AtBoot::No(said);
    }
    match starter_service(discovery).map(|service| &service.at_boot) {
        Some(AtBoot::Yes(why)) => AtBoot::Yes(format!("{said}, {why}")),
        Some(AtBoot::No(why)) => AtBoot::No(format!("{said}, but {why}")),
        Some(AtBoot::Unknown(why)) => AtBoot::Unknown(format!("{said}, {why}")),
        None => AtBoot::Unknown(format!("{said}, and no service is known to run {LAUNCHER}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_oratab() {
        let text = "# c\n*:/u01/db:N\nPROD:/u01/db:Y\n+ASM:/u01/grid:N\t# line added by \
             Agent\n:/x:Y\nDEV:/u01/db:y:w\nBAD:rel:Y\na b:/x:Y\nNEW:/u01/db\n";
        let said: Vec<_> = parse_oratab(text)
            .map(|line| (line.number, line.sid, line.home, line.starts))
            .collect();
        assert_eq!(
            said,
            [
                (3, "PROD", "/u01/db", true),
                (4, "+ASM", "/u01/grid", false),
                (6, "DEV", "/u01/db", true),
                (9, "NEW", "/u01/db", false)
            ]
        );
    }
}
