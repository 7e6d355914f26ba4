//! Where the boot mounts a hugetlbfs: lines of /etc/fstab, and mount units of systemd's.

use std::collections::BTreeSet;

use hugewise_model::Observed;
use hugewise_model::configuration::{BootMount, FileLocation};
use hugewise_model::host::HugetlbfsMount;

use super::systemd::FOLDERS;
use hugewise_procfs::kernel::mounts::MOST_HUGETLBFS;
use hugewise_source::{FactReader, ParseError};

/// What systemd mounts by a unit of its own, unless that is masked.
const OF_SYSTEMD: &str = "/dev/hugepages";

const FSTAB: &str = "/etc/fstab";

/// Those of /etc/fstab, systemd's own, and of those mounted now the ones that a unit mounts; with
/// the lines that keep the boot from it. Denied where a file that counts is.
pub fn read(
    door: &mut FactReader<'_>,
    mounted: &Observed<Vec<HugetlbfsMount>>,
) -> Observed<Vec<BootMount>> {
    let named = door.parse(FSTAB, parse).or_else_absent(|| Observed::Known(Vec::new()));
    named.and_then(|mut mounts| {
        // A line for the same folder takes a unit's place (systemd-fstab-generator(8)).
        let is_same =
            |one: &str, other: &str| one.trim_end_matches('/') == other.trim_end_matches('/');
        let has =
            |mounts: &[BootMount], path| mounts.iter().any(|mount| is_same(&mount.path, path));
        let own = mounts.iter().position(|mount| mount.path == OF_SYSTEMD);
        if !is_masked(door, &escape_mount_unit(OF_SYSTEMD)) {
            // sysinit.target wants its unit, whatever the line says of `noauto`.
            let line = own.map(|at| mounts.remove(at)).unwrap_or_default();
            let path = OF_SYSTEMD.to_owned();
            mounts.push(BootMount { path, options: line.options, noauto: None });
        }
        for mount in mounted.as_known().into_iter().flatten() {
            if has(&mounts, &mount.path) || mount.path == OF_SYSTEMD {
                continue;
            }
            match is_mounted_by_unit(door, &escape_mount_unit(&mount.path)) {
                Observed::Known(true) => {
                    let (path, options) = (mount.path.clone(), mount.options.clone());
                    mounts.push(BootMount { path, options, noauto: None });
                }
                Observed::Known(false) | Observed::Absent => {}
                Observed::Denied => return Observed::Denied,
                Observed::Malformed(why) => return Observed::Malformed(why),
            }
        }
        Observed::Known(mounts)
    })
}

/// The mount unit of a folder, as systemd escapes its path (systemd.unit(5)).
fn escape_mount_unit(folder: &str) -> String {
    let mut name = String::new();
    for (at, byte) in folder.trim_matches('/').bytes().enumerate() {
        match byte {
            b'/' => name.push('-'),
            b'.' if at == 0 => name.push_str("\\x2e"),
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b':' | b'_' | b'.' => {
                name.push(char::from(byte))
            }
            other => name.push_str(&format!("\\x{other:02x}")),
        }
    }
    name + ".mount"
}

fn persistent_unit_folders() -> impl Iterator<Item = &'static str> {
    FOLDERS.into_iter().filter(|folder| !folder.starts_with("/run/"))
}

fn is_masked(door: &FactReader<'_>, unit: &str) -> bool {
    let mut links =
        persistent_unit_folders().map(|folder| door.source.read_link(&format!("{folder}/{unit}")));
    links.any(|link| link.as_known().is_some_and(|target| target == "/dev/null"))
}

