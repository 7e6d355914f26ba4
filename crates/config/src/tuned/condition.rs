//! Options that bind a section of a profile to some machines: TuneD searches for their pattern in
//! what `uname` says, or in /proc/cpuinfo, and passes the section over where it is not found
//! (`units/manager.py`).

use std::collections::BTreeMap;

use hugewise_model::configuration::FileLocation;
use hugewise_model::{Observed, Reason};
use regex_lite::{Regex, RegexBuilder};

use super::{TunedOption, TunedSection, expand_profile_variables, find_option};
use crate::files::file_location;
use hugewise_source::FactReader;

const CONDITIONS: [(&str, ConditionSubject); 2] =
    [("uname_regex", ConditionSubject::Uname), ("cpuinfo_regex", ConditionSubject::Cpuinfo)];

/// What patterns are searched in on this machine.
#[derive(Clone, Debug, Default)]
pub struct ConditionHost {
    /// Name, release, version and architecture of the kernel, those that are known.
    uname: String,
    unnamed: Option<&'static str>,
    cpuinfo: Observed<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{at}: cannot tell whether {key} holds here: {why}")]
pub(super) struct Undecided {
    at: FileLocation,
    key: String,
    why: UndecidedReason,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum UndecidedReason {
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
enum ConditionSubject {
    Uname,
    Cpuinfo,
}

pub(super) fn has_conditions<'a>(mut sections: impl Iterator<Item = &'a TunedSection>) -> bool {
    sections.any(|section| CONDITIONS.iter().any(|(key, _)| find_option(section, key).is_some()))
}

impl ConditionHost {
    /// As `" ".join(os.uname())` and /proc/cpuinfo have it.
    pub(super) fn read(door: &mut FactReader<'_>) -> Self {
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
        add(
            "its architecture",
            door.source.machine_facts().architecture.into_known().or_else(of_release),
        );
        let cpuinfo =
            door.read("/proc/cpuinfo").map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        Self { uname: words.join(" "), unnamed, cpuinfo }
    }

    pub(super) fn is_of(
        &self,
        section: &TunedSection,
        variables: &BTreeMap<String, String>,
    ) -> Result<bool, Undecided> {
        let mut undecided = None;
        for (key, what) in CONDITIONS {
            let Some(setting) = find_option(section, key) else { continue };
            match self.is_condition_met(setting, what, variables) {
                Ok(true) => {}
                // One that does not hold decides, whatever the other one says.
                Ok(false) => return Ok(false),
                Err(why) => undecided = undecided.or(Some((setting, why))),
            }
        }
        match undecided {
            None => Ok(true),
            Some((setting, why)) => Err(Undecided {
                at: file_location(&setting.file, setting.line),
                key: setting.key.clone(),
                why,
            }),
        }
    }

