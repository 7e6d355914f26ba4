//! Captured hosts with a few things drawn anew: pools, limits, boot files, memory, settings. No two
//! commands contradict each other, and a plan that was carried out leaves nothing unnamed.

use std::collections::BTreeMap;
use std::fs;
use std::panic::AssertUnwindSafe;

use hugewise_change::planner::PlanOptions;
use serde_json::Value;

use crate::after_plan::{is_named, lines};
use crate::random_hosts::judge::Seen;
use crate::random_hosts::{advice, asked, kind_of, numbers};
use crate::same_numbers::{assert_same_pages, compare_pools_now};
use crate::support;
use crate::support::host::Host;

/// Captures that the gate draws; `HUGEWISE_CASES` asks for another number.
const CAPTURES: u64 = 60;
const POOL: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB";

/// SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators").
struct Draw(u64);

impl Draw {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % limit
    }

    fn one_of<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[usize::try_from(self.below(choices.len() as u64)).unwrap()]
    }

    /// Page counts: none, few, as many as a server of some GiB needs, more than any host has.
    fn pages(&mut self) -> u64 {
        let most = *self.one_of(&[1, 4, 600, 2_000, 9_000, 40_000, 90_000_000]);
        self.below(most)
    }
}

type Mutation = (&'static str, fn(&Host, &mut Draw) -> String);

const MUTATIONS: [Mutation; 11] = [
    ("pool", set_pool),
    ("overcommit", |host, draw| {
        let pages = draw.pages();
        put_if_there(host, &format!("{POOL}/nr_overcommit_hugepages"), pages);
        put_if_there(host, "/proc/sys/vm/nr_overcommit_hugepages", pages);
        pages.to_string()
    }),
    ("memlock of processes", set_limits_of_processes),
    ("limits.d", |host, draw| {
        let limit = draw.one_of(&["unlimited", "64", "8192", "2000000", "40000000"]);
        host.put("/etc/security/limits.d/zz.conf", &format!("* - memlock {limit}\n"));
        (*limit).to_owned()
    }),
    ("sysctl.d", |host, draw| {
        let pages = draw.pages();
        host.put("/etc/sysctl.d/zzz-late.conf", &format!("vm.nr_hugepages = {pages}\n"));
        pages.to_string()
    }),
    ("tmpfiles.d", |host, draw| {
        let pages = draw.pages();
        let line = format!("w {POOL}/nr_hugepages - - - - {pages}\n");
        host.put("/etc/tmpfiles.d/zzz.conf", &line);
        pages.to_string()
    }),
    ("shmall", |host, draw| {
        let pages = *draw.one_of(&[1_024, 262_144, 2_097_152, 18_446_744_073_692_774_399]);
        put_if_there(host, "/proc/sys/kernel/shmall", pages);
        pages.to_string()
    }),
    ("shmmax", |host, draw| {
        let bytes = *draw.one_of(&[33_554_432, 1 << 30, 1 << 34, 18_446_744_073_692_774_399]);
        put_if_there(host, "/proc/sys/kernel/shmmax", bytes);
        bytes.to_string()
    }),
    ("hugetlb_shm_group", |host, draw| {
        let group = *draw.one_of(&[0, 54_321, 54_322, 1_001]);
        put_if_there(host, "/proc/sys/vm/hugetlb_shm_group", group);
        group.to_string()
    }),
    ("THP", |host, draw| {
        let word = *draw.one_of(&["always", "madvise", "never"]);
        for file in ["enabled", "shmem_enabled"] {
            let path = format!("/sys/kernel/mm/transparent_hugepage/{file}");
            if let Some(text) = host.text(&path).filter(|text| text.contains(word)) {
                host.put(&path, &choose(&text, word));
            }
        }
        word.to_owned()
    }),
    ("memory", |host, draw| {
        let kib = i64::try_from(draw.below(16 << 20)).unwrap();
        host.add_to_meminfo(&["MemTotal", "MemFree", "MemAvailable"], kib);
        format!("{kib} KiB more")
    }),
];

/// A line of words with another one in brackets.
fn choose(text: &str, chosen: &str) -> String {
    let words = text.split_whitespace().map(|word| word.trim_matches(['[', ']']));
    let words =
        words.map(|word| if word == chosen { format!("[{word}]") } else { word.to_owned() });
    words.collect::<Vec<_>>().join(" ") + "\n"
}

fn put_if_there(host: &Host, path: &str, number: u64) {
    if host.text(path).is_some() {
        host.put(path, &format!("{number}\n"));
    }
}

/// A pool of another size, with all that is in use or reserved.
fn set_pool(host: &Host, draw: &mut Draw) -> String {
    let count =
        |file: &str| -> Option<i64> { host.text(&format!("{POOL}/{file}"))?.trim().parse().ok() };
    let (Some(total), Some(free)) = (count("nr_hugepages"), count("free_hugepages")) else {
        return "none to change".to_owned();
    };
    let least = total - free + count("resv_hugepages").unwrap_or_default();
    let meminfo = host.text("/proc/meminfo").unwrap();
    let free_kib = meminfo.lines().find_map(|line| line.strip_prefix("MemFree:"));
    let free_kib: i64 =
        free_kib.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or_default();
    let more = i64::try_from(draw.pages()).unwrap().min(free_kib / 2048 + free);
    let pages = least.max(least + more);
    host.set_pool(2048, None, pages);
    pages.to_string()
}

fn set_limits_of_processes(host: &Host, draw: &mut Draw) -> String {
    let limit = *draw.one_of(&["65536", "8388608", "2147483648", "unlimited"]);
    for entry in fs::read_dir(host.at("/proc")).unwrap() {
        let path = format!("/proc/{}/limits", entry.unwrap().file_name().to_str().unwrap());
        let Some(text) = host.text(&path) else { continue };
        let line = |line: &str| match line.starts_with("Max locked memory") {
            true => format!("Max locked memory         {limit:20} {limit:20} bytes     \n"),
            false => format!("{line}\n"),
        };
        host.put(&path, &text.lines().map(line).collect::<String>());
    }
    limit.to_owned()
}

/// What contradicts itself on one of them.
fn contradictions(host: &Host) -> Vec<String> {
    let source = hugewise_host::source::open_source(Some(&host.root)).unwrap();
    let seen = Seen::read(source, &PlanOptions::default());
    let plan = seen.plan(&PlanOptions::default());
    let mut wrong = numbers::differing(&seen, &plan);
    wrong.extend(advice::differing(&seen.host, &seen.instances, &seen.assessment, &plan));
    wrong.extend(asserted(|| assert_same_pages(&host.root)));
    wrong.extend(asserted(|| assert!(compare_pools_now(&host.root) < 1_000)));
    wrong.extend(unnamed_after_plan(host));
    wrong
}

fn asserted(assert: impl FnOnce()) -> Option<String> {
    let why = std::panic::catch_unwind(AssertUnwindSafe(assert)).err()?;
    let text = why.downcast_ref::<String>().cloned();
    Some(text.or_else(|| why.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap())
}

/// Warnings after a plan that it has not named, and that the next plan does not end either: whoever
/// follows them comes to nothing.
fn unnamed_after_plan(host: &Host) -> Vec<String> {
    let plan = host.plan(&[]);
    if !plan["refusal"].is_null() {
        return Vec::new();
    }
    host.carry_out(&plan);
    let left = host.check()["findings"].clone();
    let next = host.plan(&[]);
    // First somebody has to lower what asks for more than there is.
    let without_boot = "no pool is planned for the next boot";
    let is_without_boot = plan["warnings"].to_string().contains(without_boot);
    let is_ended_next = |finding: &Value| {
        let steps = next["steps"].as_array().unwrap().iter();
        let mut ended = steps.flat_map(|step| step["expects"].as_array().unwrap());
        ended.any(|end| end["code"] == finding["code"] && end["instance"] == finding["instance"])
    };
    let is_unnamed = |finding: &&Value| {
        let is_lacking_then = finding["code"] == "HW603"
            && plan["warnings"].to_string().contains(" lacks huge pages at that boot");
        let is_of_boot = (finding["code"] == "HW601" || is_lacking_then) && is_without_boot;
        let is_named = |plan| is_named(plan, finding, &left);
        let is_known = is_of_boot || is_named(&plan) || is_named(&next) || is_ended_next(finding);
        finding["level"] != "info" && !is_known
    };
    let unnamed: Value = left.as_array().unwrap().iter().filter(is_unnamed).cloned().collect();
    lines(&unnamed).into_iter().map(|found| format!("no plan names: {found}")).collect()
}

#[test]
fn no_two_commands_contradict_each_other() {
    let is_whole = |name: &str| !name.starts_with("truncated");
    let captured: Vec<_> = support::hosts()
        .into_iter()
        .filter(|path| is_whole(&path.file_name().unwrap().to_string_lossy()))
        .collect();
    let seed: u64 = asked("HUGEWISE_SEED").unwrap_or_default();
    let numbers = match asked::<u64>("HUGEWISE_HOST") {
        Some(one) => one..one + 1,
        None => 0..asked("HUGEWISE_CASES").unwrap_or(CAPTURES),
    };
    let mut kinds: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for number in numbers {
        let mut draw = Draw(seed.wrapping_mul(1_000_003).wrapping_add(number));
        let from = draw.one_of(&captured);
        let host = Host::of(from);
        let mut told = vec![format!("{number}: {}", from.file_name().unwrap().to_string_lossy())];
        for _ in 0..=draw.below(3) {
            let (name, mutate) = draw.one_of(&MUTATIONS);
            told.push(format!("{name} {}", mutate(&host, &mut draw)));
        }
        for wrong in contradictions(&host) {
            let example = format!("{}\n    {wrong}", told.join(", "));
            kinds.entry(kind_of(&wrong)).or_default().push(example);
        }
    }
    for (kind, examples) in &kinds {
        println!("{:>4} {kind}\n  {}", examples.len(), examples[0]);
    }
    assert!(kinds.is_empty(), "{} kinds of contradictions", kinds.len());
}
