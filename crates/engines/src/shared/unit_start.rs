//! Predicts the next start from the unit and the engine's tools: the process that they would make
//! is described like any other, with nothing mapped, and its settings are compared.

mod script;

use hugewise_host::FactReader;
use hugewise_host::capture::shape::NO_VALUE;
use hugewise_host::config::systemd::service_of;
use hugewise_host::source::Owner;
use hugewise_model::configuration::{
    FileLocation, Loaded, ServiceStart, ServiceUnit, StartCommand,
};
use hugewise_model::instance::{DemandSource, NextStart, ServerSetting, Startup};
use hugewise_model::process::Namespaces;
use hugewise_model::{Bytes, Demand, HugePageMode, Instance, Observed, Process};

use crate::shared::options;
use crate::shared::settings::new_setting;
use crate::shared::starting::{NextCommandLine, Starting};
use crate::shared::trusted_by::unit_of;
use crate::{EngineContext, EngineKind, FoundInstances};

pub(crate) use script::split_words as shell_words;

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

/// Predicts the next start of all running servers that another command line may decide on.
pub(crate) fn fill_in(scene: &EngineContext<'_>, found: &mut FoundInstances) {
    for instance in &mut found.instances {
        let Some(starting) = EngineKind::for_engine(instance.engine).restart.command_line else {
            continue;
        };
        let Some(main) =
            scene.host.find_process(instance.pid).filter(|main| main.command.is_known())
        else {
            continue;
        };
        let unit = unit_of(scene.host, instance);
        let files = scene.files_of(main);
        let mut facts = FactReader::new(&files);
        let (restart, boot) =
            restart_and_boot_commands(scene, &mut facts, starting, instance, main, unit);
        let refused = match (&restart, unit.map(|unit| &unit.start)) {
            (NextCommandLine::Refused(why), _) => Some(why.clone()),
            (_, Some(ServiceStart { lacks: Some((file, place)), .. })) if scene.host.live => {
                Some(format!("EnvironmentFile={file} is not there ({place})"))
            }
            _ => None,
        };
        if let Some(why) = refused.filter(|_| !matches!(instance.startup, Some(Startup::Never(_))))
        {
            instance.startup = Some(Startup::Refuses(why));
            continue;
        }
        let coming = |next: NextCommandLine| predict_start(scene, starting, instance, main, next);
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
            boot.unwrap_or_else(|| before.as_known().cloned().unwrap_or_else(as_now))
        });
        if let Some(next) = restart {
            instance.next = Observed::Known(next);
            instance.possible_demands.clear();
        }
        instance.at_boot = at_boot.into();
    }
    for instance in &mut found.instances {
        let unit = unit_of(scene.host, instance);
        let why = unit.and_then(|unit| beyond_address_space(instance, unit));
        if instance.startup.is_none() && why.is_some() {
            instance.startup = why.map(Startup::Refuses);
        }
    }
}

/// Predicts the boot of a server that a service starts then, and that was started by other means.
pub(crate) fn fill_in_boot(scene: &EngineContext<'_>, instance: &mut Instance) {
    let main = scene.host.find_process(instance.pid).filter(|main| main.command.is_known());
    let starting = EngineKind::for_engine(instance.engine).restart.command_line;
    let (Some(unit), Some(main), Some(starting)) = (&instance.boot_unit, main, starting) else {
        return;
    };
    let files = scene.files_of(main);
    let mut facts = FactReader::new(&files);
    let next = by_unit(scene, &mut facts, starting, instance, main, &unit.start);
    let coming = predict_start(scene, starting, instance, main, next);
    if coming.is_some() && coming.as_ref() != instance.next.as_known() {
        instance.at_boot = coming.into();
    }
}

