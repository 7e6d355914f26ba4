//! The active profile of TuneD with its includes merged, as TuneD's loader and merger do.

mod condition;
mod profile_actions;
mod reapplied;

use std::collections::{BTreeMap, BTreeSet};

use hugewise_model::{
    Observed, Reason, Unread, configuration::SysctlAssignment, configuration::Tuned,
};

pub use condition::ConditionHost;
pub(crate) use profile_actions::read_profile_actions;

use super::files::{file_location, numbered_lines};
use hugewise_source::{FactReader, ParseError};

/// Where profiles lie, the strongest first: both layouts, before and since TuneD 2.23.
const FOLDERS: [&str; 4] =
    ["/etc/tuned/profiles", "/etc/tuned", "/usr/lib/tuned/profiles", "/usr/lib/tuned"];

/// More files than any real profile includes.
const MAX_FILES: usize = 100;

/// More profiles than anybody names, each as often as it is named.
const MOST_NAMED: usize = 1000;

/// Options of a profile with all that it includes; TuneD's largest has some two hundred.
const MOST_OPTIONS: usize = 4096;

/// Bytes of what all variables of a profile stand for together.
const MOST_OF_VARIABLES: usize = 1 << 20;

/// What one option may become, however many variables it names.
const MOST_TEXT: usize = 16 << 10;

/// Words that profiles add to the kernel's line, which takes 4 KiB at most.
const MOST_WORDS: usize = 4096;

/// An option of a section, and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TunedOption {
    /// File.
    pub file: String,
    /// Line, from 1.
    pub line: u64,
    /// Name.
    pub key: String,
    /// Without comment and surrounding blanks.
    pub value: String,
}

/// Options in order; of one name the last counts, in the place of the first.
pub type TunedSection = Vec<TunedOption>;

/// Sections of a profile by name.
pub type Sections = BTreeMap<String, TunedSection>;

/// The active profile. Absent where TuneD has none, malformed where it could not be loaded.
pub fn read(door: &mut FactReader<'_>) -> Observed<Tuned> {
    let active = door.read("/etc/tuned/active_profile");
    active.and_then(|bytes| {
        let names: Vec<String> =
            String::from_utf8_lossy(&bytes).split_whitespace().map(str::to_owned).collect();
        if names.is_empty() {
            return Observed::Absent;
        }
        let mut loader = ProfileLoader::new(door);
        match loader.load_all(&names).and_then(|()| variables_of(&loader.merged).map(drop)) {
            Ok(()) => {
                let merged = loader.merged;
                let here = if condition::has_conditions(merged.values()) {
                    ConditionHost::read(door)
                } else {
                    ConditionHost::default()
                };
                let (mut tuned, mut undecided) = describe_profile(names.join(" "), &merged, &here);
                if !tuned.sysctl.is_empty() {
                    tuned.reapplied = reapplied::read(door);
                }
                door.unread.append(&mut undecided);
                Observed::Known(tuned)
            }
            Err(why) => {
                let why = why.map::<Tuned>(|never| match never {});
                loader.door.note_unknown(&format!("tuned profile {}", names.join(" ")), &why);
                why
            }
        }
    })
}

/// Why a profile could not be loaded: never known, never absent.
type ProfileFailure = Observed<std::convert::Infallible>;

struct ProfileLoader<'a, 'b> {
    door: &'a mut FactReader<'b>,
    done: Vec<String>,
    /// Profiles that are being read, outermost first: name and file.
    open: Vec<(String, String)>,
    named: usize,
    merged: Sections,
    /// By section: those of a profile come after those of what it includes, and replace none.
    scripts: Vec<(String, TunedOption)>,
}

impl<'a, 'b> ProfileLoader<'a, 'b> {
    const fn new(door: &'a mut FactReader<'b>) -> Self {
        Self {
            door,
            done: Vec::new(),
            open: Vec::new(),
            named: 0,
            merged: Sections::new(),
            scripts: Vec::new(),
        }
    }

    fn load_all(&mut self, names: &[String]) -> Result<(), ProfileFailure> {
        names.iter().try_for_each(|name| self.load_profile(name))
    }

