//! The active profile of TuneD with its includes merged, as TuneD's loader and merger do.

mod condition;
mod reapplied;
mod started;

use std::collections::{BTreeMap, BTreeSet};

use hugewise_model::{Observed, Reason, Unread, configuration::SysctlAssignment, configuration::Tuned};

pub use condition::Here;
pub(crate) use started::started;

use super::files::{lines, place};
use crate::{Door, ParseError};

/// Where profiles lie, the strongest first: both layouts, before and since TuneD 2.23.
const FOLDERS: [&str; 4] = ["/etc/tuned/profiles", "/etc/tuned", "/usr/lib/tuned/profiles", "/usr/lib/tuned"];

/// More files than any real profile includes.
const MAX_FILES: usize = 100;

/// More profiles than anybody names, each as often as it is named.
const MOST_NAMED: usize = 1000;

/// Options of a profile and all that it includes; the largest that TuneD comes with has some two hundred.
const MOST_OPTIONS: usize = 4096;

/// Bytes of what all variables of a profile stand for together.
const MOST_OF_VARIABLES: usize = 1 << 20;

/// What one option may become, however many variables it names.
const MOST_TEXT: usize = 16 << 10;

/// Words that profiles add to the kernel's line, which takes 4 KiB at most.
const MOST_WORDS: usize = 4096;

/// An option of a section, and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// File.
    pub file: String,
    /// Line, from 1.
    pub line: u64,
    /// Name.
    pub key: String,
    /// Without comment and surrounding blanks.
    pub value: String,
}

/// A section's settings in order; of one name the last counts and keeps the first one's place in the order.
pub type Section = Vec<Setting>;

/// Sections of a profile by name.
pub type Sections = BTreeMap<String, Section>;

/// The active profile. Absent where TuneD has none, malformed where it could not be loaded.
pub fn read(door: &mut Door<'_>) -> Observed<Tuned> {
    let active = door.read("/etc/tuned/active_profile");
    active.and_then(|bytes| {
        let names: Vec<String> = String::from_utf8_lossy(&bytes).split_whitespace().map(str::to_owned).collect();
        if names.is_empty() {
            return Observed::Absent;
        }
        let mut loader = Loader::new(door);
        match loader.load_all(&names).and_then(|()| variables_of(&loader.merged).map(drop)) {
            Ok(()) => {
                let merged = loader.merged;
                let here = if condition::any(merged.values()) { Here::read(door) } else { Here::default() };
                let (mut tuned, mut undecided) = describe(names.join(" "), &merged, &here);
                if !tuned.sysctl.is_empty() {
                    tuned.reapplied = reapplied::read(door);
                }
                door.unread.append(&mut undecided);
                Observed::Known(tuned)
            }
            Err(why) => {
                let why = why.map::<Tuned>(|never| match never {});
                loader.door.note(&format!("tuned profile {}", names.join(" ")), &why);
                why
            }
        }
    })
}

/// Why a profile could not be loaded: never known, never absent.
type Failure = Observed<std::convert::Infallible>;

struct Loader<'a, 'b> {
    door: &'a mut Door<'b>,
    /// Files read to their end.
    done: Vec<String>,
    /// Profiles that are being read, outermost first: name and file.
    open: Vec<(String, String)>,
    /// How often a profile was named.
    named: usize,
    merged: Sections,
    /// Scripts by section: those of a profile come after those of what it includes, and none takes another's place.
    scripts: Vec<(String, Setting)>,
}

impl<'a, 'b> Loader<'a, 'b> {
    const fn new(door: &'a mut Door<'b>) -> Self {
        Self { door, done: Vec::new(), open: Vec::new(), named: 0, merged: Sections::new(), scripts: Vec::new() }
    }

    fn load_all(&mut self, names: &[String]) -> Result<(), Failure> {
        names.iter().try_for_each(|name| self.load(name))
    }

