//! Who has the last word on what a file would set at the next boot.

use hugewise_host::Source;
use hugewise_host::config::pattern::{covers_path, is_pattern};
use hugewise_host::config::{sysctl, tmpfiles};
use hugewise_host::source::OverlaySource;
use hugewise_model::configuration::FileLocation;
use hugewise_model::{Host, PageSize};

use super::{
    BootPlace, BootStep, default_size, pool_at_boot, predict_overcommit, predict_setting,
    predict_thp, require_readable, thp_switch, with_files,
};
use crate::Missing;

/// One line of a file, and what becomes of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EffectiveSetting {
    /// What it sets: `vm.nr_hugepages`, or a path below /sys or /proc.
    pub what: String,
    /// What it sets it to, as it is written.
    pub value: String,
    /// Where it stands.
    pub place: FileLocation,
    /// Whether the next boot ends with it.
    pub outcome: SettingOutcome,
}

/// What becomes of a line at the next boot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettingOutcome {
    /// It has the last word.
    Wins,
    /// Another line comes later and says the same.
    Agrees {
        /// Where that one stands.
        place: BootPlace,
    },
    /// Another line comes later and says something else.
    Loses {
        /// Where that one stands.
        place: BootPlace,
        /// What it sets.
        value: String,
    },
    /// It is not carried out: another file hides its own, or its line or value is refused.
    Unheard,
    /// Whether it wins cannot be told.
    Unknown(Missing),
}

/// What becomes of each line of a sysctl.d or tmpfiles.d file at the next boot, were it there with
/// this text beside what `source` has. Lines about patterns are left out.
pub fn predict_effective_settings(
    host: &Host,
    source: &dyn Source,
    path: &str,
    text: &str,
) -> Vec<EffectiveSetting> {
    let mut files = OverlaySource::new(source);
    files.set_file(path, Some(text.as_bytes().to_vec()));
    let after = with_files(host, &files);
    let word = |what: &str, file: &str, value: String, place: FileLocation| EffectiveSetting {
        outcome: predict_line_outcome(&after, file, &value, &place),
        what: what.to_owned(),
        value,
        place,
    };
    if path.contains("/tmpfiles.d/") {
        tmpfiles::parse(path, text.as_bytes())
            .into_iter()
            .filter(|write| !is_pattern(&write.path))
            .map(|write| word(&write.path, &write.path, write.value, write.place))
            .collect()
    } else if path.contains("/sysctl.d/") || path == "/etc/sysctl.conf" {
        sysctl::parse(path, text.as_bytes())
            .into_iter()
            .filter(|setting| !is_pattern(&setting.key))
            .map(|setting| {
                let file = sysctl::file_of(&setting.key);
                word(&setting.key, &file, setting.value, setting.place)
            })
            .collect()
    } else {
        Vec::new()
    }
}

fn predict_line_outcome(
    after: &Host,
    file: &str,
    value: &str,
    place: &FileLocation,
) -> SettingOutcome {
    let steps = match steps_for_file(after, file) {
        Ok(steps) => steps,
        Err(missing) => return SettingOutcome::Unknown(missing),
    };
    let own = BootPlace::from(place.clone());
    let Some(ours) = steps.iter().rposition(|step| step.place == own) else {
        return SettingOutcome::Unheard;
    };
    match steps.last() {
        Some(last) if last.place != own => {
            let same =
                steps.get(ours).is_some_and(|step| step.value == last.value) || last.value == value;
            let place = last.place.clone();
            if same {
                SettingOutcome::Agrees { place }
            } else {
                SettingOutcome::Loses { place, value: last.value.clone() }
            }
        }
        _ => SettingOutcome::Wins,
    }
}

fn steps_for_file(host: &Host, file: &str) -> Result<Vec<BootStep<String>>, Missing> {
    if let Some((page, node)) = pool_of(host, file) {
        // Pages of other nodes are not this node's business.
        let of_node = |other: Option<u32>| node.is_none() || other.is_none() || other == node;
        let steps = pool_at_boot(host, page)?.steps.into_iter().filter(|step| of_node(step.node));
        return Ok(steps
            .map(|step| BootStep { value: step.pages.get().to_string(), place: step.place })
            .collect());
    }
    if let Some(page) = overcommit_of(host, file) {
        let steps = predict_overcommit(host, page)?.into_iter();
        return Ok(steps
            .map(|step| BootStep { value: step.value.to_string(), place: step.place })
            .collect());
    }
    if let Some(switch) =
        file.strip_prefix(host.thp.sysfs_folder()).and_then(|rest| rest.strip_prefix('/'))
    {
        return if switch == "enabled" { predict_thp(host) } else { thp_switch(host, switch) };
    }
    if let Some(key) = file.strip_prefix("/proc/sys/") {
        return predict_setting(host, &key.replace('/', "."));
    }
    let writes = require_readable(&host.configuration.tmpfiles, "tmpfiles.d")?;
    Ok(writes
        .into_iter()
        .flatten()
        .filter(|write| covers_path(&write.path, file))
        .map(|write| BootStep { value: write.value.clone(), place: write.place.clone().into() })
        .collect())
}

fn pool_of(host: &Host, file: &str) -> Option<(PageSize, Option<u32>)> {
    if matches!(file, "/proc/sys/vm/nr_hugepages" | "/proc/sys/vm/nr_hugepages_mempolicy") {
        return Some((default_size(host)?, None));
    }
    if let Some(rest) = file.strip_prefix("/sys/kernel/mm/hugepages/") {
        let (folder, name) = rest.split_once('/')?;
        return matches!(name, "nr_hugepages" | "nr_hugepages_mempolicy")
            .then(|| Some((parse_hugepages_folder(folder)?, None)))?;
    }
    let (node, rest) = file.strip_prefix("/sys/devices/system/node/node")?.split_once('/')?;
    let folder = rest.strip_prefix("hugepages/")?.strip_suffix("/nr_hugepages")?;
    Some((parse_hugepages_folder(folder)?, Some(node.parse().ok()?)))
}

fn overcommit_of(host: &Host, file: &str) -> Option<PageSize> {
    if file == "/proc/sys/vm/nr_overcommit_hugepages" {
        return default_size(host);
    }
    parse_hugepages_folder(
        file.strip_prefix("/sys/kernel/mm/hugepages/")?.strip_suffix("/nr_overcommit_hugepages")?,
    )
}

/// `hugepages-2048kB`.
fn parse_hugepages_folder(folder: &str) -> Option<PageSize> {
    PageSize::from_kib(folder.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok()?)
}
