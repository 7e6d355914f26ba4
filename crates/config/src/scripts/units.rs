//! Commands of the units that a boot starts: those that a target wants, those that such a unit wants
//! itself (`Wants=`, or a link in its folder), and drop-ins of any of them.

use std::collections::{BTreeMap, BTreeSet};

use hugewise_model::Observed;
use hugewise_model::configuration::BootOrder;

use super::{BootScriptScan, has_all_rights, order, scripts_in, words};
use crate::files::file_location;
use crate::systemd;
use crate::unit::{self, UnitName};
use crate::unit_conditions::{ConditionFacts, ConditionVerdict};

const UNITS: [&str; 2] = ["/etc/systemd/system", "/usr/local/lib/systemd/system"];

/// Those of packages: what is wanted there starts whether anybody enables it or not.
const PACKAGED: [&str; 2] = ["/usr/lib/systemd/system", "/lib/systemd/system"];

/// Units that are followed at most: a host enables some hundred.
const MOST_UNITS: usize = 2048;

/// Scripts of packages are smaller than this, and most other programs are larger.
const MOST_OF_PROGRAM: u64 = 64 << 10;

/// Keys of `[Unit]` that start other units.
const PULLS: [&str; 4] = ["Wants", "Requires", "BindsTo", "Upholds"];

/// Targets that a boot does not reach (systemd.special(7)).
const NO_BOOT: [&str; 14] = [
    "emergency.target",
    "exit.target",
    "final.target",
    "halt.target",
    "hibernate.target",
    "hybrid-sleep.target",
    "kexec.target",
    "poweroff.target",
    "reboot.target",
    "rescue.target",
    "shutdown.target",
    "sleep.target",
    "suspend.target",
    "umount.target",
];

/// What the folders of people's own say of units.
#[derive(Default)]
struct OwnUnits {
    /// Unit files and links to some, by name.
    files: BTreeMap<String, String>,
    /// What a target or another unit that is no service starts, with the link that says so.
    enabled: BTreeMap<String, Option<String>>,
    /// The same of services: counts where that one is started.
    by_service: BTreeMap<String, Vec<(String, String)>>,
    /// Folders of drop-ins, by the service that they are for.
    drop_ins: Vec<(String, String)>,
}

impl BootScriptScan<'_, '_> {
    pub(super) fn scan_units(&mut self) {
        let own = self.list_own_units();
        let facts = ConditionFacts::new(self.door.source);
        let started = self.scan_started_units(&own, &facts);
        self.scan_drop_ins(&own, &started, &facts);
    }

    /// By its file and by drop-ins of people's own.
    fn judge_conditions(
        &self,
        own: &OwnUnits,
        facts: &ConditionFacts<'_>,
        name: &str,
        file: &str,
    ) -> ConditionVerdict {
        let names = UnitName::parse(name).map(|name| name.drop_in_names()).unwrap_or_default();
        let folders = own.drop_ins.iter().filter(|(unit, _)| names.contains(unit));
        let drop_ins = folders.flat_map(|(_, folder)| {
            let files = self.list_names(folder).into_iter().filter(|file| file.ends_with(".conf"));
            files.map(move |file| format!("{folder}/{file}"))
        });
        let files = std::iter::once(file.to_owned()).chain(drop_ins);
        let read = |file: String| self.door.source.read_limited(&file, super::MOST).into_known();
        let all: Vec<_> = files.filter_map(read).flat_map(|bytes| unit::parse(&bytes)).collect();
        facts.judge(&all)
    }

    /// The file of a unit: people's own, or of a package.
    fn find_unit_file(&self, own: &OwnUnits, name: &str, link: Option<&String>) -> String {
        let template = UnitName::parse(name).and_then(|name| name.template_name());
        let file = own.files.get(name).or_else(|| own.files.get(template.as_ref()?));
        let file = file.or(link).cloned().or_else(|| self.find_packaged_unit(name));
        file.unwrap_or_else(|| format!("/usr/lib/systemd/system/{name}"))
    }

