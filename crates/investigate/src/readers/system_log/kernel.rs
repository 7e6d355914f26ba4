//! Events in lines of the kernel. A process chooses its name, 15 bytes of it, at the beginning of
//! what the kernel says of its faults: words that fit in there prove nothing. Texts are those of
//! Linux 2.6.18 to 6.18: mm/page_alloc.c, kernel/hung_task.c, kernel/watchdog.c, kernel/rcu,
//! mm/memory.c, mm/hugetlb.c, fs/hugetlbfs/inode.c.

use super::storage::parse_storage_event;
use super::trace::work_of_task;
use super::userspace_oom::parse_oomd_kill;
use crate::event::{LogEvent, LogEventKind};

/// Bits of a request for pages (include/linux/gfp.h): __GFP_WAIT up to 4.3, the others of 4.4 and 4.5.
const WAIT: u64 = 0x10;
const DIRECT_RECLAIM: u64 = 0x40_0000;
const KSWAPD_RECLAIM: u64 = 0x200_0000;
/// Ticks of a stall that somebody may notice: a second and more at 1,000 Hz.
const LEAST_TICKS: u64 = 1000;
/// The largest order for which it never gives up reclaim (include/linux/mmzone.h).
const COSTLY_ORDER: u32 = 3;

/// What a single page that nobody gets says of memory, unless the report behind it says otherwise.
const EXHAUSTED: &str = ": memory was exhausted";
const NOT_EXHAUSTED: &str = ", though memory was free: the request itself was at fault";

/// Judges a failure by the free memory in the report behind it: a request for no memory at all, or
/// for more addresses than there are, fails with the same words. Each zone has a line.
pub(super) fn judge_failure_by_report(event: &mut LogEvent, has_plenty: bool) {
    let (from, to, kind) = if has_plenty {
        (EXHAUSTED, NOT_EXHAUSTED, LogEventKind::AllocationFailure)
    } else {
        (NOT_EXHAUSTED, EXHAUSTED, LogEventKind::MemoryExhausted)
    };
    if let Some(who) = event.what.strip_suffix(from) {
        (event.what, event.kind) = (format!("{who}{to}"), kind);
    }
}

/// A message's event; reports of running out of memory are read in [`oom`](super::oom).
pub(super) fn parse_kernel_event(message: &str) -> Option<LogEvent> {
    // Mails indent what they quote.
    let message = message.trim_start();
    parse_allocation_failure(message)
        .or_else(|| parse_allocation_stall(message))
        .or_else(|| parse_allocation_of_xfs(message))
        .or_else(|| parse_slab_of_group(message))
        .or_else(|| parse_oomd_kill(message))
        .or_else(|| parse_hung_task(message))
        .or_else(|| parse_storage_event(message))
        .or_else(|| parse_lockup(message))
        .or_else(|| parse_bad_page(message))
        .or_else(|| parse_pool_shortage(message))
        .or_else(|| parse_hugepage_permission(message))
        .or_else(|| parse_boot(message))
}

/// `oracle: page allocation failure: order:4, mode:0x40d0(...)`; older with `failure. order:4`.
fn parse_allocation_failure(message: &str) -> Option<LogEvent> {
    let (task, rest) = message.split_once(": page allocation failure")?;
    let order: u32 =
        leading_digits(rest.split_once("order:")?.1)?.parse().ok().filter(|order| *order < 32)?;
    let pages = 1_u64 << order;
    if !may_wait(rest) {
        let size = if pages == 1 { "a page".to_owned() } else { format!("{pages} pages in a row") };
        let what = format!(
            "{task} could not get {size} at once, and may not wait: the free reserve \
             (vm.min_free_kbytes) was used up"
        );
        return Some(LogEvent::new(LogEventKind::ReserveEmpty, what));
    }
    Some(match pages {
        1 => LogEvent::new(
            LogEventKind::MemoryExhausted,
            format!("{task} could not get a single page{EXHAUSTED}"),
        ),
        _ => LogEvent::new(
            LogEventKind::AllocationFailure,
            format!(
                "{task} could not get {pages} pages in a row (order {order}): free memory was in \
                 smaller pieces"
            ),
        ),
    })
}