    fn load_profile(&mut self, name: &str) -> Result<(), ProfileFailure> {
        let malformed = |why: String| Err(Observed::Malformed(why));
        self.named += 1;
        if self.named > MOST_NAMED {
            return malformed(format!("profiles are named more than {MOST_NAMED} times"));
        }
        let Some(file) = self.find_profile_file(name)? else { return Ok(()) };
        if self.done.len() + self.open.len() >= MAX_FILES {
            return malformed(format!("more than {MAX_FILES} profiles include each other"));
        }
        let profile = match self.door.parse(&file, |bytes| parse(&file, bytes)) {
            Observed::Known(profile) => profile,
            Observed::Absent => return malformed(format!("{file} went away")),
            Observed::Denied => return Err(Observed::Denied),
            Observed::Malformed(why) => return malformed(format!("{file}: {why}")),
        };
        self.open.push((name.to_owned(), file.clone()));
        self.load_includes(&profile)?;
        self.open.pop();
        self.done.push(file);
        self.scripts.retain(|(name, _)| {
            profile.get(name).and_then(|newer| is_true(newer, "replace")) != Some(true)
        });
        self.scripts.extend(profile_actions::of_profile(&profile));
        merge_sections(&mut self.merged, profile);
        if self.merged.values().map(Vec::len).sum::<usize>() > MOST_OPTIONS {
            return malformed(format!("profiles with more than {MOST_OPTIONS} options"));
        }
        Ok(())
    }

    /// The file of a profile that is to be read; `None` where it was read before.
    fn find_profile_file(&self, name: &str) -> Result<Option<String>, ProfileFailure> {
        let malformed = |why: String| Err(Observed::Malformed(why));
        let good = |character: char| character.is_ascii_alphanumeric() || "_.-".contains(character);
        if name.is_empty() || !name.chars().all(good) || name.starts_with("..") {
            return malformed(format!("\"{name}\" is no profile's name"));
        }
        let candidates: Vec<String> = FOLDERS
            .iter()
            .map(|folder| format!("{folder}/{name}/tuned.conf"))
            .filter(|file| !self.door.source.read(file).is_absent())
            .collect();
        // Files in use are passed over: one in /etc may include that of its name in /usr/lib.
        if let Some(file) = candidates.iter().find(|file| !self.in_use(file)) {
            return Ok(Some(file.clone()));
        }
        if candidates.is_empty() {
            return malformed(format!("profile {name} is not there"));
        }
        if candidates.iter().any(|file| self.done.contains(file)) {
            return Ok(None);
        }
        let chain: Vec<&str> =
            self.open.iter().map(|(name, _)| name.as_str()).chain([name]).collect();
        malformed(format!("profiles include each other: {}", chain.join(" > ")))
    }

    fn load_includes(&mut self, profile: &Sections) -> Result<(), ProfileFailure> {
        let include = profile.get("main").and_then(|main| find_option(main, "include"));
        let Some(include) = include else { return Ok(()) };
        let mut variables = variables_of(&self.merged)?;
        variables.extend(variables_of(profile)?);
        let names = expand_profile_variables(&include.value, &variables);
        let names: Vec<String> =
            names.split([',', ';']).map(|name| name.trim().to_owned()).collect();
        self.load_all(&names)
    }

    fn in_use(&self, file: &str) -> bool {
        self.done.iter().any(|done| done == file) || self.open.iter().any(|(_, open)| open == file)
    }
}

/// Sections of one profile. Options are `key = value`, comments start with `#` or `;`, or after a
/// blank with `#`.
///
/// # Errors
/// An option before the first section, which TuneD refuses too; more options than any profile has.
pub fn parse(file: &str, bytes: &[u8]) -> Result<Sections, ParseError> {
    let mut sections = Sections::new();
    let mut current: Option<String> = None;
    let mut count = 0;
    for (line, text) in numbered_lines(bytes) {
        let text = text.trim();
        if text.is_empty() || text.starts_with(['#', ';']) {
            continue;
        }
        let text = [" #", "\t#"]
            .iter()
            .filter_map(|mark| text.find(mark))
            .min()
            .and_then(|at| text.get(..at))
            .unwrap_or(text);
        if let Some((name, _)) = text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            sections.entry(name.trim().to_owned()).or_default();
            current = Some(name.trim().to_owned());
        } else if let Some((key, value)) = text.split_once('=') {
            let Some(section) = current.as_ref().and_then(|name| sections.get_mut(name)) else {
                return Err(ParseError::at_line(line, "an option comes before the first section"));
            };
            count += 1;
            if count > MOST_OPTIONS {
                return Err(ParseError::at_line(line, "more than 4096 options"));
            }
            let (key, value) = (key.trim().to_owned(), value.trim().to_owned());
            set_option(section, TunedOption { file: file.to_owned(), line, key, value });
        }
    }
    Ok(sections)
}

fn set_option(section: &mut TunedSection, setting: TunedOption) {
    match section.iter_mut().find(|other| other.key == setting.key) {
        Some(other) => *other = setting,
        None => section.push(setting),
    }
}

