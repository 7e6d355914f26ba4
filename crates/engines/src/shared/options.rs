//! Command lines and paths as the servers see them.

use hugewise_host::config::unit::service_of;
use hugewise_model::{Host, Observed, Process};

/// The last value of a long option: `--name value`, `--name=value`, and both with one dash. Dashes
/// and underscores are alike. Without a value (another option follows, or nothing) it is empty.
pub fn option_value<'a>(arguments: &'a [String], name: &str) -> Option<&'a str> {
    let mut found = None;
    for (at, argument) in arguments.iter().enumerate().skip(1) {
        let Some(option) = argument.strip_prefix("--").or_else(|| argument.strip_prefix('-'))
        else {
            continue;
        };
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

/// The values of a one-letter option, in their order: `-Dvalue` and `-D value`.
pub fn short_values(arguments: &[String], letter: char) -> impl Iterator<Item = &str> {
    arguments.iter().enumerate().skip(1).filter_map(move |(at, argument)| {
        match argument.strip_prefix('-')?.strip_prefix(letter)? {
            "" => arguments.get(at + 1).map(String::as_str),
            behind => Some(behind),
        }
    })
}

/// The last value of a one-letter option.
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

/// The power of two that a unit's letter stands for, in any case.
pub(crate) fn unit_shift(letter: char) -> Option<u32> {
    let at = "KMGT".find(letter.to_ascii_uppercase())?;
    u32::try_from(10 * (at + 1)).ok()
}

/// Whether a text is one or more digits.
pub(crate) fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

pub(crate) fn is_same_path(one: &str, other: &str) -> bool {
    one.trim_end_matches('/') == other.trim_end_matches('/')
}

/// Last part of a path: `postgres` of `/usr/lib/postgresql/15/bin/postgres`.
pub fn file_name(path: &str) -> &str {
    path.trim_end_matches('/').rsplit('/').next().unwrap_or(path)
}

/// Name of a process's program, by its executable or else its first argument. An upgrade leaves
/// ` (deleted)` behind the executable's path, and NixOS has `.NAME-wrapped` behind a script that
/// sets its environment (`wrapProgram` of nixpkgs).
pub fn program_name(process: &Process) -> &str {
    let executable =
        process.executable.as_known().map(|path| path.strip_suffix(" (deleted)").unwrap_or(path));
    let first =
        || process.command.as_known().and_then(|arguments| arguments.first()).map(String::as_str);
    unwrap_program_name(file_name(executable.or_else(first).unwrap_or(&process.name)))
}

fn unwrap_program_name(name: &str) -> &str {
    let inside = name.strip_prefix('.').map(|rest| rest.trim_end_matches('_'));
    inside.and_then(|rest| rest.strip_suffix("-wrapped")).unwrap_or(name)
}

/// Whether a process sees other files than the reader, as in a container or a chroot.
pub fn sees_other_files(host: &Host, process: &Process) -> bool {
    let namespaces = (host.namespaces.mount.get(), process.namespaces.mount.get());
    matches!(namespaces, (Some(ours), Some(theirs)) if ours != theirs)
        || foreign_root(process).is_some()
}

/// Whether a process lives in a container or a chroot, where the host's files, units and accounts
/// are not its own.
///
/// A service of the host may have mounts of its own and still the host's files: `ProtectHome=`,
/// `PrivateTmp=` and their like (systemd.exec(5)), which MariaDB's and Redis' packages ask for. It
/// shares the host's processes, is its unit's alone, and finds the same /etc, unlike one with
/// `RootImage=`.
pub(crate) fn is_contained(host: &Host, process: &Process) -> bool {
    sees_other_files(host, process) && !is_service_with_the_hosts_files(host, process)
}

/// What sets a process apart from the host, where its accounts and its root are not the host's.
pub(crate) fn foreign_surroundings(host: &Host, process: &Process) -> Option<&'static str> {
    let differs = |ours: &Observed<u64>, its: &Observed<u64>| {
        ours.get().zip(its.get()).is_some_and(|(ours, its)| ours != its)
    };
    let (ours, its) = (&host.namespaces, &process.namespaces);
    if is_service_with_the_hosts_files(host, process) || is_machine_or_login(host, process) {
        None
    } else if sees_other_files(host, process) {
        Some("it sees other files than the host")
    } else if differs(&ours.pid, &its.pid) {
        Some("it sees other processes than the host")
    } else {
        differs(&ours.user, &its.user).then_some("its user namespace is not the host's")
    }
}

/// libvirt gives a virtual machine a /dev of its own, and pam_namespace(8) a login a /tmp: both
/// run on the host all the same, in groups of the host's.
fn is_machine_or_login(host: &Host, process: &Process) -> bool {
    let pids = host.namespaces.pid.get().zip(process.namespaces.pid.get());
    let is_login = |part: &str| part.starts_with("session-") && part.ends_with(".scope");
    let memberships = process.cgroups.as_known().map(AsRef::as_ref).unwrap_or_default();
    let mut parts = memberships.iter().flat_map(|membership| membership.path.split('/'));
    foreign_root(process).is_none()
        && pids.is_some_and(|(ours, its)| ours == its)
        && parts.any(|part| is_virtual_machine(part) || is_login(part))
}

