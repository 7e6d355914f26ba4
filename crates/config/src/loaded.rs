//! Whether systemd holds a unit as its files are now.
//!
//! It goes by what it has loaded, and loads everything at the boot and at each daemon-reload and
//! daemon-reexec. When it last began to, the time of a file tells (systemd 250 and later), before
//! that the time of the folder that it makes anew for its generators. Held against a real one
//! (252): `NeedDaemonReload` of `systemctl show` is no better, as it misses a drop-in that is the
//! first of its folder.

use std::collections::{BTreeMap, BTreeSet};

use hugewise_model::configuration::{Loaded, ServiceUnit};
use hugewise_model::{Bytes, Limit, Observed, Process};

use super::unit::with_services;
use hugewise_source::Owner;
use hugewise_source::Source;

/// The time of the first that is there is when systemd last began to load its units.
const MARKS: [&str; 2] = ["/run/systemd/systemd-units-load", "/run/systemd/generator"];

const DEFAULTS: [&str; 3] =
    ["/etc/systemd/system.conf", "/etc/systemd/system.conf.d", "/usr/lib/systemd/system.conf.d"];

/// Only of units that give their first process another limit or capability than it has, or start
/// other words: of the others a restart changes nothing.
pub(super) fn fill_in(source: &dyn Source, units: &mut [ServiceUnit], processes: &[&Process]) {
    /// systemd's own since 252, and the kernel's.
    const DEFAULT: Limit = Limit::At(Bytes::from_mib(8));
    let mut first = BTreeMap::<&str, &Process>::new();
    for (process, service) in with_services(processes.iter().copied()) {
        if let Some(name) = service {
            // What the others of a service come from is the oldest.
            let known = first.entry(name).or_insert(process);
            if process.pid < known.pid {
                *known = process;
            }
        }
    }
    for unit in units {
        let Some(main) = first.get(unit.name.as_str()) else { continue };
        let given = unit.memlock.as_known().map_or(DEFAULT, |(soft, ..)| *soft);
        let other_limit =
            unit.ambient_ipc_lock || main.memlock.get().is_none_or(|has| has.soft != given);
        let started =
            |words: &Vec<String>| unit.start.commands.iter().any(|command| command.words == *words);
        let other_command =
            !unit.start.commands.is_empty() && !main.command.as_known().is_some_and(started);
        if other_limit || other_command {
            let folder = |file: &String| file.rsplit_once('/').map(|(folder, _)| folder.to_owned());
            let drop_ins =
                unit.files.iter().filter_map(folder).filter(|folder| folder.ends_with(".d"));
            let own = format!("/etc/systemd/system/{}.d", unit.name);
            let folders: BTreeSet<String> = drop_ins.chain([own]).collect();
            let paths: Vec<&str> = unit.files.iter().chain(&folders).map(String::as_str).collect();
            if other_command {
                unit.start.loaded = read(source, main, &unit.files, &paths);
            }
            if other_limit {
                let with_defaults: Vec<&str> = paths.into_iter().chain(DEFAULTS).collect();
                unit.loaded = read(source, main, &unit.files, &with_defaults);
            }
        }
    }
}