    fn is_condition_met(
        &self,
        setting: &TunedOption,
        what: ConditionSubject,
        variables: &BTreeMap<String, String>,
    ) -> Result<bool, UndecidedReason> {
        let pattern = expand_profile_variables(&setting.value, variables);
        if pattern.contains("${") {
            return Err(UndecidedReason::Variable);
        }
        let pattern = compile_regex(&pattern)?;
        match what {
            ConditionSubject::Cpuinfo => match &self.cpuinfo {
                Observed::Known(text) => Ok(pattern.is_match(text)),
                other => {
                    Err(UndecidedReason::Cpuinfo(other.unknown_reason().unwrap_or(Reason::Absent)))
                }
            },
            ConditionSubject::Uname => match (pattern.is_match(&self.uname), self.unnamed) {
                (true, _) => Ok(true),
                (false, None) => Ok(false),
                (false, Some(missing)) => Err(UndecidedReason::Unnamed(missing)),
            },
        }
    }
}

/// As Python's `re` reads it with MULTILINE. What only Python's has (a look ahead, a reference
/// back) is an error.
fn compile_regex(pattern: &str) -> Result<Regex, UndecidedReason> {
    let built = RegexBuilder::new(pattern).multi_line(true).size_limit(1 << 20).build();
    built.map_err(|error| UndecidedReason::Pattern {
        pattern: pattern.to_owned(),
        error: error.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use hugewise_source::{MachineFacts, MapSource};

    const EPYC: &str = "processor\t: 0\nvendor_id\t: AuthenticAMD\nmodel name\t: AMD EPYC 7763 \
         64-Core Processor\n";

    fn here(machine: &str, cpuinfo: Option<&str>) -> ConditionHost {
        let machine = MachineFacts {
            architecture: Observed::Known(machine.into()),
            ..MachineFacts::default()
        };
        let mut source = MapSource::new()
            .with_file("/proc/sys/kernel/ostype", "Linux\n")
            .with_file("/proc/sys/kernel/hostname", "db7\n")
            .with_file("/proc/sys/kernel/osrelease", "6.1.0-18-amd64\n")
            .with_file("/proc/sys/kernel/version", "#1 SMP PREEMPT_DYNAMIC Debian 6.1.76-1\n")
            .with_machine(machine);
        if let Some(cpuinfo) = cpuinfo {
            source = source.with_file("/proc/cpuinfo", cpuinfo);
        }
        ConditionHost::read(&mut FactReader::new(&source))
    }

    fn section(conditions: &[(&str, &str)]) -> TunedSection {
        let setting = |(key, value): &(&str, &str)| TunedOption {
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
            (
                "thunder".to_owned(),
                r"CPU part\s+:\s+(0x0?516)|(0x0?af)|(0x0?a[0-3])|(0x0?b8)\b".to_owned(),
            ),
        ]);
        let epyc = here("x86_64", Some(EPYC));
        assert_eq!(epyc.is_of(&amd, &variables), Ok(true));
        assert_eq!(epyc.is_of(&thunder, &variables), Ok(false));
        let arm =
            here("aarch64", Some("processor\t: 0\nCPU implementer\t: 0x43\nCPU part\t: 0x0af\n"));
        assert_eq!(arm.is_of(&amd, &variables), Ok(false));
        assert_eq!(arm.is_of(&thunder, &variables), Ok(true));
        let start_of_line = section(&[("cpuinfo_regex", "^vendor_id.*AMD$")]);
        assert_eq!(epyc.is_of(&start_of_line, &variables), Ok(true));
        let whole = section(&[("uname_regex", "^Linux db7 6.1.0-18-amd64 #1 SMP .* x86_64$")]);
        assert_eq!(epyc.is_of(&whole, &variables), Ok(true));
    }

    #[test]
    fn what_cannot_be_decided_is_said() {
        let matches = |here: &ConditionHost, conditions: &[(&str, &str)]| {
            here.is_of(&section(conditions), &BTreeMap::new())
        };
        let epyc = here("x86_64", Some(EPYC));
        let look_ahead =
            matches(&epyc, &[("cpuinfo_regex", "AMD(?= EPYC)")]).unwrap_err().to_string();
        assert!(
            look_ahead.starts_with("/f:3: cannot tell whether cpuinfo_regex holds here: "),
            "{look_ahead}"
        );
        assert!(
            matches(&epyc, &[("cpuinfo_regex", "${gone}")])
                .unwrap_err()
                .to_string()
                .contains("variable")
        );
        let blind = here("x86_64", None);
        assert!(
            matches(&blind, &[("cpuinfo_regex", "AMD")])
                .unwrap_err()
                .to_string()
                .contains("/proc/cpuinfo")
        );
        assert_eq!(
            matches(&blind, &[("uname_regex", "aarch64"), ("cpuinfo_regex", "AMD")]),
            Ok(false)
        );
        let nameless = ConditionHost::read(&mut FactReader::new(
            &MapSource::new().with_file("/proc/sys/kernel/osrelease", "5.14.0.x86_64\n"),
        ));
        assert_eq!(matches(&nameless, &[("uname_regex", "x86_64")]), Ok(true));
        assert!(
            matches(&nameless, &[("uname_regex", "aarch64")])
                .unwrap_err()
                .to_string()
                .contains("the host's name")
        );
    }
}
