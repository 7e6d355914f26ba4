//! Whether what an apply wrote for the next boot, the next login and the next start of a server will be found there.
//!
//! That a file was written says nothing: a later name, another folder, a link to /dev/null, tuned or the kernel's command
//! line may have the last word, since the plan or for longer. So the host is read anew by what reads any host, and asked
//! who wins.

use hugewise_advice::locked::Locked;
use hugewise_advice::{boot, login};
use hugewise_host::config::pattern::covers;
use hugewise_host::config::{cmdline, limits, sysctl, systemd, tmpfiles, unit};
use hugewise_model::configuration::{LimitRule, SysctlAssignment, TmpfilesWrite};
use hugewise_model::{Bytes, Host, Instance, Limit, Observed, PageCount};

use crate::outcome::{Applied, End, StepResult};
use crate::plan::{Change, CommandChange, FileChange, Plan, PoolAtBoot, Step};

/// Something that was to last and does not, or of which that cannot be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unkept {
    /// What was to be: `vm.nr_hugepages = 600 at the next boot`.
    pub what: String,
    /// Who wins instead, or what could not be read.
    pub why: String,
    /// Whether it is lost for sure.
    pub lost: bool,
}

impl Unkept {
    fn lost(what: impl Into<String>, why: impl Into<String>) -> Self {
        Self { what: what.into(), why: why.into(), lost: true }
    }

    fn unknown(what: impl Into<String>, why: impl Into<String>) -> Self {
        Self { what: what.into(), why: why.into(), lost: false }
    }
}

/// What of an apply will not last, on the host as it is read after it.
pub fn unkept(plan: &Plan, applied: &Applied, host: &Host, instances: &[Instance]) -> Vec<Unkept> {
    if matches!(applied.end, End::TakenBack | End::Stuck) {
        return Vec::new();
    }
    let after = After { host, instances };
    let mut found: Vec<Unkept> = plan.at_boot.iter().filter_map(|pool| after.pool(pool)).collect();
    let made = |step: &&Step| {
        applied.steps.iter().any(|it| {
            it.id == step.id
                && matches!(it.result, StepResult::Done | StepResult::AlreadySo | StepResult::Partial { .. })
        })
    };
    for step in plan.steps.iter().filter(made) {
        for change in &step.changes {
            match change {
                Change::File(file) => found.extend(after.file(step, file)),
                Change::Command(command) => found.extend(after.command(step, command)),
                Change::Value(_) => {}
            }
        }
    }
    let mut seen = std::collections::BTreeSet::new();
    found.retain(|one| seen.insert(one.what.clone()));
    found
}

struct After<'a> {
    host: &'a Host,
    instances: &'a [Instance],
}