    fn load(&mut self, name: &str) -> Result<(), Failure> {
        let malformed = |why: String| Err(Observed::Malformed(why));
        self.named += 1;
        if self.named > MOST_NAMED {
            return malformed(format!("profiles are named more than {MOST_NAMED} times"));
        }
        let good = |character: char| character.is_ascii_alphanumeric() || "_.-".contains(character);
        if name.is_empty() || !name.chars().all(good) || name.starts_with("..") {
            return malformed(format!("\"{name}\" is no profile's name"));
        }
        let candidates: Vec<String> = FOLDERS
            .iter()
            .map(|folder| format!("{folder}/{name}/tuned.conf"))
            .filter(|file| !self.door.source.read(file).is_absent())
            .collect();
        // A profile in /etc may include the one of the same name in /usr/lib: files in use are passed over.
        let Some(file) = candidates.iter().find(|file| !self.in_use(file)) else {
            return match (candidates.is_empty(), candidates.iter().any(|file| self.done.contains(file))) {
                (true, _) => malformed(format!("profile {name} is not there")),
                (false, true) => Ok(()),
                (false, false) => {
                    let chain: Vec<&str> = self.open.iter().map(|(name, _)| name.as_str()).chain([name]).collect();
                    malformed(format!("profiles include each other: {}", chain.join(" > ")))
                }
            };
        };
        if self.done.len() + self.open.len() >= MAX_FILES {
            return malformed(format!("more than {MAX_FILES} profiles include each other"));
        }
        let profile = match self.door.parse(file, |bytes| parse(file, bytes)) {
            Observed::Known(profile) => profile,
            Observed::Absent => return malformed(format!("{file} went away")),
            Observed::Denied => return Err(Observed::Denied),
            Observed::Malformed(why) => return malformed(format!("{file}: {why}")),
        };
        self.open.push((name.to_owned(), file.clone()));
        let variables = |own: &Sections, merged: &Sections| -> Result<_, Failure> {
            let mut all = variables_of(merged)?;
            all.extend(variables_of(own)?);
            Ok(all)
        };
        if let Some(include) = profile.get("main").and_then(|main| option(main, "include")) {
            let names = expanded(&include.value, &variables(&profile, &self.merged)?);
            let names: Vec<String> = names.split([',', ';']).map(|name| name.trim().to_owned()).collect();
            self.load_all(&names)?;
        }
        self.open.pop();
        self.done.push(file.clone());
        self.scripts.retain(|(name, _)| profile.get(name).and_then(|newer| is_true(newer, "replace")) != Some(true));
        self.scripts.extend(started::of_profile(&profile));
        merge(&mut self.merged, profile);
        if self.merged.values().map(Vec::len).sum::<usize>() > MOST_OPTIONS {
            return malformed(format!("profiles with more than {MOST_OPTIONS} options"));
        }
        Ok(())
    }

    fn in_use(&self, file: &str) -> bool {
        self.done.iter().any(|done| done == file) || self.open.iter().any(|(_, open)| open == file)
    }
}

/// Sections of one profile. Options are `key = value`, comments start with `#` or `;`, or after a blank with `#`.
///
/// # Errors
/// An option before the first section, which TuneD refuses too; more options than any profile has.
pub fn parse(file: &str, bytes: &[u8]) -> Result<Sections, ParseError> {
    let mut sections = Sections::new();
    let mut current: Option<String> = None;
    let mut count = 0;
    for (line, text) in lines(bytes) {
        let text = text.trim();
        if text.is_empty() || text.starts_with(['#', ';']) {
            continue;
        }
        let text =
            [" #", "\t#"].iter().filter_map(|mark| text.find(mark)).min().and_then(|at| text.get(..at)).unwrap_or(text);
        if let Some((name, _)) = text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            sections.entry(name.trim().to_owned()).or_default();
            current = Some(name.trim().to_owned());
        } else if let Some((key, value)) = text.split_once('=') {
            let Some(section) = current.as_ref().and_then(|name| sections.get_mut(name)) else {
                return Err(ParseError::at(line, "an option comes before the first section"));
            };
            count += 1;
            if count > MOST_OPTIONS {
                return Err(ParseError::at(line, "more than 4096 options"));
            }
            let setting =
                Setting { file: file.to_owned(), line, key: key.trim().to_owned(), value: value.trim().to_owned() };
            set(section, setting);
        }
    }
    Ok(sections)
}

