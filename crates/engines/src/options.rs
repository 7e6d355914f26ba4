//! Command lines and paths as the servers see them.

use hugewise_host::Source;
use hugewise_host::config::unit::service_of;
use hugewise_model::{Host, Observed, Process};

/// The value of an option that has a long name, the last one where it is given several times:
/// `--name value`, `--name=value`, and both with one dash. Dashes and underscores are alike.
/// An option without a value (another option follows, or nothing) gives the empty text.
pub fn value<'a>(arguments: &'a [String], name: &str) -> Option<&'a str> {
    let mut found = None;
    for (at, argument) in arguments.iter().enumerate().skip(1) {
        let Some(option) = argument.strip_prefix("--").or_else(|| argument.strip_prefix('-')) else { continue };
        let (given, behind) = match option.split_once('=') {
            Some((given, behind)) => (given, Some(behind)),
            None => (option, None),
        };
        if same_name(given, name) {
            found = Some(behind.or_else(|| next_value(arguments, at)).unwrap_or_default());
        }
    }
    found
}

/// The values of an option of one letter, in their order: `-Dvalue` and `-D value`.
pub fn short_values(arguments: &[String], letter: char) -> impl Iterator<Item = &str> {
    arguments.iter().enumerate().skip(1).filter_map(move |(at, argument)| {
        match argument.strip_prefix('-')?.strip_prefix(letter)? {
            "" => arguments.get(at + 1).map(String::as_str),
            behind => Some(behind),
        }
    })
}

/// The value of an option of one letter, the last one where it is given several times.
pub fn short_value(arguments: &[String], letter: char) -> Option<&str> {
    short_values(arguments, letter).last()
}

/// Whether two names are the same but for dashes and underscores.
pub fn same_name(one: &str, other: &str) -> bool {
    let plain = |byte: u8| if byte == b'_' { b'-' } else { byte };
    one.len() == other.len() && one.bytes().map(plain).eq(other.bytes().map(plain))
}

fn next_value(arguments: &[String], at: usize) -> Option<&str> {
    arguments.get(at + 1).map(String::as_str).filter(|next| !next.starts_with('-'))
}

/// Last part of a path: `postgres` of `/usr/lib/postgresql/15/bin/postgres`.
pub fn file_name(path: &str) -> &str {
    path.trim_end_matches('/').rsplit('/').next().unwrap_or(path)
}

/// Name of the program that a process runs: of its executable, or where that cannot be read of its
/// first argument. An upgrade leaves ` (deleted)` behind the executable's path.
pub fn program(process: &Process) -> &str {
    let executable = process.executable.known().map(|path| path.strip_suffix(" (deleted)").unwrap_or(path));
    let first = || process.command.known().and_then(|arguments| arguments.first()).map(String::as_str);
    file_name(executable.or_else(first).unwrap_or(&process.name))
}

/// Whether a process sees other files than the reader: it has another mount namespace, as in a container, or another
/// root folder, as in a chroot.
pub fn sees_other_files(host: &Host, process: &Process) -> bool {
    let namespaces = (host.namespaces.mount.get(), process.namespaces.mount.get());
    matches!(namespaces, (Some(ours), Some(theirs)) if ours != theirs) || root(process).is_some()
}

/// Whether a process lives in a container or a chroot, where the host's files, units and accounts are not its own.
///
/// A service of the host may have mounts of its own and still have the host's files: `ProtectHome=`, `PrivateTmp=` and their
/// like (systemd.exec(5)) make some, and MariaDB's and Redis' packages ask for them. It shares the host's processes, is its
/// unit's alone, and finds the same /etc, which one with a `RootImage=` does not.
pub(crate) fn is_contained(host: &Host, source: &dyn Source, process: &Process) -> bool {
    sees_other_files(host, process) && !is_service_with_the_hosts_files(host, source, process)
}

fn is_service_with_the_hosts_files(host: &Host, source: &dyn Source, process: &Process) -> bool {
    let pids = host.namespaces.pid.get().zip(process.namespaces.pid.get());
    let memberships = process.cgroups.known().map(AsRef::as_ref).unwrap_or_default();
    let is_units = |unit: &str| memberships.iter().any(|it| it.path.rsplit('/').next() == Some(unit));
    let folders = [format!("/proc/{}/root/etc", process.pid), "/etc".to_owned()];
    let [its, ours] = folders.map(|folder| source.stamp(&folder, true));
    root(process).is_none()
        && pids.is_some_and(|(ours, its)| ours == its)
        && service_of(process).is_some_and(is_units)
        && its.zip(ours).is_none_or(|(its, ours)| its == ours)
}