fn find_option<'a>(section: &'a TunedSection, key: &str) -> Option<&'a TunedOption> {
    section.iter().find(|setting| setting.key == key)
}

/// A section is an instance of the plugin that `type` names, or that it is named after.
fn plugin_name<'a>(name: &'a str, section: &'a TunedSection) -> &'a str {
    find_option(section, "type").map_or(name, |setting| setting.value.as_str())
}

fn is_true(section: &TunedSection, key: &str) -> Option<bool> {
    let value = find_option(section, key)?.value.to_ascii_lowercase();
    Some(["1", "true", "yes", "y", "on"].contains(&value.as_str()))
}

/// `replace=1` drops all older options of its section, `drop=` those named.
fn merge_sections(merged: &mut Sections, newer: Sections) {
    for (name, section) in newer {
        let older = merged.entry(name).or_default();
        if is_true(&section, "replace") == Some(true) {
            *older = section;
            continue;
        }
        if let Some(dropped) = find_option(&section, "drop") {
            let dropped: BTreeSet<&str> = dropped.value.split([',', ';']).map(str::trim).collect();
            older.retain(|setting| !dropped.contains(setting.key.as_str()));
        }
        // The newest profile alone says whether a section is enabled, and of which plugin it is.
        older.retain(|setting| !matches!(setting.key.as_str(), "enabled" | "type"));
        section.into_iter().for_each(|setting| set_option(older, setting));
    }
}

/// Each may name those before it. An error where they become more than any profile needs.
fn variables_of(sections: &Sections) -> Result<BTreeMap<String, String>, ProfileFailure> {
    let (mut variables, mut length) = (BTreeMap::new(), 0_usize);
    for setting in sections.get("variables").into_iter().flatten() {
        let value = expand_profile_variables(&setting.value, &variables);
        length = length.saturating_add(value.len());
        if length > MOST_OF_VARIABLES {
            let at = file_location(&setting.file, setting.line);
            let why = format!("{at}: the variables expand to more than 1 MiB");
            return Err(Observed::Malformed(why));
        }
        variables.insert(setting.key.clone(), value);
    }
    Ok(variables)
}

/// `${name}` replaced where it is known; functions (`${f:...}`) stay as they are.
fn expand_profile_variables(text: &str, variables: &BTreeMap<String, String>) -> String {
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

fn strip_quotes(value: &str) -> &str {
    let inner = |quote: char| value.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote));
    inner('"').or_else(|| inner('\'')).unwrap_or(value)
}