impl After<'_> {
    fn pool(&self, pool: &PoolAtBoot) -> Option<Unkept> {
        let what = format!("{} at the next boot", PageCount(pool.pages).in_pages_of(pool.page_size));
        let steps = match boot::pool(self.host, pool.page_size) {
            Ok(steps) => steps,
            Err(missing) => return Some(Unkept::unknown(what, missing.to_string())),
        };
        match steps.last() {
            Some(last) if last.value != pool.pages => {
                Some(Unkept::lost(what, format!("{} has the last word and brings {}", last.place, last.value)))
            }
            None if pool.pages > 0 => Some(Unkept::lost(what, "no file that counts sets them")),
            _ => None,
        }
    }

    fn tmpfiles(&self) -> &[TmpfilesWrite] {
        self.host.configuration.tmpfiles.known().map(Vec::as_slice).unwrap_or_default()
    }

    fn file(&self, step: &Step, file: &FileChange) -> Vec<Unkept> {
        let Some(after) = &file.after else { return Vec::new() };
        let (path, bytes) = (file.path.as_str(), after.content.bytes());
        let within = |folder: &str| path.starts_with(folder);
        if within("/etc/sysctl.d/") {
            sysctl::parse(path, bytes).iter().filter_map(|it| self.setting(it)).collect()
        } else if within("/etc/tmpfiles.d/") {
            tmpfiles::parse(path, bytes).iter().filter_map(|it| self.write(it)).collect()
        } else if within("/etc/security/limits.d/") {
            limits::parse(path, bytes).iter().filter_map(|it| self.limit(it)).collect()
        } else if within("/etc/systemd/system/") {
            self.unit(path, bytes).into_iter().collect()
        } else if within("/etc/default/grub.d/") {
            let text = String::from_utf8_lossy(bytes);
            let words = text
                .lines()
                .filter_map(|line| line.strip_prefix("GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX ")?.strip_suffix('"'));
            words.filter_map(|words| self.kernel_words(words)).collect()
        } else {
            let text = String::from_utf8_lossy(bytes).into_owned();
            let settings = text.lines().filter(|line| !line.trim_start().starts_with(['#', '['])).filter_map(|line| {
                let (name, value) = line.split_once('=')?;
                Some((name.trim(), value.trim()))
            });
            settings.filter_map(|(name, value)| self.of_server(step, name, value)).collect()
        }
    }

    fn setting(&self, ours: &SysctlAssignment) -> Option<Unkept> {
        let what = format!("{} = {} at the next boot", ours.key, ours.value);
        let known = &self.host.configuration.sysctl;
        if !known.is_known() && !known.is_absent() {
            return Some(Unkept::unknown(what, known.reason().unwrap_or_default()));
        }
        // tmpfiles.d comes after sysctl.d.
        let path = format!("/proc/sys/{}", ours.key.replace('.', "/"));
        if let Some(write) = self.tmpfiles().iter().rev().find(|it| covers(&it.path, &path)) {
            let why = || format!("{} has the last word and writes {}", write.place, write.value);
            return (!same(&write.value, &ours.value)).then(|| Unkept::lost(what, why()));
        }
        match self.host.configuration.sysctl_winner(&ours.key) {
            Some(winner) if same(&winner.value, &ours.value) => None,
            Some(winner) => {
                let why = format!("{} is read later and sets {}", winner.place, winner.value);
                Some(Unkept::lost(what, why))
            }
            None => Some(Unkept::lost(what, format!("{} is not read: it is masked, or gone", ours.place.file))),
        }
    }

    fn write(&self, ours: &TmpfilesWrite) -> Option<Unkept> {
        let what = format!("{} = {} at the next boot", ours.path, ours.value);
        let known = &self.host.configuration.tmpfiles;
        if !known.is_known() && !known.is_absent() {
            return Some(Unkept::unknown(what, known.reason().unwrap_or_default()));
        }
        let mut about = self.tmpfiles().iter().rev().filter(|it| covers(&it.path, &ours.path));
        let lost = |place: &dyn std::fmt::Display, value: &str| {
            Some(Unkept::lost(what.clone(), format!("{place} has the last word and writes {value}")))
        };
        match about.next() {
            Some(winner) if !same(&winner.value, &ours.value) => return lost(&winner.place, &winner.value),
            Some(_) => {}
            None => {
                let why = format!("{} is not read: it is masked, or gone", ours.place.file);
                return Some(Unkept::lost(what, why));
            }
        }
        if ours.path != self.host.thp.file("enabled") {
            return None;
        }
        match boot::thp(self.host) {
            Ok(steps) => steps
                .last()
                .filter(|last| last.value != ours.value.trim())
                .and_then(|last| lost(&last.place, &last.value)),
            Err(missing) => Some(Unkept::unknown(what, missing.to_string())),
        }
    }

    fn limit(&self, ours: &LimitRule) -> Option<Unkept> {
        let what = format!("a memlock limit of {} for logins of {}", limit(ours.value), ours.domain);
        let known = &self.host.configuration.limits;
        if !known.is_known() && !known.is_absent() {
            return Some(Unkept::unknown(what, known.reason().unwrap_or_default()));
        }
        let mut users = self.host.accounts.users.iter();
        let (uid, _) = users.find(|(_, user)| user.name == ours.domain)?;
        let found = login::of_log_in(self.host, *uid);
        let Some(wins) = found.limit.get() else { return Some(Unkept::unknown(what, found.in_words())) };
        let place = found.place;
        let needs = self.needs(|instance| instance.owner == ours.domain);
        let enough = wins == ours.value || needs.is_some_and(|needs| wins.allows(needs));
        (!enough).then(|| Unkept::lost(what, format!("{place} has the last word: {}", limit(wins))))
    }

    fn unit(&self, path: &str, bytes: &[u8]) -> Option<Unkept> {
        let unit = path.strip_prefix("/etc/systemd/system/")?.split_once(".d/")?.0;
        let assignments = unit::parse(bytes).into_iter().map(|it| (path.to_owned(), it));
        let described = systemd::describe(&assignments.collect::<Vec<_>>());
        let (soft, _, _) = described.memlock.into_known()?;
        let what = format!("LimitMEMLOCK={} for {unit}", limit(soft));
        // Of a service without a process here nothing is read.
        let there = self.host.configuration.units.iter().find(|it| it.name == unit)?;
        let needs = self.needs(|instance| instance.unit.as_deref() == Some(unit));
        match &there.memlock {
            Observed::Known((wins, _, _)) if *wins == soft || needs.is_some_and(|needs| wins.allows(needs)) => None,
            Observed::Known((wins, _, place)) => {
                Some(Unkept::lost(what, format!("{place} has the last word: {}", limit(*wins))))
            }
            Observed::Absent => Some(Unkept::lost(what, format!("{path} is not read: it is masked, or gone"))),
            other => Some(Unkept::unknown(what, other.reason().unwrap_or_default())),
        }
    }

    /// The most that one of these servers locks.
    fn needs(&self, is: impl Fn(&Instance) -> bool) -> Option<Bytes> {
        let those = self.instances.iter().filter(|instance| is(instance));
        let locked = Locked::of(self.host, self.instances);
        those.map(|instance| locked.at_most(self.host, instance).all()).max()
    }

    fn kernel_words(&self, words: &str) -> Option<Unkept> {
        let what = format!("{words} on the kernel's command line at the next boot");
        // Where no entry can be read, the boot loader's own program has the word that it did its work.
        let entry = self.host.configuration.boot.known()?;
        let wanted: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
        let pools = cmdline::huge_page_words(&wanted).pools;
        let there = cmdline::huge_page_words(&entry.command_line).pools;
        let found = |word: &String| entry.command_line.contains(word);
        let whole = wanted.iter().all(found) && pools.iter().all(|pool| there.contains(pool));
        (!whole).then(|| Unkept::lost(what, format!("{} does not have them", entry.place)))
    }

    fn command(&self, step: &Step, command: &CommandChange) -> Option<Unkept> {
        let last = command.command.last()?;
        if let Some(words) = last.strip_prefix("--args=") {
            return self.kernel_words(words);
        }
        let (name, value) = last.strip_prefix("ALTER SYSTEM SET ")?.split_once('=')?;
        self.of_server(step, name.trim(), value.trim().trim_matches('\''))
    }

    /// A setting in a file that a server reads.
    fn of_server(&self, step: &Step, name: &str, value: &str) -> Option<Unkept> {
        let title = step.instance.as_ref()?;
        let instance = self.instances.iter().find(|instance| instance.id().is_titled(title))?;
        let setting = instance.settings.get(name)?;
        let found = instance.setting_value(name)?;
        if found.eq_ignore_ascii_case(value) {
            return None;
        }
        let place = setting.place.as_ref().map_or_else(|| "its command line".to_owned(), ToString::to_string);
        Some(Unkept::lost(format!("{name} = {value} of {title}"), format!("{place} has the last word: {found}")))
    }
}

fn limit(limit: Limit) -> String {
    match limit {
        Limit::At(bytes) => bytes.to_string(),
        Limit::Unlimited => "unlimited".to_owned(),
    }
}

fn same(one: &str, other: &str) -> bool {
    one.split_whitespace().eq(other.split_whitespace())
}
