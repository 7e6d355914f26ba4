//! Which files of the kernel are read: some of the others change the machine when they are read.

/// Whether a path is that of a file of the kernel that hugewise reads. Paths also come from the command lines and
/// configuration of processes that anybody may start: `/proc/kmsg` hands each message out once, and
/// `/proc/PID/cwd/x` is whatever its owner wants it to be.
pub(crate) fn is_known(path: &str) -> bool {
    let Some(path) = path.strip_prefix('/') else { return false };
    if path.split('/').any(|part| matches!(part, "" | "." | "..")) {
        return false;
    }
    let mut parts = path.splitn(5, '/');
    let parts: [Option<&str>; 5] = std::array::from_fn(|_| parts.next());
    match parts {
        [Some("proc"), Some(process), Some(file), None, _] if is_process(process) => matches!(
            file,
            "cgroup"
                | "cmdline"
                | "comm"
                | "limits"
                | "maps"
                | "mountinfo"
                | "mounts"
                | "numa_maps"
                | "smaps"
                | "stat"
                | "statm"
                | "status"
        ),
        [Some("proc"), Some(file), None, ..] => matches!(
            file,
            "buddyinfo"
                | "cmdline"
                | "cpuinfo"
                | "meminfo"
                | "mounts"
                | "stat"
                | "swaps"
                | "version"
                | "vmstat"
                | "zoneinfo"
        ),
        [Some("proc"), Some("sysvipc"), Some("shm"), None, _] => true,
        [Some("proc"), Some("sys"), Some("kernel" | "vm"), Some(_), None] => true,
        [Some("sys"), Some("kernel"), Some("mm"), Some(what), _] => {
            matches!(what, "hugepages" | "transparent_hugepage" | "redhat_transparent_hugepage")
        }
        [Some("sys"), Some("devices"), Some("system"), Some("cpu" | "node"), _] => true,
        [Some("sys"), Some("fs"), Some("cgroup"), ..] => true,
        _ => false,
    }
}

fn is_process(name: &str) -> bool {
    name == "self" || (!name.is_empty() && name.bytes().all(|digit| digit.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_processes_name_are_no_files_of_the_kernel() {
        for path in ["/proc/meminfo", "/proc/7/status", "/proc/self/mountinfo", "/proc/sys/vm/nr_hugepages"] {
            assert!(is_known(path), "{path}");
        }
        for path in [
            "/proc/kmsg",
            "/proc/thread-self/environ",
            "/proc/7/environ",
            "/proc/7/mem",
            "/proc/7/cwd/x.conf",
            "/proc/7/fd/3",
            "/proc/7/root/dev/watchdog",
            "/proc/../dev/watchdog",
            "/sys/fs/cgroup/../../../dev/watchdog",
            "/sys/kernel/tracing/trace_pipe",
            "/proc//sys/kernel/../../kmsg",
        ] {
            assert!(!is_known(path), "{path}");
        }
    }
}
