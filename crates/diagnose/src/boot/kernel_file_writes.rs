//! Everything that the boot writes to files of the kernel, in order.

use std::borrow::Cow;
use std::collections::HashMap;

use hugewise_host::config::pattern::covers_path;
use hugewise_host::config::{cmdline, sysctl};
use hugewise_model::Host;
use hugewise_model::configuration::SysctlAssignment;

use super::{BootPlace, command_line, require_readable};
use crate::Missing;

pub(super) struct KernelFileWrite<'a, T> {
    pub(super) target: &'a T,
    pub(super) value: Cow<'a, str>,
    pub(super) place: BootPlace,
    /// Whether TuneD writes it for its profile, where `>512` means "at least".
    pub(super) of_profile: bool,
}

pub(super) struct Targets<T> {
    all: Vec<(String, T)>,
    by_path: HashMap<String, usize>,
}

impl<T> Targets<T> {
    pub(super) fn new(all: Vec<(String, T)>) -> Self {
        let by_path = all.iter().enumerate().map(|(at, (path, _))| (path.clone(), at)).collect();
        Self { all, by_path }
    }

    fn matching_path<'a>(&'a self, path: &str) -> Vec<&'a T> {
        if path.contains(['*', '?', '[', '\\']) {
            let covered = self.all.iter().filter(|(target, _)| covers_path(path, target));
            return covered.map(|(_, what)| what).collect();
        }
        let found = self.by_path.get(path).and_then(|at| self.all.get(*at));
        found.map(|(_, what)| what).into_iter().collect()
    }

    fn has_settings(&self) -> bool {
        self.all.iter().any(|(path, _)| path.starts_with("/proc/sys/"))
    }
}

struct WriteCollector<'a, T> {
    targets: &'a Targets<T>,
    hits: Vec<KernelFileWrite<'a, T>>,
}

impl<'a, T> WriteCollector<'a, T> {
    fn add(&mut self, path: &str, value: Cow<'a, str>, place: &BootPlace, of_profile: bool) {
        for target in self.targets.matching_path(path) {
            self.hits.push(KernelFileWrite {
                target,
                value: value.clone(),
                place: place.clone(),
                of_profile,
            });
        }
    }

    fn add_assignments(&mut self, all: &'a [SysctlAssignment], of_profile: bool) {
        for one in all {
            let place = one.place.clone().into();
            self.add(&sysctl::file_of(&one.key), Cow::Borrowed(&one.value), &place, of_profile);
        }
    }
}

/// In the order of the boot; without the command line where that could not be read.
pub(super) fn collect_writes<'a, T>(
    host: &'a Host,
    targets: &'a Targets<T>,
) -> Result<Vec<KernelFileWrite<'a, T>>, Missing> {
    let mut found = WriteCollector { targets, hits: Vec::new() };
    let configuration = &host.configuration;
    let tuned = if targets.has_settings() {
        for (path, value, place) in on_command_line(host) {
            found.add(&path, Cow::Owned(value), &place, false);
        }
        let of_files = require_readable(&configuration.sysctl, "sysctl.d")?;
        found.add_assignments(of_files.map(Vec::as_slice).unwrap_or_default(), false);
        require_readable(&configuration.tuned, "tuned's active profile")?
    } else {
        None
    };
    for write in require_readable(&configuration.tmpfiles, "tmpfiles.d")?.into_iter().flatten() {
        let place = write.place.clone().into();
        found.add(&write.path, Cow::Borrowed(&write.value), &place, false);
    }
    if let Some(tuned) = tuned {
        found.add_assignments(&tuned.sysctl, true);
        let again =
            require_readable(&tuned.reapplied, "sysctl files that tuned applies once more")?;
        found.add_assignments(again.map(Vec::as_slice).unwrap_or_default(), false);
    }
    Ok(found.hits)
}

/// Settings on the kernel's command line, `sysctl.vm.nr_hugepages=512` (since Linux 5.8).
fn on_command_line(host: &Host) -> Vec<(String, String, BootPlace)> {
    let Ok((words, _)) = command_line(host) else { return Vec::new() };
    let is_setting = |name: &str| name.starts_with("sysctl");
    let settings =
        cmdline::assignments_of(words, is_setting).into_iter().filter_map(|(name, value, _)| {
            let key = name.strip_prefix("sysctl.").or_else(|| name.strip_prefix("sysctl/"))?;
            let place = BootPlace::KernelWord(format!("{name}={value}"));
            (!value.is_empty())
                .then(|| (format!("/proc/sys/{}", key.replace('.', "/")), value, place))
        });
    settings.collect()
}
