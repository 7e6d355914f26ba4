//! The system's own sysctl files as TuneD writes them once more after its profile
//! (`plugin_sysctl.py` of TuneD 2.20).

use hugewise_model::{Observed, configuration::SysctlAssignment};

use crate::files::{file_location, numbered_lines, parse_all_files};
use hugewise_source::FactReader;

/// Files of /usr/lib are not written again. TuneD reads /run/sysctl.d before this one, which is
/// empty when a host boots.
const FOLDER: &str = "/etc/sysctl.d";

/// The assignments in the order in which they are written; absent where TuneD is told not to.
pub(super) fn read(door: &mut FactReader<'_>) -> Observed<Vec<SysctlAssignment>> {
    match door.read("/etc/tuned/tuned-main.conf") {
        Observed::Known(bytes) if !is_on(&bytes) => return Observed::Absent,
        Observed::Known(_) | Observed::Absent => {}
        unknown => return unknown.map(|_| Vec::new()),
    }
    let mut names = match door.list_folder(FOLDER) {
        Observed::Known(names) => names,
        Observed::Absent => Vec::new(),
        unknown => return unknown.map(|_| Vec::new()),
    };
    names.retain(|name| name.ends_with(".conf"));
    names.sort();
    let is_folder = |path: &String| door.source.list_folder(path).is_known();
    let paths = names.into_iter().map(|name| format!("{FOLDER}/{name}"));
    let mut paths: Vec<String> = paths.filter(|path| !is_folder(path)).collect();
    paths.push("/etc/sysctl.conf".to_owned());
    parse_all_files(door, &paths, parse)
}

/// `reapply_sysctl` of tuned-main.conf, which is on where it is not named.
fn is_on(bytes: &[u8]) -> bool {
    let named = numbered_lines(bytes).filter_map(|(_, line)| {
        let (key, value) = line.split_once('=')?;
        (key.trim() == "reapply_sysctl").then(|| value.trim().to_ascii_lowercase())
    });
    named.last().is_none_or(|value| ["1", "true", "yes", "y", "on"].contains(&value.as_str()))
}

/// TuneD knows neither `-key` nor patterns: both name files that are not there.
fn parse(file: &str, bytes: &[u8]) -> Vec<SysctlAssignment> {
    let assignment = |(line, text): (u64, std::borrow::Cow<'_, str>)| {
        let text = text.trim();
        let (key, value) = text.split_once('=').filter(|_| !text.starts_with(['#', ';']))?;
        let key = key.trim().replace('/', ".");
        let names_a_file =
            !key.is_empty() && !key.starts_with('-') && !key.contains(['*', '?', '[']);
        names_a_file.then(|| SysctlAssignment {
            key,
            value: value.trim().to_owned(),
            place: file_location(file, line),
        })
    };
    numbered_lines(bytes).filter_map(assignment).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hugewise_source::map::MapSource;

    fn written(source: &MapSource) -> Vec<(String, String)> {
        let read =
            read(&mut FactReader::new(source)).or_else_absent(|| Observed::Known(Vec::new()));
        read.into_known()
            .unwrap()
            .into_iter()
            .map(|sysctl_assignment| (sysctl_assignment.value, sysctl_assignment.place.to_string()))
            .collect()
    }

    #[test]
    fn files_are_written_again_after_the_profile() {
        let source = MapSource::new()
            .with_file("/etc/sysctl.conf", "vm.nr_hugepages = 4\n")
            .with_file("/etc/sysctl.d/50.conf", "vm/nr_hugepages=1\n-vm.nr_hugepages=9\nvm.*=9\n")
            .with_file("/etc/sysctl.d/60.conf", "vm.nr_hugepages=2\n")
            .with_file("/run/sysctl.d/60.conf", "vm.nr_hugepages=3\n")
            .with_file("/run/sysctl.d/70.conf", "vm.nr_hugepages=3\n")
            .with_file("/usr/lib/sysctl.d/99.conf", "vm.nr_hugepages=9\n");
        let places = [
            ("1", "/etc/sysctl.d/50.conf:1"),
            ("2", "/etc/sysctl.d/60.conf:1"),
            ("4", "/etc/sysctl.conf:1"),
        ];
        assert_eq!(
            written(&source),
            places.map(|(value, place)| (value.to_owned(), place.to_owned()))
        );
        let off = source
            .with_file("/etc/tuned/tuned-main.conf", "# reapply_sysctl = 1\nreapply_sysctl = 0\n");
        assert_eq!(written(&off), []);
    }
}
