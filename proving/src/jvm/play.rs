//! A set-up is played: what check and size say of it, and what the kernel counts.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use hugewise_lab::guard::PoolGuard;
use hugewise_model::{PageCount, PageSize};
use hugewise_testkit::tools::Failure;
use serde_json::Value;

use super::machine::JavaMachine;
use crate::exactness::{self, committed, server::Server, server::Start};

/// Pages of 2 MiB and of 1 GiB.
type Pages = BTreeMap<PageSize, u64>;

const ROOM: [(PageSize, u64); 2] = [(PageSize::MIB_2, 1000), (PageSize::GIB_1, 4)];

/// What came of a set-up.
#[derive(Default)]
pub(super) struct Played {
    forecasts: usize,
    /// Forecasts that leave it open.
    open: Vec<String>,
    wrong: Vec<String>,
    pages: String,
}

impl Played {
    pub(super) fn failed(why: &str) -> Self {
        Self { wrong: vec![why.to_owned()], ..Self::default() }
    }

    fn compare(&mut self, what: &str, foretold: &str, seen: &str, why: &str) {
        self.forecasts += 1;
        let line = format!("{what}: foretold {foretold} ({why}), seen {seen}");
        match foretold {
            _ if foretold == seen => {}
            "unknown" => self.open.push(line),
            _ => self.wrong.push(line),
        }
    }
}

#[derive(Default)]
pub(super) struct Tally {
    set_ups: usize,
    forecasts: usize,
    open: usize,
    wrong: usize,
}

impl Tally {
    pub(super) fn add(&mut self, title: &str, played: &Played) {
        self.set_ups += 1;
        self.forecasts += played.forecasts;
        self.open += played.open.len();
        self.wrong += played.wrong.len();
        println!("{title}: {}", played.pages);
        played.open.iter().for_each(|line| println!("    open   {line}"));
        played.wrong.iter().for_each(|line| println!("    WRONG  {line}"));
    }

    pub(super) fn end(self) -> Result<(), Failure> {
        let Self { set_ups, forecasts, open, wrong } = self;
        println!("{set_ups} set-ups, {forecasts} forecasts, {open} left open, {wrong} wrong");
        if wrong > 0 {
            Err(format!("{wrong} of {forecasts} forecasts are wrong").into())
        } else {
            Ok(())
        }
    }
}

struct Host<'a> {
    hugewise: &'a Path,
    guard: PoolGuard,
    sizes: Vec<PageSize>,
}