fn set(section: &mut Section, setting: Setting) {
    match section.iter_mut().find(|other| other.key == setting.key) {
        Some(other) => *other = setting,
        None => section.push(setting),
    }
}

fn option<'a>(section: &'a Section, key: &str) -> Option<&'a Setting> {
    section.iter().find(|setting| setting.key == key)
}

fn is_true(section: &Section, key: &str) -> Option<bool> {
    let value = option(section, key)?.value.to_ascii_lowercase();
    Some(["1", "true", "yes", "y", "on"].contains(&value.as_str()))
}

/// The newer profile's options win; `replace=1` drops all older ones of its section, `drop=` those named.
fn merge(merged: &mut Sections, newer: Sections) {
    for (name, section) in newer {
        let older = merged.entry(name).or_default();
        if is_true(&section, "replace") == Some(true) {
            *older = section;
            continue;
        }
        if let Some(dropped) = option(&section, "drop") {
            let dropped: BTreeSet<&str> = dropped.value.split([',', ';']).map(str::trim).collect();
            older.retain(|setting| !dropped.contains(setting.key.as_str()));
        }
        // Whether a section is enabled, and of which plugin it is, is the newest profile's word alone.
        older.retain(|setting| !matches!(setting.key.as_str(), "enabled" | "type"));
        section.into_iter().for_each(|setting| set(older, setting));
    }
}

/// What the variables stand for, unless that is more than any profile needs: each may name those before it.
fn variables_of(sections: &Sections) -> Result<BTreeMap<String, String>, Failure> {
    let (mut variables, mut length) = (BTreeMap::new(), 0_usize);
    for setting in sections.get("variables").into_iter().flatten() {
        let value = expanded(&setting.value, &variables);
        length = length.saturating_add(value.len());
        if length > MOST_OF_VARIABLES {
            let at = place(&setting.file, setting.line);
            return Err(Observed::Malformed(format!("{at}: the variables expand to more than 1 MiB")));
        }
        variables.insert(setting.key.clone(), value);
    }
    Ok(variables)
}

/// `${name}` replaced where it is known; functions (`${f:...}`) stay as they are.
fn expanded(text: &str, variables: &BTreeMap<String, String>) -> String {
    // Where braces do not close, all that follows is looked through for each of them.
    if text.len() > MOST_TEXT {
        return text.to_owned();
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        out.push_str(before);
        match after.split_once('}').and_then(|(name, tail)| Some((variables.get(name)?, tail))) {
            // A variable that doubles itself over and over must not fill the memory.
            Some((value, tail)) if out.len() + value.len() <= MOST_TEXT => {
                out.push_str(value);
                rest = tail;
            }
            _ => {
                out.push_str("${");
                rest = after;
            }
        }
    }
    out + rest
}

fn unquoted(value: &str) -> &str {
    let inner = |quote: char| value.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote));
    inner('"').or_else(|| inner('\'')).unwrap_or(value)
}

