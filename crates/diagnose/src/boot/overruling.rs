//! The files in which a plan keeps the pools of the next boot, and what overrules them there.

use hugewise_model::configuration::{FileLocation, SysctlAssignment, SysctlFiles};
use hugewise_model::configuration::{TmpfilesWrite, Unheeding};
use hugewise_model::{Host, Observed, PageCount, PageSize};

use super::{BootPlace, copy_boot_facts, default_size, find_ignored_files, predict_pool_steps};
use crate::Missing;
use crate::wording::{node_pool_file, pool_file};

/// sysctl.d: the pool of the default page size. The last file by name wins.
pub const SYSCTL_POOL: &str = "/etc/sysctl.d/zz-hugewise-pool.conf";
/// tmpfiles.d: pools of other page sizes, and of single nodes. The first line of a path wins.
pub const TMPFILES_POOLS: &str = "/etc/tmpfiles.d/00-hugewise-pools.conf";

const SETTING: &str = "/proc/sys/vm/nr_hugepages";

/// Why a pool that a plan keeps in its files is not there after the next boot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Overruled {
    /// Another line is read after the plan's.
    By {
        /// Where it stands.
        place: BootPlace,
        /// Pages that the pool has after it.
        pages: PageCount,
    },
    /// The service that carries such files out is masked.
    Masked {
        /// Its name.
        service: &'static str,
        /// The link that masks it.
        link: String,
    },
    /// Nothing here reads a file in which a plan could keep it.
    NotRead,
    /// The script that reads them all is switched off.
    SwitchedOff {
        /// The command that switches it on.
        switched_on_by: &'static str,
    },
}

impl std::fmt::Display for Overruled {
    /// What has to be done for the plan's line to count, as it follows a colon.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::By { place, pages } => {
                write!(f, "remove {place}, which has the last word and sets {pages}")
            }
            Self::Masked { service, link } => {
                write!(f, "unmask {service} ({link}), without which no such file counts")
            }
            Self::SwitchedOff { switched_on_by } => {
                write!(f, "write it to /etc/sysctl.conf, and have that read: {switched_on_by}")
            }
            Self::NotRead => f.write_str(
                "write it to /etc/sysctl.conf, which is all that this host's boot reads",
            ),
        }
    }
}

/// What keeps the next boot from having so many pages of a size, with the files that a plan writes
/// for them; none where nothing does.
///
/// # Errors
/// A file that counts could not be read.
pub fn find_overruling(
    host: &Host,
    page: PageSize,
    pages: PageCount,
) -> Result<Option<Overruled>, Missing> {
    let enough = |host: &Host| {
        Ok(predict_pool_steps(host, page)?
            .last()
            .is_some_and(|step| PageCount(step.value) >= pages))
    };
    if pages == PageCount::ZERO || enough(host)? {
        return Ok(None);
    }
    // A plan goes by the files whose service is not masked.
    let by_setting = is_default(host, page) && find_ignored_files(host, "sysctl.d").is_none();
    let after = with_files(host, page, pages, by_setting);
    if enough(&after)? {
        return Ok(None);
    }
    let files = if by_setting { "sysctl.d" } else { "tmpfiles.d" };
    match find_ignored_files(host, files).map(|ignored_file| &ignored_file.why) {
        Some(Unheeding::Masked { service, by }) => {
            return Ok(Some(Overruled::Masked { service, link: by.clone() }));
        }
        Some(Unheeding::NotRead(_)) => {
            return Ok(Some(match host.configuration.sysctl_files {
                SysctlFiles::Nothing { switched_on_by } => {
                    Overruled::SwitchedOff { switched_on_by }
                }
                _ => Overruled::NotRead,
            }));
        }
        None => {}
    }
    let last = predict_pool_steps(&after, page)?.pop();
    Ok(last.map(|step| Overruled::By { place: step.place, pages: PageCount(step.value) }))
}

/// Whether a plan sets this pool by `vm.nr_hugepages`: it counts such pages, now and at the boot.
fn is_default(host: &Host, page: PageSize) -> bool {
    host.default_huge_page.get() == Some(page) && default_size(host) == Some(page)
}

fn with_files(host: &Host, page: PageSize, pages: PageCount, by_setting: bool) -> Host {
    let mut after = copy_boot_facts(host);
    let files = &mut after.configuration;
    let value = pages.get().to_string();
    if by_setting {
        files.sysctl =
            or_none(&files.sysctl).map(|all| with_setting(all, &value, files.sysctl_files));
        if let Observed::Known(tuned) = &mut files.tuned
            && !tuned.reapplied.is_absent()
        {
            tuned.reapplied = tuned
                .reapplied
                .clone()
                .map(|all| with_setting(all, &value, SysctlFiles::FoldersThenConf));
        }
    }
    if find_ignored_files(host, "tmpfiles.d").is_none() {
        files.tmpfiles =
            or_none(&files.tmpfiles).map(|all| with_writes(host, page, all, &value, by_setting));
    }
    after
}

