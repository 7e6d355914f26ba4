//! Every captured host under `fixtures/hosts`, once everything is done that its plan says: what is found then was named.
//!
//! A copy of the host takes the plan's files and values as the kernel would take them; servers are started again as far as
//! their mappings, limits and page tables show it; and what the plan leaves to people is done by hand, host by host.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test stops where its files are not as expected, and writes them past the code under test"
)]

mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use support::Changed;
use tempfile::TempDir;

/// A captured host that may be changed.
struct Host {
    _folder: TempDir,
    root: PathBuf,
}

impl Host {
    /// A copy, unpacked where it is an archive.
    fn of(captured: &Path) -> Self {
        if captured.is_dir() {
            let copy = Changed::of(captured.file_name().unwrap().to_str().unwrap());
            let root = copy.0.path().to_owned();
            return Self { _folder: copy.0, root };
        }
        let folder = TempDir::new().unwrap();
        let unpacked = Command::new("tar").arg("-xf").arg(captured).arg("-C").arg(folder.path()).output().unwrap();
        let mut inside = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path());
        let root = inside.next().unwrap_or_else(|| panic!("{}: {unpacked:?}", captured.display()));
        Self { _folder: folder, root }
    }

    fn said(&self, words: &[&str]) -> Value {
        let text = Changed::run_on(&self.root, words);
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{words:?}: {error}: {text}"))
    }

    fn check(&self) -> Value {
        self.said(&["check", "--format", "json"])
    }

    fn plan(&self, more: &[&str]) -> Value {
        self.said(&[&["plan", "--format", "json"], more].concat())
    }

    fn at(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    fn text(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.at(path)).ok()
    }

    fn put(&self, path: &str, text: &str) {
        fs::create_dir_all(self.at(path).parent().unwrap()).unwrap();
        fs::write(self.at(path), text).unwrap();
    }

    /// Changes what a file says; it is there.
    fn change(&self, path: &str, edit: impl Fn(String) -> String) {
        let text = self.text(path).unwrap_or_else(|| panic!("no {path}"));
        self.put(path, &edit(text));
    }

    /// Adds to a number, where there is one.
    fn add(&self, path: &str, more: i64) {
        if let Some(number) = self.text(path) {
            let number: i64 = number.trim().parse().unwrap();
            self.put(path, &format!("{}\n", number + more));
        }
    }

    /// Adds to fields of /proc/meminfo, which are in KiB or in pages.
    fn add_to_meminfo(&self, fields: &[&str], more: i64) {
        let line = |line: &str| {
            let Some((name, rest)) = line.split_once(':').filter(|(name, _)| fields.contains(name)) else {
                return format!("{line}\n");
            };
            let mut words = rest.split_whitespace();
            let number: i64 = words.next().unwrap().parse().unwrap();
            let unit = words.next().map(|unit| format!(" {unit}")).unwrap_or_default();
            format!("{name}: {}{unit}\n", (number + more).max(0))
        };
        self.change("/proc/meminfo", |text| text.lines().map(line).collect());
    }

    fn is_default(&self, kib: u64) -> bool {
        let meminfo = self.text("/proc/meminfo").unwrap();
        let default = meminfo.lines().find_map(|line| line.strip_prefix("Hugepagesize:")).unwrap();
        default.split_whitespace().next() == Some(&kib.to_string())
    }

    fn nodes(&self) -> Vec<String> {
        let folder = "/sys/devices/system/node";
        let names = (0..8).map(|node| format!("{folder}/node{node}"));
        names.filter(|node| self.at(&format!("{node}/hugepages")).is_dir()).collect()
    }

    fn pages(&self, kib: u64) -> i64 {
        let own = self.text(&format!("/sys/kernel/mm/hugepages/hugepages-{kib}kB/nr_hugepages"));
        let in_meminfo = || {
            let meminfo = self.text("/proc/meminfo").unwrap();
            meminfo.lines().find_map(|line| line.strip_prefix("HugePages_Total:").map(str::to_owned)).unwrap()
        };
        own.unwrap_or_else(in_meminfo).trim().parse().unwrap()
    }

    /// Adds pages to a pool, or takes them away: those of the pool itself, or those that are free in it.
    fn add_pages(&self, kib: u64, node: Option<u64>, files: &[&str], pages: i64) {
        for file in files {
            self.add(&format!("/sys/kernel/mm/hugepages/hugepages-{kib}kB/{file}"), pages);
            let nodes = self.nodes();
            for (at, folder) in nodes.iter().enumerate() {
                let count = i64::try_from(nodes.len()).unwrap();
                let (at, first) = (u64::try_from(at).unwrap(), at == 0);
                let part = match node {
                    Some(node) => {
                        if node == at {
                            pages
                        } else {
                            0
                        }
                    }
                    None => pages / count + if first { pages % count } else { 0 },
                };
                self.add(&format!("{folder}/hugepages/hugepages-{kib}kB/{file}"), part);
            }
        }
        if self.is_default(kib) {
            let fields: Vec<&str> = files
                .iter()
                .map(|file| if file.starts_with("nr") { "HugePages_Total" } else { "HugePages_Free" })
                .collect();
            self.add_to_meminfo(&fields, pages);
        }
    }

    /// As the kernel sets a pool.
    fn set_pool(&self, kib: u64, node: Option<u64>, pages: i64) {
        let before = match node {
            Some(node) => {
                let path = format!("/sys/devices/system/node/node{node}/hugepages/hugepages-{kib}kB/nr_hugepages");
                self.text(&path).unwrap().trim().parse().unwrap()
            }
            None => self.pages(kib),
        };
        self.add_pages(kib, node, &["nr_hugepages", "free_hugepages"], pages - before);
        self.add_to_meminfo(&["MemFree", "MemAvailable"], -(pages - before) * i64::try_from(kib).unwrap());
        if self.is_default(kib) && self.text("/proc/sys/vm/nr_hugepages").is_some() {
            self.put("/proc/sys/vm/nr_hugepages", &format!("{}\n", self.pages(kib)));
        }
    }

    /// Does what the plan does.
    fn carry_out(&self, plan: &Value) {
        let steps = plan["steps"].as_array().unwrap();
        for change in steps.iter().flat_map(|step| step["changes"].as_array().unwrap()) {
            let path = change["path"].as_str().unwrap_or_default();
            match change["kind"].as_str().unwrap() {
                "value" if !change["pool"].is_null() => {
                    let pages = change["after"].as_str().unwrap().parse().unwrap();
                    let kib = change["pool"]["page_bytes"].as_u64().unwrap() >> 10;
                    self.set_pool(kib, change["pool"]["node"].as_u64(), pages);
                }
                "value" => {
                    let after = change["after"].as_str().unwrap();
                    self.change(path, |text| switched(&text, after));
                }
                "file" => match change["after"]["content"]["text"].as_str() {
                    Some(text) => self.put(path, text),
                    None => fs::remove_file(self.at(path)).unwrap(),
                },
                "command" => self.run(change),
                other => panic!("a change of kind {other}"),
            }
        }
    }

    fn run(&self, command: &Value) {
        let words: Vec<&str> = command["command"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        match words.as_slice() {
            [.., "-c", statement] => {
                let setting = statement.strip_prefix("ALTER SYSTEM SET ").unwrap_or_else(|| panic!("{statement}"));
                let file = command["files"][0].as_str().unwrap();
                let before = self.text(file).unwrap_or_default();
                self.put(file, &format!("{before}{setting}\n"));
            }
            [.., "daemon-reload"] => {}
            other => panic!("a command that this host does not know: {other:?}"),
        }
    }

    /// Starts a server again: all its segments come on huge pages, and nothing else of it is as before.
    fn restart(&self, engine: &str, name: &str) {
        let checked = self.check();
        let all = checked["instances"].as_array().unwrap();
        let instance = all.iter().find(|it| it["engine"] == engine && it["name"] == name);
        let instance = instance.unwrap_or_else(|| panic!("no {engine} {name}: {all:#?}"));
        let page = instance["demand"]["page_bytes"].as_u64().unwrap();
        let main = instance["pid"].as_u64().unwrap();
        let pids = fs::read_dir(self.at("/proc")).unwrap().map(|entry| entry.unwrap().file_name());
        let pids: Vec<u64> = pids.filter_map(|name| name.to_str()?.parse().ok()).collect();
        let is_segment = |line: &str| {
            let shared = ["/dev/zero", "/SYSV", "/dev/shm/ora_"].iter().any(|name| line.contains(name));
            let private = engine == "mariadb" && line.split_whitespace().count() == 5 && line.contains(" rw-p ");
            (shared || private) && size(line) >= 2 << 20
        };
        let segments: Vec<(String, u64)> = self
            .text(&format!("/proc/{main}/maps"))
            .unwrap()
            .lines()
            .filter(|line| is_segment(line))
            .map(|line| (line.split_once('-').unwrap().0.to_owned(), size(line)))
            .collect();
        assert!(!segments.is_empty(), "{engine} {name} maps nothing");
        let of_segment = |line: &str| segments.iter().any(|(start, _)| line.split('-').next() == Some(start.as_str()));
        let moved = |line: &str| {
            if !of_segment(line) || !is_segment(line) {
                return format!("{line}\n");
            }
            let (start, rest) = line.split_once('-').unwrap();
            let (_, rest) = rest.split_once(' ').unwrap();
            let from = u64::from_str_radix(start, 16).unwrap();
            let end = from + size(line).next_multiple_of(page);
            let words: Vec<&str> = rest.split_whitespace().collect();
            let kernels = if line.contains("/SYSV") || line.contains("/dev/shm/ora_") {
                format!("/SYSV{from:08x} (deleted)")
            } else {
                "/anon_hugepage (deleted)".to_owned()
            };
            format!("{start}-{end:x} {}                   {kernels}\n", words[..4].join(" "))
        };
        // What the main process maps, those whom it has forked map at the same addresses.
        let mut own = Vec::new();
        for pid in pids {
            let path = format!("/proc/{pid}/maps");
            let Some(maps) = self.text(&path).filter(|maps| maps.lines().any(|it| of_segment(it) && is_segment(it)))
            else {
                continue;
            };
            own.push(pid);
            self.put(&path, &maps.lines().map(moved).collect::<String>());
            let status = format!("/proc/{pid}/status");
            if let Some(text) = self.text(&status) {
                let tables = text.lines().find_map(|line| line.strip_prefix("VmPTE:")).unwrap();
                let tables: i64 = tables.split_whitespace().next().unwrap().parse().unwrap();
                let left = tables.min(200);
                self.add_to_meminfo(&["PageTables"], left - tables);
                let few = |line: &str| match line.starts_with("VmPTE:") {
                    true => format!("VmPTE:\t{left} kB\n"),
                    false => format!("{line}\n"),
                };
                self.put(&status, &text.lines().map(few).collect::<String>());
            }
            let numa_maps = format!("/proc/{pid}/numa_maps");
            if self.text(&numa_maps).is_some() {
                let huge = |line: &str| {
                    let mut words: Vec<&str> = line.split_whitespace().collect();
                    if !segments.iter().any(|(start, _)| words.first() == Some(&start.as_str())) {
                        return format!("{line}\n");
                    }
                    words.retain(|word| !word.starts_with("kernelpagesize_kB"));
                    format!("{} huge kernelpagesize_kB={}\n", words.join(" "), page >> 10)
                };
                self.change(&numa_maps, |text| text.lines().map(huge).collect());
            }
        }
        if self.text("/hugewise/page_sizes").is_some() {
            let line = |line: &str| {
                let words: Vec<&str> = line.split(' ').collect();
                let is = own.iter().any(|pid| words[0] == pid.to_string())
                    && segments.iter().any(|(start, _)| start.trim_start_matches('0') == words[1]);
                if is { format!("{} {} {page}\n", words[0], words[1]) } else { format!("{line}\n") }
            };
            self.change("/hugewise/page_sizes", |text| text.lines().map(line).collect());
        }
        let pages: u64 = segments.iter().map(|(_, size)| size.div_ceil(page)).sum();
        self.add_pages(page >> 10, None, &["free_hugepages"], -i64::try_from(pages).unwrap());
        self.give_back(segments.iter().map(|(_, size)| size).sum());
    }

    /// Memory that somebody had is free.
    fn give_back(&self, bytes: u64) {
        self.add_to_meminfo(&["MemFree", "MemAvailable"], i64::try_from(bytes >> 10).unwrap());
    }

    /// The limits that its processes have after they were started anew.
    fn unlimited(&self) {
        for entry in fs::read_dir(self.at("/proc")).unwrap() {
            let limits = format!("/proc/{}/limits", entry.unwrap().file_name().to_str().unwrap());
            if self.text(&limits).is_some() {
                let line = |line: &str| match line.starts_with("Max locked memory") {
                    true => {
                        "Max locked memory         unlimited            unlimited            bytes     \n".to_owned()
                    }
                    false => format!("{line}\n"),
                };
                self.change(&limits, |text| text.lines().map(line).collect());
            }
        }
    }
}

