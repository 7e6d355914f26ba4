//! Oracle instances that do not run: the lines of oratab, and those that no line names and that have run from a home here.

use std::collections::BTreeSet;

use hugewise_host::config::services::Service;
use hugewise_host::{Door, Source};
use hugewise_model::configuration::Place;
use hugewise_model::instance::{Mechanism, SessionModel, Setting};
use hugewise_model::vouch::Voucher;
use hugewise_model::{Asleep, AtBoot, Engine, Instance, Observed, Process, Trait};

use super::homes::{self, Home};
use super::{Parameters, SETTINGS, Title, asked, described, last_start, starter, traits};
use crate::estate::{Estate, MOST, Sleeper};
use crate::settings::shown;
use crate::{Found, Scene, named, options};

/// Where Oracle's installers put the list: Linux, and where Solaris has it.
pub(super) const TABLES: [&str; 2] = ["/etc/oratab", "/var/opt/oracle/oratab"];

/// Where Grid Infrastructure keeps where its registry is: with it, what starts at the boot stands in there.
const CLUSTERWARE: &str = "/etc/oracle/olr.loc";

/// `dbora.service` and the like run it: it starts those that have a Y.
pub(super) const LAUNCHER: &str = "dbstart";

/// `SID:HOME:Y`, with its line.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Line<'a> {
    pub(super) number: u64,
    pub(super) sid: &'a str,
    pub(super) home: &'a str,
    pub(super) starts: bool,
}

/// The lines of an oratab that name an instance: `*` stands for all that have no line, and `+` and `-` begin ASM's and the
/// management database's.
pub(super) fn lines(text: &str) -> impl Iterator<Item = Line<'_>> {
    (1..).zip(text.lines()).filter_map(|(number, line)| {
        let mut fields = line.split('#').next()?.trim().split(':').map(str::trim);
        let (sid, home, starts) = (fields.next()?, fields.next()?, fields.next().unwrap_or_default());
        (is_name(sid) && home.starts_with('/')).then_some(Line {
            number,
            sid,
            home,
            starts: starts.eq_ignore_ascii_case("y"),
        })
    })
}

fn monitor(sid: &str) -> String {
    let prefix = match sid {
        _ if sid.starts_with("+APX") => "apx",
        _ if sid.starts_with('+') => "asm",
        _ if sid.starts_with('-') => "mdb",
        _ => "ora",
    };
    format!("{prefix}_pmon_{sid}")
}

pub(super) fn asleep(estate: &mut Estate<'_>) {
    let mut door = Door::new(estate.source());
    let table = TABLES.into_iter().find_map(|path| Some((path, door.read(path).into_known()?)));
    estate.tell(Engine::Oracle, door.unread);
    let (path, bytes) = table.unwrap_or((TABLES[0], Vec::new()));
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let all: Vec<Line<'_>> = lines(&text).collect();
    let mut named: BTreeSet<String> = all.iter().map(|line| line.sid.to_owned()).collect();
    for line in &all {
        if runs(estate, line, &all) {
            continue;
        }
        let known_by = format!("{path}:{}", line.number);
        let starts = at_boot(estate, line, &known_by);
        let place = Place { file: path.to_owned(), line: line.number };
        let listed =
            Listed { sid: line.sid, home: line.home, known_by, starts, place: Some(place), by_table: Some(line) };
        if let Some(sleeper) = instance(estate, &listed) {
            named.insert(sleeper.instance.name.clone());
            estate.add(sleeper);
        }
    }
    unlisted(estate, path, &all, &named);
}

/// An instance that may be asleep, and what says so.
struct Listed<'a> {
    /// Its name, or that of the database that it is an instance of.
    sid: &'a str,
    home: &'a str,
    known_by: String,
    starts: AtBoot,
    /// Where its home is told.
    place: Option<Place>,
    /// Its line of oratab.
    by_table: Option<&'a Line<'a>>,
}

