//! What starts a server anew, held against the command line that it runs with: the unit that it runs in, and the tools of its
//! engine that a unit has start it.
//!
//! The process that the next start would make is described like any other one, with nothing mapped yet. Where its settings are
//! those of the one that runs, nothing was changed.

mod script;

use hugewise_host::Door;
use hugewise_host::capture::shape::NO_VALUE;
use hugewise_host::config::systemd::service_of;
use hugewise_host::source::Owner;
use hugewise_model::configuration::{Loaded, Place, ServiceStart, StartCommand, Unit};
use hugewise_model::instance::{DemandSource, NextStart, Setting, Startup};
use hugewise_model::process::Namespaces;
use hugewise_model::{Asked, Bytes, Demand, Instance, Observed, Process};

use crate::starting::{Next, Starting};
use crate::{Found, Kind, Scene, options};

pub(crate) use script::split as shell_words;

/// Settings that say where a server is and not what it takes.
const IDENTITY: [&str; 11] = [
    "port",
    "socket",
    "datadir",
    "user",
    "log_error",
    "include",
    "includedir",
    "data_directory",
    "config_file",
    "unix_socket_directories",
    "cluster_name",
];

/// Says of all servers that run what their next start will ask for, where another command line decides on that.
pub(crate) fn fill_in(scene: &Scene<'_>, found: &mut Found) {
    for instance in &mut found.instances {
        let Some(starting) = Kind::of(instance.engine).starting else { continue };
        let Some(main) = scene.host.process(instance.pid).filter(|main| main.command.is_known()) else { continue };
        let units = &scene.host.configuration.units;
        let unit = units.iter().find(|unit| Some(&unit.name) == instance.unit.as_ref());
        let files = scene.files_of(main);
        let mut door = Door::new(&files);
        let (restart, boot) = moments(scene, &mut door, starting, instance, main, unit);
        let refused = match (&restart, unit.map(|unit| &unit.start)) {
            (Next::Refused(why), _) => Some(why.clone()),
            (_, Some(ServiceStart { lacks: Some((file, place)), .. })) if scene.host.live => {
                Some(format!("EnvironmentFile={file} is not there ({place})"))
            }
            _ => None,
        };
        if let Some(why) = refused.filter(|_| !matches!(instance.startup, Some(Startup::Never(_)))) {
            instance.startup = Some(Startup::Refuses(why));
            continue;
        }
        let coming = |next: Next| start(scene, starting, instance, main, next);
        let (restart, boot) = match restart == boot {
            true => (coming(restart), None),
            false => (coming(restart), Some(coming(boot))),
        };
        // What files say of it stays where the command line is the same.
        let before = instance.next.clone();
        let at_boot = boot.map(|boot| {
            let as_now = || NextStart {
                asked: instance.asked,
                setting: instance.setting.clone(),
                demands: instance.demands().cloned().collect(),
            };
            boot.unwrap_or_else(|| before.known().cloned().unwrap_or_else(as_now))
        });
        if let Some(next) = restart {
            instance.next = Observed::Known(next);
            instance.perhaps.clear();
        }
        instance.at_boot = at_boot.into();
    }
    for instance in &mut found.instances {
        let units = &scene.host.configuration.units;
        let unit = units.iter().find(|unit| Some(&unit.name) == instance.unit.as_ref());
        let why = unit.and_then(|unit| beyond_address_space(instance, unit));
        if instance.startup.is_none() && why.is_some() {
            instance.startup = why.map(Startup::Refuses);
        }
    }
}

/// A limit of its unit that leaves its next start no room for its memory, on pages of whatever size (setrlimit(2), RLIMIT_AS).
fn beyond_address_space(instance: &Instance, unit: &Unit) -> Option<String> {
    let (limit, place) = unit.address_space.as_ref()?;
    let reckoned = |demands: &mut dyn Iterator<Item = &Demand>| -> Bytes {
        demands.map(Demand::at_least).map(|it| it.pages.of(it.page_size)).sum()
    };
    let needed = match instance.next.known() {
        Some(next) => reckoned(&mut next.demands.iter()),
        None => reckoned(&mut instance.demands()).max(instance.segment_bytes()),
    };
    (needed > *limit).then(|| format!("LimitAS is {limit}, but it maps {needed} ({place})"))
}

/// The command lines of a restart and of the next boot.
fn moments(
    scene: &Scene<'_>,
    door: &mut Door<'_>,
    starting: &Starting,
    instance: &Instance,
    main: &Process,
    unit: Option<&Unit>,
) -> (Next, Next) {
    let nothing = ServiceStart::default();
    let by_itself = || (starting.made)(scene, main, None, &nothing).unwrap_or(Next::Same);
    let Some(unit) = unit.filter(|unit| !unit.start.commands.is_empty()) else {
        let next = by_itself();
        return (next.clone(), next);
    };
    let by_files = by_unit(scene, door, starting, instance, main, &unit.start);
    let Observed::Known(loaded) = &unit.start.loaded else { return (by_files.clone(), by_files) };
    let of_files = || {
        let other = unit.start.variable_files.iter().any(|path| is_changed(door, main, path) != Observed::Known(false));
        // A tool of its own reads a file of its own at each start, and so does a script.
        let other = other || !is_servers(instance, unit.start.commands.first());
        if other { by_files.clone() } else { Next::Same }
    };
    match loaded {
        // It was started by what stands there; what that names may have been changed.
        Loaded::Unchanged => (of_files(), of_files()),
        Loaded::Since | Loaded::Anew => (by_files.clone(), by_files),
        Loaded::NotYet(_) => (Next::Same, by_files),
        Loaded::Between(path) => {
            let held =
                if by_files == Next::Same { Next::Same } else { Next::Unclear(Place { file: path.clone(), line: 0 }) };
            (held, by_files)
        }
    }
}

