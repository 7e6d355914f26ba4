//! Logs as people paste them, and what is made of them.

use hugewise_investigate::{Confidence, IncidentVerdict, Options};

use super::pasted_tools::investigate_file;

fn verdict_of_log(name: &str, text: &str) -> Option<(IncidentVerdict, Confidence)> {
    let told = investigate_file(name, text, &Options::default()).unwrap();
    let [history] = &told.hosts[..] else { panic!("{told:?}") };
    assert!(history.incidents.len() <= 1, "{history:#?}");
    history.incidents.first().map(|incident| (incident.verdict, incident.confidence))
}

/// An order of 4 is 64 KiB in one piece; 0x2040d0 may wait (__GFP_WAIT, 0x10), 0x20 may not.
#[test]
fn pages_in_a_row_that_several_tasks_do_not_get_are_memory_in_pieces() {
    let told = |tasks: [&str; 3], mode: &str| {
        let line = |(at, task): (usize, &str)| {
            format!(
                "kernel: [855{at}1.010995] {task}: page allocation failure: order:4, mode:{mode}\n"
            )
        };
        let text: String = tasks.into_iter().enumerate().map(line).collect();
        verdict_of_log("messages", &text)
    };
    let several = ["sh", "crond", "postgres"];
    let in_pieces = Some((IncidentVerdict::CompactionStall, Confidence::Low));
    assert_eq!(told(several, "0x2040d0"), in_pieces);
    // A driver that asks for too much, and who may not wait.
    assert_eq!(told(["sh"; 3], "0x2040d0"), None);
    assert_eq!(told(several, "0x20"), None);
}

#[test]
fn a_server_that_is_refused_memory_is_an_incident() {
    let line = |second: u32| {
        format!(
            "2022-07-13 07:32:0{second}.922 CEST [58398]: LOG:  could not fork new process for \
             connection: Cannot allocate memory\n"
        )
    };
    let refused = |times: u32| -> String { (0..times).map(line).collect() };
    for times in [1, 3] {
        let told = verdict_of_log("postgresql.log", &refused(times));
        assert_eq!(told, Some((IncidentVerdict::OutOfMemory, Confidence::Low)));
    }
    let swapped = "Tue Jul 08 10:21:44 2014\nWARNING: Heavy swapping observed on system in last 5 \
                   mins.\npct of memory swapped in [2.70%] pct of memory swapped out [0.00%].\n";
    let told = verdict_of_log("alert_ORCL.log", swapped);
    assert_eq!(told, Some((IncidentVerdict::SwapStorm, Confidence::Low)));
}

/// RHEL 7.1 (3.10.0-229) kills inside the charge of a group; `__alloc_pages` may charge as well, below.
#[test]
fn a_kill_inside_a_charge_is_at_the_groups_limit() {
    let told = |frames: &[&str]| {
        let mut text =
            "[Mon Aug 31 18:23:18 2015] php.bin invoked oom-killer: gfp_mask=0xd0, order=0, \
                        oom_score_adj=0\n[Mon Aug 31 18:23:18 2015] Call Trace:\n"
                .to_owned();
        for frame in frames {
            text += &format!("[Mon Aug 31 18:23:18 2015]  [<ffffffff8115a32e>] {frame}\n");
        }
        verdict_of_log("dmesg", &text).map(|(verdict, _)| verdict)
    };
    let killer = "oom_kill_process+0x24e/0x3b0";
    assert_eq!(told(&[killer, "__mem_cgroup_try_charge+0xb"]), Some(IncidentVerdict::CgroupLimit));
    let host = [killer, "out_of_memory+0x4b6/0x4f0", "try_charge+0x1/0x2"];
    assert_eq!(told(&host), Some(IncidentVerdict::OutOfMemory));
}

#[test]
fn an_allocation_that_stalled_for_seconds_is_reclaim_up_to_eight_pages() {
    let told = |order: u32| {
        let text = format!(
            "[Tue Mar 26 12:32:15 2019] python3: page allocation stalls for 10060ms, order:{order}, \
             mode:0x15080c0(GFP_KERNEL_ACCOUNT|__GFP_ZERO), nodemask=(null)\n"
        );
        verdict_of_log("dmesg", &text)
    };
    let reclaim = Some((IncidentVerdict::ReclaimStorm, Confidence::Low));
    assert_eq!([told(0), told(1), told(3)], [reclaim; 3]);
    assert_eq!(told(4), None);
}

/// A report of 497 of 507 MB that are free, as an ARM board printed it before it found nobody to kill; and
/// the same of a host without memory.
#[test]
fn a_panic_for_memory_with_memory_left_is_none_of_the_host() {
    let told = |free: u32| {
        let text = format!(
            "[   74.592755] Normal free:{free}kB min:2848kB low:3560kB high:4272kB active_anon:0kB \
             present:524288kB managed:507108kB mlocked:0kB\n[   74.690857] [ pid ]   uid  tgid total_vm      \
             rss nr_ptes nr_pmds swapents oom_score_adj name\n[   74.699457] Kernel panic - not syncing: Out \
             of memory and no killable processes...\n"
        );
        verdict_of_log("console", &text).map(|(verdict, _)| verdict)
    };
    assert_eq!(told(497_168), Some(IncidentVerdict::KernelCrash));
    assert_eq!(told(2_168), Some(IncidentVerdict::OutOfMemory));
}

/// Traces of Linux 4.2 and 6.18 without their first lines.
#[test]
fn traces_without_a_head_tell_an_oops_and_a_panic() {
    let oops = |flags: &str| {
        let text = format!(
            "[150574.098783] CPU: 16 PID: 3334 Comm: postgres Tainted: {flags}   4.2.2_1 #1\n\
             [150574.104331] RIP: 0010:[<ffffffff811a36b5>]  [<ffffffff811a36b5>] __kmalloc_node+0x135/0x2e0\n\
             [150574.106154] RSP: 0018:ffff8807ad72bb78  EFLAGS: 00010246\n"
        );
        verdict_of_log("dmesg", &text).map(|(verdict, _)| verdict)
    };
    assert_eq!(oops("P      D    OE"), Some(IncidentVerdict::KernelCrash));
    assert_eq!(oops("P           OE"), None);
    let panic = |killer: &str| {
        let text = format!(
            "[ 4155.662584]  vpanic+0xdb/0x290\n[ 4155.663637]  panic+0x6b/0x6b\n[ 4155.664616]  \
             {killer}.cold+0x2d/0x78\n[ 4155.665996]  __alloc_pages_slowpath.constprop.0+0xc25/0xfa0\n"
        );
        verdict_of_log("console", &text).map(|(verdict, _)| verdict)
    };
    assert_eq!(panic("out_of_memory"), Some(IncidentVerdict::OutOfMemory));
    assert_eq!(panic("watchdog"), None);
}

/// Terminals and tickets pad lines with blanks.
#[test]
fn a_kill_by_hand_is_known_with_blanks_behind_it() {
    let text = "[Sat Nov 21 22:47:35 2026] sysrq: Manual OOM execution   \n[Sat Nov 21 22:47:35 2026] Out of \
                memory: Killed process 4711 (oracle) total-vm:9273712kB, anon-rss:123kB, file-rss:0kB, \
                shmem-rss:0kB, UID:54321 pgtables:0kB oom_score_adj:0\n";
    assert_ne!(
        verdict_of_log("dmesg", text).map(|(verdict, _)| verdict),
        Some(IncidentVerdict::OutOfMemory)
    );
}
