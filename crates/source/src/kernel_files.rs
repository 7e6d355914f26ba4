//! Which of the kernel's files are read: reading some others changes the machine.

/// Whether hugewise reads this file of the kernel. Paths come from processes that anybody may
/// start: `/proc/kmsg` hands each message out once, and `/proc/PID/cwd/x` is whatever its owner
/// wants.
pub fn is_known(path: &str) -> bool {
    let Some(path) = path.strip_prefix('/') else { return false };
    let parts: Vec<&str> = path.split('/').collect();
    let plain = parts.iter().all(|part| !matches!(*part, "" | "." | ".."));
    plain
        && match parts.as_slice() {
            ["proc", process, file] if is_process(process) => matches!(
                *file,
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
                    | "uid_map"
            ),
            ["proc", file] => matches!(
                *file,
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
            ["proc", process, "net", file] if is_process(process) => {
                matches!(*file, "tcp" | "tcp6")
            }
            ["proc", "sysvipc", "shm"] | ["proc", "sys", "kernel" | "vm", _] => true,
            [
                "sys",
                "kernel",
                "mm",
                "hugepages" | "transparent_hugepage" | "redhat_transparent_hugepage",
                ..,
            ] => true,
            ["sys", "devices", "system", "cpu" | "node", ..] | ["sys", "fs", "cgroup", ..] => true,
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
        for path in [
            "/proc/meminfo",
            "/proc/7/status",
            "/proc/7/uid_map",
            "/proc/self/mountinfo",
            "/proc/7/net/tcp6",
            "/proc/sys/vm/nr_hugepages",
        ] {
            assert!(is_known(path), "{path}");
        }
        for path in [
            "/proc/kmsg",
            "/proc/thread-self/environ",
            "/proc/7/environ",
            "/proc/7/mem",
            "/proc/7/cwd/x.conf",
            "/proc/7/fd/3",
            "/proc/7/net/route",
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
