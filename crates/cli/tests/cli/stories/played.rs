//! A made estate, on which a story is played.

use std::fs;

use hugewise_testkit::oracle_fixtures::{OracleFixture, catalog};
use serde_json::Value;
use tempfile::TempDir;

use crate::support::host::Host;
use crate::support::{Said, on};

/// The estate, and the folder that is its host.
pub(crate) struct Played {
    pub(crate) estate: OracleFixture,
    pub(crate) host: Host,
}

impl Played {
    /// The one of that name.
    pub(crate) fn named(name: &str) -> Self {
        Self::of(catalog::find_fixture(name).unwrap_or_else(|| panic!("no estate {name}")))
    }

    pub(crate) fn of(estate: OracleFixture) -> Self {
        let folder = TempDir::new().unwrap();
        estate.write(folder.path()).unwrap();
        Self { estate, host: Host::at_root(folder) }
    }

    pub(crate) fn run(&self, command: &str, more: &[&str]) -> Said {
        on(command, &self.host.root, more)
    }

    pub(crate) fn check(&self) -> Checked {
        let said = self.run("check", &["--format", "json"]);
        Checked { json: said.json(), code: said.code }
    }

    /// What `check -v` prints, as one line.
    pub(crate) fn told(&self, command: &str, more: &[&str]) -> String {
        one_line(&self.run(command, more).out)
    }

    /// Carries the plan out on the host's files.
    pub(crate) fn carry_out(&self, more: &[&str]) -> Value {
        let plan = self.host.plan(more);
        self.host.carry_out(&plan);
        plan
    }

    /// The machine was booted: /proc and /sys are as the estate has them now, all else is as it
    /// was.
    pub(crate) fn boot(&mut self, change: impl FnOnce(&mut OracleFixture)) {
        change(&mut self.estate);
        for entry in fs::read_dir(self.host.at("/proc")).unwrap() {
            let path = entry.unwrap().path();
            let is_process = path.file_name().unwrap().to_str().unwrap().parse::<u32>().is_ok();
            if is_process {
                fs::remove_dir_all(path).unwrap();
            }
        }
        self.estate
            .make_files()
            .unwrap()
            .only_below(&["/proc/", "/sys/"])
            .write(&self.host.root)
            .unwrap();
    }

    /// Pages that the pool is to have now, by the plan.
    pub(crate) fn pages_planned(&self, more: &[&str]) -> u64 {
        let plan = self.host.plan(more);
        let steps = plan["steps"].as_array().unwrap();
        let step = steps
            .iter()
            .find(|step| step["id"] == "pool-2M-now")
            .unwrap_or_else(|| panic!("{plan:#}"));
        step["changes"][0]["after"].as_str().unwrap_or_else(|| panic!("{step:#}")).parse().unwrap()
    }

    /// Pages that the boot's files set.
    pub(crate) fn pages_at_boot(&self) -> u64 {
        let files = ["/etc/sysctl.conf", "/etc/sysctl.d/99-zz-hugewise.conf"];
        let mut found = files.iter().filter_map(|file| self.host.text(file)).collect::<Vec<_>>();
        if let Ok(entries) = fs::read_dir(self.host.at("/etc/sysctl.d")) {
            found.extend(entries.map(|entry| fs::read_to_string(entry.unwrap().path()).unwrap()));
        }
        let lines = found.iter().flat_map(|text| text.lines());
        let mut set = lines.filter_map(|line| {
            line.strip_prefix("vm.nr_hugepages")?.trim_start().strip_prefix('=')
        });
        set.next_back().expect("no file sets the pool").trim().parse().unwrap()
    }
}

/// What `check` said.
pub(crate) struct Checked {
    pub(crate) json: Value,
    pub(crate) code: i32,
}

impl Checked {
    pub(crate) fn instance(&self, name: &str) -> &Value {
        let all = self.json["instances"].as_array().unwrap();
        all.iter()
            .find(|json| json["name"] == name)
            .unwrap_or_else(|| panic!("no {name}: {all:#?}"))
    }

    /// The finding of that rule.
    pub(crate) fn finding(&self, code: &str) -> &Value {
        let all = self.json["findings"].as_array().unwrap();
        all.iter()
            .find(|json| json["code"] == code)
            .unwrap_or_else(|| panic!("no {code}: {:?}", self.codes()))
    }

    pub(crate) fn codes(&self) -> Vec<&str> {
        self.json["findings"]
            .as_array()
            .unwrap()
            .iter()
            .map(|json| json["code"].as_str().unwrap())
            .collect()
    }

    /// A finding's words: its summary, its evidence and its cost.
    pub(crate) fn words(&self, code: &str) -> String {
        let finding = self.finding(code);
        let evidence = finding["evidence"].as_array().unwrap().iter().filter_map(Value::as_str);
        let parts = [&finding["summary"], &finding["cost"]]
            .into_iter()
            .filter_map(Value::as_str)
            .chain(evidence);
        parts.collect::<Vec<_>>().join("; ")
    }

    /// Findings that are worse than a note.
    pub(crate) fn troubles(&self) -> Vec<&str> {
        let all = self.json["findings"].as_array().unwrap().iter();
        all.filter(|json| json["level"] != "info")
            .map(|other_json| other_json["code"].as_str().unwrap())
            .collect()
    }
}

/// The words of a text that was broken into lines.
pub(crate) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// All that a plan leaves to people, as one line.
pub(crate) fn by_hand(plan: &Value) -> String {
    one_line(&plan["instructions"].to_string().replace("\\n", " "))
}
