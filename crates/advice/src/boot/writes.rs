//! Everything that the boot writes to files of the kernel, in order.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt::Display;

use hugewise_host::config::pattern::covers;
use hugewise_host::config::{cmdline, sysctl};
use hugewise_model::Host;
use hugewise_model::configuration::SysctlAssignment;

use super::{command_line, feeds, present};
use crate::Missing;

/// A write to one of the files that were asked about.
pub(super) struct Hit<'a, T> {
    /// Which one.
    pub(super) target: &'a T,
    pub(super) value: Cow<'a, str>,
    /// Where it stands.
    pub(super) place: String,
    /// Whether TuneD writes it for its profile, where `>512` means "at least".
    pub(super) of_profile: bool,
}

/// Files of the kernel that somebody asks about, each with what it means to him.
pub(super) struct Targets<T> {
    all: Vec<(String, T)>,
    by_path: HashMap<String, usize>,
}

impl<T> Targets<T> {
    pub(super) fn new(all: Vec<(String, T)>) -> Self {
        let by_path = all.iter().enumerate().map(|(at, (path, _))| (path.clone(), at)).collect();
        Self { all, by_path }
    }

    /// Those that a path, or a pattern of paths, is about.
    fn named<'a>(&'a self, path: &str) -> Vec<&'a T> {
        if path.contains(['*', '?', '[', '\\']) {
            return self.all.iter().filter(|(target, _)| covers(path, target)).map(|(_, what)| what).collect();
        }
        let found = self.by_path.get(path).and_then(|at| self.all.get(*at));
        found.map(|(_, what)| what).into_iter().collect()
    }

    fn has_settings(&self) -> bool {
        self.all.iter().any(|(path, _)| path.starts_with("/proc/sys/"))
    }
}

/// The writes to these files that are found.
struct Found<'a, T> {
    targets: &'a Targets<T>,
    hits: Vec<Hit<'a, T>>,
}

impl<'a, T> Found<'a, T> {
    fn add(&mut self, path: &str, value: Cow<'a, str>, place: &dyn Display, of_profile: bool) {
        for target in self.targets.named(path) {
            self.hits.push(Hit { target, value: value.clone(), place: place.to_string(), of_profile });
        }
    }

    fn assignments(&mut self, all: &'a [SysctlAssignment], of_profile: bool) {
        for one in all {
            self.add(&sysctl::file_of(&one.key), Cow::Borrowed(&one.value), &one.place, of_profile);
        }
    }
}

/// The writes to these files in the order in which the boot makes them. Settings on the command line are left out where
/// it could not be read: [`command_line`] tells.
pub(super) fn hits<'a, T>(host: &'a Host, targets: &'a Targets<T>) -> Result<Vec<Hit<'a, T>>, Missing> {
    let mut found = Found { targets, hits: Vec::new() };
    let configuration = &host.configuration;
    let tuned = if targets.has_settings() {
        for (path, value, place) in on_command_line(host) {
            found.add(&path, Cow::Owned(value), &place, false);
        }
        let of_files = present(&configuration.sysctl, "sysctl.d")?;
        found.assignments(of_files.map(Vec::as_slice).unwrap_or_default(), false);
        present(&configuration.tuned, "tuned's active profile")?
    } else {
        None
    };
    for write in present(&configuration.tmpfiles, "tmpfiles.d")?.into_iter().flatten() {
        found.add(&write.path, Cow::Borrowed(&write.value), &write.place, false);
    }
    if let Some(tuned) = tuned {
        found.assignments(&tuned.sysctl, true);
        let again = present(&tuned.reapplied, "sysctl files that tuned applies once more")?;
        found.assignments(again.map(Vec::as_slice).unwrap_or_default(), false);
    }
    Ok(found.hits)
}

/// Settings on the kernel's command line, `sysctl.vm.nr_hugepages=512` (since Linux 5.8): path, value and place.
fn on_command_line(host: &Host) -> Vec<(String, String, String)> {
    let Ok((words, _)) = command_line(host) else { return Vec::new() };
    let is_setting = |name: &str| name.starts_with("sysctl");
    let settings = cmdline::assignments_of(words, is_setting).into_iter().filter_map(|(name, value, _)| {
        let key = name.strip_prefix("sysctl.").or_else(|| name.strip_prefix("sysctl/"))?;
        let place = feeds::on_command_line(&format!("{name}={value}"));
        (!value.is_empty()).then(|| (format!("/proc/sys/{}", key.replace('.', "/")), value, place))
    });
    settings.collect()
}
