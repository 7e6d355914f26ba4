//! Whether what an apply wrote for the next boot, login and start of a server will be found there.
//!
//! A later name, another folder, a link to /dev/null, TuneD or the kernel's command line may have
//! the last word: so the host is read anew, and asked who wins.

use std::collections::BTreeSet;

use hugewise_diagnose::memlock_charges::MemlockCharges;
use hugewise_diagnose::{boot, login};
use hugewise_host::config::pattern::covers_path;
use hugewise_host::config::{cmdline, limits, sysctl, systemd, tmpfiles, unit};
use hugewise_model::configuration::{LimitRule, SysctlAssignment, TmpfilesWrite};
use hugewise_model::{Bytes, Host, Instance, Limit, Observed, PageCount};

use crate::outcome::{ApplyEnd, ApplyResult, StepResult};
use crate::plan::{Change, CommandChange, FileChange, Plan, PlannedBootPool, Step};

/// Something that was to last and does not, or of which that cannot be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnpersistedChange {
    /// What was to be: `vm.nr_hugepages = 600 at the next boot`.
    pub what: String,
    /// Who wins instead, or what could not be read.
    pub why: String,
    /// Whether it is lost for sure.
    pub lost: bool,
}

/// Why something does not last, if it does not; an error says what could not be read.
type Loss = Result<Option<String>, String>;

impl UnpersistedChange {
    fn from_loss(what: impl Into<String>, loss: Loss) -> Option<Self> {
        let lost = loss.is_ok();
        let why = loss.unwrap_or_else(Some)?;
        Some(Self { what: what.into(), why, lost })
    }
}

/// What of an apply will not last, on the host as it is read after it.
pub fn find_unpersisted_changes(
    plan: &Plan,
    applied: &ApplyResult,
    host: &Host,
    instances: &[Instance],
) -> Vec<UnpersistedChange> {
    if matches!(applied.end, ApplyEnd::TakenBack | ApplyEnd::Stuck) {
        return Vec::new();
    }
    let after = PersistenceCheck { host, instances };
    let mut found: Vec<UnpersistedChange> =
        plan.at_boot.iter().filter_map(|pool| after.check_pool(pool)).collect();
    let is_made = |step: &&Step| {
        let mut applied = applied.steps.iter().filter(|applied| applied.id == step.id);
        applied.any(|applied| {
            matches!(
                applied.result,
                StepResult::Done | StepResult::AlreadySo | StepResult::Partial { .. }
            )
        })
    };
    for step in plan.steps.iter().filter(is_made) {
        for change in &step.changes {
            match change {
                Change::File(file) => found.extend(after.check_file(step, file)),
                Change::Command(command) => found.extend(after.check_command(step, command)),
                Change::Value(_) => {}
            }
        }
    }
    let mut seen = BTreeSet::new();
    found.retain(|one| seen.insert(one.what.clone()));
    found
}

struct PersistenceCheck<'a> {
    host: &'a Host,
    instances: &'a [Instance],
}

