//! Options that bind a section of a profile to some machines: TuneD searches for their pattern in what `uname` says, or in
//! /proc/cpuinfo, and passes the section over where it is not found (`units/manager.py`).

use std::collections::BTreeMap;

use hugewise_model::configuration::Place;
use hugewise_model::{Observed, Reason};
use regex_lite::{Regex, RegexBuilder};

use super::{Section, Setting, expanded, option};
use crate::Door;
use crate::config::files::place;

/// The options, and what each is searched in.
const CONDITIONS: [(&str, What); 2] = [("uname_regex", What::Uname), ("cpuinfo_regex", What::Cpuinfo)];

/// What patterns are searched in on this machine.
#[derive(Clone, Debug, Default)]
pub struct Here {
    /// Name, release, version and architecture of the kernel, those that are known.
    uname: String,
    /// What is not known of these.
    unnamed: Option<&'static str>,
    /// /proc/cpuinfo.
    cpuinfo: Observed<String>,
}

/// Which condition cannot be decided, where it stands, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{at}: cannot tell whether {key} holds here: {why}")]
pub(super) struct Undecided {
    at: Place,
    key: String,
    why: Why,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum Why {
    #[error("it uses an unknown variable")]
    Variable,
    #[error("hugewise does not understand the pattern {pattern:?} ({error})")]
    Pattern { pattern: String, error: String },
    #[error("/proc/cpuinfo: {0}")]
    Cpuinfo(Reason),
    #[error("the kernel's {0} is not known")]
    Unnamed(&'static str),
}

#[derive(Clone, Copy)]
enum What {
    Uname,
    Cpuinfo,
}

/// Whether any section depends on the machine.
pub(super) fn any<'a>(mut sections: impl Iterator<Item = &'a Section>) -> bool {
    sections.any(|section| CONDITIONS.iter().any(|(key, _)| option(section, key).is_some()))
}

impl Here {
    /// As `" ".join(os.uname())` and /proc/cpuinfo have it.
    pub(super) fn read(door: &mut Door<'_>) -> Self {
        let mut words = Vec::new();
        let mut unnamed = None;
        let mut add = |what: &'static str, word: Option<String>| match word {
            Some(word) => words.push(word),
            None => unnamed = unnamed.or(Some(what)),
        };
        let mut line = |path: &str| {
            let text = door.read(path).into_known()?;
            Some(String::from_utf8_lossy(&text).trim().to_owned()).filter(|text| !text.is_empty())
        };
        let release = line("/proc/sys/kernel/osrelease");
        // Whatever is read here runs Linux.
        add("its name", Some(line("/proc/sys/kernel/ostype").unwrap_or_else(|| "Linux".into())));
        add("the host's name", line("/proc/sys/kernel/hostname"));
        add("its release", release.clone());
        add("its version", line("/proc/sys/kernel/version"));
        let of_release = || {
            let (_, end) = release.as_ref()?.rsplit_once('.')?;
            ["x86_64", "aarch64", "ppc64le", "s390x"].contains(&end).then(|| end.to_owned())
        };
        add("its architecture", door.source.machine().architecture.into_known().or_else(of_release));
        let cpuinfo = door.read("/proc/cpuinfo").map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        Self { uname: words.join(" "), unnamed, cpuinfo }
    }

    /// Whether a section is this machine's.
    ///
    /// # Errors
    /// Which condition cannot be decided, where it stands, and why.
    pub(super) fn is_of(&self, section: &Section, variables: &BTreeMap<String, String>) -> Result<bool, Undecided> {
        let mut undecided = None;
        for (key, what) in CONDITIONS {
            let Some(setting) = option(section, key) else { continue };
            match self.holds(setting, what, variables) {
                Ok(true) => {}
                // One that does not hold decides, whatever the other one says.
                Ok(false) => return Ok(false),
                Err(why) => undecided = undecided.or(Some((setting, why))),
            }
        }
        match undecided {
            None => Ok(true),
            Some((setting, why)) => {
                Err(Undecided { at: place(&setting.file, setting.line), key: setting.key.clone(), why })
            }
        }
    }

    fn holds(&self, setting: &Setting, what: What, variables: &BTreeMap<String, String>) -> Result<bool, Why> {
        let pattern = expanded(&setting.value, variables);
        if pattern.contains("${") {
            return Err(Why::Variable);
        }
        let pattern = regex(&pattern)?;
        match what {
            What::Cpuinfo => match &self.cpuinfo {
                Observed::Known(text) => Ok(pattern.is_match(text)),
                other => Err(Why::Cpuinfo(other.why().unwrap_or(Reason::Absent))),
            },
            What::Uname => match (pattern.is_match(&self.uname), self.unnamed) {
                (true, _) => Ok(true),
                (false, None) => Ok(false),
                (false, Some(missing)) => Err(Why::Unnamed(missing)),
            },
        }
    }
}

