//! PostgreSQL servers that do not run: Debian's clusters, and the data directories that units name.

use hugewise_host::{FactReader, Source};
use hugewise_model::instance::Startup;
use hugewise_model::trusted_by::TrustReason;
use hugewise_model::{
    AtBoot, Engine, Host, HugePageMode, Instance, Observed, Process, StoppedInstance,
};

use super::{KIND, build_instance, is_version, parse_lock, patroni, pg_ctl, settings, titles};
use crate::shared::discovery::{Discovery, StoppedServer, by_service};
use crate::shared::starting::NextCommandLine;

/// postgresql-common's folders: a version each, in it one for each cluster.
const CLUSTERS: &str = "/etc/postgresql";
const ENGINES: [Engine; 1] = [Engine::PostgreSql];

pub(super) fn find_stopped_servers(discovery: &mut Discovery<'_>) {
    find_debian_clusters(discovery);
    find_unit_servers(discovery);
    patroni::find_servers(discovery);
}

fn find_debian_clusters(discovery: &mut Discovery<'_>) {
    let mut facts = FactReader::new(discovery.scene.source);
    let mut all = Vec::new();
    let versions = facts.list_folder(CLUSTERS).into_known().unwrap_or_default();
    for version in versions.into_iter().filter(|name| is_version(name)) {
        let folder = format!("{CLUSTERS}/{version}");
        let clusters = facts.list_folder(&folder).into_known().unwrap_or_default();
        all.extend(clusters.into_iter().map(|cluster| (version.clone(), cluster)));
    }
    discovery.add_unreadable_list(Engine::PostgreSql, facts.unread);
    for (version, cluster) in all {
        if let Some(server) = build_stopped_cluster(discovery, &version, &cluster) {
            discovery.add(server);
        }
    }
}

fn build_stopped_cluster(
    discovery: &Discovery<'_>,
    version: &str,
    cluster: &str,
) -> Option<StoppedServer> {
    let scene = discovery.scene;
    let cluster = DebianCluster::new(version, cluster);
    let has_unit = |instance: &Instance| instance.unit.as_deref() == Some(&cluster.unit);
    if discovery.running_instances(&ENGINES).any(has_unit) {
        return None;
    }
    // Whoever can replace it decides what is read there.
    let version_folder = format!("{CLUSTERS}/{version}");
    let uid = discovery.owner_of(&[CLUSTERS, &version_folder, &cluster.folder, &cluster.config]);
    let main = cluster.new_process(discovery, uid, &cluster.default_data, &[]);
    let files = scene.files_of(&main);
    if files.read(&cluster.config).is_absent() {
        return None;
    }
    let data = cluster.find_data_directory(scene.host, &files, &main);
    let mut facts = FactReader::new(&files);
    let (options, hindered) =
        match pg_ctl::options_of(scene.host, &mut facts, &main, &cluster.folder) {
            Ok(found) => (found.map(|(words, _)| words).unwrap_or_default(), None),
            Err(next) => (Vec::new(), Some(next)),
        };
    let main = cluster.new_process(discovery, uid, &data, &options);
    if is_running_on(discovery, &mut facts, &data) || discovery.runs_on(&ENGINES, &cluster.config) {
        return None;
    }
    let mut instance = build_instance(scene, &mut facts, &main, &[]);
    instance.owner = discovery.owner_in_words(uid, "postgres");
    if matches!(&hindered, Some(next) if !matches!(next, NextCommandLine::Refused(_))) {
        (instance.asked, instance.setting) = (HugePageMode::Unknown, None);
    }
    instance.startup =
        cluster.predict_startup(discovery, &files, &data, instance.startup.take(), hindered);
    let at_boot = cluster.predict_boot_start(discovery, instance.startup.as_ref());
    Some(StoppedServer {
        process: main,
        instance,
        asleep: StoppedInstance::new(cluster.config, at_boot),
        voucher: TrustReason::Listed,
        starter: Some(cluster.unit),
        unread: facts.unread,
    })
}

struct DebianCluster {
    folder: String,
    config: String,
    unit: String,
    default_data: String,
}

impl DebianCluster {
    fn new(version: &str, cluster: &str) -> Self {
        let folder = format!("{CLUSTERS}/{version}/{cluster}");
        Self {
            config: format!("{folder}/postgresql.conf"),
            folder,
            unit: format!("postgresql@{version}-{cluster}.service"),
            default_data: format!("/var/lib/postgresql/{version}/{cluster}"),
        }
    }