/// Whether who asked may wait for reclaim: `mode:0x2080020(GFP_ATOMIC)` may not. Before 4.6 the flags
/// have no names, and before 4.4 waiting is a bit of its own.
fn may_wait(rest: &str) -> bool {
    let Some((_, mode)) = rest.split_once("mode:0x") else { return true };
    let end = mode.find(|letter: char| !letter.is_ascii_hexdigit()).unwrap_or(mode.len());
    let (digits, names) = mode.split_at(end);
    if let Some(names) = names.strip_prefix('(') {
        let names = names.split_once(')').map_or(names, |(names, _)| names);
        let cannot = ["GFP_ATOMIC", "GFP_NOWAIT", "__GFP_ATOMIC", "__GFP_KSWAPD_RECLAIM"];
        return !names.split('|').any(|name| cannot.contains(&name));
    }
    let Ok(mode) = u64::from_str_radix(digits, 16) else { return true };
    if mode & KSWAPD_RECLAIM != 0 { mode & DIRECT_RECLAIM != 0 } else { mode & WAIT != 0 }
}

/// `java: page allocation stalls for 11332ms, order:0, mode:...` of Linux 4.10 to 4.14.
fn parse_allocation_stall(message: &str) -> Option<LogEvent> {
    let (task, rest) = message.split_once(": page allocation stalls for ")?;
    let (milliseconds, rest) = rest.split_once("ms, order:")?;
    let seconds = milliseconds.parse::<u64>().ok()? / 1000;
    let order: u32 = leading_digits(rest)?.parse().ok().filter(|order| *order < 32)?;
    let size = match 1_u64 << order {
        1 => "a single page".to_owned(),
        pages => format!("{pages} pages in a row"),
    };
    // Up to that order the kernel reclaims as for a page (PAGE_ALLOC_COSTLY_ORDER).
    let kind = if order <= COSTLY_ORDER {
        LogEventKind::MemoryExhausted
    } else {
        LogEventKind::AllocationFailure
    };
    Some(LogEvent::new(kind, format!("{task} waited {seconds} s for {size}")))
}

/// `  cache: kmalloc-256(255:2cb79029be5b), object size: 256, ...` behind `SLUB: Unable to allocate
/// memory`: the cache of a cgroup is named after it. Its limit refuses it a slab, where the host has
/// memory.
pub(super) fn parse_slab_of_group(message: &str) -> Option<LogEvent> {
    let (cache, _) = message.trim_start().strip_prefix("cache: ")?.split_once(", object size: ")?;
    let (name, group) = cache.strip_suffix(')')?.split_once('(')?;
    let (number, group) = group.split_once(':')?;
    let is_number = !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit());
    let short = group.get(..12).filter(|_| group.len() >= 32).unwrap_or(group);
    is_number.then(|| {
        LogEvent::new(
            LogEventKind::CgroupOutOfMemory,
            format!("had no {name} for {short}: the cgroup had reached its limit of kernel memory"),
        )
    })
}

/// `XFS: oracle(4711) possible memory allocation deadlock size 65552 in kmem_alloc (mode:0x2400240)`,
/// once in a hundred tries: up to 6.11 XFS asks until it gets its memory. Up to 3.19 without a task,
/// up to 4.5 without a size.
fn parse_allocation_of_xfs(message: &str) -> Option<LogEvent> {
    let rest = message.strip_prefix("XFS: ")?;
    let (task, rest) = rest.split_once("possible memory allocation deadlock ")?;
    let task = match task.trim_end() {
        "" => "XFS".to_owned(),
        task => format!("XFS for {}", task.rsplit_once('(').map_or(task, |(name, _)| name)),
    };
    let size = rest.strip_prefix("size ").and_then(leading_digits);
    let size =
        size.map_or_else(|| "its memory".to_owned(), |size| format!("{size} bytes in a row"));
    Some(LogEvent::new(
        LogEventKind::AllocationFailure,
        format!("{task} could not get {size} in a hundred tries, and goes on trying"),
    ))
}

