//! Whether /proc shows the reader every process: its mount may hide others' (`hidepid=`,
//! Documentation/filesystems/proc.rst; `has_pid_permissions` of fs/proc/base.c).

use hugewise_model::Observed;

use hugewise_procfs::kernel::mounts::Mount;
use hugewise_procfs::process::status::{self, ProcessStatus};
use hugewise_source::Source;

pub(crate) fn by_mount(source: &dyn Source, mounts: &Observed<Vec<Mount>>) -> Option<String> {
    // The last one lies on top.
    let proc =
        mounts.as_known()?.iter().rfind(|mount| mount.path == "/proc" && mount.kind == "proc")?;
    let mut options = proc.options.split(',').filter_map(|option| option.split_once('='));
    let (_, hides) =
        options.clone().find(|(key, value)| *key == "hidepid" && !matches!(*value, "0" | "off"))?;
    let ProcessStatus { process: own, ptrace, .. } = source
        .read("/proc/self/status")
        .parse(|bytes| status::parse(&bytes))
        .into_known()
        .unwrap_or_default();
    let group = options.find(|(key, _)| *key == "gid").map_or(Some(0), |(_, gid)| gid.parse().ok());
    // Those of one group are let through but by the strictest way.
    let let_through = !matches!(hides, "4" | "ptraceable")
        && group.is_some_and(|group: u32| own.gid == group || own.groups.contains(&group));
    (!ptrace.get().unwrap_or_default() && !let_through)
        .then(|| others_are_hidden(&format!("/proc is mounted with hidepid={hides}")))
}

/// By what is seen: the reader, and the first process, which every pid namespace has.
pub(crate) fn by_sight(sees_itself: bool, sees_first: bool) -> Option<String> {
    if !sees_itself {
        let why = "it belongs to another pid namespace and does not show the servers of this one";
        return Some(why.to_owned());
    }
    (!sees_first).then(|| others_are_hidden("process 1 is not shown"))
}

pub(crate) fn by_number(unseen: u64) -> Option<String> {
    match unseen {
        0 => None,
        1 => Some("the status of one process could not be read, and it may be a server".to_owned()),
        unseen => Some(format!(
            "the status of {unseen} processes could not be read, and servers may be among them"
        )),
    }
}

fn others_are_hidden(why: &str) -> String {
    format!("processes of other users are hidden, and servers may be among them: {why}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use hugewise_procfs::kernel::mounts;
    use hugewise_source::MapSource;

    fn hidden(options: &str, rights: &str) -> bool {
        let mounts = format!("proc /proc proc rw,nosuid{options} 0 0\n");
        let status = format!("Name:\tx\nUid:\t5\t5\t5\t5\nGid:\t6\t6\t6\t6\n{rights}\n");
        let source = MapSource::new().with_file("/proc/self/status", status);
        by_mount(&source, &Observed::Known(mounts::parse(mounts.as_bytes()).unwrap())).is_some()
    }

    /// CAP_SYS_PTRACE is bit 19 of include/uapi/linux/capability.h.
    #[test]
    fn who_may_trace_sees_all_and_one_group_but_for_the_strictest_way() {
        let (none, traces) = ("CapEff:\t0000000000000000", "CapEff:\t0000000000080000");
        for (options, rights, expected) in [
            ("", none, false),
            (",hidepid=0", none, false),
            (",hidepid=off", none, false),
            (",hidepid=1", none, true),
            (",hidepid=invisible", none, true),
            (",hidepid=ptraceable", none, true),
            (",hidepid=2", traces, false),
            (",hidepid=ptraceable", traces, false),
            (",hidepid=2,gid=6", none, false),
            (",gid=6,hidepid=2", none, false),
            (",gid=7,hidepid=2", "Groups:\t1 7", false),
            (",gid=8,hidepid=2", "Groups:\t1 7", true),
            (",gid=6,hidepid=4", none, true),
        ] {
            assert_eq!(hidden(options, rights), expected, "{options} {rights}");
        }
    }

    #[test]
    fn what_is_seen_tells_where_the_mount_does_not() {
        assert_eq!((by_sight(true, true), by_number(0)), (None, None));
        assert!(by_sight(true, false).unwrap().contains("process 1"));
        assert!(by_sight(false, true).unwrap().contains("another pid namespace"));
        assert!(by_number(7).unwrap().contains("7 processes"));
    }
}