/// Those that no line names: they have their parameter file in a home that is known here, and have run, as their alert log tells.
/// A file alone may have come with the software, or from another node.
fn unlisted(estate: &mut Estate<'_>, table: &str, all: &[Line<'_>], named: &BTreeSet<String>) {
    let known = estate.running(&[Engine::Oracle]).filter_map(|it| it.setting_value("oracle_home").map(str::to_owned));
    let homes: BTreeSet<String> = known
        .chain(all.iter().map(|line| line.home.to_owned()))
        .map(|home| home.trim_end_matches('/').to_owned())
        .collect();
    let running: BTreeSet<String> = estate.running(&[Engine::Oracle]).map(|it| named::own(it).to_owned()).collect();
    let clustered = is_clustered(estate);
    let of_cluster = |sid: &str| {
        let known = named.iter().chain(&running);
        clustered && known.into_iter().any(|other| without_number(other) == without_number(sid))
    };
    let mut found = BTreeSet::<String>::new();
    for home in homes.iter().take(MOST_HOMES) {
        let Some(software) = Software::of(estate, table, home) else { continue };
        let dbs = software.home.dbs();
        let files = estate.scene.files_of(&software.main);
        let names = files.list(&dbs).into_known().unwrap_or_default();
        let is_known = |sid: &str| named.contains(sid) || running.contains(sid) || of_cluster(sid);
        let sids = names.iter().filter_map(|name| sid_of_file(name)).filter(|sid| is_name(sid) && !is_known(sid));
        let sids: BTreeSet<String> = sids.filter(|sid| !found.contains(*sid)).map(str::to_owned).collect();
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
            let listed = Listed { sid: &sid, home, known_by, starts, place: None, by_table: None };
            if let Some(sleeper) = instance(estate, &listed) {
                found.insert(sid.clone());
                estate.add(sleeper);
            }
        }
    }
}

/// Homes that are looked through for instances that no line names.
const MOST_HOMES: usize = 32;

/// `spfilePROD.ora` and `initPROD.ora` in a folder of parameter files. Releases up to 11.2 came with a sample, `initdw.ora`.
fn sid_of_file(name: &str) -> Option<&str> {
    let stem = name.strip_suffix(".ora")?;
    let sid = stem.strip_prefix("spfile").or_else(|| stem.strip_prefix("init"))?;
    (!sid.is_empty() && sid != "dw").then_some(sid)
}

/// Whether an instance may have that name.
fn is_name(sid: &str) -> bool {
    sid.len() <= 64 && Title::parse(&monitor(sid)).is_some_and(|title| title.sid == sid)
}

/// Of an instance of a cluster's database, the database: `PROD` of `PROD1` and of `PROD_1`.
fn without_number(sid: &str) -> &str {
    let name = sid.trim_end_matches(|sign: char| sign.is_ascii_digit());
    name.strip_suffix('_').filter(|_| name.len() < sid.len()).unwrap_or(name)
}

/// The kind of its ADR home.
fn kind_of(sid: &str) -> &'static str {
    if sid.starts_with('+') { "asm" } else { "rdbms" }
}