/// A limit of its unit that leaves its next start too little room (setrlimit(2), RLIMIT_AS).
fn beyond_address_space(instance: &Instance, unit: &ServiceUnit) -> Option<String> {
    let (limit, place) = unit.address_space.as_ref()?;
    let reckoned = |demands: &mut dyn Iterator<Item = &Demand>| -> Bytes {
        demands.map(Demand::at_least).map(|demand| demand.pages.to_bytes(demand.page_size)).sum()
    };
    let needed = match instance.next.as_known() {
        Some(next) => reckoned(&mut next.demands.iter()),
        None => reckoned(&mut instance.demands()).max(instance.segment_bytes()),
    };
    (needed > *limit).then(|| format!("LimitAS is {limit}, but it maps {needed} ({place})"))
}

fn restart_and_boot_commands(
    scene: &EngineContext<'_>,
    facts: &mut FactReader<'_>,
    starting: &Starting,
    instance: &Instance,
    main: &Process,
    unit: Option<&ServiceUnit>,
) -> (NextCommandLine, NextCommandLine) {
    let nothing = ServiceStart::default();
    let by_itself =
        || (starting.made)(scene, main, None, &nothing).unwrap_or(NextCommandLine::Same);
    let Some(unit) = unit.filter(|unit| !unit.start.commands.is_empty()) else {
        let next = by_itself();
        return (next.clone(), next);
    };
    let by_files = by_unit(scene, facts, starting, instance, main, &unit.start);
    let Observed::Known(loaded) = &unit.start.loaded else { return (by_files.clone(), by_files) };
    let of_files = || {
        let other = unit
            .start
            .variable_files
            .iter()
            .any(|path| is_changed(facts, main, path) != Observed::Known(false));
        // A tool of its own reads a file of its own at each start, and so does a script.
        let other = other || !is_servers(instance, unit.start.commands.first());
        if other { by_files.clone() } else { NextCommandLine::Same }
    };
    match loaded {
        // It was started by what stands there; what that names may have been changed.
        Loaded::Unchanged => (of_files(), of_files()),
        Loaded::Since | Loaded::Anew => (by_files.clone(), by_files),
        Loaded::NotYet(_) => (NextCommandLine::Same, by_files),
        Loaded::Between(path) => {
            let held = if by_files == NextCommandLine::Same {
                NextCommandLine::Same
            } else {
                NextCommandLine::Unclear(FileLocation { file: path.clone(), line: 0 })
            };
            (held, by_files)
        }
    }
}

fn is_servers(instance: &Instance, command: Option<&StartCommand>) -> bool {
    let first = command.and_then(|command| command.words.first());
    first.is_some_and(|first| {
        EngineKind::for_engine(instance.engine).is_server_program(options::file_name(first))
    })
}

fn is_changed(facts: &FactReader<'_>, main: &Process, path: &str) -> Observed<bool> {
    facts.source.changed_since_start(&Owner::from_process(main), path, main.pid)
}

fn by_unit(
    scene: &EngineContext<'_>,
    facts: &mut FactReader<'_>,
    starting: &Starting,
    instance: &Instance,
    main: &Process,
    start: &ServiceStart,
) -> NextCommandLine {
    let kind = EngineKind::for_engine(instance.engine);
    let name_of =
        |words: &[String]| words.first().map(|first| options::file_name(first).to_owned());
    let simple = |command: &StartCommand| {
        let words =
            script::unwrap_shell_command(&command.words).unwrap_or_else(|| command.words.clone());
        StartCommand { words, ..command.clone() }
    };
    let commands: Vec<StartCommand> = start.commands.iter().map(simple).collect();
    let runs = |command: &&StartCommand| {
        name_of(&command.words).is_some_and(|name| kind.is_server_program(&name))
    };
    let Some(command) = commands.iter().find(runs).or_else(|| commands.last()) else {
        return NextCommandLine::Same;
    };
    // The unit does not start what another server of the service started.
    let parent = scene.host.find_process(main.parent);
    let beside = parent.is_some_and(|parent| {
        service_of(parent).is_some() && service_of(parent) == service_of(main)
    });
    if beside && parent.is_some_and(|parent| kind.is_server_program(options::program_name(parent)))
    {
        return NextCommandLine::Same;
    }
    if let Some(place) = start.unread.clone() {
        return NextCommandLine::Unclear(place);
    }
    if let Some(made) = (starting.made)(scene, main, Some(command), start) {
        return made;
    }
    if runs(&command) {
        return NextCommandLine::Words(command.words.clone(), command.place.clone());
    }
    script::match_unit_command(scene, facts, starting, main, command)
}

