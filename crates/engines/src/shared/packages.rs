//! Versions of packaged servers, on the host and in containers: dpkg's list, which is text. What
//! RPM keeps is a database that only its own library reads.

use hugewise_host::Source;
use hugewise_model::Process;

use crate::EngineContext;
use crate::shared::options;

/// dpkg(1), "Files".
const STATUS: &str = "/var/lib/dpkg/status";
const PROGRAM_FOLDERS: [&str; 2] = ["/usr/bin/", "/usr/sbin/"];

/// The version of the first of these packages that is installed where a process lives. None of a
/// program that no package brought, or that was replaced since it was started.
pub(crate) fn find_package_version(
    scene: &EngineContext<'_>,
    process: &Process,
    packages: &[&str],
) -> Option<String> {
    let program = options::as_process_names(process, process.executable.as_known()?);
    let is_packaged = PROGRAM_FOLDERS.iter().any(|folder| program.starts_with(folder));
    if !is_packaged || program.ends_with(" (deleted)") {
        return None;
    }
    let path = options::as_reader_opens(scene.host, process, STATUS);
    let bytes = scene.host_files_for(process).read(&path).into_known()?;
    let text = String::from_utf8_lossy(&bytes);
    let (_, version) = installed_packages(&text).find(|(name, _)| packages.contains(name))?;
    upstream_version(version).map(str::to_owned)
}

/// The installed packages and their versions: stanzas of deb822(5).
fn installed_packages(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.split("\n\n").filter_map(|stanza| {
        let fields = || stanza.lines().filter_map(|line| line.split_once(':'));
        let field = |wanted: &str| {
            fields().find(|(name, _)| *name == wanted).map(|(_, value)| value.trim())
        };
        let is_installed = field("Status")?.split(' ').nth(2) == Some("installed");
        Some((field("Package")?, field("Version")?)).filter(|_| is_installed)
    })
}

/// `7.0.5` of `1:7.0.5-1~jammy` (deb-version(7)).
fn upstream_version(version: &str) -> Option<&str> {
    let behind = version.split_once(':').map_or(version, |(_, behind)| behind);
    let end = behind.find(|sign: char| !sign.is_ascii_digit() && sign != '.');
    let upstream = behind.get(..end.unwrap_or(behind.len()))?.trim_end_matches('.');
    (!upstream.is_empty()).then_some(upstream)
}

/// What a capture keeps of dpkg's list: these packages' versions.
pub(crate) fn keep_package_versions(
    path: &str,
    bytes: &[u8],
    packages: &[&str],
) -> Option<Vec<u8>> {
    if path != STATUS {
        return None;
    }
    let text = String::from_utf8_lossy(bytes);
    let ours = installed_packages(&text).filter(|(name, _)| packages.contains(name));
    let kept = ours.filter_map(|(name, version)| {
        let version = upstream_version(version)?;
        Some(format!("Package: {name}\nStatus: install ok installed\nVersion: {version}\n\n"))
    });
    Some(kept.collect::<String>().into_bytes())
}

#[cfg(test)]
mod tests {
    use hugewise_host::source::MapSource;
    use hugewise_model::{Host, Observed};

    use super::*;

    const LIST: &str = "Package: mongodb-org\nStatus: install ok installed\nVersion: 5.0.5\n\n\
        Package: mongodb-org-server\nStatus: deinstall ok config-files\nVersion: 4.4.1\n\n\
        Package: mongodb-server-core\nStatus: hold ok installed\nMaintainer: S3\n\
        Version: 1:3.6.8-2ubuntu2\nDescription: S3\n Version: 9\n";
    const OURS: [&str; 2] = ["mongodb-org-server", "mongodb-server-core"];

    fn version_of(program: &str, root: Option<&str>) -> Option<String> {
        let inside = root.unwrap_or_default();
        let source = MapSource::new().with_file(&format!("{inside}{STATUS}"), LIST);
        let process = Process {
            pid: 7,
            executable: Observed::Known(program.into()),
            root: root.map(|_| "/srv/root".to_owned()).into(),
            ..Process::default()
        };
        let host = Host::default();
        find_package_version(&EngineContext::new(&host, &source), &process, &OURS)
    }

    #[test]
    fn a_packaged_program_has_its_packages_version() {
        assert_eq!(version_of("/usr/bin/mongod", None).as_deref(), Some("3.6.8"));
        let inside = version_of("/srv/root/usr/bin/mongod", Some("/proc/7/root"));
        assert_eq!(inside.as_deref(), Some("3.6.8"));
        // Another program than the package's, and one that runs on after an upgrade.
        for program in
            ["/opt/mongodb/bin/mongod", "/usr/local/bin/mongod", "/usr/bin/mongod (deleted)"]
        {
            assert_eq!(version_of(program, None), None, "{program}");
        }
    }

    #[test]
    fn a_capture_keeps_the_version_alone() {
        let kept = keep_package_versions(STATUS, LIST.as_bytes(), &OURS).unwrap();
        let text = String::from_utf8(kept.clone()).unwrap();
        assert_eq!(
            text,
            "Package: mongodb-server-core\nStatus: install ok installed\nVersion: 3.6.8\n\n"
        );
        assert_eq!(keep_package_versions(STATUS, &kept, &OURS), Some(kept));
        assert_eq!(keep_package_versions("/srv/status", LIST.as_bytes(), &OURS), None);
    }
}
