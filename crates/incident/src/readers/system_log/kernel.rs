//! What one line of the kernel tells. A process has a name of its own choice, 15 bytes of it, at the begin of what the kernel
//! says of its faults: nothing is told by words that fit in there alone. Its texts are those of Linux 2.6.18 to 6.18: mm/page_alloc.c, kernel/hung_task.c,
//! kernel/watchdog.c, kernel/rcu, mm/memory.c, mm/hugetlb.c, fs/hugetlbfs/inode.c.

use crate::event::{Event, EventKind};

/// The event that a message is; the kernel's report of running out of memory is read apart.
pub(super) fn event(message: &str) -> Option<Event> {
    allocation(message)
        .or_else(|| hung(message))
        .or_else(|| lockup(message))
        .or_else(|| bad_page(message))
        .or_else(|| pool(message))
        .or_else(|| permission(message))
        .or_else(|| boot(message))
}

/// `oracle: page allocation failure: order:4, mode:0x40d0(GFP_KERNEL|__GFP_COMP), nodemask=(null)`; older:
/// `oracle: page allocation failure. order:4, mode:0x4020`.
fn allocation(message: &str) -> Option<Event> {
    let (task, rest) = message.split_once(": page allocation failure")?;
    let order: u32 = digits(rest.split_once("order:")?.1)?.parse().ok().filter(|order| *order < 32)?;
    let pages = 1_u64 << order;
    let words = match pages {
        1 => format!("{task} could not get a single page: memory was exhausted"),
        _ => format!("{task} could not get {pages} pages in a row (order {order}): free memory was in smaller pieces"),
    };
    Some(Event::new(EventKind::AllocationFailure, words))
}

/// `INFO: task oracle:4711 blocked for more than 120 seconds.`
fn hung(message: &str) -> Option<Event> {
    let rest = message.strip_prefix("INFO: task ")?;
    let (task, rest) = rest.split_once(" blocked for more than ")?;
    let seconds = digits(rest)?;
    let (name, pid) = task.rsplit_once(':')?;
    Some(Event::new(EventKind::HungTask, format!("{name} (pid {pid}) hung for more than {seconds} s")))
}

/// `watchdog: BUG: soft lockup - CPU#3 stuck for 22s! [kswapd0:61]`, `rcu: INFO: rcu_sched self-detected stall on CPU`,
/// `NMI watchdog: Watchdog detected hard LOCKUP on cpu 3`.
fn lockup(message: &str) -> Option<Event> {
    let text = ["NMI watchdog: ", "watchdog: ", "rcu: "]
        .iter()
        .fold(message, |text, prefix| text.strip_prefix(prefix).unwrap_or(text));
    let words = if let Some(rest) = text.strip_prefix("BUG: soft lockup - CPU#") {
        let processor = digits(rest)?;
        let seconds = digits(rest.split_once("stuck for ")?.1)?;
        let task = rest.split_once('[').and_then(|(_, task)| task.split_once(']')).map_or("?", |(task, _)| task);
        format!("processor {processor} was stuck in the kernel for {seconds} s, in {task}")
    } else if text.starts_with("Watchdog detected hard LOCKUP on cpu ") {
        "a processor did not even answer interrupts (hard lockup)".to_owned()
    } else if text.starts_with("INFO: rcu_")
        && [" self-detected stall on CPU", " detected stalls on CPUs/tasks", " detected stall on CPU"]
            .iter()
            .any(|words| text.contains(words))
    {
        "a processor stayed in the kernel so long that RCU stalled".to_owned()
    } else {
        return None;
    };
    Some(Event::new(EventKind::Lockup, words))
}

/// `BUG: Bad page state in process oracle  pfn:...`, `BUG: Bad page map in process oracle  pte:...`.
fn bad_page(message: &str) -> Option<Event> {
    let rest = message.strip_prefix("BUG: Bad ")?;
    let (what, rest) = rest.split_once(" in process ")?;
    if !matches!(what, "page state" | "page map" | "page cache") {
        return None;
    }
    let task = rest.split("  ").next().unwrap_or(rest);
    Some(Event::new(EventKind::BadPage, format!("the kernel found a bad {what} in {task}: suspect memory or a driver")))
}

/// `HugeTLB: allocating 17410 of page size 2.00 MiB failed.  Only allocated 123 hugepages.`
fn pool(message: &str) -> Option<Event> {
    let rest = message.strip_prefix("HugeTLB: allocating ").or_else(|| message.strip_prefix("hugetlb: allocating "))?;
    let wanted = digits(rest)?;
    let size = rest.split_once("page size ")?.1.split(" failed").next()?;
    let got = digits(rest.split_once("Only allocated ")?.1)?;
    Some(Event::new(
        EventKind::PoolShort,
        format!("the kernel was asked for {wanted} huge pages of {size} and found {got}"),
    ))
}

/// `oracle (4592): Using mlock ulimits for SHM_HUGETLB is deprecated`, since 5.16 `is obsolete`.
fn permission(message: &str) -> Option<Event> {
    let (before, rest) = message.split_once(": Using mlock ulimits for SHM_HUGETLB is ")?;
    let task = before.strip_prefix("hugetlbfs: ").unwrap_or(before);
    let words = match rest.trim_end_matches(['.', ' ']) {
        "obsolete" => format!("{task} was refused System V huge pages: this kernel looks only at vm.hugetlb_shm_group"),
        "deprecated" => {
            format!("{task} has System V huge pages by its memlock limit, which kernels from 5.16 on refuse")
        }
        _ => return None,
    };
    Some(Event::new(EventKind::HugePagePermission, words))
}

/// `Linux version 5.14.0-362.el9.x86_64 (mockbuild@...) ...`
fn boot(message: &str) -> Option<Event> {
    let release = message.strip_prefix("Linux version ")?.split(' ').next()?;
    // A process may be named `Linux version e`; no release begins with a letter.
    let plain = release.starts_with(|first: char| first.is_ascii_digit())
        && release.len() <= 128
        && release.bytes().all(|letter| letter.is_ascii_graphic());
    plain.then(|| Event::new(EventKind::Boot, format!("Linux {release} started")))
}

/// The digits that a text begins with.
fn digits(text: &str) -> Option<&str> {
    let end = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    text.get(..end).filter(|digits| !digits.is_empty() && digits.len() <= 18)
}
