//! What TuneD's active profile starts, and what it writes to files of the kernel's by their names:
//! scripts that belong to nobody else's care, and the `[sysfs]` plugin.

use std::collections::BTreeMap;

use hugewise_model::configuration::FileLocation;

use super::{
    ProfileLoader, Sections, TunedOption, expand_profile_variables, is_of_section, is_true,
    plugin_name, strip_quotes, variables_of,
};
use crate::files::file_location;
use hugewise_source::FactReader;

#[derive(Clone, Debug, Default)]
pub(crate) struct ProfileActions {
    pub(crate) scripts: Vec<(FileLocation, String)>,
    /// Writes to files below /sys and /proc, as commands of a shell.
    pub(crate) writes: Vec<(FileLocation, String)>,
}

/// What cannot be read is said where the profile is read for itself.
pub(crate) fn read_profile_actions(door: &FactReader<'_>) -> ProfileActions {
    let mut quiet = FactReader::new(door.source);
    let active = quiet.read("/etc/tuned/active_profile").into_known().unwrap_or_default();
    let names: Vec<String> =
        String::from_utf8_lossy(&active).split_whitespace().map(str::to_owned).collect();
    let mut loader = ProfileLoader::new(&mut quiet);
    if names.is_empty() || loader.load_all(&names).is_err() {
        return ProfileActions::default();
    }
    let Ok(variables) = variables_of(&loader.merged) else { return ProfileActions::default() };
    let is_on = |section: &str| {
        loader.merged.get(section).is_none_or(|section| is_true(section, "enabled") != Some(false))
    };
    let scripts = loader.scripts.iter().filter(|(section, _)| is_on(section));
    let scripts =
        scripts.filter_map(|(_, setting)| parse_script_path(setting, &variables)).collect();
    let of_sysfs = loader
        .merged
        .iter()
        .filter(|(name, section)| plugin_name(name, section) == "sysfs" && is_on(name));
    let writes =
        of_sysfs.flat_map(|(_, section)| section).filter(|setting| !is_of_section(&setting.key));
    let write = |setting: &TunedOption| {
        let value = expand_profile_variables(&setting.value, &variables);
        (
            file_location(&setting.file, setting.line),
            format!("echo {} > {}", strip_quotes(&value), setting.key),
        )
    };
    ProfileActions { scripts, writes: writes.map(write).collect() }
}

/// That of each `[script]` section, and those that go before and after any.
pub(super) fn of_profile(profile: &Sections) -> Vec<(String, TunedOption)> {
    let of_section = |(name, section): (&String, &super::TunedSection)| {
        let is_script = plugin_name(name, section) == "script";
        let starts = |key: &str| {
            matches!(key, "script_pre" | "script_post") || (key == "script" && is_script)
        };
        let all = section.iter().filter(|setting| starts(&setting.key));
        all.map(|setting| (name.clone(), setting.clone())).collect::<Vec<_>>()
    };
    profile.iter().flat_map(of_section).collect()
}

fn parse_script_path(
    setting: &TunedOption,
    variables: &BTreeMap<String, String>,
) -> Option<(FileLocation, String)> {
    let (folder, _) = setting.file.rsplit_once('/')?;
    let value =
        expand_profile_variables(&setting.value, variables).replace("${i:PROFILE_DIR}", folder);
    let path = strip_quotes(&value);
    let path = if path.starts_with('/') { path.to_owned() } else { format!("{folder}/{path}") };
    Some((file_location(&setting.file, setting.line), path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hugewise_source::MapSource;

    #[test]
    fn scripts_of_all_profiles_that_are_included_are_started() {
        let source = MapSource::new()
            .with_file("/etc/tuned/active_profile", "mine\n")
            .with_file("/etc/tuned/mine/tuned.conf", "[main]\ninclude=base\n[script]\nscript=${i:PROFILE_DIR}/s.sh\n")
            .with_file(
                "/usr/lib/tuned/base/tuned.conf",
                "[script]\nscript=b.sh\n[sysfs]\n/sys/kernel/mm/x=5\n[vm]\nscript=no.sh\nscript_post=/opt/p.sh\n",
            );
        let found = read_profile_actions(&FactReader::new(&source));
        let scripts: Vec<&str> = found.scripts.iter().map(|(_, path)| path.as_str()).collect();
        assert_eq!(scripts, ["/usr/lib/tuned/base/b.sh", "/opt/p.sh", "/etc/tuned/mine/s.sh"]);
        assert_eq!(found.writes[0].1, "echo 5 > /sys/kernel/mm/x");
        let replaced = source.clone().with_file(
            "/etc/tuned/mine/tuned.conf",
            "[main]\ninclude=base\n[script]\nreplace=1\nscript=s.sh\n[vm]\nenabled=0\n",
        );
        let scripts: Vec<String> = read_profile_actions(&FactReader::new(&replaced))
            .scripts
            .into_iter()
            .map(|(_, path)| path)
            .collect();
        assert_eq!(scripts, ["/etc/tuned/mine/s.sh"]);
        assert!(read_profile_actions(&FactReader::new(&MapSource::new())).scripts.is_empty());
    }
}
