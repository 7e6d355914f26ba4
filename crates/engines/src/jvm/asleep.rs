//! Java virtual machines that do not run: the services that start `java` itself.

use hugewise_host::Door;
use hugewise_model::{Asked, Process};

use super::{Flags, KIND, command_words, container, demand, instance};
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
        let (words, _) = command_words(scene, &mut door, &main);
        let flags = Flags::read(words.iter().map(String::as_str));
        let mut machine = instance(scene, &mut door, &main, None);
        let program = main.command.known().and_then(|words| words.first()).map_or("", String::as_str);
        machine.version = super::described::version(&mut door, program);
        let memory = container::memory(scene, &main, &flags, machine.version.known().map(String::as_str));
        (machine.demand, machine.beside) = demand(scene.host, &machine, &flags, None, memory.as_ref());
        // What its environment may ask for beside that is not looked for.
        if machine.asked == Asked::Unknown {
            machine.asked = Asked::No;
        }
        let unread = door.unread;
        let sleeper = Sleeper::of_service(&service, main.clone(), machine, unread);
        estate.add(sleeper);
    }
}