/// Whether a unit is there, and another one has the boot start it or its automount.
fn is_mounted_by_unit(door: &mut FactReader<'_>, unit: &str) -> Observed<bool> {
    let there = persistent_unit_folders()
        .any(|folder| door.source.read(&format!("{folder}/{unit}")).is_known());
    if !there || is_masked(door, unit) {
        return Observed::Known(false);
    }
    let automount =
        unit.strip_suffix("mount").map(|stem| format!("{stem}automount")).unwrap_or_default();
    for folder in persistent_unit_folders() {
        let names = match door.list_folder(folder) {
            Observed::Known(names) => names,
            Observed::Absent => continue,
            other => return other.map(|_| false),
        };
        let pull =
            names.iter().filter(|name| name.ends_with(".wants") || name.ends_with(".requires"));
        for pulls in pull {
            let named = |unit: &str| {
                !door.source.read_link(&format!("{folder}/{pulls}/{unit}")).is_absent()
            };
            if named(unit) || named(&automount) {
                return Observed::Known(true);
            }
        }
    }
    Observed::Known(false)
}

/// Lines of the type hugetlbfs (fstab(5)). Of several for one folder the first counts:
/// systemd-fstab-generator(8) makes one unit of a folder, and leaves the other lines out. `noauto`
/// leaves it to a person, but for an automount (systemd.mount(5)).
///
/// # Errors
/// More mounts than any host has. A line that makes no sense mounts nothing.
pub fn parse(bytes: &[u8]) -> Result<Vec<BootMount>, ParseError> {
    let text = String::from_utf8_lossy(bytes);
    let mount = |(line, text): (u64, &str)| {
        let mut fields = text.split_whitespace();
        let (device, folder, kind) = (fields.next()?, fields.next()?, fields.next()?);
        let options = fields.next().unwrap_or_default();
        let has = |word: &str| options.split(',').any(|option| option == word);
        let noauto =
            has("noauto") && !has("x-systemd.automount") && !has("comment=systemd.automount");
        // A space in a path is written so.
        let path = folder.trim_end_matches('/').replace("\\040", " ");
        let is_one = !device.starts_with('#') && kind == "hugetlbfs" && !path.is_empty();
        let noauto = noauto.then(|| FileLocation { file: FSTAB.to_owned(), line });
        is_one.then(|| BootMount { path, options: options.to_owned(), noauto })
    };
    let mut mounts: Vec<BootMount> = (1..).zip(text.lines()).filter_map(mount).collect();
    if mounts.len() > MOST_HUGETLBFS {
        return Err(ParseError::whole_file("more than 4096 mounts of hugetlbfs"));
    }
    let mut seen = BTreeSet::new();
    mounts.retain(|mount| seen.insert(mount.path.clone()));
    Ok(mounts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hugewise_source::map::MapSource;

    #[test]
    fn lines_of_hugetlbfs_that_the_boot_mounts() {
        let text = "# nodev /off hugetlbfs defaults 0 0\n/dev/sda1 / ext4 defaults 0 1\nnodev \
             /huge hugetlbfs pagesize=2M 0 0\n\
                    nodev /later hugetlbfs noauto,pagesize=1G 0 \
             0\nnone\t/a\\040b\thugetlbfs\nshort line\n";
        let mount = |path: &str, options: &str| BootMount {
            path: path.into(),
            options: options.into(),
            noauto: None,
        };
        let made = parse(text.as_bytes())
            .unwrap()
            .into_iter()
            .filter(BootMount::is_made)
            .collect::<Vec<_>>();
        assert_eq!(made, [mount("/huge", "pagesize=2M"), mount("/a b", "")]);
    }

    /// What systemd-fstab-generator of systemd 252 makes of such lines: one unit for a folder, by
    /// the first line, and nothing that wants it where that says `noauto`; "Failed to create unit
    /// file ..., as it already exists. Duplicate entry in ..." of the second. With an automount the
    /// boot waits for whoever opens the folder, `noauto` or not.
    #[test]
    fn of_two_lines_for_one_folder_the_first_counts() {
        let (hand, made) = (
            "nodev /mnt/huge/ hugetlbfs noauto,pagesize=1G 0 0\n",
            "none /mnt/huge hugetlbfs pagesize=2M 0 0\n",
        );
        let one = |text: &str| {
            let mounts = parse(text.as_bytes()).unwrap();
            assert_eq!(mounts.len(), 1, "{mounts:?}");
            (
                mounts[0].path.clone(),
                mounts[0].options.clone(),
                mounts[0].noauto.as_ref().map(ToString::to_string),
            )
        };
        let path = || "/mnt/huge".to_owned();
        let held = Some("/etc/fstab:1".to_owned());
        assert_eq!(one(&format!("{hand}{made}")), (path(), "noauto,pagesize=1G".into(), held));
        assert_eq!(one(&format!("{made}{hand}")), (path(), "pagesize=2M".into(), None));
        let automount = "nodev /mnt/huge hugetlbfs noauto,x-systemd.automount 0 0\n";
        assert_eq!(one(automount), (path(), "noauto,x-systemd.automount".into(), None));
        // The folder that systemd mounts itself is mounted all the same.
        let source = MapSource::new()
            .with_file("/etc/fstab", "nodev /dev/hugepages hugetlbfs noauto,pagesize=1G 0 0\n");
        let mounts = read(&mut FactReader::new(&source), &Observed::Known(Vec::new()));
        let own = mounts.as_known().and_then(|mounts| mounts.first());
        assert!(
            own.is_some_and(
                |boot_mount| boot_mount.is_made() && boot_mount.options == "noauto,pagesize=1G"
            ),
            "{own:?}"
        );
    }

    fn mounted(folder: &str) -> Observed<Vec<HugetlbfsMount>> {
        let page_size = Observed::Known(hugewise_model::PageSize::MIB_2);
        Observed::Known(vec![HugetlbfsMount {
            path: folder.into(),
            page_size,
            options: "rw".into(),
        }])
    }

    fn after_boot(source: &MapSource, folder: &str) -> Observed<Vec<String>> {
        let mounts = read(&mut FactReader::new(source), &mounted(folder));
        mounts.map(|mounts| mounts.into_iter().map(|mount| mount.path).collect())
    }

    /// What `systemd-escape --path` of systemd 252 prints.
    #[test]
    fn a_folders_unit_has_its_path_for_a_name() {
        for (folder, unit) in [
            ("/dev/hugepages", "dev-hugepages.mount"),
            ("/mnt/huge-1G/", "mnt-huge\\x2d1G.mount"),
            ("/a b", "a\\x20b.mount"),
            ("/.huge", "\\x2ehuge.mount"),
        ] {
            assert_eq!(escape_mount_unit(folder), unit);
        }
    }

    #[test]
    fn a_unit_mounts_it_where_another_one_wants_it() {
        let unit = "[Mount]\nWhat=none\nWhere=/mnt/huge\nType=hugetlbfs\n";
        let known = |folders: &[&str]| {
            Observed::Known(folders.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>())
        };
        let nothing = MapSource::new();
        assert_eq!(after_boot(&nothing, "/mnt/huge"), known(&["/dev/hugepages"]));
        let there = nothing.with_file("/etc/systemd/system/mnt-huge.mount", unit);
        assert_eq!(after_boot(&there, "/mnt/huge"), known(&["/dev/hugepages"]));
        let wants = "/etc/systemd/system/multi-user.target.wants/mnt-huge";
        for name in ["mount", "automount"] {
            let wanted =
                there.clone().with_link(&format!("{wants}.{name}"), &format!("../mnt-huge.{name}"));
            assert_eq!(
                after_boot(&wanted, "/mnt/huge"),
                known(&["/dev/hugepages", "/mnt/huge"]),
                "{name}"
            );
        }
        // What a generator or somebody made below /run is gone with the boot.
        let passing =
            MapSource::new().with_file("/run/systemd/generator/mnt-huge.mount", unit).with_link(
                "/run/systemd/generator/local-fs.target.requires/mnt-huge.mount",
                "../mnt-huge.mount",
            );
        assert_eq!(after_boot(&passing, "/mnt/huge"), known(&["/dev/hugepages"]));
        let masked =
            MapSource::new().with_link("/etc/systemd/system/dev-hugepages.mount", "/dev/null");
        assert_eq!(after_boot(&masked, "/mnt/huge"), known(&[]));
        assert_eq!(
            after_boot(&MapSource::new().with_denied("/etc/fstab"), "/mnt/huge"),
            Observed::Denied
        );
    }
}