    fn list_own_units(&self) -> OwnUnits {
        let mut own = OwnUnits::default();
        for folder in UNITS.into_iter().chain(PACKAGED) {
            let is_own = UNITS.contains(&folder);
            for name in self.list_names(folder) {
                let path = format!("{folder}/{name}");
                let whose = name.strip_suffix(".wants").or_else(|| name.strip_suffix(".requires"));
                if name.ends_with(".service") && is_own {
                    own.files.entry(name).or_insert(path);
                } else if let Some(whose) = whose {
                    for wanted in self.list_names(&path) {
                        own.add_link(whose, &wanted, format!("{path}/{wanted}"));
                    }
                } else if let Some(unit) =
                    name.strip_suffix(".d").filter(|unit| is_own && unit.ends_with(".service"))
                {
                    own.drop_ins.push((unit.to_owned(), path));
                }
            }
        }
        own
    }

    /// All that the boot starts, as far as the folders of people's own and these units say.
    fn scan_started_units(
        &mut self,
        own: &OwnUnits,
        facts: &ConditionFacts<'_>,
    ) -> BTreeSet<String> {
        let mut waiting: Vec<(String, Option<String>)> =
            own.enabled.clone().into_iter().rev().collect();
        // systemd makes units of init scripts.
        let of_scripts = own.by_service.keys().filter(|name| self.is_started_as_script(name));
        waiting.extend(of_scripts.map(|name| (name.clone(), None)));
        let mut started = BTreeSet::new();
        while let Some((name, link)) = waiting.pop() {
            let is_service = name.ends_with(".service");
            if !is_service || started.len() >= MOST_UNITS || !started.insert(name.clone()) {
                continue;
            }
            let file = self.find_unit_file(own, &name, link.as_ref());
            let verdict = self.judge_conditions(own, facts, &name, &file);
            let (writes, pulls) = self.scan_unit(&file, verdict);
            if writes && let Some(link) = &link {
                drop(self.door.source.read_link(link));
            }
            waiting.extend(pulls.into_iter().map(|pulled| (pulled, None)));
            let template = UnitName::parse(&name).and_then(|name| name.template_name());
            let names = [Some(name.clone()), template, self.read_alias(own, &name)];
            for (wanted, link) in
                names.iter().flatten().filter_map(|name| own.by_service.get(name)).flatten()
            {
                waiting.push((wanted.clone(), Some(link.clone())));
            }
        }
        started
    }

    /// The name of the file that a link with this name is to.
    fn read_alias(&self, own: &OwnUnits, name: &str) -> Option<String> {
        let target = self.door.source.read_link(own.files.get(name)?).into_known()?;
        target.rsplit('/').next().filter(|file| *file != name).map(str::to_owned)
    }

    fn find_packaged_unit(&self, name: &str) -> Option<String> {
        let mut paths = PACKAGED.iter().map(|folder| format!("{folder}/{name}"));
        paths.find(|path| !self.door.source.read_limited(path, super::MOST).is_absent())
    }

    fn is_started_as_script(&self, unit: &str) -> bool {
        let stem = unit.strip_suffix(".service");
        stem.is_some_and(|stem| self.find_start_link(stem).is_some())
    }

    fn scan_drop_ins(
        &mut self,
        own: &OwnUnits,
        started: &BTreeSet<String>,
        facts: &ConditionFacts<'_>,
    ) {
        let mut wanted = None;
        for (unit, folder) in &own.drop_ins {
            let before = self.found.len();
            let verdict =
                self.judge_conditions(own, facts, unit, &self.find_unit_file(own, unit, None));
            for name in self.list_names(folder) {
                if name.ends_with(".conf") {
                    self.scan_unit(&format!("{folder}/{name}"), verdict);
                }
            }
            if self.found.len() == before {
                continue;
            }
            let wanted = wanted.get_or_insert_with(|| systemd::read_wanted(self.door));
            let stem = unit.strip_suffix("@.service").map(|stem| format!("{stem}@"));
            let is_it = |name: &String| {
                *name == *unit || stem.as_ref().is_some_and(|stem| name.starts_with(stem.as_str()))
            };
            let mut links =
                wanted.iter().filter(|(name, _)| is_it(name)).flat_map(|(_, links)| links);
            match links.next() {
                Some(link) => drop(self.door.source.read_link(link)),
                None if started.iter().any(is_it) => {}
                None => self.found.truncate(before),
            }
        }
    }