/// Picks what bears on memory out of a merged profile, and says which sections may be this machine's or not.
pub fn describe(profile: String, merged: &Sections, here: &Here) -> (Tuned, Vec<Unread>) {
    let variables = variables_of(merged).unwrap_or_default();
    let enabled = merged.iter().filter(|(_, section)| is_true(section, "enabled") != Some(false));
    let mut tuned = Tuned {
        profile,
        transparent_hugepages: Observed::Absent,
        sysctl: Vec::new(),
        reapplied: Observed::Absent,
        command_line: Vec::new(),
    };
    let mut undecided = Vec::new();
    for (name, section) in enabled {
        // A section is an instance of the plugin that `type` names, or that it is named after.
        let plugin = option(section, "type").map_or(name.as_str(), |setting| setting.value.as_str());
        if !matches!(plugin, "vm" | "sysctl" | "bootloader") {
            continue;
        }
        match here.is_of(section, &variables) {
            Ok(true) => {}
            Ok(false) => continue,
            Err(why) => {
                if plugin == "vm" && section.iter().any(|setting| is_thp(&setting.key)) {
                    tuned.transparent_hugepages = Observed::Malformed(why.to_string());
                }
                let what = format!("tuned profile {}, [{name}]", tuned.profile);
                undecided.push(Unread { what, why: Reason::untold(why.to_string()) });
                continue;
            }
        }
        for setting in section {
            let value = expanded(&setting.value, &variables);
            let at = place(&setting.file, setting.line);
            match (plugin, setting.key.as_str()) {
                ("vm", key) if is_thp(key) => {
                    tuned.transparent_hugepages = Observed::Known((unquoted(&value).to_owned(), at));
                }
                ("sysctl", key) if is_of_section(key) => {}
                ("sysctl", key) => {
                    let key = super::sysctl::dotted(key);
                    tuned.sysctl.push(SysctlAssignment { key, value: unquoted(&value).to_owned(), place: at });
                }
                ("bootloader", key) if key.starts_with("cmdline") => {
                    apply_words(unquoted(&value), &mut tuned.command_line)
                }
                _ => {}
            }
        }
    }
    (tuned, undecided)
}

fn is_thp(key: &str) -> bool {
    matches!(key, "transparent_hugepages" | "transparent_hugepage")
}

/// Options that every section may have, whatever its plugin (`profiles/unit.py`).
fn is_of_section(key: &str) -> bool {
    matches!(
        key,
        "enabled"
            | "replace"
            | "prepend"
            | "drop"
            | "type"
            | "devices"
            | "devices_udev_regex"
            | "uname_regex"
            | "cpuinfo_regex"
            | "script_pre"
            | "script_post"
            | "priority"
    )
}