/// Size of a line of maps.
fn size(line: &str) -> u64 {
    let number = |text: &str| u64::from_str_radix(text, 16).unwrap();
    let (start, rest) = line.split_once('-').unwrap();
    number(rest.split(' ').next().unwrap()) - number(start)
}

/// A value that was written, as its file shows it.
fn switched(before: &str, value: &str) -> String {
    if !before.contains('[') {
        return format!("{value}\n");
    }
    let words = before.split_whitespace().map(|word| word.trim_matches(['[', ']']));
    let words = words.map(|word| if word == value { format!("[{word}]") } else { word.to_owned() });
    words.collect::<Vec<_>>().join(" ") + "\n"
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Whether the plan says that this finding is there until people have done something, or until a restart or a boot.
fn is_named(plan: &Value, finding: &Value, others: &Value) -> bool {
    let (code, of) = (text(&finding["code"]), &finding["instance"]);
    let steps = || plan["steps"].as_array().unwrap().iter();
    let by_hand = || plan["instructions"].as_array().unwrap().iter();
    let promised = steps().flat_map(|step| step["expects"].as_array().unwrap());
    let later = ["restart", "reboot"];
    let mut promised = promised.filter(|it| later.contains(&text(&it["when"])));
    if promised.any(|it| it["code"] == code && it["instance"] == *of) {
        return true;
    }
    let is_told =
        |finding: &Value| by_hand().any(|it| text(&it["title"]).starts_with(&format!("{} ", text(&finding["code"]))));
    if is_told(finding) {
        return true;
    }
    // What ends it is what a person is told to do with the server that it names, and nothing else.
    let told = |instance: &Value| {
        by_hand().any(|it| it["instance"] == *instance)
            || plan["warnings"].as_array().unwrap().iter().any(|it| text(it).contains(text(instance)))
    };
    let remedies = finding["remedies"].as_array().unwrap();
    let people = ["restart", "set_setting", "raise_memlock", "set_group"];
    // Or it is of a cause that is told, whose remedies hold its own.
    let causes: Vec<&Value> = others.as_array().unwrap().iter().filter(|it| is_told(it)).collect();
    let is_part = |it: &Value| causes.iter().any(|cause| cause["remedies"].as_array().unwrap().contains(it));
    let rebooted = by_hand().any(|it| it["risk"] == "reboot");
    // What is to be kept where hugewise writes nothing is told to people, by the size of its pages.
    let kept_by_hand = |it: &Value| {
        let kept = |what: &str| by_hand().any(|told| text(&told["title"]).starts_with(what));
        match (text(&it["kind"]), it["page_bytes"].as_u64()) {
            ("keep_thp_at_boot", _) => kept("transparent huge pages: "),
            ("keep_at_boot", Some(page)) => by_hand()
                .any(|told| text(&told["title"]).ends_with(&format!(" pages of {} MiB at each boot", page >> 20))),
            _ => false,
        }
    };
    let due = |it: &Value| {
        let kind = text(&it["kind"]);
        kind == "consider"
            || kept_by_hand(it)
            || (people.contains(&kind) && told(&it["instance"]))
            || (rebooted && kind == "set_pool")
            || is_part(it)
    };
    !remedies.is_empty() && remedies.iter().all(due)
}

fn is_to_consider(remedy: &Value) -> bool {
    remedy["kind"] == "consider"
}

fn lines(findings: &Value) -> Vec<String> {
    let all = findings.as_array().unwrap().iter();
    all.map(|it| format!("{} {}: {} {}", text(&it["code"]), it["instance"], text(&it["summary"]), it["remedies"]))
        .collect()
}

/// What people do on a host, told by its plan; whether they are told to plan once more when that is done.
fn by_hand(name: &str, host: &Host) {
    const INIT: &str = "use_large_pages=ONLY\n";
    match name {
        "arm64-64k-pages" => {
            host.restart("postgresql", "5432");
            host.carry_out(&host.plan(&["--shrink"]));
        }
        "container-cgroup-limit" => {
            host.put("/sys/fs/cgroup/unified/hwfx/hugetlb.2MB.rsvd.max", "1126170624\n");
            host.restart("postgresql", "5433");
        }
        "idle-pool-mariadb" => {
            host.change("/srv/databases/my/my.cnf", |text| format!("{text}large-pages = ON\n"));
            host.restart("mariadb", "3306");
        }
        "no-pool-postgresql" | "two-clusters-one-too-big" => host.restart("postgresql", "5433"),
        "numa-unequal" => {
            host.change("/app/home/dbs/initPROD.ora", |text| {
                text.replace("use_large_pages='TRUE'", "use_large_pages=ONLY")
            });
            for (node, pages) in [(0, 100), (1, 100)] {
                host.set_pool(2048, Some(node), pages);
            }
        }
        "oracle-amm" => {
            let init = "/u01/app/oracle/product/12.2.0.1/dbhome_1/dbs/initHR.ora";
            host.change(init, |text| {
                let kept = text.lines().filter(|line| !line.contains("memory_"));
                let kept: String = kept.map(|line| format!("{line}\n")).collect();
                kept + "sga_target=6144M\npga_aggregate_target=1G\nuse_large_pages=ONLY\n"
            });
            host.unlimited();
            host.carry_out(&host.plan(&["--instance", "HR"]));
            host.restart("oracle", "HR");
        }
        "oracle-many-sessions" => {
            host.change("/u01/app/oracle/product/19.22.0/dbhome_1/dbs/initPROD.ora", |text| text + INIT);
            host.unlimited();
            host.give_back(17410 << 21);
            host.set_pool(2048, None, 17410);
            host.restart("oracle", "PROD");
            host.add_to_meminfo(&["MemFree", "MemAvailable"], -(17410 << 11));
        }
        "rhel7-oracle-memlock" => {
            host.change("/u01/app/oracle/product/12.1.0.2/db_1/dbs/initERP.ora", |text| {
                text.replace("use_large_pages='TRUE'", "use_large_pages=ONLY")
            });
            host.unlimited();
            host.restart("oracle", "ERP");
        }
        "db2-no-pool" => host.restart("db2", "db2inst1"),
        "rhel5-oracle" => host.change("/etc/sysctl.conf", |text| text.replace("= 2000", "= 3000")),
        "rhel6-oracle" => {
            host.change("/boot/grub/grub.conf", |text| text.replace(" quiet", " quiet transparent_hugepage=never"));
            host.change("/u01/app/oracle/product/11.2.0.4/db_1/dbs/initDB.ora", |text| text.replace("TRUE", "ONLY"));
        }
        "sles11-oracle" => {
            host.change("/u01/app/oracle/product/11.2.0.2/db_1/dbs/initORC1.ora", |text| text + INIT);
        }
        "hana-thp-always" | "healthy-postgresql" | "sqlserver-thp-madvise" | "starved-host" | "stopped-servers" => {}
        other => panic!("{other} is new here: what does its plan leave to people?"),
    }
}

#[test]
fn nothing_is_found_that_no_plan_has_named() {
    let mut wrong = Vec::new();
    for captured in support::hosts() {
        let name = captured.file_name().unwrap().to_str().unwrap();
        // Nothing can be planned for what broke off.
        if name.starts_with("truncated") {
            continue;
        }
        let host = Host::of(&captured);
        let plan = host.plan(&[]);
        host.carry_out(&plan);
        let left = host.check()["findings"].clone();
        let unnamed = left.as_array().unwrap().iter().filter(|it| !is_named(&plan, it, &left)).cloned().collect();
        wrong.extend(
            lines(&unnamed).into_iter().map(|line| format!("{name}: after the plan, and not named in it: {line}")),
        );
        // A sosreport has no mappings: nothing in it shows that a server was started again.
        if name.starts_with("sosreport") {
            continue;
        }
        by_hand(name, &host);
        // What a plan cannot make insist before its pages are there, it may once they are.
        let more = host.plan(&[]);
        host.carry_out(&more);
        let after = host.check()["findings"].clone();
        // What nobody can do anything about is a note, and no trouble.
        let note = |it: &Value| it["level"] == "info" && it["remedies"].as_array().unwrap().iter().all(is_to_consider);
        let found = after.as_array().unwrap().iter().filter(|it| !note(it) && !is_named(&more, it, &after));
        let found = lines(&found.cloned().collect());
        wrong.extend(found.into_iter().map(|line| format!("{name}: after all was done: {line}")));
        let empty = host.plan(&[]);
        if !empty["steps"].as_array().unwrap().is_empty() {
            wrong.push(format!("{name}: planned once more: {:#}", empty["steps"]));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
