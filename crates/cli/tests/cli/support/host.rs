//! A captured host that may be changed: what a plan does to it is done as its kernel would, and
//! servers are started anew.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use super::Changed;

/// A captured host that may be changed.
pub(crate) struct Host {
    _folder: TempDir,
    pub(crate) root: PathBuf,
}

impl Host {
    /// A copy, unpacked where it is an archive.
    pub(crate) fn of(captured: &Path) -> Self {
        if captured.is_dir() {
            let copy = Changed::of(captured.file_name().unwrap().to_str().unwrap());
            let root = copy.0.path().to_owned();
            return Self { _folder: copy.0, root };
        }
        let folder = TempDir::new().unwrap();
        let unpacked = Command::new("tar")
            .arg("-xf")
            .arg(captured)
            .arg("-C")
            .arg(folder.path())
            .output()
            .unwrap();
        let mut inside = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path());
        let root = inside.next().unwrap_or_else(|| panic!("{}: {unpacked:?}", captured.display()));
        Self { _folder: folder, root }
    }

    /// The host whose root is that folder.
    pub(crate) fn at_root(folder: TempDir) -> Self {
        Self { root: folder.path().to_owned(), _folder: folder }
    }

    pub(crate) fn said(&self, words: &[&str]) -> Value {
        let text = Changed::run_on(&self.root, words);
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{words:?}: {error}: {text}"))
    }

    pub(crate) fn check(&self) -> Value {
        self.said(&["check", "--format", "json"])
    }

    pub(crate) fn plan(&self, more: &[&str]) -> Value {
        self.said(&[&["plan", "--format", "json"], more].concat())
    }

    pub(crate) fn at(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    pub(crate) fn text(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.at(path)).ok()
    }

    pub(crate) fn put(&self, path: &str, text: &str) {
        fs::create_dir_all(self.at(path).parent().unwrap()).unwrap();
        fs::write(self.at(path), text).unwrap();
    }

    /// Changes what a file says; it is there.
    pub(crate) fn change(&self, path: &str, edit: impl Fn(String) -> String) {
        let text = self.text(path).unwrap_or_else(|| panic!("no {path}"));
        self.put(path, &edit(text));
    }

    /// Adds to a number, where there is one.
    pub(crate) fn add(&self, path: &str, more: i64) {
        if let Some(number) = self.text(path) {
            let number: i64 = number.trim().parse().unwrap();
            self.put(path, &format!("{}\n", number + more));
        }
    }

    /// Adds to fields of /proc/meminfo, which are in KiB or in pages.
    pub(crate) fn add_to_meminfo(&self, fields: &[&str], more: i64) {
        let line = |line: &str| {
            let Some((name, rest)) = line.split_once(':').filter(|(name, _)| fields.contains(name))
            else {
                return format!("{line}\n");
            };
            let mut words = rest.split_whitespace();
            let number: i64 = words.next().unwrap().parse().unwrap();
            let unit = words.next().map(|unit| format!(" {unit}")).unwrap_or_default();
            format!("{name}: {}{unit}\n", (number + more).max(0))
        };
        self.change("/proc/meminfo", |text| text.lines().map(line).collect());
    }

    pub(crate) fn is_default(&self, kib: u64) -> bool {
        let meminfo = self.text("/proc/meminfo").unwrap();
        let default = meminfo.lines().find_map(|line| line.strip_prefix("Hugepagesize:")).unwrap();
        default.split_whitespace().next() == Some(&kib.to_string())
    }

    pub(crate) fn nodes(&self) -> Vec<String> {
        let folder = "/sys/devices/system/node";
        let names = (0..8).map(|node| format!("{folder}/node{node}"));
        names.filter(|node| self.at(&format!("{node}/hugepages")).is_dir()).collect()
    }

    pub(crate) fn pages(&self, kib: u64) -> i64 {
        let own = self.text(&format!("/sys/kernel/mm/hugepages/hugepages-{kib}kB/nr_hugepages"));
        let in_meminfo = || {
            let meminfo = self.text("/proc/meminfo").unwrap();
            meminfo
                .lines()
                .find_map(|line| line.strip_prefix("HugePages_Total:").map(str::to_owned))
                .unwrap()
        };
        own.unwrap_or_else(in_meminfo).trim().parse().unwrap()
    }

    /// Adds pages to a pool, or takes them away: those of the pool itself, or those that are free
    /// in it.
    pub(crate) fn add_pages(&self, kib: u64, node: Option<u64>, files: &[&str], pages: i64) {
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
                .map(
                    |file| {
                        if file.starts_with("nr") { "HugePages_Total" } else { "HugePages_Free" }
                    },
                )
                .collect();
            self.add_to_meminfo(&fields, pages);
        }
    }

    /// As the kernel sets a pool.
    pub(crate) fn set_pool(&self, kib: u64, node: Option<u64>, pages: i64) {
        let before = match node {
            Some(node) => {
                let path = format!(
                    "/sys/devices/system/node/node{node}/hugepages/hugepages-{kib}kB/nr_hugepages"
                );
                self.text(&path).unwrap().trim().parse().unwrap()
            }
            None => self.pages(kib),
        };
        self.add_pages(kib, node, &["nr_hugepages", "free_hugepages"], pages - before);
        self.add_to_meminfo(
            &["MemFree", "MemAvailable"],
            -(pages - before) * i64::try_from(kib).unwrap(),
        );
        if self.is_default(kib) && self.text("/proc/sys/vm/nr_hugepages").is_some() {
            self.put("/proc/sys/vm/nr_hugepages", &format!("{}\n", self.pages(kib)));
        }
    }

    /// Does what the plan does.
    pub(crate) fn carry_out(&self, plan: &Value) {
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

    pub(crate) fn run(&self, command: &Value) {
        let words: Vec<&str> =
            command["command"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        match words.as_slice() {
            [.., "-c", statement] => {
                let setting = statement
                    .strip_prefix("ALTER SYSTEM SET ")
                    .unwrap_or_else(|| panic!("{statement}"));
                let file = command["files"][0].as_str().unwrap();
                let before = self.text(file).unwrap_or_default();
                self.put(file, &format!("{before}{setting}\n"));
            }
            [.., "daemon-reload"] => {}
            other => panic!("a command that this host does not know: {other:?}"),
        }
    }

    /// Starts a server again: all its segments come on huge pages, and nothing else of it is as
    /// before.
    pub(crate) fn restart(&self, engine: &str, name: &str) {
        let checked = self.check();
        let all = checked["instances"].as_array().unwrap();
        let instance = all.iter().find(|json| json["engine"] == engine && json["name"] == name);
        let instance = instance.unwrap_or_else(|| panic!("no {engine} {name}: {all:#?}"));
        let page = instance["demand"]["page_bytes"].as_u64().unwrap();
        let main = instance["pid"].as_u64().unwrap();
        let pids = fs::read_dir(self.at("/proc")).unwrap().map(|entry| entry.unwrap().file_name());
        let pids: Vec<u64> = pids.filter_map(|name| name.to_str()?.parse().ok()).collect();
        let is_segment = |line: &str| {
            let shared =
                ["/dev/zero", "/SYSV", "/dev/shm/ora_"].iter().any(|name| line.contains(name));
            let private = engine == "mariadb"
                && line.split_whitespace().count() == 5
                && line.contains(" rw-p ");
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
        let of_segment = |line: &str| {
            segments.iter().any(|(start, _)| line.split('-').next() == Some(start.as_str()))
        };
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
            let Some(maps) = self
                .text(&path)
                .filter(|maps| maps.lines().any(|text| of_segment(text) && is_segment(text)))
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
    pub(crate) fn give_back(&self, bytes: u64) {
        self.add_to_meminfo(&["MemFree", "MemAvailable"], i64::try_from(bytes >> 10).unwrap());
    }

    /// The limits that its processes have after they were started anew.
    pub(crate) fn unlimited(&self) {
        for entry in fs::read_dir(self.at("/proc")).unwrap() {
            let limits = format!("/proc/{}/limits", entry.unwrap().file_name().to_str().unwrap());
            if self.text(&limits).is_some() {
                let line = |line: &str| match line.starts_with("Max locked memory") {
                    true => "Max locked \
                             memory         unlimited            unlimited            bytes     \n"
                        .to_owned(),
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
