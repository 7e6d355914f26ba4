//! Oracle instances that do not run: the lines of oratab.

use hugewise_host::config::services::Service;
use hugewise_host::{Door, Source};
use hugewise_model::configuration::Place;
use hugewise_model::instance::{Mechanism, SessionModel, Setting};
use hugewise_model::vouch::Voucher;
use hugewise_model::{Asleep, AtBoot, Engine, Instance, Observed, Process, Trait};

use super::homes::Home;
use super::{Parameters, SETTINGS, Title, asked, described, last_start, starter, traits};
use crate::estate::{Estate, Sleeper};
use crate::settings::shown;
use crate::{Found, Scene, named, options, versions};

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
        let fits = sid.len() <= 64 && Title::parse(&monitor(sid)).is_some_and(|title| title.sid == sid);
        (fits && home.starts_with('/')).then_some(Line { number, sid, home, starts: starts.eq_ignore_ascii_case("y") })
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
    let Some((path, bytes)) = table else { return };
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let all: Vec<Line<'_>> = lines(&text).collect();
    for line in &all {
        if !runs(estate, line, &all)
            && let Some(sleeper) = instance(estate, path, line)
        {
            estate.add(sleeper);
        }
    }
}

/// Whether an instance of that name runs from that home. Of a cluster's database the list has the database, whose instances
/// have a number behind its name: on a host with Grid Infrastructure, and of an instance that has no line of its own.
fn runs(estate: &Estate<'_>, line: &Line<'_>, all: &[Line<'_>]) -> bool {
    let clustered = is_clustered(estate);
    let is_numbered = |name: &str| {
        let digits = name.strip_prefix(line.sid).map(|rest| rest.strip_prefix('_').unwrap_or(rest));
        digits.is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let of_home = |it: &Instance| it.setting_value("oracle_home").is_none_or(|home| is_same(home, line.home));
    let is_listed = |name: &str| all.iter().any(|other| other.sid == name);
    estate.running(&[Engine::Oracle]).any(|it| {
        let name = named::own(it);
        name == line.sid || (clustered && is_numbered(name) && !is_listed(name) && of_home(it))
    })
}

/// Whether Grid Infrastructure is there, or may be.
fn is_clustered(estate: &Estate<'_>) -> bool {
    starter::runs_clusterware(estate.scene.host) || !estate.source().read(CLUSTERWARE).is_absent()
}

fn is_same(one: &str, other: &str) -> bool {
    one.trim_end_matches('/') == other.trim_end_matches('/')
}

/// The instance of a line; none where its software is not there.
fn instance(estate: &Estate<'_>, table: &str, line: &Line<'_>) -> Option<Sleeper> {
    let scene = estate.scene;
    let home = line.home.trim_end_matches('/');
    let uid = estate.owner_of(&[table, home, &format!("{home}/dbs")]);
    let executable = Observed::Known(format!("{home}/bin/oracle"));
    let main = Process { executable, ..estate.process(uid, vec![monitor(line.sid)]) };
    let title = monitor(line.sid);
    let title = Title::parse(&title)?;
    let files = scene.files_of(&main);
    let software = Home::read(&files, "", home);
    let dbs = software.dbs();
    if files.list(&dbs).is_absent() {
        return None;
    }
    let mut notes = Found::default();
    let mut parameters = Parameters::read(scene, &mut notes, &main, &dbs, line.sid);
    if !parameters.complete {
        let kind = if line.sid.starts_with('+') { "asm" } else { "rdbms" };
        let logs = scene.logs_of(&main);
        let start = last_start::read(
            &logs,
            "",
            &software.alert_logs(&files, "", kind, line.sid, parameters.destination(line.sid)),
        );
        start.into_iter().for_each(|start| parameters.take_last_start(start));
    }
    let mut instance = of_parameters(scene, &parameters, &main, &title);
    instance.owner = estate.owner_in_words(uid, "oracle");
    instance.version = versions::in_path(home).into();
    let place = Some(Place { file: table.to_owned(), line: line.number });
    let setting = Setting { name: "oracle_home".into(), value: home.to_owned(), place };
    instance.settings.insert("oracle_home".into(), setting);
    let known_by = format!("{table}:{}", line.number);
    let asleep = Asleep::new(known_by.clone(), at_boot(estate, line, &known_by));
    let starter = starters(estate).next().filter(|_| line.starts && !is_clustered(estate));
    let starter = starter.map(|service| service.name.clone());
    Some(Sleeper { process: main, instance, asleep, voucher: Voucher::Listed, starter, unread: notes.unread })
}

/// What its parameters make of it.
fn of_parameters(scene: &Scene<'_>, parameters: &Parameters, main: &Process, title: &Title<'_>) -> Instance {
    let mut instance = scene.instance(Engine::Oracle, title.sid.to_owned(), main, Vec::new());
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