/// What of a merged profile bears on memory, and which sections may be this machine's or not.
pub fn describe_profile(
    profile: String,
    merged: &Sections,
    here: &ConditionHost,
) -> (Tuned, Vec<Unread>) {
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
        let plugin = plugin_name(name, section);
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
                undecided.push(Unread { what, why: Reason::from_text(why.to_string()) });
                continue;
            }
        }
        for setting in section {
            let value = expand_profile_variables(&setting.value, &variables);
            let at = file_location(&setting.file, setting.line);
            match (plugin, setting.key.as_str()) {
                ("vm", key) if is_thp(key) => {
                    tuned.transparent_hugepages =
                        Observed::Known((strip_quotes(&value).to_owned(), at));
                }
                ("sysctl", key) if is_of_section(key) => {}
                ("sysctl", key) => {
                    let key = super::sysctl::to_dotted_key(key);
                    let value = strip_quotes(&value).to_owned();
                    tuned.sysctl.push(SysctlAssignment { key, value, place: at });
                }
                ("bootloader", key) if key.starts_with("cmdline") => {
                    apply_words(strip_quotes(&value), &mut tuned.command_line)
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

/// `-words` are taken away, others are added; a backslash lets a word start with a sign.
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
    use hugewise_source::{MachineFacts, MapSource};

    fn active(profile: &str) -> MapSource {
        MapSource::new().with_file("/etc/tuned/active_profile", profile)
    }

    fn tuned(source: &MapSource) -> Tuned {
        match read(&mut FactReader::new(source)) {
            Observed::Known(tuned) => tuned,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn later_profiles_override_their_includes() {
        let source = active("oracle-db\n")
            .with_file("/etc/tuned/oracle-db/tuned.conf", "[main]\ninclude=oracle\n[variables]\nn=64\n[bootloader]\ncmdline_hp=+hugepagesz=1G hugepages=${n}\n[sysctl]\nvm.nr_hugepages = 512 # ours\n")
            .with_file("/usr/lib/tuned/oracle/tuned.conf", "[main]\ninclude=throughput-performance\n\n[sysctl]\nvm.swappiness = 10\nkernel.shmmax=\"4398046511104\"\n[vm]\ntransparent_hugepages=never\n")
            .with_file("/usr/lib/tuned/profiles/throughput-performance/tuned.conf", "[vm]\ntransparent_hugepages=always\n[sysctl]\nvm.swappiness=30\nvm.nr_hugepages=0\n");
        let tuned = tuned(&source);
        let (thp, at) = tuned.transparent_hugepages.into_known().unwrap();
        assert_eq!(
            (thp.as_str(), at.to_string().as_str()),
            ("never", "/usr/lib/tuned/oracle/tuned.conf:8")
        );
        let value =
            |key: &str| tuned.sysctl.iter().find(|a| a.key == key).map(|a| a.value.as_str());
        assert_eq!(value("vm.swappiness"), Some("10"));
        assert_eq!(value("vm.nr_hugepages"), Some("512"));
        assert_eq!(value("kernel.shmmax"), Some("4398046511104"));
        assert_eq!(tuned.command_line, ["hugepagesz=1G", "hugepages=64"]);
        assert_eq!(tuned.profile, "oracle-db");
    }

    #[test]
    fn a_section_for_one_model_of_processor_is_that_processors_alone() {
        let text = "[variables]\narm_cpuinfo_regex=CPU \
             part\\s+:\\s+0x516\n[vm]\ntransparent_hugepages=always\n\
            [vm.arm]\ntype=vm\nuname_regex=aarch64\ncpuinfo_regex=${arm_cpuinfo_regex}\ntransparent_hugepages=never\n\
            [sysctl.arm]\ntype=sysctl\nuname_regex=aarch64\nvm.swappiness=1\n";
        let on = |machine: &str, cpuinfo: &'static str| {
            let machine = MachineFacts {
                architecture: Observed::Known(machine.into()),
                ..MachineFacts::default()
            };
            let source = active("base")
                .with_file("/usr/lib/tuned/base/tuned.conf", text)
                .with_file("/proc/sys/kernel/hostname", "db7")
                .with_file("/proc/sys/kernel/osrelease", "6.1.0")
                .with_file("/proc/sys/kernel/version", "#1 SMP");
            let source = source.with_file("/proc/cpuinfo", cpuinfo).with_machine(machine);
            let mut door = FactReader::new(&source);
            let tuned = read(&mut door).into_known().unwrap();
            assert_eq!(door.unread, []);
            let keys: Vec<String> =
                tuned.sysctl.into_iter().map(|assignment| assignment.key).collect();
            (tuned.transparent_hugepages.into_known().unwrap().0, keys)
        };
        assert_eq!(
            on("aarch64", "CPU part\t: 0x516\n"),
            ("never".to_owned(), vec!["vm.swappiness".to_owned()])
        );
        assert_eq!(
            on("aarch64", "CPU part\t: 0xd0c\n"),
            ("always".to_owned(), vec!["vm.swappiness".to_owned()])
        );
        assert_eq!(on("x86_64", "model name\t: a\n"), ("always".to_owned(), vec![]));
    }

    #[test]
    fn a_section_that_may_be_this_machines_or_not_leaves_thp_unknown() {
        let text = "[vm]\ntransparent_hugepages=always\n[vm.x]\ntype=vm\ncpuinfo_regex=(?!AMD)\ntransparent_hugepages=never\n\
            [disk.x]\ntype=disk\ncpuinfo_regex=(?!AMD)\n";
        let source = active("base")
            .with_file("/usr/lib/tuned/base/tuned.conf", text)
            .with_file("/proc/cpuinfo", "model name: a\n");
        let mut door = FactReader::new(&source);
        let tuned = read(&mut door).into_known().unwrap();
        assert!(matches!(tuned.transparent_hugepages, Observed::Malformed(_)), "{tuned:?}");
        let said: Vec<&str> = door.unread.iter().map(|unread| unread.what.as_str()).collect();
        assert_eq!(said, ["tuned profile base, [vm.x]"]);
    }

    #[test]
    fn several_profiles_merge_in_order() {
        let source = active("a b\n")
            .with_file(
                "/usr/lib/tuned/a/tuned.conf",
                "[vm]\ntransparent_hugepages=always\n[sysctl]\nx.y=1\n",
            )
            .with_file(
                "/usr/lib/tuned/b/tuned.conf",
                "[vm]\nenabled=false\n[sysctl]\nreplace=1\nz.z=2\n",
            );
        let tuned = tuned(&source);
        assert!(tuned.transparent_hugepages.is_absent());
        let keys: Vec<_> = tuned.sysctl.iter().map(|a| a.key.as_str()).collect();
        assert_eq!(keys, ["z.z"]);
    }

    #[test]
    fn etc_hides_usr_and_may_include_it() {
        let source = active("p")
            .with_file("/etc/tuned/p/tuned.conf", "[main]\ninclude=p\n[sysctl]\na.b=2\n")
            .with_file("/usr/lib/tuned/p/tuned.conf", "[sysctl]\na.b=1\nc.d=1\n");
        let tuned = tuned(&source);
        assert_eq!(tuned.sysctl.iter().map(|a| a.value.as_str()).collect::<Vec<_>>(), ["2", "1"]);
    }

    #[test]
    fn loops_and_gaps_are_malformed() {
        let source = active("a")
            .with_file("/usr/lib/tuned/a/tuned.conf", "[main]\ninclude=b\n")
            .with_file("/usr/lib/tuned/b/tuned.conf", "[main]\ninclude = x, a\n")
            .with_file("/usr/lib/tuned/x/tuned.conf", "[main]\n");
        let why = Observed::Malformed("profiles include each other: a > b > a".to_owned());
        let mut door = FactReader::new(&source);
        assert_eq!(read(&mut door).map(|_| ()), why.map(|_: ()| ()));
        assert_eq!(door.unread.len(), 1);
        assert!(matches!(read(&mut FactReader::new(&active("none"))), Observed::Malformed(_)));
        assert!(matches!(read(&mut FactReader::new(&active("../../x"))), Observed::Malformed(_)));
        assert_eq!(read(&mut FactReader::new(&active("\n"))), Observed::Absent);
        assert_eq!(read(&mut FactReader::new(&MapSource::new())), Observed::Absent);
    }

    #[test]
    fn one_profile_included_twice_is_no_loop() {
        let source = active("a b")
            .with_file("/usr/lib/tuned/a/tuned.conf", "[main]\ninclude=base\n")
            .with_file("/usr/lib/tuned/b/tuned.conf", "[main]\ninclude=base\n")
            .with_file("/usr/lib/tuned/base/tuned.conf", "[sysctl]\na.b=1\n");
        assert_eq!(tuned(&source).sysctl.len(), 1);
    }

    /// Each would take minutes to hours, or gigabytes.
    #[test]
    fn profiles_that_no_host_has_are_not_worked_out_and_that_is_said() {
        let lines =
            |count: usize, line: &dyn Fn(usize) -> String| (0..count).map(line).collect::<String>();
        let keys = format!("[sysctl]\n{}", lines(300_000, &|at| format!("a{at}=1\n")));
        let doubled = lines(4000, &|at| {
            format!("a{at}=${{a{}}}${{a{}}}\n", at.wrapping_sub(1), at.wrapping_sub(1))
        });
        let doubled =
            format!("[variables]\na=x\na18446744073709551615=x\n{doubled}[sysctl]\nb=${{a3999}}\n");
        let named = format!("[main]\ninclude=b{}\n", ",b".repeat(5000));
        for (text, why) in [
            (keys.as_str(), "more than 4096 options"),
            (doubled.as_str(), "the variables expand to more than 1 MiB"),
            (named.as_str(), "named more than 1000 times"),
        ] {
            let source = active("a")
                .with_file("/usr/lib/tuned/a/tuned.conf", text)
                .with_file("/usr/lib/tuned/b/tuned.conf", "[sysctl]\nx.y=1\n");
            let mut door = FactReader::new(&source);
            let Observed::Malformed(said) = read(&mut door) else { panic!("{why}: it is known") };
            assert!(said.contains(why), "{said}");
            assert!(!door.unread.is_empty());
        }
        // Several files, each within bounds.
        let source = (0..3).fold(active("p0 p1 p2"), |source, profile| {
            let text = format!("[sysctl]\n{}", lines(2000, &|at| format!("p{profile}.a{at}=1\n")));
            source.with_file(&format!("/usr/lib/tuned/p{profile}/tuned.conf"), text)
        });
        let Observed::Malformed(said) = read(&mut FactReader::new(&source)) else {
            panic!("it is known")
        };
        assert!(said.contains("profiles with more than 4096 options"), "{said}");
        let cut = format!("[bootloader]\ncmdline_a=+{}\n", "a ".repeat(30_000));
        assert!(
            tuned(&active("a").with_file("/usr/lib/tuned/a/tuned.conf", cut)).command_line.len()
                <= MOST_WORDS
        );
    }
}
