//! What TuneD's active profile starts, and what it writes to files of the kernel's by their names: scripts that belong to nobody
//! else's care, and the `[sysfs]` plugin.

use std::collections::BTreeMap;

use hugewise_model::configuration::Place;

use super::super::files::place;
use super::{Loader, Sections, Setting, expanded, is_of_section, is_true, option, unquoted, variables_of};
use crate::Door;

/// What the active profile starts and writes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Started {
    /// Scripts, each with the line that names it.
    pub(crate) scripts: Vec<(Place, String)>,
    /// Writes to files below /sys and /proc, as commands of a shell.
    pub(crate) writes: Vec<(Place, String)>,
}

/// What the active profile starts, as far as it can be read: what cannot is said where the profile is read for itself.
pub(crate) fn started(door: &Door<'_>) -> Started {
    let mut quiet = Door::new(door.source);
    let active = quiet.read("/etc/tuned/active_profile").into_known().unwrap_or_default();
    let names: Vec<String> = String::from_utf8_lossy(&active).split_whitespace().map(str::to_owned).collect();
    let mut loader = Loader::new(&mut quiet);
    if names.is_empty() || loader.load_all(&names).is_err() {
        return Started::default();
    }
    let Ok(variables) = variables_of(&loader.merged) else { return Started::default() };
    let is_on =
        |section: &str| loader.merged.get(section).is_none_or(|section| is_true(section, "enabled") != Some(false));
    let scripts = loader.scripts.iter().filter(|(section, _)| is_on(section));
    let scripts = scripts.filter_map(|(_, setting)| script(setting, &variables)).collect();
    let of_sysfs = loader.merged.iter().filter(|(name, section)| {
        let plugin = option(section, "type").map_or(name.as_str(), |setting| setting.value.as_str());
        plugin == "sysfs" && is_on(name)
    });
    let writes = of_sysfs.flat_map(|(_, section)| section).filter(|setting| !is_of_section(&setting.key));
    let write = |setting: &Setting| {
        let value = expanded(&setting.value, &variables);
        (place(&setting.file, setting.line), format!("echo {} > {}", unquoted(&value), setting.key))
    };
    Started { scripts, writes: writes.map(write).collect() }
}

/// The scripts of one profile: that of each `[script]` section, and those that go before and after any.
pub(super) fn of_profile(profile: &Sections) -> Vec<(String, Setting)> {
    let of_section = |(name, section): (&String, &super::Section)| {
        let plugin = option(section, "type").map_or(name.as_str(), |setting| setting.value.as_str());
        let starts = |key: &str| matches!(key, "script_pre" | "script_post") || (key == "script" && plugin == "script");
        let all = section.iter().filter(|setting| starts(&setting.key));
        all.map(|setting| (name.clone(), setting.clone())).collect::<Vec<_>>()
    };
    profile.iter().flat_map(of_section).collect()
}

/// The path of a script, which goes by its profile's folder.
fn script(setting: &Setting, variables: &BTreeMap<String, String>) -> Option<(Place, String)> {
    let (folder, _) = setting.file.rsplit_once('/')?;
    let value = expanded(&setting.value, variables).replace("${i:PROFILE_DIR}", folder);
    let path = unquoted(&value);
    let path = if path.starts_with('/') { path.to_owned() } else { format!("{folder}/{path}") };
    Some((place(&setting.file, setting.line), path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::MapSource;

    #[test]
    fn scripts_of_all_profiles_that_are_included_are_started() {
        let source = MapSource::new()
            .file("/etc/tuned/active_profile", "mine\n")
            .file("/etc/tuned/mine/tuned.conf", "[main]\ninclude=base\n[script]\nscript=${i:PROFILE_DIR}/s.sh\n")
            .file(
                "/usr/lib/tuned/base/tuned.conf",
                "[script]\nscript=b.sh\n[sysfs]\n/sys/kernel/mm/x=5\n[vm]\nscript=no.sh\nscript_post=/opt/p.sh\n",
            );
        let found = started(&Door::new(&source));
        let scripts: Vec<&str> = found.scripts.iter().map(|(_, path)| path.as_str()).collect();
        assert_eq!(scripts, ["/usr/lib/tuned/base/b.sh", "/opt/p.sh", "/etc/tuned/mine/s.sh"]);
        assert_eq!(found.writes[0].1, "echo 5 > /sys/kernel/mm/x");
        let replaced = source.clone().file(
            "/etc/tuned/mine/tuned.conf",
            "[main]\ninclude=base\n[script]\nreplace=1\nscript=s.sh\n[vm]\nenabled=0\n",
        );
        let scripts: Vec<String> = started(&Door::new(&replaced)).scripts.into_iter().map(|(_, path)| path).collect();
        assert_eq!(scripts, ["/etc/tuned/mine/s.sh"]);
        assert!(started(&Door::new(&MapSource::new())).scripts.is_empty());
    }
}