fn predict_start(
    scene: &EngineContext<'_>,
    starting: &Starting,
    instance: &Instance,
    main: &Process,
    next: NextCommandLine,
) -> Option<NextStart> {
    let (words, place) = match next {
        NextCommandLine::Same | NextCommandLine::Refused(_) => return None,
        NextCommandLine::Unclear(place) => {
            return Some(NextStart {
                asked: HugePageMode::Unknown,
                setting: Some(command_line_setting(NO_VALUE, place)),
                demands: Vec::new(),
            });
        }
        NextCommandLine::Words(words, place) => (words, place),
    };
    let same_program =
        words.first().map(|first| options::file_name(first)) == Some(options::program_name(main));
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
    let changed = first_changed_setting(instance, &then);
    let exact = |instance: &Instance| -> Vec<Demand> {
        instance.demands().filter(|demand| demand.source == DemandSource::Engine).cloned().collect()
    };
    if changed.is_none() && exact(&then) == exact(instance) {
        return None;
    }
    let nowhere = FileLocation::command_line(0);
    let put = |setting: &mut ServerSetting| {
        if setting.place.as_ref() == Some(&nowhere) {
            setting.place = Some(place.clone());
        }
    };
    then.settings.values_mut().chain(then.setting.as_mut()).for_each(put);
    let own = then.next.as_known();
    let asked = own.map_or(then.asked, |own| own.asked);
    let asks = matches!(asked, HugePageMode::Try | HugePageMode::Must | HugePageMode::Raises);
    let moves = then.asked != instance.asked;
    let demands = match own {
        Some(own) => own.demands.clone(),
        None if asks || !moves => then.demands().cloned().collect(),
        None => Vec::new(),
    };
    let setting = next_setting(instance, &then, changed.filter(|_| !moves), place);
    Some(NextStart { asked, setting: Some(setting), demands })
}

fn next_setting(
    instance: &Instance,
    then: &Instance,
    changed: Option<String>,
    place: FileLocation,
) -> ServerSetting {
    let by_change = changed.and_then(|name| match then.settings.get(&name) {
        Some(setting) => Some(setting.clone()),
        None => Some(ServerSetting {
            value: "default".into(),
            place: Some(place.clone()),
            ..instance.settings.get(&name)?.clone()
        }),
    });
    match (by_change, then.setting.clone()) {
        (Some(setting), _) => setting,
        // A default applies, as what stands there no longer sets it.
        (None, Some(setting)) => ServerSetting { place: setting.place.or(Some(place)), ..setting },
        (None, None) => command_line_setting("another", place),
    }
}

fn command_line_setting(value: &str, place: FileLocation) -> ServerSetting {
    new_setting("its command line", value, Some(place))
}

fn first_changed_setting(now: &Instance, then: &Instance) -> Option<String> {
    let counts = |name: &&String| !is_identity(name) && name.as_str() != "thp_enabled";
    let value = |instance: &Instance, name: &String| {
        instance.setting_value(name).map(str::to_ascii_lowercase)
    };
    let mut names = then.settings.keys().chain(now.settings.keys()).filter(counts);
    names.find(|name| value(now, name) != value(then, name)).cloned()
}

pub(crate) fn is_identity(name: &str) -> bool {
    IDENTITY.contains(&name)
}

#[cfg(test)]
mod tests;
