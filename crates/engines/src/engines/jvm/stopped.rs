//! Java virtual machines that do not run: the services that start `java` itself.

use hugewise_host::FactReader;
use hugewise_model::Process;

use super::{KIND, start};
use crate::each_known;
use crate::shared::discovery::{Discovery, StoppedServer};

pub(super) fn find_stopped_servers(discovery: &mut Discovery<'_>) {
    for (service, main) in discovery.services_of(|program| KIND.may_be_started_by(program)) {
        let scene = discovery.scene;
        let runs = |process: &Process| process.command == main.command && main.command.is_known();
        if let Some(process) = each_known(&scene.host.processes).find(|process| runs(process)) {
            discovery.note_boot_service(&service, process.pid);
            continue;
        }
        let files = scene.files_of(&main);
        let mut facts = FactReader::new(&files);
        let machine = start::build_would_be_instance(scene, &mut facts, &main);
        let unread = facts.unread;
        let server = StoppedServer::of_service(&service, main.clone(), machine, unread);
        discovery.add(server);
    }
}