impl PersistenceCheck<'_> {
    fn check_pool(&self, pool: &PlannedBootPool) -> Option<UnpersistedChange> {
        let pages = PageCount(pool.pages).in_pages_of(pool.page_size);
        let loss = match boot::predict_pool_steps(self.host, pool.page_size) {
            Err(missing) => Err(missing.to_string()),
            Ok(steps) => Ok(match steps.last() {
                Some(last) if last.value != pool.pages => {
                    Some(format!("{} has the last word and brings {}", last.place, last.value))
                }
                None if pool.pages > 0 => Some("no file that counts sets them".to_owned()),
                _ => None,
            }),
        };
        UnpersistedChange::from_loss(format!("{pages} at the next boot"), loss)
    }

    fn check_file(&self, step: &Step, file: &FileChange) -> Vec<UnpersistedChange> {
        let Some(after) = &file.after else { return Vec::new() };
        let (path, bytes) = (file.path.as_str(), after.content.bytes());
        let text = String::from_utf8_lossy(bytes);
        let is_within = |folder: &str| path.starts_with(folder);
        if is_within("/etc/sysctl.d/") {
            sysctl::parse(path, bytes).iter().filter_map(|ours| self.check_sysctl(ours)).collect()
        } else if is_within("/etc/tmpfiles.d/") {
            let ours = tmpfiles::parse(path, bytes);
            ours.iter().filter_map(|ours| self.check_tmpfiles_write(ours)).collect()
        } else if is_within("/etc/security/limits.d/") {
            limits::parse(path, bytes).iter().filter_map(|ours| self.check_limit(ours)).collect()
        } else if is_within("/etc/systemd/system/") {
            self.check_unit(path, bytes).into_iter().collect()
        } else if is_within("/etc/default/grub.d/") {
            let words = text.lines().filter_map(|line| {
                line.strip_prefix("GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX ")?.strip_suffix('"')
            });
            words.filter_map(|words| self.check_kernel_words(words)).collect()
        } else {
            let lines = text.lines().filter(|line| !line.trim_start().starts_with(['#', '[']));
            let settings = lines.filter_map(|line| line.split_once('='));
            settings
                .filter_map(|(name, value)| self.check_setting(step, name.trim(), value.trim()))
                .collect()
        }
    }

    fn check_sysctl(&self, ours: &SysctlAssignment) -> Option<UnpersistedChange> {
        let configuration = &self.host.configuration;
        // tmpfiles.d comes after sysctl.d.
        let path = format!("/proc/sys/{}", ours.key.replace('.', "/"));
        let loss = if let Some(why) = unread_reason(&configuration.sysctl) {
            Err(why)
        } else if let Some(write) = self.find_last_write(&path) {
            Ok((!is_same_value(&write.value, &ours.value))
                .then(|| format!("{} has the last word and writes {}", write.place, write.value)))
        } else if let Some(winner) = configuration.sysctl_winner(&ours.key) {
            Ok((!is_same_value(&winner.value, &ours.value))
                .then(|| format!("{} is read later and sets {}", winner.place, winner.value)))
        } else {
            Ok(Some(format!("{} is not read: it is masked, or gone", ours.place.file)))
        };
        UnpersistedChange::from_loss(
            format!("{} = {} at the next boot", ours.key, ours.value),
            loss,
        )
    }

    fn find_last_write(&self, path: &str) -> Option<&TmpfilesWrite> {
        let writes = self.host.configuration.tmpfiles.as_known()?;
        writes.iter().rfind(|write| covers_path(&write.path, path))
    }

    fn check_tmpfiles_write(&self, ours: &TmpfilesWrite) -> Option<UnpersistedChange> {
        let what = format!("{} = {} at the next boot", ours.path, ours.value);
        UnpersistedChange::from_loss(what, self.find_write_loss(ours))
    }

    fn find_write_loss(&self, ours: &TmpfilesWrite) -> Loss {
        if let Some(why) = unread_reason(&self.host.configuration.tmpfiles) {
            return Err(why);
        }
        let overruled = |place: &dyn std::fmt::Display, value: &str| {
            format!("{place} has the last word and writes {value}")
        };
        match self.find_last_write(&ours.path) {
            None => Ok(Some(format!("{} is not read: it is masked, or gone", ours.place.file))),
            Some(winner) if !is_same_value(&winner.value, &ours.value) => {
                Ok(Some(overruled(&winner.place, &winner.value)))
            }
            Some(_) if ours.path == self.host.thp.switch_path("enabled") => {
                let steps = boot::predict_thp(self.host).map_err(|missing| missing.to_string())?;
                let last = steps.last().filter(|last| last.value != ours.value.trim());
                Ok(last.map(|last| overruled(&last.place, &last.value)))
            }
            Some(_) => Ok(None),
        }
    }

    fn check_limit(&self, ours: &LimitRule) -> Option<UnpersistedChange> {
        let (limit, owner) = (render_limit(ours.value), &ours.domain);
        let what = format!("a memlock limit of {limit} for logins of {owner}");
        if let Some(why) = unread_reason(&self.host.configuration.limits) {
            return UnpersistedChange::from_loss(what, Err(why));
        }
        let mut users = self.host.accounts.users.iter();
        let (uid, _) = users.find(|(_, user)| user.name == *owner)?;
        let found = login::of_log_in(self.host, *uid);
        let loss = found.limit.get().ok_or_else(|| found.in_words()).map(|wins| {
            let needs = self.most_locked_bytes(|instance| instance.owner == *owner);
            let enough = wins == ours.value || needs.is_some_and(|needs| wins.allows(needs));
            (!enough).then(|| format!("{} has the last word: {}", found.place, render_limit(wins)))
        });
        UnpersistedChange::from_loss(what, loss)
    }

    fn check_unit(&self, path: &str, bytes: &[u8]) -> Option<UnpersistedChange> {
        let unit = path.strip_prefix("/etc/systemd/system/")?.split_once(".d/")?.0;
        let assignments = unit::parse(bytes).into_iter();
        let assignments: Vec<_> = assignments.map(|one| (path.to_owned(), one)).collect();
        let (soft, _, _) = systemd::describe_service(&assignments).memlock.into_known()?;
        // Of a service without a process here nothing is read, but where it starts one at the boot.
        let boot_units = self.instances.iter().filter_map(|other| other.boot_unit.as_deref());
        let mut units = self.host.configuration.units.iter().chain(boot_units);
        let there = units.find(|other| other.name == unit)?;
        let loss = match &there.memlock {
            Observed::Known((wins, _, place)) => {
                let needs = self.most_locked_bytes(|instance| {
                    let by_boot = instance.boot_unit.as_ref().map(|other| other.name.as_str());
                    by_boot.or(instance.unit.as_deref()) == Some(unit)
                });
                let enough = *wins == soft || needs.is_some_and(|needs| wins.allows(needs));
                Ok((!enough).then(|| format!("{place} has the last word: {}", render_limit(*wins))))
            }
            Observed::Absent => Ok(Some(format!("{path} is not read: it is masked, or gone"))),
            other => Err(other.reason_text().unwrap_or_default()),
        };
        UnpersistedChange::from_loss(
            format!("LimitMEMLOCK={} for {unit}", render_limit(soft)),
            loss,
        )
    }

    fn most_locked_bytes(&self, is: impl Fn(&Instance) -> bool) -> Option<Bytes> {
        let those = self.instances.iter().filter(|instance| is(instance));
        let locked = MemlockCharges::new(self.host, self.instances);
        those.map(|instance| locked.at_most(self.host, instance).total()).max()
    }

    fn check_kernel_words(&self, words: &str) -> Option<UnpersistedChange> {
        let what = format!("{words} on the kernel's command line at the next boot");
        // Where no entry can be read, the boot loader's own program says that it did its work.
        let entry = self.host.configuration.boot.as_known()?;
        let wanted: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
        let pools = cmdline::huge_page_words(&wanted).pools;
        let there = cmdline::huge_page_words(&entry.command_line).pools;
        let is_there = wanted.iter().all(|word| entry.command_line.contains(word))
            && pools.iter().all(|pool| there.contains(pool));
        let why = (!is_there).then(|| format!("{} does not have them", entry.place));
        UnpersistedChange::from_loss(what, Ok(why))
    }

    fn check_command(&self, step: &Step, command: &CommandChange) -> Option<UnpersistedChange> {
        let last = command.command.last()?;
        if let Some(words) = last.strip_prefix("--args=") {
            return self.check_kernel_words(words);
        }
        let (name, value) = last.strip_prefix("ALTER SYSTEM SET ")?.split_once('=')?;
        self.check_setting(step, name.trim(), value.trim().trim_matches('\''))
    }

    fn check_setting(&self, step: &Step, name: &str, value: &str) -> Option<UnpersistedChange> {
        let title = step.instance.as_ref()?;
        let instance = self.instances.iter().find(|instance| instance.id().is_titled(title))?;
        let place = &instance.settings.get(name)?.place;
        let found = instance.setting_value(name)?;
        let place = place.as_ref().map_or_else(|| "its command line".into(), ToString::to_string);
        let why = (!found.eq_ignore_ascii_case(value))
            .then(|| format!("{place} has the last word: {found}"));
        UnpersistedChange::from_loss(format!("{name} = {value} of {title}"), Ok(why))
    }
}

fn unread_reason<T>(fact: &Observed<T>) -> Option<String> {
    if fact.is_known() || fact.is_absent() { None } else { fact.reason_text() }
}

fn render_limit(limit: Limit) -> String {
    match limit {
        Limit::At(bytes) => bytes.to_string(),
        Limit::Unlimited => "unlimited".to_owned(),
    }
}

fn is_same_value(one: &str, other: &str) -> bool {
    one.split_whitespace().eq(other.split_whitespace())
}