/// Whether a command is the server itself.
fn is_servers(instance: &Instance, command: Option<&StartCommand>) -> bool {
    let first = command.and_then(|command| command.words.first());
    first.is_some_and(|first| Kind::of(instance.engine).runs(options::file_name(first)))
}

/// Whether a file was changed since a server began.
fn is_changed(door: &Door<'_>, main: &Process, path: &str) -> Observed<bool> {
    door.source.changed_since_start(&Owner::of(main), path, main.pid)
}

/// What a unit's files have it started with.
fn by_unit(
    scene: &Scene<'_>,
    door: &mut Door<'_>,
    starting: &Starting,
    instance: &Instance,
    main: &Process,
    start: &ServiceStart,
) -> Next {
    let kind = Kind::of(instance.engine);
    let name_of = |words: &[String]| words.first().map(|first| options::file_name(first).to_owned());
    let simple = |command: &StartCommand| {
        let words = script::simple(&command.words).unwrap_or_else(|| command.words.clone());
        StartCommand { words, place: command.place.clone() }
    };
    let commands: Vec<StartCommand> = start.commands.iter().map(simple).collect();
    let runs = |command: &&StartCommand| name_of(&command.words).is_some_and(|name| kind.runs(&name));
    let Some(command) = commands.iter().find(runs).or_else(|| commands.last()) else { return Next::Same };
    // What another server of the service started is not the unit's own.
    let parent = scene.host.process(main.parent);
    let beside = parent.is_some_and(|parent| service_of(parent).is_some() && service_of(parent) == service_of(main));
    if beside && parent.is_some_and(|parent| kind.runs(options::program(parent))) {
        return Next::Same;
    }
    if let Some(place) = start.unread.clone() {
        return Next::Unclear(place);
    }
    if let Some(made) = (starting.made)(scene, main, Some(command), start) {
        return made;
    }
    if runs(&command) {
        return Next::Words(command.words.clone(), command.place.clone());
    }
    script::verdict(scene, door, starting, main, command)
}

/// What a command line asks for, where that is not what the server runs with.
fn start(scene: &Scene<'_>, starting: &Starting, instance: &Instance, main: &Process, next: Next) -> Option<NextStart> {
    let (words, place) = match next {
        Next::Same | Next::Refused(_) => return None,
        Next::Unclear(place) => {
            let setting = Setting { name: "its command line".into(), value: NO_VALUE.into(), place: Some(place) };
            return Some(NextStart { asked: Asked::Unknown, setting: Some(setting), demands: Vec::new() });
        }
        Next::Words(words, place) => (words, place),
    };
    let same_program = words.first().map(|first| options::file_name(first)) == Some(options::program(main));
    let process = Process {
        pid: 0,
        executable: if same_program { main.executable.clone() } else { Observed::Absent },
        command: Observed::Known(words),
        mappings: Observed::Absent,
        namespaces: Namespaces::default(),
        root: Observed::Absent,
        ..main.clone()
    };
    let mut then = (starting.would_be)(scene, &process, instance);
    let changed = changed(instance, &then);
    let exact = |instance: &Instance| -> Vec<Demand> {
        instance.demands().filter(|demand| demand.source == DemandSource::Engine).cloned().collect()
    };
    if changed.is_none() && exact(&then) == exact(instance) {
        return None;
    }
    let nowhere = Place::command_line(0);
    let put = |setting: &mut Setting| {
        if setting.place.as_ref() == Some(&nowhere) {
            setting.place = Some(place.clone());
        }
    };
    then.settings.values_mut().chain(then.setting.as_mut()).for_each(put);
    let own = then.next.known();
    let asked = own.map_or(then.asked, |own| own.asked);
    let asks = matches!(asked, Asked::Try | Asked::Must | Asked::Raises);
    let moves = then.asked != instance.asked;
    let demands = match own {
        Some(own) => own.demands.clone(),
        None if asks || !moves => then.demands().cloned().collect(),
        None => Vec::new(),
    };
    let by_change = changed.filter(|_| !moves).and_then(|name| match then.settings.get(&name) {
        Some(setting) => Some(setting.clone()),
        None => Some(Setting {
            value: "default".into(),
            place: Some(place.clone()),
            ..instance.settings.get(&name)?.clone()
        }),
    });
    let unset = || Setting { name: "its command line".into(), value: "another".into(), place: Some(place.clone()) };
    // A default holds, as what stands there says nothing of it any more.
    let placed = |setting: Setting| Setting { place: setting.place.or_else(|| Some(place.clone())), ..setting };
    let setting = by_change.or_else(|| then.setting.clone().map(placed)).unwrap_or_else(unset);
    Some(NextStart { asked, setting: Some(setting), demands })
}

/// The first setting that differs between the server that runs and that of its next start.
fn changed(now: &Instance, then: &Instance) -> Option<String> {
    let counts = |name: &&String| !is_identity(name) && name.as_str() != "thp_enabled";
    let value = |of: &Instance, name: &String| of.setting_value(name).map(str::to_ascii_lowercase);
    let mut names = then.settings.keys().chain(now.settings.keys()).filter(counts);
    names.find(|name| value(now, name) != value(then, name)).cloned()
}

/// Whether a setting says where a server is and not what it takes.
pub(crate) fn is_identity(name: &str) -> bool {
    IDENTITY.contains(&name)
}

#[cfg(test)]
mod tests;