fn or_none<T: Clone>(files: &Observed<Vec<T>>) -> Observed<Vec<T>> {
    files.clone().or_else_absent(|| Observed::Known(Vec::new()))
}

/// Files are read in the order of their names, and /etc/sysctl.conf before or after them.
fn with_setting(
    mut all: Vec<SysctlAssignment>,
    value: &str,
    read: SysctlFiles,
) -> Vec<SysctlAssignment> {
    let conf_is_first = matches!(read, SysctlFiles::ConfThenFolder { .. });
    let counts = |setting: &SysctlAssignment| setting.key.starts_with("vm.nr_hugepages");
    all.retain(|setting| !(counts(setting) && setting.place.file == SYSCTL_POOL));
    let is_later = |setting: &SysctlAssignment| {
        let comes_later = if setting.place.file.contains("/sysctl.d/") {
            file_name(&setting.place.file) > file_name(SYSCTL_POOL)
        } else {
            !conf_is_first
        };
        counts(setting) && comes_later
    };
    let at = all.iter().position(is_later).unwrap_or(all.len());
    let (key, value) = ("vm.nr_hugepages".into(), value.into());
    all.insert(at, SysctlAssignment { key, value, place: at_top(SYSCTL_POOL) });
    all
}

/// The plan says the same to each file that a line names; of lines on one file the first counts.
fn with_writes(
    host: &Host,
    page: PageSize,
    mut all: Vec<TmpfilesWrite>,
    value: &str,
    by_setting: bool,
) -> Vec<TmpfilesWrite> {
    let file = pool_file(page, "nr_hugepages");
    let counts_them = default_size(host) == Some(page);
    let of_nodes: Vec<String> = host
        .find_pool(page)
        .into_iter()
        .flat_map(|pool| &pool.nodes)
        .map(|part| node_pool_file(part.node, page))
        .collect();
    let is_own = |path: &str| path == file || (counts_them && path == SETTING);
    let is_named = |path: &str| all.iter().any(|write| write.path == path);
    let (names_file, names_setting) = (is_named(&file), counts_them && is_named(SETTING));
    let comes_first =
        |write: &TmpfilesWrite| file_name(&write.place.file) < file_name(TMPFILES_POOLS);
    let taken: Vec<String> =
        all.iter().filter(|write| comes_first(write)).map(|write| write.path.clone()).collect();
    all.retain(|write| {
        comes_first(write) || !(is_own(&write.path) || of_nodes.contains(&write.path))
    });
    let write = |path: &str| TmpfilesWrite {
        path: path.into(),
        value: value.into(),
        place: at_top(TMPFILES_POOLS),
    };
    let ours =
        [(!by_setting || names_file).then_some(file.as_str()), names_setting.then_some(SETTING)];
    let at = all.iter().position(|write| !comes_first(write)).unwrap_or(all.len());
    for path in ours.into_iter().flatten().filter(|path| !taken.iter().any(|text| text == path)) {
        all.insert(at, write(path));
    }
    all
}

fn file_name(file: &str) -> &str {
    file.rsplit('/').next().unwrap_or_default()
}