/// `INFO: task oracle:4711 blocked for more than 120 seconds.`, since 6.17 also `blocked in I/O wait
/// for more than`.
fn parse_hung_task(message: &str) -> Option<LogEvent> {
    let rest = message.strip_prefix("INFO: task ")?;
    let (task, rest) = rest.split_once(" blocked ")?;
    let (between, rest) = rest.split_once("for more than ")?;
    if !matches!(between, "" | "in I/O wait ") {
        return None;
    }
    let seconds = leading_digits(rest).filter(|_| rest.contains(" seconds"))?;
    let (name, pid) = task.rsplit_once(':')?;
    let what = format!("{name} (pid {pid}) hung for more than {seconds} s");
    let event = LogEvent::new(LogEventKind::HungTask, what);
    Some(LogEvent { work: work_of_task(name), ..event })
}

/// `watchdog: BUG: soft lockup - CPU#3 stuck for 22s! [kswapd0:61]`, `rcu: INFO: rcu_sched
/// self-detected stall on CPU`, `NMI watchdog: Watchdog detected hard LOCKUP on cpu 3`.
fn parse_lockup(message: &str) -> Option<LogEvent> {
    let text = ["NMI watchdog: ", "watchdog: ", "rcu: "]
        .iter()
        .fold(message, |text, prefix| text.strip_prefix(prefix).unwrap_or(text));
    let is_hard = ["Watchdog detected hard LOCKUP on cpu ", "NMI Watchdog detected LOCKUP on CPU"]
        .iter()
        .any(|begin| text.starts_with(begin))
        || (text.starts_with("CPU ") && text.contains(" hard LOCKUP "))
        || (text.starts_with("Watchdog CPU:") && text.ends_with(" Hard LOCKUP"))
        || is_watchdog_of_other(text);
    let mut work = None;
    let words = if let Some(rest) = text.strip_prefix("BUG: soft lockup - CPU#") {
        let processor = leading_digits(rest)?;
        let seconds = leading_digits(rest.split_once("stuck for ")?.1)?;
        let task = rest
            .split_once('[')
            .and_then(|(_, task)| task.split_once(']'))
            .map_or("?", |(task, _)| task);
        work = work_of_task(task);
        format!("processor {processor} was stuck in the kernel for {seconds} s, in {task}")
    } else if let Some(rest) = text.strip_prefix("BUG: soft lockup detected on CPU#") {
        format!("processor {} was stuck in the kernel", leading_digits(rest)?)
    } else if let Some(rest) = text.strip_prefix("BUG: workqueue lockup - pool ") {
        let seconds = leading_digits(rest.split_once("stuck for ")?.1)?;
        format!("work that the kernel had put off waited for {seconds} s")
    } else if is_hard {
        "a processor did not even answer interrupts (hard lockup)".to_owned()
    } else if is_rcu_stall(text) {
        "a processor stayed in the kernel so long that RCU stalled".to_owned()
    } else {
        return None;
    };
    let event = LogEvent::new(LogEventKind::Lockup, words);
    Some(LogEvent { work, ..event })
}

/// `CPU3: Watchdog detected hard LOCKUP on cpu 3`, since 6.8.
fn is_watchdog_of_other(text: &str) -> bool {
    text.strip_prefix("CPU").and_then(|rest| rest.split_once(": ")).is_some_and(|(number, rest)| {
        number.bytes().all(|digit| digit.is_ascii_digit())
            && rest.starts_with("Watchdog detected hard LOCKUP on cpu ")
    })
}

fn is_rcu_stall(text: &str) -> bool {
    let stalled = [
        " self-detected stall on CPU",
        " detected stalls on CPUs/tasks",
        " detected stalls on tasks",
        " detected expedited stalls on CPUs/tasks",
        " detected stall on CPU",
    ];
    let starved = text.starts_with("rcu_") && text.contains(" kthread starved for ");
    let ticks = text
        .split_once(" jiffies")
        .and_then(|(before, _)| before.rsplit([' ', '=']).next()?.parse::<u64>().ok());
    // What is expedited has a timeout of its own, on phones of 20 ms.
    let is_long = ticks.is_none_or(|ticks| ticks >= LEAST_TICKS);
    let told = text.starts_with("INFO: rcu_") && stalled.iter().any(|words| text.contains(words));
    is_long && (told || starved)
}