    fn new_process(
        &self,
        discovery: &Discovery<'_>,
        uid: u32,
        data: &str,
        options: &[String],
    ) -> Process {
        let words =
            ["postgres", "-D", data].map(str::to_owned).into_iter().chain(options.iter().cloned());
        let config = ["-c".to_owned(), format!("config_file={}", self.config)];
        Process {
            directory: Observed::Known(data.to_owned()),
            ..discovery.new_process(uid, words.chain(config).collect())
        }
    }

    fn find_data_directory(&self, host: &Host, files: &dyn Source, main: &Process) -> String {
        let config = Observed::Known(self.config.clone());
        let nowhere = Observed::Known("/nonexistent".to_owned());
        let mut facts = FactReader::new(files);
        let settings = settings::read(host, &mut facts, main, &config, &nowhere).settings;
        settings
            .get("data_directory")
            .as_known()
            .map(|setting| setting.value.trim_end_matches('/').to_owned())
            .filter(|path| path.starts_with('/'))
            .unwrap_or_else(|| self.default_data.clone())
    }

    /// Why it does not start, if known: by `start.conf`, `pg_ctl.conf` or its unit.
    fn predict_startup(
        &self,
        discovery: &Discovery<'_>,
        files: &dyn Source,
        data: &str,
        by_start_conf: Option<Startup>,
        hindered: Option<NextCommandLine>,
    ) -> Option<Startup> {
        // Without PG_VERSION this is no data directory. It may be mounted before the start.
        let version = format!("{data}/PG_VERSION");
        if files.read(&version).is_absent() {
            return Some(Startup::Never(format!("its data is not there: no {version}")));
        }
        let refused = match hindered {
            Some(NextCommandLine::Refused(why)) => Some(Startup::Refuses(why)),
            _ => None,
        };
        by_start_conf.or(refused).or_else(|| {
            let link = discovery.find_service(&self.unit)?.masked.as_ref()?;
            Some(Startup::Never(format!("{} is masked ({link})", self.unit)))
        })
    }

    fn predict_boot_start(&self, discovery: &Discovery<'_>, startup: Option<&Startup>) -> AtBoot {
        match startup {
            Some(Startup::Never(why) | Startup::NotAtBoot(why)) => AtBoot::No(why.clone()),
            // The boot tries, whatever comes of it.
            Some(Startup::Refuses(_)) | None => {
                let auto = AtBoot::Yes(format!("start.conf=auto ({}/start.conf)", self.folder));
                by_service(discovery.find_service("postgresql.service"), auto)
            }
        }
    }
}

/// Whether a server runs on a data directory, as found or by the directory's lock file.
pub(super) fn is_running_on(
    discovery: &Discovery<'_>,
    facts: &mut FactReader<'_>,
    data: &str,
) -> bool {
    let lock = facts.parse(&format!("{data}/postmaster.pid"), parse_lock).into_known();
    let alive = |pid: u32| discovery.scene.host.find_process(pid).is_some_and(titles::is_server);
    lock.is_some_and(|lock| alive(lock.pid)) || discovery.runs_on(&ENGINES, data)
}

fn find_unit_servers(discovery: &mut Discovery<'_>) {
    for (service, main) in discovery.services_of(|program| KIND.may_be_started_by(program)) {
        let scene = discovery.scene;
        let files = scene.files_of(&main);
        let mut facts = FactReader::new(&files);
        let data = super::option_directory(&main).filter(|path| path.starts_with('/'));
        let Some(data) = data.or_else(|| service.environment.get("PGDATA").cloned()) else {
            continue;
        };
        let data = data.trim_end_matches('/').to_owned();
        let config = super::config_file(&main, &Observed::Known(data.clone()));
        let has_config = config.as_known().is_some_and(|config| !files.read(config).is_absent());
        if let Some(pid) = discovery.find_running_on(&ENGINES, &data) {
            discovery.note_boot_service(&service, pid);
            continue;
        }
        // A package brings its service before anybody has made a cluster for it.
        if !has_config || is_running_on(discovery, &mut facts, &data) || discovery.is_listed(&data)
        {
            continue;
        }
        let main = Process { directory: Observed::Known(data), ..main.clone() };
        let instance = build_instance(scene, &mut facts, &main, &[]);
        let unread = facts.unread;
        let server = StoppedServer::of_service(&service, main, instance, unread);
        discovery.add(server);
    }
}