impl Host<'_> {
    fn set_pools(&self, pages: &Pages) -> Result<(), Failure> {
        for size in &self.sizes {
            let count = PageCount(pages.get(size).copied().unwrap_or_default());
            self.guard.set_pool(*size, count).map_err(|refusal| format!("{refusal:?}"))?;
        }
        Ok(())
    }

    /// A process that is gone may still be giving its pages back.
    fn await_empty_pools(&self) -> Result<(), Failure> {
        let until = Instant::now() + Duration::from_secs(20);
        for size in &self.sizes {
            while committed(*size)? > 0 {
                if Instant::now() > until {
                    return Err("others hold pages of the pool".into());
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        Ok(())
    }

    fn check(&self, pid: u32) -> Result<Value, Failure> {
        let output = Command::new(self.hugewise).args(["check", "--format", "json"]).output()?;
        let said: Value = serde_json::from_slice(&output.stdout)?;
        let instances = said.get("instances").and_then(Value::as_array);
        let own =
            |instance: &&Value| instance.get("pid").and_then(Value::as_u64) == Some(pid.into());
        let instance = instances.into_iter().flatten().find(own);
        Ok(instance.cloned().unwrap_or(Value::Null))
    }
}

/// Plays a set-up with the pools of this host, under the lock of tests.
pub(super) fn play(hugewise: &Path, machine: JavaMachine) -> Result<Played, Failure> {
    let guard = PoolGuard::take_for_test().map_err(|refusal| format!("{refusal:?}"))?;
    let sizes = if machine.uses_gibibytes() {
        vec![PageSize::MIB_2, PageSize::GIB_1]
    } else {
        vec![PageSize::MIB_2]
    };
    let host = Host { hugewise, guard: guard.with_watchdog(), sizes };
    host.await_empty_pools()?;
    let room: Pages = ROOM.into_iter().collect();
    host.set_pools(&room)?;
    let mut played = Played::default();
    let mut running = Some(start(&machine)?);
    let Some(server) = &running else { return Ok(played) };
    let whole = count_pages(server.pid)?;
    played.pages = in_words(&whole);
    let instance = host.check(server.pid)?;
    if whole.values().all(|pages| *pages == 0) {
        compare_without_pages(&mut played, &instance);
        return Ok(played);
    }
    let most = if machine.asks_in_part() { "partly" } else { "all" };
    compare_moment(&mut played, &instance, "now", "with room", most);
    compare_sizes(&mut played, &host, &machine, &instance, &whole)?;
    for pools in pools_to_try(&machine, &whole) {
        let what = format!("with {}", in_words(&pools));
        let server = match running.take() {
            Some(server) => server,
            None => {
                host.set_pools(&room)?;
                start(&machine)?
            }
        };
        host.set_pools(&pools)?;
        let before = host.check(server.pid)?;
        drop(server);
        host.await_empty_pools()?;
        host.set_pools(&pools)?;
        let Start::Up(server) = machine.start()? else {
            compare_moment(&mut played, &before, "restart", &what, "does_not_start");
            host.await_empty_pools()?;
            continue;
        };
        let seen = name_state(&count_pages(server.pid)?, &whole, most);
        compare_moment(&mut played, &before, "restart", &what, seen);
        let after = host.check(server.pid)?;
        compare_moment(&mut played, &after, "now", &format!("{what}, once up"), seen);
        compare_moment(&mut played, &after, "restart", &format!("{what}, once up"), seen);
        running = Some(server);
    }
    drop(running);
    host.await_empty_pools()?;
    Ok(played)
}

fn start(machine: &JavaMachine) -> Result<Server, Failure> {
    match machine.start()? {
        Start::Up(server) => Ok(server),
        Start::Refused(said) => Err(format!("it does not start with room: {said}").into()),
    }
}

/// Just enough, one page fewer, none; of gibibytes also none beside enough 2 MiB pages.
fn pools_to_try(machine: &JavaMachine, whole: &Pages) -> Vec<Pages> {
    let count = |size| whole.get(&size).copied().unwrap_or_default();
    let (small, large) = (count(PageSize::MIB_2), count(PageSize::GIB_1));
    let mut tried = vec![(small, large), (small.saturating_sub(1), large), (0, large)];
    if machine.uses_gibibytes() {
        let less = large.saturating_sub(1);
        tried.extend([(small, less), (small, 0), (0, 0), (small + large * 512, 0)]);
    }
    let pools = |(small, large)| Pages::from([(PageSize::MIB_2, small), (PageSize::GIB_1, large)]);
    tried.into_iter().map(pools).collect()
}

fn in_words(pages: &Pages) -> String {
    let some = pages.iter().filter(|(_, pages)| **pages > 0);
    let words: Vec<String> = some.map(|(size, pages)| format!("{pages} of {size}")).collect();
    if words.is_empty() { "no huge pages".into() } else { words.join(" and ") }
}

fn name_state(seen: &Pages, whole: &Pages, most: &'static str) -> &'static str {
    let bytes = |pages: &Pages| -> u64 {
        pages.iter().map(|(size, pages)| size.bytes().get() * pages).sum()
    };
    match bytes(seen) {
        0 => "none",
        seen if seen == bytes(whole) => most,
        _ => "partly",
    }
}

fn compare_moment(played: &mut Played, instance: &Value, moment: &str, what: &str, seen: &str) {
    let said = instance.pointer(&format!("/moments/{moment}"));
    let word = |name: &str| said.and_then(|said| said.get(name)?.as_str()).unwrap_or_default();
    let state = if said.is_some() { word("state") } else { "missing" };
    played.compare(&format!("{moment} {what}"), state, seen, word("why"));
}

/// One that takes none whatever there is needs not be listed.
fn compare_without_pages(played: &mut Played, instance: &Value) {
    for moment in ["now", "restart"] {
        let state = instance.pointer(&format!("/moments/{moment}/state")).and_then(Value::as_str);
        let state = state.filter(|state| *state != "not_counted").unwrap_or("none");
        played.compare(moment, state, "none", "");
    }
}

/// The pages that check says it needs, and that size says of one that is down.
fn compare_sizes(
    played: &mut Played,
    host: &Host<'_>,
    machine: &JavaMachine,
    instance: &Value,
    whole: &Pages,
) -> Result<(), Failure> {
    let mut needed = whole.clone();
    // Both name the pages of the heap alone where there are two sizes.
    let of_heap = if machine.uses_gibibytes() { PageSize::GIB_1 } else { PageSize::MIB_2 };
    needed.retain(|size, pages| *pages > 0 && *size == of_heap);
    if machine.is_on("UseZGC") {
        let (first, largest) = machine.ask_heap_bytes()?;
        let size = PageSize::MIB_2.bytes().get();
        if let Some(pages) = needed.get_mut(&PageSize::MIB_2) {
            *pages = *pages - first.div_ceil(size) + largest.div_ceil(size);
        }
    }
    let needed = in_words(&needed);
    let said = add_up(instance.get("demand").into_iter(), "needed_pages");
    played.compare("needs", &in_words(&said), &needed, "");
    if let Some(words) = machine.describe() {
        let mut arguments: Vec<OsString> =
            ["--only-described", "--engine", "jvm", "--"].map(OsString::from).to_vec();
        arguments.extend(words);
        let sized = exactness::size(host.hugewise, &arguments)?;
        let instances = sized.get("instances").and_then(Value::as_array).into_iter().flatten();
        played.compare("size", &in_words(&add_up(instances, "demand_pages")), &needed, "");
    }
    Ok(())
}

fn add_up<'a>(demands: impl Iterator<Item = &'a Value>, name: &str) -> Pages {
    let mut pages = Pages::new();
    for demand in demands {
        let number = |name: &str| demand.get(name).and_then(Value::as_u64);
        if let (Some(size), Some(count)) =
            (number("page_bytes").and_then(PageSize::new), number(name))
        {
            *pages.entry(size).or_default() += count;
        }
    }
    pages
}

/// Pages that a process has mapped, those of a file in several places once.
fn count_pages(pid: u32) -> Result<Pages, Failure> {
    let smaps = fs::read_to_string(format!("/proc/{pid}/smaps"))?;
    let (mut pages, mut shared) = (Pages::new(), BTreeSet::new());
    let mut head: Vec<&str> = Vec::new();
    for line in smaps.lines() {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        match words.as_slice() {
            [range, ..] if range.contains('-') && !range.ends_with(':') => head = words,
            ["KernelPageSize:", kib, _] => {
                let size = kib.parse::<u64>()? << 10;
                let Some(size) = PageSize::new(size).filter(|size| *size >= PageSize::MIB_2) else {
                    continue;
                };
                let [range, permissions, offset, _, inode, ..] = head.as_slice() else { continue };
                let (start, end) = range.split_once('-').ok_or("no range")?;
                let number = |text: &str| u64::from_str_radix(text, 16);
                let bytes = size.bytes().get();
                let count = (number(end)? - number(start)?) / bytes;
                if permissions.ends_with('s') {
                    let first = number(offset)? / bytes;
                    let own = (first..first + count).map(|page| (size, (*inode).to_owned(), page));
                    shared.extend(own);
                } else {
                    *pages.entry(size).or_default() += count;
                }
            }
            _ => {}
        }
    }
    for (size, ..) in shared {
        *pages.entry(size).or_default() += 1;
    }
    Ok(pages)
}
