//! What was exhausted where the kernel looked for a process to kill: all memory, a cgroup's limit, or
//! the nodes that a process may use.
//!
//! Linux mm/oom_kill.c and mm/memcontrol.c, 2.6.32 to 6.18: a report of a cgroup has no Mem-Info, and
//! its call trace goes through memcontrol.c. Until 4.18 no line before the kill says so in words.

use super::oom::word_after;

/// What was exhausted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum OomLimit {
    #[default]
    Host,
    Cgroup,
    /// The NUMA nodes that the process may use.
    Nodes,
}

/// How functions of memcontrol.c begin that lead to a kill.
const OF_CGROUPS: &[&str] =
    &["mem_cgroup_oom", "mem_cgroup_out_of_memory", "mem_cgroup_handle_oom", "mem_cgroup_margin"];
/// The same of charges: up to 3.13 kills are inlined into them. Below `out_of_memory` they are of whoever
/// asked the host for a page.
const OF_CHARGES: &[&str] = &[
    "__mem_cgroup_try_charge",
    "mem_cgroup_try_charge",
    "mem_cgroup_do_charge",
    "__mem_cgroup_charge",
    "mem_cgroup_charge",
    "mem_cgroup_newpage_charge",
    "mem_cgroup_cache_charge",
    "try_charge",
    "memcg_charge",
    "__memcg_charge",
    "memcg_kmem_newpage_charge",
    "__memcg_kmem",
    "obj_cgroup_charge",
];
/// The same of page_alloc.c and oom_kill.c, for the host.
const OF_HOST: &[&str] = &["out_of_memory", "__alloc_pages"];

/// What the lines of a report say of it so far.
#[derive(Clone, Debug, Default)]
pub(super) struct LimitSigns {
    /// In words.
    told: Option<OomLimit>,
    /// By a frame of the call trace, and by one that the kernel is not sure of.
    by_frame: bool,
    by_unsure_frame: bool,
    of_host: bool,
    host_frame: bool,
    /// No allocation failed (`gfp_mask=0x0()`, 4.6 to 5.15): a page fault could not be served, because a limit of
    /// kernel memory was reached.
    by_fault: bool,
    /// Another report of the same program was of a cgroup.
    as_before: bool,
}

impl LimitSigns {
    pub(super) fn of_request(rest: &str) -> Self {
        Self { by_fault: word_after(rest, "gfp_mask=") == Some("0x0()"), ..Self::default() }
    }

    pub(super) fn note_line(&mut self, message: &str) {
        if message.contains("constraint=CONSTRAINT_MEMCG")
            || message.starts_with("Memory cgroup out of memory")
            || message.starts_with("Memory cgroup stats")
            || message.contains(" killed as a result of limit of ")
        {
            self.told = Some(OomLimit::Cgroup);
        } else if message.contains("constraint=CONSTRAINT_CPUSET")
            || message.contains("constraint=CONSTRAINT_MEMORY_POLICY")
        {
            self.told = Some(OomLimit::Nodes);
        } else if message.starts_with("Mem-Info:")
            || message.starts_with("Mem-info:")
            || message.contains("constraint=CONSTRAINT_NONE")
            || word_after(message, "cpuset=").is_some_and(|set| set == "/")
        {
            self.of_host = true;
        }
        let Some((frame, _)) = message.split_once("+0x") else { return };
        let unsure = message.split_ascii_whitespace().any(|word| word == "?");
        let name = frame.rsplit([' ', ':', ']']).next().unwrap_or(frame);
        let is_of = |all: &[&str]| all.iter().any(|begin| name.starts_with(begin));
        if is_of(OF_CGROUPS) || (is_of(OF_CHARGES) && !self.host_frame) {
            *(if unsure { &mut self.by_unsure_frame } else { &mut self.by_frame }) = true;
        } else if is_of(OF_HOST) && !unsure {
            (self.of_host, self.host_frame) = (true, true);
        }
    }

    /// What the line of a kill says in words, `Out of memory: Killed process`.
    pub(super) fn note_words(&mut self, limit: Option<OomLimit>) {
        self.told = limit.or(self.told);
    }

    pub(super) const fn note_precedent(&mut self) {
        self.as_before = true;
    }

    pub(super) fn settle(&self) -> OomLimit {
        match self.told {
            Some(OomLimit::Host) if self.by_fault => OomLimit::Cgroup,
            Some(limit) => limit,
            None if self.by_frame || self.by_fault => OomLimit::Cgroup,
            None if (self.by_unsure_frame || self.as_before) && !self.of_host => OomLimit::Cgroup,
            None => OomLimit::Host,
        }
    }

    /// Whether anything says that it was the host.
    pub(super) const fn is_of_host(&self) -> bool {
        self.of_host
    }
}
