//! Whether whoever reads stands on the host itself, or in a container or chroot of it.
//!
//! Names and files of container programs can be missing or left over: /.dockerenv is in every
//! machine that was made out of an image. The kernel knows: the namespaces that it boots with have
//! fixed numbers (include/linux/proc_ns.h, since Linux 3.8), and its own threads stand in the
//! host's root folder. A mount namespace alone is no container: systemd gives one to every service
//! with PrivateTmp.

use hugewise_model::Observed;

use hugewise_procfs::process::inode_of;
use hugewise_source::Source;

/// PROC_PID_INIT_INO.
const PID: u64 = 0xEFFF_FFFC;
/// PROC_USER_INIT_INO.
const USER: u64 = 0xEFFF_FFFD;
/// Namespaces that services have too, with their first numbers: PROC_IPC_INIT_INO,
/// PROC_UTS_INIT_INO, PROC_CGROUP_INIT_INO.
const OTHERS: [(&str, u64); 3] =
    [("ipc", 0xEFFF_FFFF), ("uts", 0xEFFF_FFFE), ("cgroup", 0xEFFF_FFFB)];

/// Files that systemd, Podman, Docker, OpenVZ and LXC put into containers. They count where the
/// kernel does not tell.
const MARKS: [&str; 4] =
    ["/run/systemd/container", "/run/.containerenv", "/.dockerenv", "/dev/.lxc-boot-id"];

/// What keeps whoever reads from seeing or changing the host whole; `None` on the host itself.
///
/// `own_root` is whether the root folder is the host's, see [`hugewise_source::Machine`].
pub fn read(source: &dyn Source, live: bool, own_root: &Observed<bool>) -> Option<String> {
    if live && stands_for_a_host() {
        return None;
    }
    let namespace = |name: &str| {
        source.read_link(&format!("/proc/self/ns/{name}")).and_then(|target| inode_of(&target))
    };
    let (pid, user) = (namespace("pid"), namespace("user"));
    if let Some(number) = user.get().filter(|number| *number != USER) {
        return Some(format!(
            "it runs in its own user namespace (/proc/self/ns/user is user:[{number}]), as \
             rootless containers do: its root is not the host's"
        ));
    }
    if let Some(number) = pid.get().filter(|number| *number != PID) {
        return Some(format!(
            "it runs in its own pid namespace (/proc/self/ns/pid is pid:[{number}]), as containers \
             do, and sees only the servers in there"
        ));
    }
    // Where it shows this program's namespaces (since Linux 3.8) it shows this program.
    let shows_itself = || pid.is_known() || source.read("/proc/self/status").is_known();
    if live && !shows_itself() {
        let why = "/proc belongs to another pid namespace: hugewise does not find itself in it";
        return Some(why.to_owned());
    }
    match own_root {
        Observed::Known(true) => return None,
        Observed::Known(false) => {
            return Some(
                "its root folder is not the host's (/proc/1/root is another): this is a chroot or \
                     a container"
                    .to_owned(),
            );
        }
        _ => {}
    }
    let apart = OTHERS
        .iter()
        .any(|(name, first)| namespace(name).get().is_some_and(|number| number != *first));
    let unknown = !(pid.is_known() && user.is_known());
    let mark = MARKS.iter().find(|path| !source.read(path).is_absent());
    mark.filter(|_| apart || (live && unknown))
        .map(|mark| format!("{mark} exists, as it does in containers"))
}

/// Names that the first process of a host has (`/proc/1/comm`, 15 bytes at most).
const INITS: [&str; 17] = [
    "systemd",
    "init",
    "sysvinit",
    "upstart",
    "openrc-init",
    "runit",
    "runit-init",
    "s6-svscan",
    "s6-linux-init",
    "dinit",
    "finit",
    "sinit",
    "procd",
    "busybox",
    "linuxrc",
    "shepherd",
    "launchd",
];

/// What made sure that this is the host, where its first process is no init system that is known:
/// a container whose program shares the host's namespaces looks like that, too.
pub fn describe_host_without_init(
    source: &dyn Source,
    own_root: &Observed<bool>,
) -> Option<String> {
    if stands_for_a_host() {
        return None;
    }
    let comm = source.read("/proc/1/comm").into_known()?;
    let name = String::from_utf8_lossy(comm.trim_ascii()).into_owned();
    if INITS.contains(&name.as_str()) {
        return None;
    }
    let is_first = |name: &str, first: u64| {
        let target = source.read_link(&format!("/proc/self/ns/{name}"));
        target.and_then(|target| inode_of(&target)).get() == Some(first)
    };
    let because = match (is_first("pid", PID), is_first("user", USER), own_root) {
        (true, true, Observed::Known(true)) => {
            "because its pid and user namespaces are the kernel's first and its root folder is \
             process 1's"
        }
        (true, true, _) => {
            "because its pid and user namespaces are the kernel's first; whether its root folder is \
             process 1's cannot be read"
        }
        (_, _, Observed::Known(true)) => {
            "because its root folder is process 1's; the kernel does not say whether its pid and \
             user namespaces are the first"
        }
        _ => "as nothing says that it is a container",
    };
    let name = hugewise_model::escape::plain::escape_line(&name);
    Some(format!("no init system runs here (process 1 is {name}); taken for the host, {because}"))
}

