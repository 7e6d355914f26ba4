//! The files in which a plan keeps the pools of the next boot, and what becomes of them there: others may be read after
//! them, or their service may not run.

use hugewise_model::configuration::{Place, SysctlAssignment, SysctlFiles, TmpfilesWrite, Unheeding};
use hugewise_model::{Host, Observed, PageCount, PageSize};

use super::{default_size, pool, unheeded};
use crate::Missing;
use crate::words::pool_file;

/// sysctl.d: the pool of the default page size. The last file by name wins.
pub const SYSCTL_POOL: &str = "/etc/sysctl.d/zz-hugewise-pool.conf";
/// tmpfiles.d: pools of other page sizes, and of single nodes. The first line of a path wins.
pub const TMPFILES_POOLS: &str = "/etc/tmpfiles.d/00-hugewise-pools.conf";

/// Pages of the default size.
const SETTING: &str = "/proc/sys/vm/nr_hugepages";

/// Why a pool that a plan keeps in its files is not there after the next boot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Overruled {
    /// Another line is read after the plan's.
    By {
        /// Where it stands.
        place: String,
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
}

impl std::fmt::Display for Overruled {
    /// What has to be done for the plan's line to count: it goes on behind a colon.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::By { place, pages } => write!(f, "remove {place}, which has the last word and sets {pages}"),
            Self::Masked { service, link } => {
                write!(f, "unmask {service} ({link}), without which no such file counts")
            }
            Self::NotRead => f.write_str("write it to /etc/sysctl.conf, which is all that this host's boot reads"),
        }
    }
}

/// What keeps the next boot from having so many pages of a size, with the files that a plan writes for them; none where it
/// has them, by these or by others.
///
/// # Errors
/// A file that counts could not be read.
pub fn overruled(host: &Host, page: PageSize, pages: PageCount) -> Result<Option<Overruled>, Missing> {
    let enough = |host: &Host| Ok(pool(host, page)?.last().is_some_and(|step| PageCount(step.value) >= pages));
    if pages == PageCount::ZERO || enough(host)? {
        return Ok(None);
    }
    // A plan goes by the files whose service is not masked.
    let by_setting = is_default(host, page) && unheeded(host, "sysctl.d").is_none();
    let after = with_files(host, page, pages, by_setting);
    if enough(&after)? {
        return Ok(None);
    }
    let files = if by_setting { "sysctl.d" } else { "tmpfiles.d" };
    match unheeded(host, files).map(|it| &it.why) {
        Some(Unheeding::Masked { service, by }) => return Ok(Some(Overruled::Masked { service, link: by.clone() })),
        Some(Unheeding::NotRead(_)) => return Ok(Some(Overruled::NotRead)),
        None => {}
    }
    let last = pool(&after, page)?.pop();
    Ok(last.map(|step| Overruled::By { place: step.place, pages: PageCount(step.value) }))
}

/// Whether `vm.nr_hugepages` counts pages of this size, now and at the next boot: otherwise the pool's own file is written.
fn is_default(host: &Host, page: PageSize) -> bool {
    host.default_huge_page.get() == Some(page) && default_size(host) == Some(page)
}

/// The host with the lines of a plan in its files.
fn with_files(host: &Host, page: PageSize, pages: PageCount, by_setting: bool) -> Host {
    let mut after = Host {
        kernel: host.kernel.clone(),
        architecture: host.architecture.clone(),
        base_page: host.base_page.clone(),
        default_huge_page: host.default_huge_page.clone(),
        nodes: host.nodes.clone(),
        pools: host.pools.clone(),
        command_line: host.command_line.clone(),
        ..Host::default()
    };
    after.memory.total = host.memory.total.clone();
    let (of_host, files) = (&host.configuration, &mut after.configuration);
    (files.boot, files.sysctl, files.tuned) = (of_host.boot.clone(), of_host.sysctl.clone(), of_host.tuned.clone());
    (files.tmpfiles, files.unheeded) = (of_host.tmpfiles.clone(), of_host.unheeded.clone());
    files.sysctl_files = of_host.sysctl_files;
    files.pool_writers.clone_from(&of_host.pool_writers);
    let value = pages.get().to_string();
    if by_setting {
        files.sysctl = or_none(&files.sysctl).map(|all| with_setting(all, &value, of_host.sysctl_files));
        if let Observed::Known(tuned) = &mut files.tuned
            && !tuned.reapplied.is_absent()
        {
            tuned.reapplied =
                tuned.reapplied.clone().map(|all| with_setting(all, &value, SysctlFiles::FoldersThenConf));
        }
    }
    if unheeded(host, "tmpfiles.d").is_none() {
        let counts_them = default_size(host) == Some(page);
        files.tmpfiles =
            or_none(&files.tmpfiles).map(|all| with_writes(host, page, all, &value, by_setting, counts_them));
    }
    after
}

