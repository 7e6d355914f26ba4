//! Whose a control group is. A user to whom one was delegated makes others below it, of any name.

use hugewise_host::Source;
use hugewise_model::{Host, Observed, Process};

use super::Proof;
use crate::shared::options::is_virtual_machine;

/// Where the hierarchy is mounted that systemd and container runtimes make groups in: the unified
/// one, that of systemd itself, and both beside each other.
const MOUNTS: [&str; 3] = ["/sys/fs/cgroup", "/sys/fs/cgroup/systemd", "/sys/fs/cgroup/unified"];

/// The groups above a service's own belong to root; its own may be delegated to its user.
pub(super) fn prove_service(
    host: &Host,
    source: &dyn Source,
    service: &str,
    main: &Process,
) -> Proof {
    let path = membership_path(main, |part| part == service)
        .ok_or_else(|| format!("its control group is not that of {service}"))?;
    prove_parents(host, source, &path, service)
}

/// A runtime of the host made the group of a container, not below a user's slice or manager, and
/// the groups above it belong to root.
pub(super) fn prove_container(host: &Host, source: &dyn Source, main: &Process) -> Proof {
    let memberships = main.cgroups.as_known().map(AsRef::as_ref).unwrap_or_default();
    let users =
        |part: &str| part == "user.slice" || part.starts_with("user-") || part.starts_with("user@");
    if memberships.iter().any(|membership| membership.path.split('/').any(users)) {
        return Err("a user of the host has started its container".to_owned());
    }
    let path = membership_path(main, is_made_by_runtime)
        .ok_or("no container runtime of the host has started it")?;
    prove_parents(host, source, &path, "its container")
}

/// Whether a process lies in the group of a container, whoever has started that.
pub(super) fn is_in_container(main: &Process) -> bool {
    membership_path(main, |part| is_made_by_runtime(part) && !is_virtual_machine(part)).is_some()
}

fn is_made_by_runtime(part: &str) -> bool {
    const SCOPES: [&str; 5] = ["docker-", "libpod-", "cri-containerd-", "crio-", "machine-"];
    let scope = part
        .strip_suffix(".scope")
        .is_some_and(|name| SCOPES.iter().any(|start| name.starts_with(start)));
    let id = part.len() == 64 && part.bytes().all(|byte| byte.is_ascii_hexdigit());
    scope || id
}

/// The path of a process's group down to the first part that is of a kind.
fn membership_path(main: &Process, is_wanted: impl Fn(&str) -> bool) -> Option<String> {
    main.cgroups.as_known()?.iter().find_map(|membership| {
        let parts: Vec<&str> = membership.path.split('/').collect();
        let end = parts.iter().position(|part| is_wanted(part))?;
        Some(parts.get(..=end)?.join("/"))
    })
}

/// The folders above a group. In a capture nobody has them.
fn prove_parents(host: &Host, source: &dyn Source, path: &str, what: &str) -> Proof {
    if !host.live {
        return Ok(format!("it is in {path} (a capture does not say who owns that)"));
    }
    let is_there = |mount: &&&str| source.owner_of(&format!("{mount}{path}")).is_known();
    let mount = MOUNTS
        .iter()
        .find(is_there)
        .ok_or_else(|| format!("the control group of {what} is in no hierarchy of the host"))?;
    let parents = path.rmatch_indices('/').map(|(end, _)| path.get(..end).unwrap_or_default());
    for parent in parents {
        let folder = format!("{mount}{parent}");
        match source.check_root_alone(&folder) {
            Observed::Known(()) => {}
            Observed::Malformed(why) => return Err(format!("{folder} is not root's alone: {why}")),
            other => {
                let why = other.reason_text().unwrap_or_default();
                return Err(format!("whose {folder} is cannot be determined: {why}"));
            }
        }
        // Delegated by this file alone, a group takes any process (cgroups(7)).
        if let Observed::Malformed(why) = source.check_root_alone(&format!("{folder}/cgroup.procs"))
        {
            return Err(format!("{folder} is not root's alone: {why}"));
        }
    }
    Ok(format!("the control groups above that of {what} are root's"))
}