/// Whether an instance of that name runs from that home. Of a cluster's database the list has the database, whose instances
/// have a number behind its name, or are told by its alert logs: on a host with Grid Infrastructure, and of an instance that has
/// no line of its own.
fn runs(estate: &Estate<'_>, line: &Line<'_>, all: &[Line<'_>]) -> bool {
    let clustered = is_clustered(estate);
    let of_home = |it: &Instance| it.setting_value("oracle_home").is_none_or(|home| is_same(home, line.home));
    let is_listed = |name: &str| all.iter().any(|other| other.sid == name);
    estate.running(&[Engine::Oracle]).any(|it| {
        let name = named::own(it);
        let is_its = || is_numbered(name, line.sid) || writes_as(estate, it, line.sid);
        name == line.sid || (clustered && !is_listed(name) && of_home(it) && is_its())
    })
}

/// Whether it is an instance's name of that database: `PROD1` and `PROD_1` of `PROD`.
fn is_numbered(name: &str, database: &str) -> bool {
    let digits = name.strip_prefix(database).map(|rest| rest.strip_prefix('_').unwrap_or(rest));
    digits.is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Whether an instance that runs has its alert log among those of that database, whose unique name may be another than its
/// instances begin with.
fn writes_as(estate: &Estate<'_>, running: &Instance, database: &str) -> bool {
    let Some(process) = estate.scene.host.process(running.pid) else { return false };
    let Some(home) = running.setting_value("oracle_home") else { return false };
    let files = estate.scene.files_of(process);
    let set = running.setting_value("diagnostic_dest").map(str::to_owned);
    let home = Home::read(&files, "", home).with_bases(set);
    home.instances_of(&files, database).iter().any(|sid| sid == named::own(running))
}

/// Whether Grid Infrastructure is there, or may be.
fn is_clustered(estate: &Estate<'_>) -> bool {
    starter::runs_clusterware(estate.scene.host) || !estate.source().read(CLUSTERWARE).is_absent()
}

fn is_same(one: &str, other: &str) -> bool {
    one.trim_end_matches('/') == other.trim_end_matches('/')
}

/// A home, and a process that would run from it.
struct Software {
    uid: u32,
    main: Process,
    home: Home,
}

impl Software {
    /// None where no folder for parameter files is there.
    fn of(estate: &Estate<'_>, table: &str, home: &str) -> Option<Self> {
        let home = home.trim_end_matches('/');
        let uid = estate.owner_of(&[table, home, &format!("{home}/dbs")]);
        let executable = Observed::Known(format!("{home}/bin/oracle"));
        let main = Process { executable, ..estate.process(uid, Vec::new()) };
        let files = estate.scene.files_of(&main);
        let bases = estate.running(&[Engine::Oracle]).filter_map(|it| it.setting_value("diagnostic_dest"));
        let home = Home::read(&files, "", home).with_bases(bases.map(str::to_owned));
        let is_there = !files.list(&home.dbs()).is_absent();
        is_there.then_some(Self { uid, main, home })
    }

    /// What the instance is called that a line of oratab means: where Grid Infrastructure is, that line may have the database.
    fn sid(&self, estate: &Estate<'_>, listed: &str) -> String {
        if !is_clustered(estate) || listed.starts_with(['+', '-']) {
            return listed.to_owned();
        }
        let files = estate.scene.files_of(&self.main);
        let dbs = files.list(&self.home.dbs()).into_known().unwrap_or_default();
        let mut in_files: Vec<&str> = dbs.iter().filter_map(|name| sid_of_file(name)).collect();
        in_files.sort_unstable();
        if in_files.contains(&listed) {
            return listed.to_owned();
        }
        let have_run = self.home.instances_of(&files, listed);
        let of_files = in_files.iter().copied().find(|sid| is_numbered(sid, listed));
        let both = in_files.iter().copied().find(|sid| have_run.iter().any(|it| it == sid));
        let one = both.or(have_run.first().map(String::as_str)).or(of_files);
        one.filter(|sid| is_name(sid)).unwrap_or(listed).to_owned()
    }
}

/// The instance; none where its software is not there.
fn instance(estate: &Estate<'_>, listed: &Listed<'_>) -> Option<Sleeper> {
    let scene = estate.scene;
    let table = listed.place.as_ref().map_or(TABLES[0], |place| place.file.as_str());
    let software = Software::of(estate, table, listed.home)?;
    let sid = software.sid(estate, listed.sid);
    let Software { uid, main, home: software } = software;
    let home = listed.home.trim_end_matches('/');
    let main = Process { command: Observed::Known(vec![monitor(&sid)]), ..main };
    let title = monitor(&sid);
    let title = Title::parse(&title)?;
    let files = scene.files_of(&main);
    let mut notes = Found::default();
    let mut parameters = Parameters::read(scene, &mut notes, &main, &software.dbs(), &sid);
    // Of one that no table names the log is what says that it is here: it is looked into, so that a capture has it too.
    if !parameters.complete || listed.by_table.is_none() {
        let logs = scene.logs_of(&main);
        let alert = software.alert_logs(&files, "", kind_of(&sid), &sid, parameters.destination(&sid));
        let start = last_start::read(&logs, "", &alert).filter(|_| !parameters.complete);
        start.into_iter().for_each(|start| parameters.take_last_start(start));
    }
    let mut instance = of_parameters(scene, &parameters, &main, &title, home);
    instance.owner = estate.owner_in_words(uid, "oracle");
    let setting = Setting { name: "oracle_home".into(), value: home.to_owned(), place: listed.place.clone() };
    instance.settings.insert("oracle_home".into(), setting);
    let asleep = Asleep::new(listed.known_by.clone(), listed.starts.clone());
    let by_dbstart = listed.by_table.is_some_and(|line| line.starts) && !is_clustered(estate);
    let starter = starters(estate).next().filter(|_| by_dbstart).map(|service| service.name.clone());
    Some(Sleeper { process: main, instance, asleep, voucher: Voucher::Listed, starter, unread: notes.unread })
}

/// What its parameters make of it.
fn of_parameters(
    scene: &Scene<'_>,
    parameters: &Parameters,
    main: &Process,
    title: &Title<'_>,
    home: &str,
) -> Instance {
    let mut instance = scene.instance(Engine::Oracle, title.sid.to_owned(), main, Vec::new());
    // What it makes of its parameters hangs on the release.
    instance.version = homes::version(home).into();
    for name in SETTINGS {
        if let Some((file, one)) = parameters.effective(title.sid, name) {
            let place = Some(Place { file: file.to_owned(), line: one.line });
            let setting = Setting { name: (*name).to_owned(), value: shown(name, &one.value).to_owned(), place };
            instance.settings.insert((*name).to_owned(), setting);
        }
    }
    instance.traits = traits(&instance, title);
    (instance.asked, instance.setting) = asked(&instance, parameters.complete || parameters.last_start.is_some());
    if let (Some(source), Some(setting)) = (&parameters.last_start, &mut instance.setting) {
        setting.place.get_or_insert_with(|| Place { file: source.clone(), line: 0 });
    }
    instance.asked_page_size = scene.host.default_huge_page.clone();
    instance.mechanism = Mechanism::SysvShm;
    instance.session_model = SessionModel::Processes;
    instance.max_sessions = instance.setting_value("processes").and_then(|value| value.parse().ok()).into();
    if scene.host.default_huge_page.is_known() && !instance.traits.contains(&Trait::Amm) {
        instance.demand = described::estimated(scene.host, &instance).ok().flatten().map(|(demand, _)| demand);
    }
    instance
}

/// The services that start those that have a Y.
fn starters<'a>(estate: &'a Estate<'_>) -> impl Iterator<Item = &'a Service> {
    let runs_dbstart = |words: &[String]| words.first().is_some_and(|first| options::file_name(first) == LAUNCHER);
    estate.services.iter().filter(move |service| runs_dbstart(&service.command))
}

fn at_boot(estate: &Estate<'_>, line: &Line<'_>, known_by: &str) -> AtBoot {
    let letter = if line.starts { 'Y' } else { 'N' };
    let said = format!("{letter} ({known_by})");
    if is_clustered(estate) {
        return AtBoot::Unknown(format!("Oracle Grid Infrastructure decides, whatever oratab says: {said}"));
    }
    if !line.starts {
        return AtBoot::No(said);
    }
    match starters(estate).next().map(|service| &service.at_boot) {
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
        let text = "# c\n*:/u01/db:N\nPROD:/u01/db:Y\n+ASM:/u01/grid:N\t# line added by Agent\n:/x:Y\nDEV:/u01/db:y:w\nBAD:rel:Y\na b:/x:Y\nNEW:/u01/db\n";
        let said: Vec<_> = lines(text).map(|line| (line.number, line.sid, line.home, line.starts)).collect();
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