/// `paths` are the files, the folders where drop-ins may be, and what else has a say. No file tells
/// of a drop-in that is gone with its folder.
fn read(source: &dyn Source, main: &Process, files: &[String], paths: &[&str]) -> Observed<Loaded> {
    let owner = Owner::from_process(main);
    let paths = || paths.iter().copied();
    let since = |path: &str| source.changed_since_start(&owner, path, main.pid);
    let answers =
        |mark: &&str| files.iter().any(|path| source.changed_after(path, mark).is_known());
    let Some(mark) = MARKS.into_iter().find(answers) else { return Observed::Absent };
    // What is not there has not changed.
    let waiting = paths().find(|path| source.changed_after(path, mark) == Observed::Known(true));
    let changed = || paths().any(|path| since(path) == Observed::Known(true));
    since(mark).map(|loaded_since| match waiting {
        Some(path) if loaded_since => Loaded::Between(path.to_owned()),
        Some(path) => Loaded::NotYet(path.to_owned()),
        None if !loaded_since => Loaded::Unchanged,
        None if changed() => Loaded::Anew,
        None => Loaded::Since,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use hugewise_source::MapSource;

    const UNIT: &str = "/etc/systemd/system/x.service";
    const DROP_INS: &str = "/etc/systemd/system/x.service.d";

    fn of(source: &MapSource) -> Observed<Loaded> {
        let main = Process { pid: 7, ..Process::default() };
        read(source, &main, &[UNIT.into()], &[UNIT, DROP_INS])
    }

    /// The unit's file was changed since the start, or after the mark; the mark since the start.
    fn source(mark: &str, unit_since: bool, unit_after: bool, mark_since: bool) -> MapSource {
        MapSource::new()
            .changed_since_start(7, UNIT, unit_since)
            .changed_since_start(7, mark, mark_since)
            .changed_after(UNIT, mark, unit_after)
    }

    #[test]
    fn what_was_changed_and_when_it_was_loaded_decide() {
        for mark in MARKS {
            for (unit_since, unit_after, mark_since, expected) in [
                (false, false, false, Loaded::Unchanged),
                (false, false, true, Loaded::Since),
                (true, false, true, Loaded::Anew),
                (true, true, false, Loaded::NotYet(UNIT.into())),
                (true, true, true, Loaded::Between(UNIT.into())),
                // It was changed, and the service was restarted without a daemon-reload.
                (false, true, false, Loaded::NotYet(UNIT.into())),
            ] {
                assert_eq!(
                    of(&source(mark, unit_since, unit_after, mark_since)),
                    Observed::Known(expected)
                );
            }
        }
    }

    #[test]
    fn a_new_folder_of_drop_ins_counts() {
        let source = source(MARKS[0], false, false, false).changed_after(DROP_INS, MARKS[0], true);
        assert_eq!(of(&source), Observed::Known(Loaded::NotYet(DROP_INS.into())));
    }

    /// A new system.conf.d gives other limits, and no other command.
    #[test]
    fn defaults_of_all_units_bear_on_limits_alone() {
        let source =
            source(MARKS[0], false, false, false).changed_after(DEFAULTS[1], MARKS[0], true);
        let main = Process {
            pid: 7,
            memlock: Observed::Known(hugewise_model::process::SoftHard {
                soft: Limit::Unlimited,
                hard: Limit::Unlimited,
            }),
            cgroups: Observed::Known(
                [hugewise_model::process::CgroupMembership {
                    hierarchy: 0,
                    controllers: Vec::new(),
                    path: "/system.slice/x.service".into(),
                }]
                .into(),
            ),
            ..Process::default()
        };
        let mut unit = ServiceUnit {
            name: "x.service".into(),
            files: vec![UNIT.into()],
            ..ServiceUnit::default()
        };
        unit.start.commands.push(hugewise_model::configuration::StartCommand {
            words: vec!["/usr/bin/x".into()],
            bare_words: vec!["/usr/bin/x".into()],
            place: hugewise_model::configuration::FileLocation { file: UNIT.into(), line: 2 },
        });
        fill_in(&source, std::slice::from_mut(&mut unit), &[&main]);
        assert_eq!(unit.start.loaded, Observed::Known(Loaded::Unchanged));
        assert_eq!(unit.loaded, Observed::Known(Loaded::NotYet(DEFAULTS[1].into())));
    }

    #[test]
    fn where_nothing_tells_it_is_not_known() {
        assert_eq!(of(&MapSource::new()), Observed::Absent);
        assert_eq!(of(&MapSource::new().changed_since_start(7, UNIT, true)), Observed::Absent);
        assert_eq!(of(&MapSource::new().changed_after(UNIT, MARKS[0], true)), Observed::Absent);
    }
}
