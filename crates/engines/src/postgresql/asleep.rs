//! PostgreSQL servers that do not run: Debian's clusters, and the data directories that units name.

use hugewise_host::{Door, Source};
use hugewise_model::instance::Startup;
use hugewise_model::vouch::Voucher;
use hugewise_model::{Asked, Asleep, AtBoot, Engine, Observed, Process};

use super::{KIND, ctl, describe, is_version, parse_lock, settings, titles};
use crate::estate::{Estate, Sleeper, by_service};
use crate::starting::Next;

/// Where postgresql-common keeps its clusters: a folder a version, in it one a cluster.
const CLUSTERS: &str = "/etc/postgresql";

const ENGINES: [Engine; 1] = [Engine::PostgreSql];

pub(super) fn asleep(estate: &mut Estate<'_>) {
    clusters(estate);
    units(estate);
}

fn clusters(estate: &mut Estate<'_>) {
    let mut door = Door::new(estate.source());
    let mut all = Vec::new();
    for version in door.list(CLUSTERS).into_known().unwrap_or_default().into_iter().filter(|name| is_version(name)) {
        let folder = format!("{CLUSTERS}/{version}");
        let clusters = door.list(&folder).into_known().unwrap_or_default();
        all.extend(clusters.into_iter().map(|cluster| (version.clone(), cluster)));
    }
    estate.tell(Engine::PostgreSql, door.unread);
    for (version, cluster) in all {
        if let Some(sleeper) = self::cluster(estate, &version, &cluster) {
            estate.add(sleeper);
        }
    }
}

/// A cluster of Debian's; none where it runs, or where its folder holds no configuration.
fn cluster(estate: &Estate<'_>, version: &str, cluster: &str) -> Option<Sleeper> {
    let scene = estate.scene;
    let folder = format!("{CLUSTERS}/{version}/{cluster}");
    let config = format!("{folder}/postgresql.conf");
    let unit = format!("postgresql@{version}-{cluster}.service");
    let of_it = |it: &hugewise_model::Instance| it.unit.as_deref() == Some(&unit);
    if estate.running(&ENGINES).any(of_it) {
        return None;
    }
    // Whoever can put something else in its place decides what is read there.
    let uid = estate.owner_of(&[CLUSTERS, &format!("{CLUSTERS}/{version}"), &folder, &config]);
    let named = |data: &str, options: &[String]| {
        let words = ["postgres", "-D", data].map(str::to_owned).into_iter().chain(options.iter().cloned());
        let program = words.chain(["-c".to_owned(), format!("config_file={config}")]).collect();
        Process { directory: Observed::Known(data.to_owned()), ..estate.process(uid, program) }
    };
    let usual = format!("/var/lib/postgresql/{version}/{cluster}");
    let main = named(&usual, &[]);
    let files = scene.files_of(&main);
    if files.read(&config).is_absent() {
        return None;
    }
    let nowhere = Observed::Known("/nonexistent".to_owned());
    let said = settings::read(scene.host, &mut Door::new(&files), &main, &Observed::Known(config.clone()), &nowhere);
    let data =
        said.settings.get("data_directory").known().map(|setting| setting.value.trim_end_matches('/').to_owned());
    let data = data.filter(|path| path.starts_with('/')).unwrap_or(usual);
    let mut door = Door::new(&files);
    let (options, hindered) = match ctl::of_cluster(scene.host, &mut door, &main, &folder) {
        Ok(options) => (options, None),
        Err(next) => (Vec::new(), Some(next)),
    };
    let main = named(&data, &options);
    if runs(estate, &mut door, &data) || estate.runs_on(&ENGINES, &config) {
        return None;
    }
    let mut instance = describe(scene, &mut door, &main, &[]);
    instance.owner = estate.owner_in_words(uid, "postgres");
    match hindered {
        Some(Next::Refused(why)) => instance.startup = instance.startup.or(Some(Startup::Refuses(why))),
        Some(_) => (instance.asked, instance.setting) = (Asked::Unknown, None),
        None => {}
    }
    let masked = estate.service(&unit).and_then(|service| service.masked.as_ref());
    if let Some(link) = masked {
        instance.startup = instance.startup.or_else(|| Some(Startup::Never(format!("{unit} is masked ({link})"))));
    }
    // Without it the server takes the folder for no data directory. Where that is to be mounted first, it is started then.
    let version = format!("{data}/PG_VERSION");
    if files.read(&version).is_absent() {
        instance.startup = Some(Startup::Never(format!("its data is not there: no {version}")));
    }
    let at_boot = match &instance.startup {
        Some(Startup::Never(why) | Startup::NotAtBoot(why)) => AtBoot::No(why.clone()),
        // The boot tries, whatever comes of it.
        Some(Startup::Refuses(_)) | None => {
            let auto = AtBoot::Yes(format!("start.conf=auto ({folder}/start.conf)"));
            by_service(estate.service("postgresql.service"), auto)
        }
    };
    let (asleep, voucher, starter) = (Asleep::new(config, at_boot), Voucher::Listed, Some(unit));
    Some(Sleeper { process: main, instance, asleep, voucher, starter, unread: door.unread })
}

/// Whether a server runs on a data directory: one that was found, or one whose process the directory's own file names.
fn runs(estate: &Estate<'_>, door: &mut Door<'_>, data: &str) -> bool {
    let lock = door.parse(&format!("{data}/postmaster.pid"), parse_lock).into_known();
    let alive = |pid: u32| estate.scene.host.process(pid).is_some_and(titles::is_server);
    lock.is_some_and(|lock| alive(lock.pid)) || estate.runs_on(&ENGINES, data)
}

fn units(estate: &mut Estate<'_>) {
    for (service, main) in estate.services_of(|program| KIND.starts(program)) {
        let scene = estate.scene;
        let files = scene.files_of(&main);
        let mut door = Door::new(&files);
        let data = super::option_directory(&main).filter(|path| path.starts_with('/'));
        let Some(data) = data.or_else(|| service.environment.get("PGDATA").cloned()) else { continue };
        let data = data.trim_end_matches('/').to_owned();
        let config = super::config_file(&main, &Observed::Known(data.clone()));
        let has_config = config.known().is_some_and(|config| !files.read(config).is_absent());
        // A package brings its service before anybody has made a cluster for it.
        if !has_config || runs(estate, &mut door, &data) || estate.is_listed(&data) {
            continue;
        }
        let main = Process { directory: Observed::Known(data), ..main.clone() };
        let instance = describe(scene, &mut door, &main, &[]);
        let unread = door.unread;
        let sleeper = Sleeper::of_service(&service, main, instance, unread);
        estate.add(sleeper);
    }
}