/// Whether this was built together with tests, which are hosts to themselves and carry out plans
/// that no host has.
pub const IS_BUILT_FOR_TESTS: bool = cfg!(feature = "namespaced-tests");

/// Tests run in namespaces of their own and are hosts to themselves. Only what is built together
/// with them has this.
#[cfg(feature = "namespaced-tests")]
#[allow(clippy::disallowed_methods)]
fn stands_for_a_host() -> bool {
    std::env::var("HUGEWISE_TEST_NAMESPACE").is_ok()
}

#[cfg(not(feature = "namespaced-tests"))]
const fn stands_for_a_host() -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use hugewise_source::MapSource;

    fn host() -> MapSource {
        MapSource::new()
            .with_link("/proc/self/ns/pid", "pid:[4026531836]")
            .with_link("/proc/self/ns/user", "user:[4026531837]")
            .with_link("/proc/self/ns/ipc", "ipc:[4026531839]")
            .with_link("/proc/self/ns/uts", "uts:[4026531838]")
            .with_link("/proc/self/ns/cgroup", "cgroup:[4026531835]")
            .with_file("/proc/self/status", "Name:\thugewise\n")
    }

    const SAME: Observed<bool> = Observed::Known(true);

    #[test]
    fn a_host_is_a_host_whatever_lies_about_in_it() {
        let left_over = host().with_file("/.dockerenv", "").with_file("/run/.containerenv", "");
        for root in [SAME, Observed::Denied, Observed::Absent] {
            assert_eq!(read(&left_over, true, &root), None, "{root:?}");
        }
        let service = host()
            .with_link("/proc/self/ns/ipc", "ipc:[4026532777]")
            .with_link("/proc/self/ns/uts", "uts:[4026532778]");
        assert_eq!(read(&service, true, &SAME), None);
        assert_eq!(read(&service, true, &Observed::Denied), None, "a service with PrivateIPC");
    }

    #[test]
    fn the_kernel_tells_a_container() {
        let said = |source: &MapSource, root: &Observed<bool>| {
            read(source, true, root).unwrap_or_default()
        };
        let pid = host().with_link("/proc/self/ns/pid", "pid:[4026532201]");
        assert!(said(&pid, &SAME).contains("pid:[4026532201]"));
        let user = host().with_link("/proc/self/ns/user", "user:[4026532200]");
        assert!(said(&user, &SAME).contains("user:[4026532200]"));
        assert!(
            said(&host(), &Observed::Known(false)).contains("root folder"),
            "a chroot, or a pod with hostPID"
        );
        let foreign = MapSource::new().with_file("/proc/1/status", "");
        assert!(said(&foreign, &SAME).contains("/proc belongs to another"));
        let hidden = host()
            .with_link("/proc/self/ns/cgroup", "cgroup:[4026532300]")
            .with_file("/.dockerenv", "");
        assert!(said(&hidden, &Observed::Denied).contains("/.dockerenv"));
        let old = MapSource::new()
            .with_file("/proc/self/status", "")
            .with_file("/run/systemd/container", "lxc\n");
        assert!(said(&old, &Observed::Absent).contains("/run/systemd/container"));
    }

    #[test]
    fn a_host_without_an_init_system_says_what_made_it_one() {
        let first = |comm: &str| host().with_file("/proc/1/comm", comm);
        for init in ["systemd\n", "init\n", "runit\n", "procd\n", "busybox\n"] {
            assert_eq!(describe_host_without_init(&first(init), &SAME), None, "{init}");
        }
        assert_eq!(
            describe_host_without_init(&first("sleep\n"), &SAME).as_deref(),
            Some(
                "no init system runs here (process 1 is sleep); taken for the host, because its \
                 pid and user namespaces are the kernel's first and its root folder is process 1's"
            )
        );
        // Nothing is claimed that was not read.
        let said = describe_host_without_init(&first("sleep\n"), &Observed::Denied).unwrap();
        assert!(said.ends_with("its root folder is process 1's cannot be read"), "{said}");
        let old = MapSource::new().with_file("/proc/1/comm", "tini\n");
        let said = describe_host_without_init(&old, &SAME).unwrap();
        assert!(said.contains("the kernel does not say"), "{said}");
        let said = describe_host_without_init(&old, &Observed::Absent).unwrap();
        assert!(said.ends_with("as nothing says that it is a container"), "{said}");
        // Whoever is process 1 has chosen its name.
        let said = describe_host_without_init(&first("a\u{1b}[2Jb\n"), &SAME).unwrap();
        assert!(!said.contains('\u{1b}'), "{said}");
        assert_eq!(describe_host_without_init(&host(), &SAME), None, "/proc/1 is hidden");
    }

    #[test]
    fn a_capture_tells_what_it_kept() {
        let pid = MapSource::new().with_link("/proc/self/ns/pid", "pid:[4026532201]");
        assert!(read(&pid, false, &Observed::Absent).is_some());
        let nothing = MapSource::new().with_file("/.dockerenv", "");
        assert_eq!(read(&nothing, false, &Observed::Absent), None);
    }
}