/// As Python's `re` reads it with MULTILINE. What only Python's has (a look ahead, a reference back) is an error.
fn regex(pattern: &str) -> Result<Regex, Why> {
    let built = RegexBuilder::new(pattern).multi_line(true).size_limit(1 << 20).build();
    built.map_err(|error| Why::Pattern { pattern: pattern.to_owned(), error: error.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::{Machine, MapSource};

    const EPYC: &str = "processor\t: 0\nvendor_id\t: AuthenticAMD\nmodel name\t: AMD EPYC 7763 64-Core Processor\n";

    fn here(machine: &str, cpuinfo: Option<&str>) -> Here {
        let machine = Machine { architecture: Observed::Known(machine.into()), ..Machine::default() };
        let mut source = MapSource::new()
            .file("/proc/sys/kernel/ostype", "Linux\n")
            .file("/proc/sys/kernel/hostname", "db7\n")
            .file("/proc/sys/kernel/osrelease", "6.1.0-18-amd64\n")
            .file("/proc/sys/kernel/version", "#1 SMP PREEMPT_DYNAMIC Debian 6.1.76-1\n")
            .machine(machine);
        if let Some(cpuinfo) = cpuinfo {
            source = source.file("/proc/cpuinfo", cpuinfo);
        }
        Here::read(&mut Door::new(&source))
    }

    fn section(conditions: &[(&str, &str)]) -> Section {
        let setting = |(key, value): &(&str, &str)| Setting {
            file: "/f".into(),
            line: 3,
            key: (*key).into(),
            value: (*value).into(),
        };
        conditions.iter().map(setting).collect()
    }

    /// The patterns are those of TuneD's own throughput-performance.
    #[test]
    fn patterns_are_searched_in_what_the_machine_says() {
        let amd = section(&[("uname_regex", "x86_64"), ("cpuinfo_regex", "${amd}")]);
        let thunder = section(&[("uname_regex", "aarch64"), ("cpuinfo_regex", "${thunder}")]);
        let variables = BTreeMap::from([
            ("amd".to_owned(), r"model name\s+:.*\bAMD\b".to_owned()),
            ("thunder".to_owned(), r"CPU part\s+:\s+(0x0?516)|(0x0?af)|(0x0?a[0-3])|(0x0?b8)\b".to_owned()),
        ]);
        let epyc = here("x86_64", Some(EPYC));
        assert_eq!(epyc.is_of(&amd, &variables), Ok(true));
        assert_eq!(epyc.is_of(&thunder, &variables), Ok(false));
        let arm = here("aarch64", Some("processor\t: 0\nCPU implementer\t: 0x43\nCPU part\t: 0x0af\n"));
        assert_eq!(arm.is_of(&amd, &variables), Ok(false));
        assert_eq!(arm.is_of(&thunder, &variables), Ok(true));
        let start_of_line = section(&[("cpuinfo_regex", "^vendor_id.*AMD$")]);
        assert_eq!(epyc.is_of(&start_of_line, &variables), Ok(true));
        let whole = section(&[("uname_regex", "^Linux db7 6.1.0-18-amd64 #1 SMP .* x86_64$")]);
        assert_eq!(epyc.is_of(&whole, &variables), Ok(true));
    }

    #[test]
    fn what_cannot_be_decided_is_said() {
        let of = |here: &Here, conditions: &[(&str, &str)]| here.is_of(&section(conditions), &BTreeMap::new());
        let epyc = here("x86_64", Some(EPYC));
        let look_ahead = of(&epyc, &[("cpuinfo_regex", "AMD(?= EPYC)")]).unwrap_err().to_string();
        assert!(look_ahead.starts_with("/f:3: cannot tell whether cpuinfo_regex holds here: "), "{look_ahead}");
        assert!(of(&epyc, &[("cpuinfo_regex", "${gone}")]).unwrap_err().to_string().contains("variable"));
        let blind = here("x86_64", None);
        assert!(of(&blind, &[("cpuinfo_regex", "AMD")]).unwrap_err().to_string().contains("/proc/cpuinfo"));
        assert_eq!(of(&blind, &[("uname_regex", "aarch64"), ("cpuinfo_regex", "AMD")]), Ok(false));
        let nameless =
            Here::read(&mut Door::new(&MapSource::new().file("/proc/sys/kernel/osrelease", "5.14.0.x86_64\n")));
        assert_eq!(of(&nameless, &[("uname_regex", "x86_64")]), Ok(true));
        assert!(of(&nameless, &[("uname_regex", "aarch64")]).unwrap_err().to_string().contains("the host's name"));
    }
}
