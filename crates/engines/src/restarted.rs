//! The command line that a server's next start takes: its unit's, where that was changed since it started.

use std::sync::Arc;

use hugewise_host::Source;
use hugewise_model::{Asked, Host, Instance, NextStart, Observed, Process};

use crate::description::Description;
use crate::kind::By;
use crate::{Found, Kind, Scene, options};

/// Fills in what the next start asks for by a command line that stands in a unit and is not the one that runs. Only what the
/// change makes of it counts: two command lines that come to the same leave everything as it is.
pub(crate) fn by_changed_units(host: &Host, source: &dyn Source, instances: &mut [Instance]) {
    for instance in instances.iter_mut().filter(|instance| instance.unit_is_its_own && !instance.containered) {
        let Some(main) = host.process(instance.pid) else { continue };
        let unit = host.configuration.units.iter().find(|unit| Some(&unit.name) == instance.unit.as_ref());
        let Some(words) = unit.and_then(|unit| unit.command.known()) else { continue };
        let Some(command) = command(main, words) else { continue };
        if Some(&command) != main.command.known()
            && let Some(next) = next(host, source, instance, main, command)
        {
            instance.next = Observed::Known(next);
        }
    }
}

/// The command line of the next start; none where the unit starts another program, such as a script that starts the server.
fn command(main: &Process, words: &[String]) -> Option<Vec<String>> {
    let running = main.command.known()?;
    let program = options::file_name(words.first()?);
    let first = running.first().map(|first| options::file_name(first));
    if program != options::program(main) && Some(program) != first {
        return None;
    }
    let unknown = |word: &String| word.starts_with('$');
    let named: Vec<&str> = words.iter().filter(|word| !unknown(word)).map(|word| option(word)).collect();
    // Words behind a variable that is not known are those that run, as far as the unit does not say otherwise.
    let mut kept = running.iter().skip(1).filter(|word| !named.contains(&option(word))).cloned().collect::<Vec<_>>();
    let mut next = Vec::new();
    for word in words {
        if unknown(word) { next.append(&mut kept) } else { next.push(word.clone()) }
    }
    if let (Some(new), Some(old)) = (next.first_mut(), running.first()) {
        // It may be a link to the program, or the name that the server gives itself.
        old.clone_into(new);
    }
    Some(next)
}

/// An option without its value.
fn option(word: &str) -> &str {
    word.split_once('=').map_or(word, |(option, _)| option)
}

fn next(
    host: &Host,
    source: &dyn Source,
    instance: &Instance,
    main: &Process,
    command: Vec<String>,
) -> Option<NextStart> {
    let kind = Kind::of(instance.engine);
    if let Some((By::Command(_), describe)) = kind.describe {
        let of = |command: Vec<String>| {
            let description = Description::Command { engine: instance.engine, command };
            Some(start_of(&describe(host, source, &description, false).ok()?.instance))
        };
        let (old, new) = (of(main.command.known()?.clone())?, of(command)?);
        if new.asked == Asked::Unknown && old.asks() {
            // The command line asked, and no longer does.
            return Some(NextStart { asked: Asked::No, setting: None, demands: Vec::new() });
        }
        return (new.asked != Asked::Unknown && (new.asked, &new.demands) != (old.asked, &old.demands)).then_some(new);
    }
    let changed = Process { command: Observed::Known(command), ..main.clone() };
    let mut then = host.clone();
    if let Observed::Known(processes) = &mut then.processes {
        processes.retain(|process| instance.pids.contains(&process.pid));
        for process in processes.iter_mut().filter(|process| process.pid == main.pid) {
            *process = Arc::new(changed.clone());
        }
    }
    let mut found = Found::default();
    (kind.find)(&Scene::new(&then, source), &mut found);
    let new = found.instances.into_iter().find(|new| new.pid == instance.pid && new.engine == instance.engine)?;
    match new.next {
        Observed::Known(next) if next.asked != Asked::Unknown => Some(next),
        _ if new.asked != instance.asked && new.asked != Asked::Unknown => Some(start_of(&new)),
        _ => None,
    }
}

fn start_of(instance: &Instance) -> NextStart {
    let asks = matches!(instance.asked, Asked::Try | Asked::Must | Asked::Raises);
    let demands = if asks { instance.demands().cloned().collect() } else { Vec::new() };
    NextStart { asked: instance.asked, setting: instance.setting.clone(), demands }
}

#[cfg(test)]
mod tests {
    use hugewise_host::source::MapSource;
    use hugewise_model::configuration::Unit;
    use hugewise_model::process::CgroupMembership;
    use hugewise_model::{Bytes, Mapping, PageSize};

    use super::*;
    use crate::testing;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    fn next_command(running: &str, unit: &str) -> Option<String> {
        let main = Process { command: Observed::Known(words(running)), ..Process::default() };
        command(&main, &words(unit)).map(|words| words.join(" "))
    }

    #[test]
    fn the_units_words_count_and_what_they_leave_open_stays() {
        let of = next_command;
        assert_eq!(
            of("/usr/sbin/mariadbd", "/usr/sbin/mariadbd --large-pages $OPTS").unwrap(),
            "/usr/sbin/mariadbd --large-pages"
        );
        let open = of("mariadbd --large-pages --port=1", "/usr/sbin/mariadbd --port=2 $OPTS").unwrap();
        assert_eq!(open, "mariadbd --port=2 --large-pages");
        assert_eq!(of("mariadbd --large-pages", "/usr/sbin/mariadbd").unwrap(), "mariadbd");
        assert_eq!(of("/usr/bin/java -Xmx1g A", "/opt/app/run.sh"), None);
    }

