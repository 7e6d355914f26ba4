//! Guests that do not run: those that libvirt has defined with memory on huge pages.

use hugewise_host::Door;
use hugewise_model::configuration::Place;
use hugewise_model::instance::Setting;
use hugewise_model::vouch::Voucher;
use hugewise_model::{Asked, Asleep, AtBoot, Engine, Observed};

use super::definition::{self, DEFINITIONS, Definition, Pages};
use super::instance;
use crate::estate::{Estate, Sleeper, by_service};
use crate::named;

pub(super) fn asleep(estate: &mut Estate<'_>) {
    let mut door = Door::new(estate.source());
    let files = door.list(DEFINITIONS).into_known().unwrap_or_default();
    let (mut guests, mut noted) = (Vec::new(), Vec::new());
    for file in files.iter().filter(|name| name.ends_with(".xml")) {
        let path = format!("{DEFINITIONS}/{file}");
        let Some(guest) = door.parse(&path, definition::parse).into_known() else {
            // libvirt calls the file as the guest: what that one asks for is known where it runs.
            if estate.running(&[Engine::Qemu]).any(|it| file.strip_suffix(".xml") == Some(named::own(it))) {
                noted.append(&mut door.unread);
            }
            continue;
        };
        guests.push((path, guest, at_boot(estate, file)));
    }
    estate.tell(Engine::Qemu, door.unread);
    estate.note(noted);
    for (path, guest, at_boot) in guests {
        if guest.pages == Pages::Base || runs(estate, &guest) {
            continue;
        }
        let main = estate.process(0, command(&guest));
        let mut it = instance(estate.scene.host, estate.scene, &main);
        it.name.clone_from(&guest.name);
        it.owner = "libvirt-qemu".to_owned();
        if guest.pages == Pages::Untold {
            let value = "for some of its nodes only, which hugewise does not calculate".into();
            let place = Some(Place { file: path.clone(), line: 0 });
            let setting = Setting { name: "hugepages".into(), value, place };
            (it.asked, it.setting, it.demand) = (Asked::Unknown, Some(setting), None);
            it.beside.clear();
        }
        let (asleep, voucher) = (Asleep::new(path, at_boot), Voucher::Listed);
        estate.add(Sleeper { process: main, instance: it, asleep, voucher, starter: None, unread: Vec::new() });
    }
}

/// Whether the boot starts a guest: libvirt has a link to its file then, and is there itself.
fn at_boot(estate: &Estate<'_>, file: &str) -> AtBoot {
    let link = format!("{DEFINITIONS}/autostart/{file}");
    let said = match estate.source().read(&link) {
        Observed::Known(_) => AtBoot::Yes(format!("autostart ({link})")),
        Observed::Denied => AtBoot::Unknown(format!("{link} could not be read")),
        Observed::Absent | Observed::Malformed(_) => {
            return AtBoot::No(format!("no autostart ({DEFINITIONS}/autostart)"));
        }
    };
    let services = || DAEMONS.iter().filter_map(|name| estate.service(name));
    // Whichever of the two is there starts them. One that is disabled may be started by its socket.
    let is_masked = services().all(|service| service.masked.is_some());
    by_service(services().next().filter(|_| is_masked), said)
}

/// The service of all of libvirt, and the one of guests alone that newer releases have in its place.
const DAEMONS: [&str; 2] = ["virtqemud.service", "libvirtd.service"];

/// Whether a guest of that name or identity runs: libvirt has each once.
fn runs(estate: &Estate<'_>, guest: &Definition) -> bool {
    let host = estate.scene.host;
    estate.running(&[Engine::Qemu]).any(|it| {
        let command = host.process(it.pid).and_then(|main| main.command.known());
        let uuid = command.and_then(|words| super::values(words, "uuid").last().copied());
        let is_same = |ours: &String| uuid.is_some_and(|theirs| theirs.eq_ignore_ascii_case(ours));
        named::own(it) == guest.name || guest.uuid.as_ref().is_some_and(is_same)
    })
}

/// The words by which QEMU would be started with as much memory: libvirt's own name the files that it makes then.
fn command(guest: &Definition) -> Vec<String> {
    let size = guest.memory.get();
    let page = match guest.pages {
        Pages::Of(page) => format!(",hugetlbsize={}", page.get()),
        Pages::Default | Pages::Base | Pages::Untold => String::new(),
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