/// Whether a control group is that of a virtual machine of libvirt's: `machine-qemu\x2d1\x2dvm.scope`,
/// without systemd `vm.libvirt-qemu`.
pub(crate) fn is_virtual_machine(part: &str) -> bool {
    let scope = part.strip_suffix(".scope");
    scope.is_some_and(|name| name.starts_with("machine-qemu")) || part.ends_with(".libvirt-qemu")
}

fn is_service_with_the_hosts_files(host: &Host, process: &Process) -> bool {
    let pids = host.namespaces.pid.get().zip(process.namespaces.pid.get());
    let memberships = process.cgroups.as_known().map(AsRef::as_ref).unwrap_or_default();
    let is_units = |unit: &str| {
        memberships.iter().any(|membership| membership.path.rsplit('/').next() == Some(unit))
    };
    foreign_root(process).is_none()
        && pids.is_some_and(|(ours, its)| ours == its)
        && service_of(process).is_some_and(is_units)
}

fn foreign_root(process: &Process) -> Option<&str> {
    process.root.as_known().map(String::as_str).filter(|root| *root != "/")
}

/// A process's path as the reader opens it: below `/proc/PID/root` where their files differ.
pub fn as_reader_opens(host: &Host, process: &Process, path: &str) -> String {
    if sees_other_files(host, process) {
        format!("/proc/{}/root{path}", process.pid)
    } else {
        path.to_owned()
    }
}

/// A path that /proc tells of a process (`exe`, `cwd`, a mapping's name) as the process names it:
/// the kernel puts the process's root folder before it.
pub fn as_process_names<'a>(process: &Process, path: &'a str) -> &'a str {
    let inside =
        foreign_root(process).and_then(|root| path.strip_prefix(root.trim_end_matches('/')));
    match inside {
        Some("") => "/",
        Some(inside) if inside.starts_with('/') => inside,
        _ => path,
    }
}

/// A path as a process names it, which may be relative to its working directory.
pub(crate) fn from_working_directory(process: &Process, path: &str) -> String {
    if path.starts_with('/') {
        return path.to_owned();
    }
    format!("{}/{path}", working_directory(process).into_known().unwrap_or_default())
}

/// The working directory of a process, as it names it.
pub fn working_directory(process: &Process) -> Observed<String> {
    process.directory.as_ref().map(|path| as_process_names(process, path).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split_command(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    /// As nixpkgs' `wrapProgram` names what it wraps, once and twice.
    #[test]
    fn a_wrapped_program_has_its_own_name() {
        for (path, name) in [
            ("/nix/store/3p-postgresql-16.6/bin/.postgres-wrapped", "postgres"),
            ("/nix/store/9x-qemu-9.1/bin/.qemu-system-x86_64-wrapped_", "qemu-system-x86_64"),
            ("/opt/bin/.hidden", ".hidden"),
            ("/opt/bin/x-wrapped", "x-wrapped"),
        ] {
            let executable = Observed::Known(path.to_owned());
            assert_eq!(program_name(&Process { executable, ..Process::default() }), name);
        }
    }

    #[test]
    fn a_long_option_is_found_in_each_of_its_forms() {
        for command in [
            "mysqld --large-pages=on",
            "mysqld --large_pages on",
            "java -large-pages=off --large-pages on",
        ] {
            assert_eq!(
                option_value(&split_command(command), "large-pages"),
                Some("on"),
                "{command}"
            );
        }
        assert_eq!(
            option_value(&split_command("mysqld --large-pages --port=1"), "large_pages"),
            Some("")
        );
        assert_eq!(option_value(&split_command("mysqld --large-pages-x=1"), "large-pages"), None);
        assert_eq!(option_value(&split_command("large-pages=on"), "large-pages"), None);
    }

    #[test]
    fn a_short_option_takes_what_is_glued_to_it_or_the_next_word() {
        assert_eq!(short_value(&split_command("postgres -D /data -p 5433"), 'D'), Some("/data"));
        assert_eq!(short_value(&split_command("postgres -D/data -p5433"), 'p'), Some("5433"));
        assert_eq!(
            short_values(&split_command("postgres -c a=1 -cb=2"), 'c').collect::<Vec<_>>(),
            ["a=1", "b=2"]
        );
        assert_eq!(short_value(&split_command("postgres -D"), 'D'), None);
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
        let chroot = |root: &str| Process {
            pid: 7,
            root: Observed::Known(root.into()),
            ..Process::default()
        };
        let process = chroot("/srv/a");
        assert_eq!(as_reader_opens(&host, &process, "/etc/my.cnf"), "/proc/7/root/etc/my.cnf");
        for (told, named) in [
            ("/srv/a/data", "/data"),
            ("/srv/a", "/"),
            ("/srv/ab/data", "/srv/ab/data"),
            ("/x", "/x"),
        ] {
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
        assert_eq!(program_name(&process), "postgres");
        process.command = Observed::Known(vec!["/opt/bin/postmaster".into()]);
        assert_eq!(program_name(&process), "postmaster");
        process.executable =
            Observed::Known("/usr/lib/postgresql/15/bin/postgres (deleted)".into());
        assert_eq!(program_name(&process), "postgres");
    }
}