    /// Whether what it starts writes a pool or THP's switch, and which services it starts besides:
    /// a unit that is passed over starts those all the same. A link in a folder of wants is
    /// followed.
    fn scan_unit(&mut self, path: &str, verdict: ConditionVerdict) -> (bool, Vec<String>) {
        let Some(bytes) = self.read_once(path, false) else { return (false, Vec::new()) };
        let of_start = |one: &unit::UnitAssignment| {
            one.section == "Service"
                && ["ExecStart", "ExecStartPre", "ExecStartPost", "ExecCondition"]
                    .contains(&one.key.as_str())
        };
        let assignments = unit::parse(&bytes);
        let pulls = pulled_services(&assignments);
        if !pulls.is_empty() {
            self.record_file(path);
        }
        if verdict == ConditionVerdict::Unmet {
            return (false, pulls);
        }
        let user = assignments.iter().rfind(|one| one.section == "Service" && one.key == "User");
        let is_roots = user.is_none_or(|one| matches!(one.value.as_str(), "" | "root" | "0"));
        // Then only ExecStart runs as `User` (systemd.service(5) up to 230; still taken).
        let start_alone = says(&assignments, "PermissionsStartOnly", &["true", "yes", "on", "1"]);
        let mut lines = environment_paths(&assignments);
        lines.extend(assignments.into_iter().filter(of_start).map(|one| {
            let is_roots_then = start_alone && one.key != "ExecStart";
            (one.line, if is_roots_then { format!("+{}", one.value) } else { one.value })
        }));
        lines.retain(|(_, line)| !self.lacks_program(line));
        let as_root = |line: &str| is_roots || has_all_rights(line);
        let is_script = |line: &str| as_root(line) && self.is_packaged_script(line);
        if !words::may_write(&bytes)
            && !lines.iter().any(|(_, line)| scripts_in(line).next().is_some() || is_script(line))
        {
            return (false, pulls);
        }
        self.order = match verdict {
            ConditionVerdict::Met => order::of_unit(&bytes),
            ConditionVerdict::Undecided | ConditionVerdict::Unmet => BootOrder::Untold,
        };
        let target = || match self.door.source.read_link(path) {
            Observed::Known(target) if target.starts_with('/') => Some(target),
            _ => None,
        };
        let file =
            if path.contains(".wants/") || path.contains(".requires/") { target() } else { None };
        let file = file.unwrap_or_else(|| path.to_owned());
        let before = self.found.len();
        self.scan_commands(&file, &lines, &as_root);
        for (line, command) in lines.iter().filter(|(_, command)| as_root(command)) {
            if self.is_packaged_script(command) {
                self.scan_script(program_of(command), &file_location(&file, *line));
            }
        }
        let any = self.found.len() > before;
        self.order = BootOrder::Last;
        if any {
            self.record_file(&file);
        }
        (any, pulls)
    }

    /// Whether the program of a command is a small script, which a package may bring, too: its
    /// first two bytes make it one, whatever its name (execve(2)).
    fn is_packaged_script(&self, command: &str) -> bool {
        let program = program_of(command);
        let is_absolute = program.starts_with('/') && !program.contains(['$', '%']);
        is_absolute && {
            let start = self.door.source.read_limited(program, MOST_OF_PROGRAM).into_known();
            start.is_some_and(|bytes| bytes.starts_with(b"#!"))
        }
    }

    /// Whether the program of a command is in the other of /bin and /usr/bin, on a host that has
    /// both: systemd fails to start it (203/EXEC).
    fn lacks_program(&mut self, command: &str) -> bool {
        let Some((folder, name)) = program_of(command).rsplit_once('/') else { return false };
        let (folder, other) = match folder {
            "/usr/bin" => ("/usr/bin", "/bin"),
            "/bin" => ("/bin", "/usr/bin"),
            "/usr/sbin" => ("/usr/sbin", "/sbin"),
            "/sbin" => ("/sbin", "/usr/sbin"),
            _ => return false,
        };
        let has = |names: &[String]| names.iter().any(|file| file == name);
        let is_there = has(self.list_programs(other));
        let here = self.list_programs(folder);
        is_there && !here.is_empty() && !has(here)
    }

    /// The programs of a folder that is no link, listed once.
    fn list_programs(&mut self, folder: &'static str) -> &[String] {
        let source = self.door.source;
        self.programs.entry(folder).or_insert_with(|| {
            if source.read_link(folder).is_known() {
                return Vec::new();
            }
            source.list_folder(folder).into_known().unwrap_or_default()
        })
    }
}