fn at_top(file: &str) -> FileLocation {
    FileLocation { file: file.into(), line: 1 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hugewise_model::configuration::IgnoredFile;

    use crate::testing::{Case, gib, quiet, sysctl};

    fn said(change: impl FnOnce(&mut Case)) -> Option<String> {
        let mut case = quiet();
        case.postgresql("15/main", gib(1));
        change(&mut case);
        find_overruling(&case.host, PageSize::MIB_2, PageCount(537))
            .unwrap()
            .map(|why| why.to_string())
    }

    fn in_file(file: &str, pages: &str) -> SysctlAssignment {
        SysctlAssignment {
            place: FileLocation { file: file.into(), line: 1 },
            ..sysctl("vm.nr_hugepages", pages)
        }
    }

    fn write(file: &str, path: &str) -> TmpfilesWrite {
        TmpfilesWrite {
            path: path.into(),
            value: "2".into(),
            place: FileLocation { file: file.into(), line: 1 },
        }
    }

    /// sysctl.d(5): sorted by name, whatever the folder, and of one setting the last line counts.
    /// sysctl(8): of --system /etc/sysctl.conf is read last.
    #[test]
    fn what_is_read_after_the_plans_file_is_named() {
        let with = |file: &'static str, pages: &'static str| {
            said(move |case| {
                case.host.configuration.sysctl = Observed::Known(vec![in_file(file, pages)])
            })
        };
        let out =
            |file: &str| Some(format!("remove {file}:1, which has the last word and sets 100"));
        assert_eq!(with("/etc/sysctl.d/zzz-last.conf", "100"), out("/etc/sysctl.d/zzz-last.conf"));
        assert_eq!(with("/usr/lib/sysctl.d/zzz.conf", "100"), out("/usr/lib/sysctl.d/zzz.conf"));
        assert_eq!(with("/etc/sysctl.conf", "100"), out("/etc/sysctl.conf"));
        assert_eq!(with("/etc/sysctl.d/99-sysctl.conf", "100"), None);
        assert_eq!(with("/etc/sysctl.d/zz-hugewise-pool.conf", "100"), None);
        assert_eq!(with("/etc/sysctl.d/zzz-last.conf", "600"), None);
    }

    /// `apply_sysctl` of initscripts reads sysctl.conf first; without the folder nothing of a
    /// plan's is read.
    #[test]
    fn rc_sysinit_reads_the_plans_file_last_or_not_at_all() {
        let with = |files, unheeded: Vec<IgnoredFile>| {
            said(move |case| {
                case.host.configuration.sysctl =
                    Observed::Known(vec![in_file("/etc/sysctl.conf", "100")]);
                case.host.configuration.sysctl_files = files;
                case.host.configuration.unheeded = unheeded;
            })
        };
        assert_eq!(with(SysctlFiles::ConfThenFolder { any_name: true }, Vec::new()), None);
        let not_read = |files| IgnoredFile { files, why: Unheeding::NotRead("it is so".into()) };
        let why = "write it to /etc/sysctl.conf, which is all that this host's boot reads";
        let both = vec![not_read("sysctl.d"), not_read("tmpfiles.d")];
        assert_eq!(with(SysctlFiles::Conf, both.clone()).as_deref(), Some(why));
        let off = SysctlFiles::Nothing { switched_on_by: "chkconfig boot.sysctl on" };
        let how = "write it to /etc/sysctl.conf, and have that read: chkconfig boot.sysctl on";
        assert_eq!(with(off, both).as_deref(), Some(how));
    }

    /// tmpfiles.d(5): of lines about one path the first counts. A pattern is another path, and
    /// comes after.
    #[test]
    fn lines_of_tmpfiles_are_overruled_where_a_plan_can() {
        let with = |file: &'static str, path: &'static str| {
            said(move |case| {
                case.host.configuration.tmpfiles = Observed::Known(vec![write(file, path)])
            })
        };
        let pool = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages";
        assert_eq!(with("/etc/tmpfiles.d/a.conf", pool), None);
        assert_eq!(with("/usr/lib/tmpfiles.d/a.conf", SETTING), None);
        let first = "/etc/tmpfiles.d/00-a.conf";
        let out = |file: &str| Some(format!("remove {file}:1, which has the last word and sets 2"));
        assert_eq!(with(first, pool), out(first));
        assert_eq!(
            with("/etc/tmpfiles.d/a.conf", "/sys/kernel/mm/hugepages/*/nr_hugepages"),
            out("/etc/tmpfiles.d/a.conf")
        );
    }

    #[test]
    fn a_service_that_does_not_run_carries_nothing_out() {
        let link = "/etc/systemd/system/systemd-tmpfiles-setup.service";
        let service = |service, files| IgnoredFile {
            files,
            why: Unheeding::Masked { service, by: link.to_owned() },
        };
        let sysctl = || service("systemd-sysctl.service", "sysctl.d");
        let tmpfiles = || service("systemd-tmpfiles-setup.service", "tmpfiles.d");
        let both = |case: &mut Case| {
            case.host.configuration.sysctl = Observed::Known(Vec::new());
            case.host.configuration.unheeded = vec![sysctl(), tmpfiles()];
        };
        let why = format!(
            "unmask systemd-tmpfiles-setup.service ({link}), without which no such file counts"
        );
        assert_eq!(said(both), Some(why));
        // Either one is enough for a plan.
        assert_eq!(said(|case| case.host.configuration.unheeded = vec![tmpfiles()]), None);
        let other = |case: &mut Case| {
            case.host.configuration.sysctl = Observed::Known(Vec::new());
            case.host.configuration.unheeded = vec![sysctl()];
        };
        assert_eq!(said(other), None);
    }
}
