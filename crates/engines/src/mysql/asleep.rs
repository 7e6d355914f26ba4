//! MySQL and MariaDB servers that do not run: the services that start one.

use hugewise_host::Door;
use hugewise_model::{Engine, Observed, Process};

use super::described::DATA;
use super::files::{self, Groups};
use super::{KIND, instance, is_mariadb, options, version};
use crate::estate::{Estate, Sleeper};

const ENGINES: [Engine; 2] = [Engine::MySql, Engine::MariaDb];

pub(super) fn asleep(estate: &mut Estate<'_>) {
    for (service, main) in estate.services_of(|program| KIND.starts(program)) {
        let scene = estate.scene;
        let (files, shared) = (scene.files_of(&main), scene.host_files_for(&main));
        // Its data is where its option files say: its working directory is none that it was seen in.
        let given = main.command.known().and_then(|words| options::value(words, "datadir")).map(str::to_owned);
        let data = given.filter(|path| path.starts_with('/')).unwrap_or_else(|| {
            let mut door = Door::new(&files);
            let suffix = main.command.known().and_then(|words| options::value(words, "defaults-group-suffix"));
            let mariadb = is_mariadb(scene, &files, &main, Some(DATA), None);
            let version = version(&mut door, DATA).into_known();
            let groups = Groups { mariadb, version, suffix: suffix.unwrap_or_default().to_owned() };
            let settings = files::read(scene.host, &mut door, &shared, &main, &groups);
            settings.values.get("datadir").map_or(DATA, |setting| setting.value.as_str()).to_owned()
        });
        let data = data.trim_end_matches('/').to_owned();
        if estate.runs_on(&ENGINES, &data) || estate.is_listed(&data) {
            continue;
        }
        let mut door = Door::new(&files);
        let main = Process { directory: Observed::Known(data), ..main.clone() };
        let instance = instance(scene, &mut door, &shared, &main);
        let unread = door.unread;
        let sleeper = Sleeper::of_service(&service, main.clone(), instance, unread);
        estate.add(sleeper);
    }
}
