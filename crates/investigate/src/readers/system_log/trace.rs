//! What the kernel was at where a task hung or a processor was stuck, by the call trace behind it.

use crate::event::KernelWork;

/// Lines of one trace, with those of the processors that answered a watchdog.
const LONGEST: usize = 200;
const RECLAIM: &[&str] = &[
    "try_to_free_pages",
    "try_to_free_mem_cgroup_pages",
    "do_try_to_free_pages",
    "shrink_node",
    "shrink_zone",
    "shrink_lruvec",
    "shrink_slab",
    "shrink_inactive_list",
    "shrink_page_list",
    "shrink_folio_list",
    "balance_pgdat",
    "kswapd",
    "node_reclaim",
    "zone_reclaim",
];
const COMPACTION: &[&str] = &[
    "compact_zone",
    "try_to_compact_pages",
    "__alloc_pages_direct_compact",
    "isolate_migratepages_block",
    "kcompactd",
    "khugepaged",
];
const DISK: &[&str] = &[
    "io_schedule",
    "io_schedule_timeout",
    "wait_on_page_writeback",
    "wait_on_page_bit",
    "folio_wait_writeback",
    "folio_wait_bit_common",
    "sync_buffer",
    "blk_execute_rq",
    "jbd2_log_wait_commit",
];

#[derive(Debug, Default)]
pub(super) struct CallTrace {
    lines: usize,
}

impl CallTrace {
    /// What the kernel does, by one line of the trace; the kernel is not sure of what it marks.
    pub(super) fn parse_line(&mut self, message: &str) -> Option<KernelWork> {
        self.lines += 1;
        if self.is_over() {
            return None;
        }
        let mut words = message.split_ascii_whitespace();
        let symbol = words.find(|word| word.contains("+0x"))?;
        if message.split_ascii_whitespace().any(|word| word == "?") {
            return None;
        }
        let (name, _) = symbol.split_once("+0x")?;
        // `shrink_node.constprop.0`; `RIP: 0010:isolate_migratepages_block`.
        let name = name.rsplit(':').next().unwrap_or(name);
        work_of_symbol(name.split('.').next().unwrap_or(name))
    }

    pub(super) const fn is_over(&self) -> bool {
        self.lines > LONGEST
    }
}

fn work_of_symbol(name: &str) -> Option<KernelWork> {
    [(RECLAIM, KernelWork::Reclaim), (COMPACTION, KernelWork::Compaction), (DISK, KernelWork::Disk)]
        .into_iter()
        .find_map(|(names, work)| names.contains(&name).then_some(work))
}

/// What a kernel thread does by its name: `kswapd0:61`.
pub(super) fn work_of_task(task: &str) -> Option<KernelWork> {
    let name = task.split(':').next().unwrap_or(task);
    let (begin, number) = name.split_at(name.trim_end_matches(|c: char| c.is_ascii_digit()).len());
    match begin {
        "kswapd" if !number.is_empty() => Some(KernelWork::Reclaim),
        "kcompactd" if !number.is_empty() => Some(KernelWork::Compaction),
        "khugepaged" => Some(KernelWork::Compaction),
        _ => None,
    }
}
