//! Java virtual machines that do not run: the services that start `java` itself.

use hugewise_host::Door;
use hugewise_model::Process;

use super::{KIND, start};
use crate::estate::{Estate, Sleeper};

pub(super) fn asleep(estate: &mut Estate<'_>) {
    for (service, main) in estate.services_of(|program| KIND.starts(program)) {
        let scene = estate.scene;
        let runs = |process: &Process| process.command == main.command && main.command.is_known();
        if scene.host.processes.known().into_iter().flatten().any(|process| runs(process)) {
            continue;
        }
        let files = scene.files_of(&main);
        let mut door = Door::new(&files);
        let machine = start::machine(scene, &mut door, &main);
        let unread = door.unread;
        let sleeper = Sleeper::of_service(&service, main.clone(), machine, unread);
        estate.add(sleeper);
    }
}
