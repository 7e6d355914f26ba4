//! MySQL and MariaDB servers that do not run: the services that start one.

use hugewise_host::FactReader;
use hugewise_model::{Engine, Observed, Process};

use super::described::DATA;
use super::files::{self, OptionGroups};
use super::{KIND, build_instance, is_mariadb, options, read_data_version};
use crate::shared::discovery::{Discovery, StoppedServer};

const ENGINES: [Engine; 2] = [Engine::MySql, Engine::MariaDb];

pub(super) fn find_stopped_servers(discovery: &mut Discovery<'_>) {
    for (service, main) in discovery.services_of(|program| KIND.may_be_started_by(program)) {
        let scene = discovery.scene;
        let (files, shared) = (scene.files_of(&main), scene.host_files_for(&main));
        // Its data is where its option files say, not where it last worked.
        let words = main.command.as_known();
        let given =
            words.and_then(|words| options::option_value(words, "datadir")).map(str::to_owned);
        let data = given.filter(|path| path.starts_with('/')).unwrap_or_else(|| {
            let mut facts = FactReader::new(&files);
            let mariadb = is_mariadb(scene, &files, &main, Some(DATA), None);
            let version = read_data_version(&mut facts, DATA).into_known();
            let groups = OptionGroups::new(&main, mariadb, version);
            let settings = files::read(scene.host, &mut facts, &shared, &main, &groups);
            settings.values.get("datadir").map_or(DATA, |setting| setting.value.as_str()).to_owned()
        });
        let data = data.trim_end_matches('/').to_owned();
        if let Some(pid) = discovery.find_running_on(&ENGINES, &data) {
            discovery.note_boot_service(&service, pid);
            continue;
        }
        if discovery.runs_on(&ENGINES, &data) || discovery.is_listed(&data) {
            continue;
        }
        let mut facts = FactReader::new(&files);
        let main = Process { directory: Observed::Known(data), ..main.clone() };
        let instance = build_instance(scene, &mut facts, &shared, &main);
        let unread = facts.unread;
        let server = StoppedServer::of_service(&service, main.clone(), instance, unread);
        discovery.add(server);
    }
}
