//! Whether whoever reads stands on the host itself, or in a container or chroot of it.
//!
//! Names and files of container programs can be missing or left over: /.dockerenv is in every machine that was made out
//! of an image. The kernel knows: the namespaces that it boots with have fixed numbers (include/linux/proc_ns.h, since
//! Linux 3.8), and its own threads stand in the host's root folder. A mount namespace alone is no container: systemd
//! gives one to every service with PrivateTmp.

use hugewise_model::Observed;

use crate::Source;
use crate::process::inode_of;

/// PROC_PID_INIT_INO.
const PID: u64 = 0xEFFF_FFFC;
/// PROC_USER_INIT_INO.
const USER: u64 = 0xEFFF_FFFD;
/// Namespaces that services have too, with their first numbers: PROC_IPC_INIT_INO, PROC_UTS_INIT_INO,
/// PROC_CGROUP_INIT_INO.
const OTHERS: [(&str, u64); 3] = [("ipc", 0xEFFF_FFFF), ("uts", 0xEFFF_FFFE), ("cgroup", 0xEFFF_FFFB)];

/// Files that systemd, Podman, Docker, OpenVZ and LXC put into containers. They count where the kernel does not tell.
const MARKS: [&str; 4] = ["/run/systemd/container", "/run/.containerenv", "/.dockerenv", "/dev/.lxc-boot-id"];

/// What keeps whoever reads from seeing or changing the host whole; `None` on the host itself.
///
/// `own_root` is whether the root folder is the host's, see [`crate::source::Machine`].
pub fn read(source: &dyn Source, live: bool, own_root: &Observed<bool>) -> Option<String> {
    if live && stands_for_a_host() {
        return None;
    }
    let namespace = |name: &str| source.link(&format!("/proc/self/ns/{name}")).and_then(|target| inode_of(&target));
    let (pid, user) = (namespace("pid"), namespace("user"));
    if let Some(number) = user.get().filter(|number| *number != USER) {
        return Some(format!(
            "it runs in its own user namespace (/proc/self/ns/user is user:[{number}]), as rootless containers do: its \
             root is not the host's"
        ));
    }
    if let Some(number) = pid.get().filter(|number| *number != PID) {
        return Some(format!(
            "it runs in its own pid namespace (/proc/self/ns/pid is pid:[{number}]), as containers do, and sees only \
             the servers in there"
        ));
    }
    // Where it shows this program's namespaces it shows this program; before Linux 3.8 it has no such files.
    let shows_itself = || pid.is_known() || source.read("/proc/self/status").is_known();
    if live && !shows_itself() {
        return Some("/proc belongs to another pid namespace: hugewise does not find itself in it".to_owned());
    }
    match own_root {
        Observed::Known(true) => return None,
        Observed::Known(false) => {
            return Some(
                "its root folder is not the host's (/proc/1/root is another): this is a chroot or a container"
                    .to_owned(),
            );
        }
        _ => {}
    }
    let apart = OTHERS.iter().any(|(name, first)| namespace(name).get().is_some_and(|number| number != *first));
    let unknown = !(pid.is_known() && user.is_known());
    let mark = MARKS.iter().find(|path| !source.read(path).is_absent());
    mark.filter(|_| apart || (live && unknown)).map(|mark| format!("{mark} exists, as it does in containers"))
}

/// Tests run in namespaces of their own and are hosts to themselves. Only what is built together with them has this.
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
    use crate::source::MapSource;

    fn host() -> MapSource {
        MapSource::new()
            .link("/proc/self/ns/pid", "pid:[4026531836]")
            .link("/proc/self/ns/user", "user:[4026531837]")
            .link("/proc/self/ns/ipc", "ipc:[4026531839]")
            .link("/proc/self/ns/uts", "uts:[4026531838]")
            .link("/proc/self/ns/cgroup", "cgroup:[4026531835]")
            .file("/proc/self/status", "Name:\thugewise\n")
    }

    const SAME: Observed<bool> = Observed::Known(true);

    #[test]
    fn a_host_is_a_host_whatever_lies_about_in_it() {
        let left_over = host().file("/.dockerenv", "").file("/run/.containerenv", "");
        for root in [SAME, Observed::Denied, Observed::Absent] {
            assert_eq!(read(&left_over, true, &root), None, "{root:?}");
        }
        let service =
            host().link("/proc/self/ns/ipc", "ipc:[4026532777]").link("/proc/self/ns/uts", "uts:[4026532778]");
        assert_eq!(read(&service, true, &SAME), None);
        assert_eq!(read(&service, true, &Observed::Denied), None, "a service with PrivateIPC");
    }

    #[test]
    fn the_kernel_tells_a_container() {
        let said = |source: &MapSource, root: &Observed<bool>| read(source, true, root).unwrap_or_default();
        let pid = host().link("/proc/self/ns/pid", "pid:[4026532201]");
        assert!(said(&pid, &SAME).contains("pid:[4026532201]"));
        let user = host().link("/proc/self/ns/user", "user:[4026532200]");
        assert!(said(&user, &SAME).contains("user:[4026532200]"));
        assert!(said(&host(), &Observed::Known(false)).contains("root folder"), "a chroot, or a pod with hostPID");
        let foreign = MapSource::new().file("/proc/1/status", "");
        assert!(said(&foreign, &SAME).contains("/proc belongs to another"));
        let hidden = host().link("/proc/self/ns/cgroup", "cgroup:[4026532300]").file("/.dockerenv", "");
        assert!(said(&hidden, &Observed::Denied).contains("/.dockerenv"));
        let old = MapSource::new().file("/proc/self/status", "").file("/run/systemd/container", "lxc\n");
        assert!(said(&old, &Observed::Absent).contains("/run/systemd/container"));
    }

    #[test]
    fn a_capture_tells_what_it_kept() {
        let pid = MapSource::new().link("/proc/self/ns/pid", "pid:[4026532201]");
        assert!(read(&pid, false, &Observed::Absent).is_some());
        let nothing = MapSource::new().file("/.dockerenv", "");
        assert_eq!(read(&nothing, false, &Observed::Absent), None);
    }
}