impl OwnUnits {
    fn add_link(&mut self, whose: &str, wanted: &str, link: String) {
        let (name, link) = match wanted.strip_suffix(".timer") {
            Some(stem) => (format!("{stem}.service"), None),
            None => (wanted.to_owned(), Some(link)),
        };
        match link {
            Some(link) if whose.ends_with(".service") => {
                self.by_service.entry(whose.to_owned()).or_default().push((name, link));
            }
            _ if NO_BOOT.contains(&whose) => {}
            link => {
                self.enabled.entry(name).or_insert(link);
            }
        }
    }
}

/// The first word, without systemd's prefixes.
fn program_of(command: &str) -> &str {
    let command = command.trim_start_matches(['-', '@', '+', '!', ':', '|']);
    command.split_ascii_whitespace().next().unwrap_or_default()
}

fn says(assignments: &[unit::UnitAssignment], key: &str, values: &[&str]) -> bool {
    let last = assignments.iter().rfind(|one| one.section == "Service" && one.key == key);
    last.is_some_and(|one| values.contains(&one.value.to_ascii_lowercase().as_str()))
}

fn pulled_services(assignments: &[unit::UnitAssignment]) -> Vec<String> {
    let pulls =
        assignments.iter().filter(|one| one.section == "Unit" && PULLS.contains(&one.key.as_str()));
    let names = pulls.flat_map(|one| one.value.split_ascii_whitespace());
    names.filter(|name| name.ends_with(".service")).map(str::to_owned).collect()
}

/// What `Environment=` gives commands to write to: `POOL=/proc/sys/vm/nr_hugepages`, a line each.
fn environment_paths(assignments: &[unit::UnitAssignment]) -> Vec<(u64, String)> {
    let is_environment =
        |one: &&unit::UnitAssignment| one.section == "Service" && one.key == "Environment";
    let variables = assignments.iter().filter(is_environment).flat_map(|one| {
        let words = one.value.split([' ', '\t', '"', '\'']);
        words.map(|word| (one.line, word.to_owned()))
    });
    variables.filter(|(_, word)| words::names_kernel_path(word)).collect()
}

#[cfg(test)]
mod tests {
    use hugewise_source::map::MapSource;

    use super::*;
    use crate::scripts;
    use hugewise_source::FactReader;

    const UNIT: &str = "/etc/systemd/system/pages.service";

    fn host(conditions: &str) -> MapSource {
        let write = "sysctl -w vm.nr_hugepages=4; \
                     echo never > /sys/kernel/mm/transparent_hugepage/enabled";
        let unit = format!("[Unit]\n{conditions}[Service]\nExecStart=/bin/sh -c '{write}'\n");
        MapSource::new()
            .with_file("/proc/cmdline", "ro default_hugepagesz=1G\n")
            .with_file(UNIT, unit)
            .with_link("/etc/systemd/system/sysinit.target.wants/pages.service", UNIT)
    }

    fn count_writers(source: &MapSource) -> (usize, Vec<BootOrder>) {
        let found = scripts::read(&mut FactReader::new(source));
        (found.pools.len(), found.thp.iter().map(|writer| writer.order).collect())
    }

    /// systemd.unit(5): the whole word has to be there.
    #[test]
    fn a_unit_that_its_conditions_pass_over_writes_nothing() {
        let runs = (1, vec![BootOrder::Last]);
        assert_eq!(count_writers(&host("")), runs);
        let on_word = "ConditionKernelCommandLine=default_hugepagesz=1G\n";
        assert_eq!(count_writers(&host(on_word)), runs);
        let never = host("ConditionKernelCommandLine=hugepagesz=1G\n");
        assert_eq!(count_writers(&never), (0, Vec::new()));
        // Whether the file is there at the next boot nothing tells.
        let perhaps = host("ConditionPathExists=/run/pages\n");
        assert_eq!(count_writers(&perhaps), (1, vec![BootOrder::Untold]));
        let drop_in = "/etc/systemd/system/pages.service.d/a.conf";
        let reset = never.with_file(drop_in, "[Unit]\nConditionKernelCommandLine=\n");
        assert_eq!(count_writers(&reset), runs);
        let asserted = host("").with_file(drop_in, "[Unit]\nAssertFirstBoot=yes\n");
        assert_eq!(count_writers(&asserted), (0, Vec::new()));
    }
}