fn or_none<T: Clone>(files: &Observed<Vec<T>>) -> Observed<Vec<T>> {
    files.clone().or_else_absent(|| Observed::Known(Vec::new()))
}

/// The settings of sysctl.d with the plan's line at its place: files are read in the order of their names, and
/// /etc/sysctl.conf before or after them.
fn with_setting(mut all: Vec<SysctlAssignment>, value: &str, read: SysctlFiles) -> Vec<SysctlAssignment> {
    let conf_is_first = matches!(read, SysctlFiles::ConfThenFolder { .. });
    let counts = |it: &SysctlAssignment| it.key.starts_with("vm.nr_hugepages");
    all.retain(|it| !(counts(it) && it.place.file == SYSCTL_POOL));
    let is_later = |it: &SysctlAssignment| {
        let is_conf = !it.place.file.contains("/sysctl.d/");
        let comes_later = if is_conf { !conf_is_first } else { name(&it.place.file) > name(SYSCTL_POOL) };
        counts(it) && comes_later
    };
    let at = all.iter().position(is_later).unwrap_or(all.len());
    all.insert(at, SysctlAssignment { key: "vm.nr_hugepages".into(), value: value.into(), place: at_top(SYSCTL_POOL) });
    all
}

/// The writes of tmpfiles.d with the plan's: it says the same to each file of the pool that a line there names, and of lines
/// about one file the first counts.
fn with_writes(
    host: &Host,
    page: PageSize,
    mut all: Vec<TmpfilesWrite>,
    value: &str,
    by_setting: bool,
    counts_them: bool,
) -> Vec<TmpfilesWrite> {
    let file = pool_file(page, "nr_hugepages");
    let folder = format!("hugepages-{}kB/nr_hugepages", page.bytes().get() >> 10);
    let nodes: Vec<u32> = host.pool(page).into_iter().flat_map(|pool| &pool.nodes).map(|part| part.node).collect();
    let of_nodes: Vec<String> =
        nodes.iter().map(|node| format!("/sys/devices/system/node/node{node}/hugepages/{folder}")).collect();
    let is_own = |path: &str| path == file || (counts_them && path == SETTING);
    let is_named = |path: &str| all.iter().any(|write| write.path == path);
    let (names_file, names_setting) = (is_named(&file), counts_them && is_named(SETTING));
    let comes_first = |write: &TmpfilesWrite| name(&write.place.file) < name(TMPFILES_POOLS);
    let taken: Vec<String> = all.iter().filter(|it| comes_first(it)).map(|it| it.path.clone()).collect();
    all.retain(|it| comes_first(it) || !(is_own(&it.path) || of_nodes.contains(&it.path)));
    let write = |path: &str| TmpfilesWrite { path: path.into(), value: value.into(), place: at_top(TMPFILES_POOLS) };
    let ours = [(!by_setting || names_file).then_some(file.as_str()), names_setting.then_some(SETTING)];
    let at = all.iter().position(|it| !comes_first(it)).unwrap_or(all.len());
    for path in ours.into_iter().flatten().filter(|path| !taken.iter().any(|it| it == path)) {
        all.insert(at, write(path));
    }
    all
}

fn name(file: &str) -> &str {
    file.rsplit('/').next().unwrap_or_default()
}