    /// A server of that command line in a service of its own, with this unit, and 512 MiB of private and of shared memory.
    fn restart(running: &str, unit: &str, huge: bool) -> Observed<NextStart> {
        let program = running.split(' ').next().unwrap();
        let cgroup =
            CgroupMembership { hierarchy: 0, controllers: Vec::new(), path: "/system.slice/db.service".into() };
        let page_size = Observed::Known(if huge { PageSize::MIB_2 } else { PageSize::KIB_4 });
        let mapping = |start: u64, shared, name: &str| Mapping {
            start,
            end: start + (512 << 20),
            shared,
            accessible: true,
            offset: 0,
            device: 0,
            inode: start,
            name: name.into(),
            page_size: page_size.clone(),
        };
        let main = Process {
            pid: 7,
            parent: 1,
            name: options::file_name(program).into(),
            executable: Observed::Known(program.into()),
            command: Observed::Known(words(running)),
            directory: Observed::Known("/data".into()),
            cgroups: Observed::Known([cgroup].into()),
            mappings: Observed::Known(vec![
                mapping(0x7f00_0000_0000, true, "/dev/zero (deleted)"),
                mapping(0x7e00_0000_0000, false, if huge { "/anon_hugepage (deleted)" } else { "" }),
            ]),
            ..Process::default()
        };
        let mut host = Host {
            processes: testing::known(vec![main]),
            base_page: Observed::Known(PageSize::KIB_4),
            default_huge_page: Observed::Known(PageSize::MIB_2),
            ..Host::default()
        };
        host.memory.total = Observed::Known(Bytes::from_gib(16));
        host.processors.online = Observed::Known(4);
        host.configuration.units = vec![Unit {
            name: "db.service".into(),
            memlock: Observed::Absent,
            user: Observed::Absent,
            command: Observed::Known(words(unit)),
            ambient_ipc_lock: false,
            files: vec!["/etc/systemd/system/db.service".into()],
        }];
        let source = MapSource::new()
            .file("/data/PG_VERSION", "15\n")
            .file("/data/postgresql.conf", "shared_buffers = 480MB\nhuge_pages = off\n")
            .file("/etc/my.cnf", "[mysqld]\ninnodb_buffer_pool_size=480M\n");
        let found = crate::find(&host, &source);
        let [instance] = found.instances.as_slice() else { panic!("{:?}", found.instances) };
        instance.next.clone()
    }

    #[test]
    fn a_unit_that_was_changed_decides_on_the_next_start() {
        let java = "/usr/bin/java -Xms512m -Xmx512m -XX:+UseParallelGC Main";
        let qemu = "/usr/bin/qemu-system-x86_64 -m 512";
        for (running, unit, asked, pages) in [
            (java, "/usr/bin/java -Xms1g -Xmx1g -XX:+UseParallelGC -XX:+UseLargePages Main", Asked::Try, 512),
            (
                qemu,
                "/usr/bin/qemu-system-x86_64 -m 1024 -object memory-backend-memfd,id=m,size=1G,hugetlb=on,prealloc=on \
                 -machine memory-backend=m",
                Asked::Must,
                512,
            ),
            (
                "/usr/lib/postgresql/15/bin/postgres -D /data",
                "/usr/lib/postgresql/15/bin/postgres -D /data -c huge_pages=on",
                Asked::Must,
                240,
            ),
            (
                "/usr/lib/postgresql/15/bin/postgres -D /data",
                "/usr/lib/postgresql/15/bin/postgres -D /data -c huge_pages=on -B 131072",
                Asked::Must,
                512,
            ),
        ] {
            let unit = unit.split_whitespace().collect::<Vec<_>>().join(" ");
            let next = restart(running, &unit, false);
            let next = next.known().unwrap_or_else(|| panic!("{unit}: nothing changes"));
            assert_eq!(next.asked, asked, "{unit}");
            let found: u64 = next.demands.iter().map(|demand| demand.pages.get()).sum();
            assert!((pages..pages + pages / 3).contains(&found), "{unit}: {found} pages");
        }
    }

    #[test]
    fn what_a_unit_no_longer_asks_for_is_gone_at_the_next_start() {
        let running = "/usr/bin/java -Xms512m -Xmx512m -XX:+UseLargePages Main";
        let next = restart(running, "/usr/bin/java -Xms512m -Xmx512m Main", true);
        assert!(matches!(next.known(), Some(next) if next.demands.is_empty()), "{next:?}");
    }

    #[test]
    fn a_unit_that_says_the_same_or_nothing_that_matters_changes_nothing() {
        let java = "/usr/bin/java -Xms512m -Xmx512m -XX:+UseLargePages Main";
        for unit in [
            java,
            "/usr/bin/java -Xms512m -Xmx512m -XX:+UseLargePages -Dx=y Main",
            "/usr/bin/java $JAVA_OPTS Main",
            "/opt/app/bin/start.sh",
            "/usr/bin/java -Xms512m -Xmx524288k -XX:+UseLargePages Main",
        ] {
            assert_eq!(restart(java, unit, true), Observed::Absent, "{unit}");
        }
    }
}