/// `+words` and plain words are added, `-words` are taken away; a backslash lets a word start with a sign.
fn apply_words(value: &str, words: &mut Vec<String>) {
    if let Some(removed) = value.strip_prefix('-') {
        let removed: BTreeSet<&str> = removed.split_whitespace().collect();
        words.retain(|word| !removed.contains(word.as_str()));
    } else {
        let added = value.strip_prefix(['+', '\\']).unwrap_or(value).split_whitespace();
        // What is beyond these the kernel cuts off.
        words.extend(added.take(MOST_WORDS.saturating_sub(words.len())).map(str::to_owned));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::{Machine, MapSource};

    fn active(profile: &str) -> MapSource {
        MapSource::new().file("/etc/tuned/active_profile", profile)
    }

    fn tuned(source: &MapSource) -> Tuned {
        match read(&mut Door::new(source)) {
            Observed::Known(tuned) => tuned,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn later_profiles_override_their_includes() {
        let source = active("oracle-db\n")
            .file("/etc/tuned/oracle-db/tuned.conf", "[main]\ninclude=oracle\n[variables]\nn=64\n[bootloader]\ncmdline_hp=+hugepagesz=1G hugepages=${n}\n[sysctl]\nvm.nr_hugepages = 512 # ours\n")
            .file("/usr/lib/tuned/oracle/tuned.conf", "[main]\ninclude=throughput-performance\n\n[sysctl]\nvm.swappiness = 10\nkernel.shmmax=\"4398046511104\"\n[vm]\ntransparent_hugepages=never\n")
            .file("/usr/lib/tuned/profiles/throughput-performance/tuned.conf", "[vm]\ntransparent_hugepages=always\n[sysctl]\nvm.swappiness=30\nvm.nr_hugepages=0\n");
        let tuned = tuned(&source);
        let (thp, at) = tuned.transparent_hugepages.into_known().unwrap();
        assert_eq!((thp.as_str(), at.to_string().as_str()), ("never", "/usr/lib/tuned/oracle/tuned.conf:8"));
        let value = |key: &str| tuned.sysctl.iter().find(|a| a.key == key).map(|a| a.value.as_str());
        assert_eq!(value("vm.swappiness"), Some("10"));
        assert_eq!(value("vm.nr_hugepages"), Some("512"));
        assert_eq!(value("kernel.shmmax"), Some("4398046511104"));
        assert_eq!(tuned.command_line, ["hugepagesz=1G", "hugepages=64"]);
        assert_eq!(tuned.profile, "oracle-db");
    }

    #[test]
    fn a_section_for_one_model_of_processor_is_that_processors_alone() {
        let text = "[variables]\narm_cpuinfo_regex=CPU part\\s+:\\s+0x516\n[vm]\ntransparent_hugepages=always\n\
            [vm.arm]\ntype=vm\nuname_regex=aarch64\ncpuinfo_regex=${arm_cpuinfo_regex}\ntransparent_hugepages=never\n\
            [sysctl.arm]\ntype=sysctl\nuname_regex=aarch64\nvm.swappiness=1\n";
        let on = |machine: &str, cpuinfo: &'static str| {
            let machine = Machine { architecture: Observed::Known(machine.into()), ..Machine::default() };
            let source = active("base")
                .file("/usr/lib/tuned/base/tuned.conf", text)
                .file("/proc/sys/kernel/hostname", "db7")
                .file("/proc/sys/kernel/osrelease", "6.1.0")
                .file("/proc/sys/kernel/version", "#1 SMP");
            let source = source.file("/proc/cpuinfo", cpuinfo).machine(machine);
            let mut door = Door::new(&source);
            let tuned = read(&mut door).into_known().unwrap();
            assert_eq!(door.unread, []);
            let keys: Vec<String> = tuned.sysctl.into_iter().map(|assignment| assignment.key).collect();
            (tuned.transparent_hugepages.into_known().unwrap().0, keys)
        };
        assert_eq!(on("aarch64", "CPU part\t: 0x516\n"), ("never".to_owned(), vec!["vm.swappiness".to_owned()]));
        assert_eq!(on("aarch64", "CPU part\t: 0xd0c\n"), ("always".to_owned(), vec!["vm.swappiness".to_owned()]));
        assert_eq!(on("x86_64", "model name\t: a\n"), ("always".to_owned(), vec![]));
    }

    #[test]
    fn a_section_that_may_be_this_machines_or_not_leaves_thp_unknown() {
        let text = "[vm]\ntransparent_hugepages=always\n[vm.x]\ntype=vm\ncpuinfo_regex=(?!AMD)\ntransparent_hugepages=never\n\
            [disk.x]\ntype=disk\ncpuinfo_regex=(?!AMD)\n";
        let source =
            active("base").file("/usr/lib/tuned/base/tuned.conf", text).file("/proc/cpuinfo", "model name: a\n");
        let mut door = Door::new(&source);
        let tuned = read(&mut door).into_known().unwrap();
        assert!(matches!(tuned.transparent_hugepages, Observed::Malformed(_)), "{tuned:?}");
        let said: Vec<&str> = door.unread.iter().map(|unread| unread.what.as_str()).collect();
        assert_eq!(said, ["tuned profile base, [vm.x]"]);
    }

    #[test]
    fn several_profiles_merge_in_order() {
        let source = active("a b\n")
            .file("/usr/lib/tuned/a/tuned.conf", "[vm]\ntransparent_hugepages=always\n[sysctl]\nx.y=1\n")
            .file("/usr/lib/tuned/b/tuned.conf", "[vm]\nenabled=false\n[sysctl]\nreplace=1\nz.z=2\n");
        let tuned = tuned(&source);
        assert!(tuned.transparent_hugepages.is_absent());
        let keys: Vec<_> = tuned.sysctl.iter().map(|a| a.key.as_str()).collect();
        assert_eq!(keys, ["z.z"]);
    }

    #[test]
    fn etc_hides_usr_and_may_include_it() {
        let source = active("p")
            .file("/etc/tuned/p/tuned.conf", "[main]\ninclude=p\n[sysctl]\na.b=2\n")
            .file("/usr/lib/tuned/p/tuned.conf", "[sysctl]\na.b=1\nc.d=1\n");
        let tuned = tuned(&source);
        assert_eq!(tuned.sysctl.iter().map(|a| a.value.as_str()).collect::<Vec<_>>(), ["2", "1"]);
    }

    #[test]
    fn loops_and_gaps_are_malformed() {
        let source = active("a")
            .file("/usr/lib/tuned/a/tuned.conf", "[main]\ninclude=b\n")
            .file("/usr/lib/tuned/b/tuned.conf", "[main]\ninclude = x, a\n")
            .file("/usr/lib/tuned/x/tuned.conf", "[main]\n");
        let why = Observed::Malformed("profiles include each other: a > b > a".to_owned());
        let mut door = Door::new(&source);
        assert_eq!(read(&mut door).map(|_| ()), why.map(|_: ()| ()));
        assert_eq!(door.unread.len(), 1);
        assert!(matches!(read(&mut Door::new(&active("none"))), Observed::Malformed(_)));
        assert!(matches!(read(&mut Door::new(&active("../../x"))), Observed::Malformed(_)));
        assert_eq!(read(&mut Door::new(&active("\n"))), Observed::Absent);
        assert_eq!(read(&mut Door::new(&MapSource::new())), Observed::Absent);
    }

    #[test]
    fn one_profile_included_twice_is_no_loop() {
        let source = active("a b")
            .file("/usr/lib/tuned/a/tuned.conf", "[main]\ninclude=base\n")
            .file("/usr/lib/tuned/b/tuned.conf", "[main]\ninclude=base\n")
            .file("/usr/lib/tuned/base/tuned.conf", "[sysctl]\na.b=1\n");
        assert_eq!(tuned(&source).sysctl.len(), 1);
    }

    /// Each would take minutes to hours, or gigabytes.
    #[test]
    fn profiles_that_no_host_has_are_not_worked_out_and_that_is_said() {
        let lines = |count: usize, line: &dyn Fn(usize) -> String| (0..count).map(line).collect::<String>();
        let keys = format!("[sysctl]\n{}", lines(300_000, &|at| format!("a{at}=1\n")));
        let doubled = lines(4000, &|at| format!("a{at}=${{a{}}}${{a{}}}\n", at.wrapping_sub(1), at.wrapping_sub(1)));
        let doubled = format!("[variables]\na=x\na18446744073709551615=x\n{doubled}[sysctl]\nb=${{a3999}}\n");
        let named = format!("[main]\ninclude=b{}\n", ",b".repeat(5000));
        for (text, why) in [
            (keys.as_str(), "more than 4096 options"),
            (doubled.as_str(), "the variables expand to more than 1 MiB"),
            (named.as_str(), "named more than 1000 times"),
        ] {
            let source = active("a")
                .file("/usr/lib/tuned/a/tuned.conf", text)
                .file("/usr/lib/tuned/b/tuned.conf", "[sysctl]\nx.y=1\n");
            let mut door = Door::new(&source);
            let Observed::Malformed(said) = read(&mut door) else { panic!("{why}: it is known") };
            assert!(said.contains(why), "{said}");
            assert!(!door.unread.is_empty());
        }
        // Several files, each within bounds.
        let source = (0..3).fold(active("p0 p1 p2"), |source, profile| {
            let text = format!("[sysctl]\n{}", lines(2000, &|at| format!("p{profile}.a{at}=1\n")));
            source.file(&format!("/usr/lib/tuned/p{profile}/tuned.conf"), text)
        });
        let Observed::Malformed(said) = read(&mut Door::new(&source)) else { panic!("it is known") };
        assert!(said.contains("profiles with more than 4096 options"), "{said}");
        let cut = format!("[bootloader]\ncmdline_a=+{}\n", "a ".repeat(30_000));
        assert!(tuned(&active("a").file("/usr/lib/tuned/a/tuned.conf", cut)).command_line.len() <= MOST_WORDS);
    }
}