fn at_top(file: &str) -> Place {
    Place { file: file.into(), line: 1 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hugewise_model::configuration::Unheeded;

    use crate::testing::{Case, gib, quiet, sysctl};

    fn said(change: impl FnOnce(&mut Case)) -> Option<String> {
        let mut case = quiet();
        case.postgresql("15/main", gib(1));
        change(&mut case);
        overruled(&case.host, PageSize::MIB_2, PageCount(537)).unwrap().map(|why| why.to_string())
    }

    fn in_file(file: &str, pages: &str) -> SysctlAssignment {
        SysctlAssignment { place: Place { file: file.into(), line: 1 }, ..sysctl("vm.nr_hugepages", pages) }
    }

    fn write(file: &str, path: &str) -> TmpfilesWrite {
        TmpfilesWrite { path: path.into(), value: "2".into(), place: Place { file: file.into(), line: 1 } }
    }

    /// sysctl.d(5): sorted by name, whatever the folder, and of one setting the last line counts. sysctl(8): of --system
    /// /etc/sysctl.conf is read last.
    #[test]
    fn what_is_read_after_the_plans_file_is_named() {
        let with = |file: &'static str, pages: &'static str| {
            said(move |case| case.host.configuration.sysctl = Observed::Known(vec![in_file(file, pages)]))
        };
        let out = |file: &str| Some(format!("remove {file}:1, which has the last word and sets 100"));
        assert_eq!(with("/etc/sysctl.d/zzz-last.conf", "100"), out("/etc/sysctl.d/zzz-last.conf"));
        assert_eq!(with("/usr/lib/sysctl.d/zzz.conf", "100"), out("/usr/lib/sysctl.d/zzz.conf"));
        assert_eq!(with("/etc/sysctl.conf", "100"), out("/etc/sysctl.conf"));
        assert_eq!(with("/etc/sysctl.d/99-sysctl.conf", "100"), None);
        assert_eq!(with("/etc/sysctl.d/zz-hugewise-pool.conf", "100"), None);
        assert_eq!(with("/etc/sysctl.d/zzz-last.conf", "600"), None);
    }

    /// `apply_sysctl` of initscripts reads sysctl.conf first; without the folder nothing of a plan's is read.
    #[test]
    fn rc_sysinit_reads_the_plans_file_last_or_not_at_all() {
        let with = |files, unheeded: Vec<Unheeded>| {
            said(move |case| {
                case.host.configuration.sysctl = Observed::Known(vec![in_file("/etc/sysctl.conf", "100")]);
                case.host.configuration.sysctl_files = files;
                case.host.configuration.unheeded = unheeded;
            })
        };
        assert_eq!(with(SysctlFiles::ConfThenFolder { any_name: true }, Vec::new()), None);
        let not_read = |files| Unheeded { files, why: Unheeding::NotRead("it is so".into()) };
        let why = "write it to /etc/sysctl.conf, which is all that this host's boot reads";
        let both = vec![not_read("sysctl.d"), not_read("tmpfiles.d")];
        assert_eq!(with(SysctlFiles::Conf, both).as_deref(), Some(why));
    }

    /// tmpfiles.d(5): of lines about one path the first counts. A pattern is another path, and comes after.
    #[test]
    fn lines_of_tmpfiles_are_overruled_where_a_plan_can() {
        let with = |file: &'static str, path: &'static str| {
            said(move |case| case.host.configuration.tmpfiles = Observed::Known(vec![write(file, path)]))
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
        let service = |service, files| Unheeded { files, why: Unheeding::Masked { service, by: link.to_owned() } };
        let sysctl = || service("systemd-sysctl.service", "sysctl.d");
        let tmpfiles = || service("systemd-tmpfiles-setup.service", "tmpfiles.d");
        let both = |case: &mut Case| {
            case.host.configuration.sysctl = Observed::Known(Vec::new());
            case.host.configuration.unheeded = vec![sysctl(), tmpfiles()];
        };
        let why = format!("unmask systemd-tmpfiles-setup.service ({link}), without which no such file counts");
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
