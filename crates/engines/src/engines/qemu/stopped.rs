//! Guests that do not run: those that libvirt has defined with memory on huge pages.

use hugewise_host::FactReader;
use hugewise_model::configuration::FileLocation;
use hugewise_model::trusted_by::TrustReason;
use hugewise_model::{AtBoot, Engine, HugePageMode, Observed, StoppedInstance};

use super::build_instance;
use super::definition::{self, DEFINITIONS, Definition, GuestPages};
use crate::shared::discovery::{Discovery, StoppedServer, by_service};
use crate::shared::instance_names;
use crate::shared::settings::new_setting;

pub(super) fn find_stopped_guests(discovery: &mut Discovery<'_>) {
    let mut facts = FactReader::new(discovery.scene.source);
    let files = facts.list_folder(DEFINITIONS).into_known().unwrap_or_default();
    let (mut guests, mut noted) = (Vec::new(), Vec::new());
    for file in files.iter().filter(|name| name.ends_with(".xml")) {
        let path = format!("{DEFINITIONS}/{file}");
        let Some(guest) = facts.parse(&path, definition::parse).into_known() else {
            // libvirt names the file after the guest: its demand is known where it runs.
            if discovery.running_instances(&[Engine::Qemu]).any(|instance| {
                file.strip_suffix(".xml") == Some(instance_names::base_name(instance))
            }) {
                noted.append(&mut facts.unread);
            }
            continue;
        };
        guests.push((path, guest, at_boot(discovery, file)));
    }
    discovery.add_unreadable_list(Engine::Qemu, facts.unread);
    discovery.add_unread(noted);
    for (path, guest, at_boot) in guests {
        if guest.pages == GuestPages::Base || is_running_guest(discovery, &guest) {
            continue;
        }
        let main = discovery.new_process(0, build_command(&guest));
        let mut instance = build_instance(discovery.scene, &main);
        instance.name.clone_from(&guest.name);
        instance.owner = "libvirt-qemu".to_owned();
        let place = FileLocation { file: path.clone(), line: 0 };
        instance.bound_nodes = guest.nodes.clone().map(|nodes| (nodes, place.clone()));
        if guest.pages == GuestPages::Untold {
            let value = "for some of its nodes only, which hugewise does not calculate";
            let setting = new_setting("hugepages", value, Some(place));
            (instance.asked, instance.setting, instance.demand) =
                (HugePageMode::Unknown, Some(setting), None);
            instance.other_demands.clear();
        }
        discovery.add(StoppedServer {
            process: main,
            instance,
            asleep: StoppedInstance::new(path, at_boot),
            voucher: TrustReason::Listed,
            starter: None,
            unread: Vec::new(),
        });
    }
}

/// Whether the boot starts a guest: by a link to its file, if libvirt is there.
fn at_boot(discovery: &Discovery<'_>, file: &str) -> AtBoot {
    let link = format!("{DEFINITIONS}/autostart/{file}");
    let said = match discovery.scene.source.read(&link) {
        Observed::Known(_) => AtBoot::Yes(format!("autostart ({link})")),
        Observed::Denied => AtBoot::Unknown(format!("{link} could not be read")),
        Observed::Absent | Observed::Malformed(_) => {
            return AtBoot::No(format!("no autostart ({DEFINITIONS}/autostart)"));
        }
    };
    let services = || DAEMONS.iter().filter_map(|name| discovery.find_service(name));
    // Either of the two starts guests. A disabled one may be started by its socket.
    let is_masked = services().all(|service| service.masked.is_some());
    by_service(services().next().filter(|_| is_masked), said)
}

/// The service for guests alone in newer releases, and that of all of libvirt.
const DAEMONS: [&str; 2] = ["virtqemud.service", "libvirtd.service"];

/// Whether a guest of that name or identity runs: libvirt has each once.
fn is_running_guest(discovery: &Discovery<'_>, guest: &Definition) -> bool {
    let host = discovery.scene.host;
    discovery.running_instances(&[Engine::Qemu]).any(|instance| {
        let command = host.find_process(instance.pid).and_then(|main| main.command.as_known());
        let uuid = command.and_then(|words| super::option_values(words, "uuid").last().copied());
        let is_same = |ours: &String| uuid.is_some_and(|theirs| theirs.eq_ignore_ascii_case(ours));
        instance_names::base_name(instance) == guest.name
            || guest.uuid.as_ref().is_some_and(is_same)
    })
}

/// A QEMU command with as much memory: libvirt's own names files that it makes then.
fn build_command(guest: &Definition) -> Vec<String> {
    let size = guest.memory.get();
    let page = match guest.pages {
        GuestPages::Of(page) => format!(",hugetlbsize={}", page.get()),
        GuestPages::Default | GuestPages::Base | GuestPages::Untold => String::new(),
    };
    let words = [
        "qemu-system".to_owned(),
        "-name".into(),
        format!("guest={}", guest.name),
        "-m".into(),
        format!("size={}k", size >> 10),
        "-object".into(),
        format!("memory-backend-memfd,id=pc.ram,hugetlb=on{page},size={size}"),
        "-machine".into(),
        "memory-backend=pc.ram".into(),
    ];
    words.into()
}