/// The root folder of a process that is not the reader's.
fn root(process: &Process) -> Option<&str> {
    process.root.known().map(String::as_str).filter(|root| *root != "/")
}

/// A path as `process` names it, as the reader can open it: below `/proc/PID/root` where the two see different files.
pub fn as_reader_opens(host: &Host, process: &Process, path: &str) -> String {
    if sees_other_files(host, process) { format!("/proc/{}/root{path}", process.pid) } else { path.to_owned() }
}

/// A path that /proc tells of a process (`exe`, `cwd`, a mapping's name), as the process itself names it: the kernel writes
/// these as the reader would, with the process's root folder before what lies in it.
pub fn as_process_names<'a>(process: &Process, path: &'a str) -> &'a str {
    let inside = root(process).and_then(|root| path.strip_prefix(root.trim_end_matches('/')));
    match inside {
        Some("") => "/",
        Some(inside) if inside.starts_with('/') => inside,
        _ => path,
    }
}

/// The working directory of a process, as it names it.
pub fn directory(process: &Process) -> Observed<String> {
    process.directory.as_ref().map(|path| as_process_names(process, path).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn a_long_option_is_found_in_each_of_its_forms() {
        for command in ["mysqld --large-pages=on", "mysqld --large_pages on", "java -large-pages=off --large-pages on"]
        {
            assert_eq!(value(&words(command), "large-pages"), Some("on"), "{command}");
        }
        assert_eq!(value(&words("mysqld --large-pages --port=1"), "large_pages"), Some(""));
        assert_eq!(value(&words("mysqld --large-pages-x=1"), "large-pages"), None);
        assert_eq!(value(&words("large-pages=on"), "large-pages"), None);
    }

    #[test]
    fn a_short_option_takes_what_is_glued_to_it_or_the_next_word() {
        assert_eq!(short_value(&words("postgres -D /data -p 5433"), 'D'), Some("/data"));
        assert_eq!(short_value(&words("postgres -D/data -p5433"), 'p'), Some("5433"));
        assert_eq!(short_values(&words("postgres -c a=1 -cb=2"), 'c').collect::<Vec<_>>(), ["a=1", "b=2"]);
        assert_eq!(short_value(&words("postgres -D"), 'D'), None);
    }

    #[test]
    fn paths_of_a_container_lead_through_its_root() {
        let mut host = Host::default();
        let mut process = Process { pid: 7, ..Process::default() };
        process.namespaces.mount = Observed::Known(2);
        assert_eq!(as_reader_opens(&host, &process, "/etc/my.cnf"), "/etc/my.cnf");
        host.namespaces.mount = Observed::Known(1);
        assert_eq!(as_reader_opens(&host, &process, "/etc/my.cnf"), "/proc/7/root/etc/my.cnf");
        host.namespaces.mount = Observed::Known(2);
        assert_eq!(as_reader_opens(&host, &process, "/etc/my.cnf"), "/etc/my.cnf");
    }

    #[test]
    fn paths_of_a_chroot_lead_through_its_root_too() {
        let host = Host::default();
        let chroot = |root: &str| Process { pid: 7, root: Observed::Known(root.into()), ..Process::default() };
        let process = chroot("/srv/a");
        assert_eq!(as_reader_opens(&host, &process, "/etc/my.cnf"), "/proc/7/root/etc/my.cnf");
        for (told, named) in [("/srv/a/data", "/data"), ("/srv/a", "/"), ("/srv/ab/data", "/srv/ab/data"), ("/x", "/x")]
        {
            assert_eq!(as_process_names(&process, told), named);
        }
        assert_eq!(as_reader_opens(&host, &chroot("/"), "/etc/my.cnf"), "/etc/my.cnf");
        assert_eq!(as_process_names(&chroot("/"), "/data"), "/data");
        let denied = Process { pid: 7, root: Observed::Denied, ..Process::default() };
        assert_eq!(as_reader_opens(&host, &denied, "/etc/my.cnf"), "/etc/my.cnf");
    }

    #[test]
    fn a_program_is_known_by_its_executable_even_after_an_upgrade() {
        let mut process = Process { name: "postgres".into(), ..Process::default() };
        assert_eq!(program(&process), "postgres");
        process.command = Observed::Known(vec!["/opt/bin/postmaster".into()]);
        assert_eq!(program(&process), "postmaster");
        process.executable = Observed::Known("/usr/lib/postgresql/15/bin/postgres (deleted)".into());
        assert_eq!(program(&process), "postgres");
    }
}