/// `BUG: Bad page state in process oracle  pfn:...`, `... page map ...  pte:...`; `MCE 0x1234: Killing
/// mysqld:4711 due to hardware memory corruption`, since 4.17 `Memory failure: 0x1234: Sending SIGBUS
/// to mysqld:4711 due to ...`.
fn parse_bad_page(message: &str) -> Option<LogEvent> {
    if let Some((before, _)) = message.split_once(" due to hardware memory corruption") {
        let (_, task) = before.rsplit_once(": Killing ").or_else(|| before.rsplit_once(" to "))?;
        let is_kernels = ["MCE: ", "MCE 0x", "Memory failure: 0x"];
        return is_kernels.iter().any(|begin| message.starts_with(begin)).then(|| {
            let (name, pid) = task.rsplit_once(':').unwrap_or((task, "?"));
            let what = format!("the kernel killed {name} (pid {pid}): its memory was faulty");
            LogEvent::new(LogEventKind::BadPage, what)
        });
    }
    let rest = message.strip_prefix("BUG: Bad ")?;
    let (what, rest) = rest.split_once(" in process ")?;
    if !matches!(what, "page state" | "page map" | "page cache") {
        return None;
    }
    let task = rest.split("  ").next().unwrap_or(rest);
    Some(LogEvent::new(
        LogEventKind::BadPage,
        format!("the kernel found a bad {what} in {task}: suspect memory or a driver"),
    ))
}

/// `HugeTLB: allocating 17410 of page size 2.00 MiB failed.  Only allocated 123 hugepages.`
fn parse_pool_shortage(message: &str) -> Option<LogEvent> {
    let rest = message
        .strip_prefix("HugeTLB: allocating ")
        .or_else(|| message.strip_prefix("hugetlb: allocating "))?;
    let wanted = leading_digits(rest)?;
    let size = rest.split_once("page size ")?.1.split(" failed").next()?;
    let got = leading_digits(rest.split_once("Only allocated ")?.1)?;
    Some(LogEvent::new(
        LogEventKind::PoolShort,
        format!("the kernel was asked for {wanted} huge pages of {size} and found {got}"),
    ))
}

/// `oracle (4592): Using mlock ulimits for SHM_HUGETLB is deprecated`, since 5.16 `is obsolete`.
fn parse_hugepage_permission(message: &str) -> Option<LogEvent> {
    let (before, rest) = message.split_once(": Using mlock ulimits for SHM_HUGETLB is ")?;
    let task = before.strip_prefix("hugetlbfs: ").unwrap_or(before);
    let words = match rest.trim_end_matches(['.', ' ']) {
        "obsolete" => format!(
            "{task} was refused System V huge pages: this kernel looks only at vm.hugetlb_shm_group"
        ),
        "deprecated" => {
            format!(
                "{task} has System V huge pages by its memlock limit, which kernels from 5.16 on \
                     refuse"
            )
        }
        _ => return None,
    };
    Some(LogEvent::new(LogEventKind::HugePagePermission, words))
}

/// `Linux version 5.14.0-362.el9.x86_64 (mockbuild@...) ...`
fn parse_boot(message: &str) -> Option<LogEvent> {
    let release = message.strip_prefix("Linux version ")?.split(' ').next()?;
    // A process may be named `Linux version e`; no release begins with a letter.
    let plain = release.starts_with(|first: char| first.is_ascii_digit())
        && release.len() <= 128
        && release.bytes().all(|letter| letter.is_ascii_graphic());
    plain.then(|| LogEvent::new(LogEventKind::Boot, format!("Linux {release} started")))
}

fn leading_digits(text: &str) -> Option<&str> {
    let end = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    text.get(..end).filter(|digits| !digits.is_empty() && digits.len() <= 18)
}
