//! Values and words of the next boot that the kernel refuses: they have no effect, and only a log
//! says so.

use hugewise_host::config::cmdline::{HugePageWords, IgnoredWord};
use hugewise_host::config::kernel_value::{sysctl_count, sysctl_int, sysfs_count};
use hugewise_host::config::sysctl::{self, SETTINGS, SysctlValueKind};
use hugewise_model::configuration::FileLocation;
use hugewise_model::{Host, PageSize};

use super::kernel_file_writes::{Targets, collect_writes};
use super::{BootPlace, cmdline_pages, command_line, default_size};
use crate::Missing;
use crate::wording::pool_file;

/// A value that the boot writes and the kernel refuses with EINVAL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RefusedValue {
    /// `vm.nr_hugepages`, or a file below /sys.
    pub(crate) what: String,
    pub(crate) value: String,
    pub(crate) place: BootPlace,
}

enum TargetFile {
    Setting(&'static str, SysctlValueKind),
    Pool(String),
}

/// In the order of the boot.
pub(crate) fn find_refused_values(host: &Host) -> Result<Vec<RefusedValue>, Missing> {
    let settings =
        SETTINGS.iter().map(|(key, kind)| (sysctl::file_of(key), TargetFile::Setting(key, *kind)));
    let pools = host.pools.as_known().into_iter().flatten();
    let files = pools.flat_map(|pool| {
        let names = ["nr_hugepages", "nr_hugepages_mempolicy", "nr_overcommit_hugepages"];
        names.map(|name| pool_file(pool.page_size, name))
    });
    let files = files.map(|path| (path.clone(), TargetFile::Pool(path)));
    let targets = Targets::new(settings.chain(files).collect());
    let mut refused = Vec::new();
    for hit in collect_writes(host, &targets)? {
        let text = hit.value.as_ref();
        // TuneD's `>512` raises what is there.
        let bound = text.strip_prefix(['<', '>']).filter(|_| hit.of_profile);
        let number = bound.unwrap_or(text);
        let (what, is_taken) = match hit.target {
            TargetFile::Setting(key, SysctlValueKind::Count) => {
                ((*key).to_owned(), sysctl_count(number).is_some())
            }
            TargetFile::Setting(key, SysctlValueKind::Int) => {
                ((*key).to_owned(), sysctl_int(number).is_some())
            }
            TargetFile::Pool(path) => (path.clone(), sysfs_count(number).is_some()),
        };
        if !is_taken {
            refused.push(RefusedValue { what, value: text.to_owned(), place: hit.place });
        }
    }
    Ok(refused)
}

/// Why a file that would set the pool of that size does not: `the kernel refuses 512.0
/// (/etc/sysctl.d/50-db.conf:2)`.
pub(super) fn explain_refused_pool(host: &Host, page: PageSize) -> Option<String> {
    let is_of_pool = |refused: &&RefusedValue| {
        let by_name = refused.what.starts_with("vm.nr_hugepages");
        let file = pool_file(page, "nr_hugepages");
        refused.what.starts_with(&file) || (by_name && default_size(host) == Some(page))
    };
    let refused = find_refused_values(host).ok()?;
    let last = refused.iter().rev().find(is_of_pool)?;
    Some(format!("the kernel refuses {} ({})", last.value, last.place))
}

/// What the kernel makes of the words about huge pages of the next boot's command line.
pub(crate) fn read_page_words(host: &Host) -> Result<(HugePageWords, FileLocation), Missing> {
    let (words, place) = command_line(host)?;
    Ok((cmdline_pages::read(host, words), place))
}

/// The words in an order in which each count belongs to the size before it, where there are as many
/// counts as sizes: `hugepagesz=1G hugepages=32 hugepagesz=2M hugepages=1024`.
pub(crate) fn reorder_page_words(host: &Host, ignored: &[IgnoredWord]) -> Option<String> {
    use hugewise_host::config::cmdline::{WordRefusal, assignments_of};
    let is_misplaced = |word: &IgnoredWord| matches!(word.why, WordRefusal::CountTwice(_));
    if !ignored.iter().all(is_misplaced) {
        return None;
    }
    let (words, _) = command_line(host).ok()?;
    let named = |wanted: &'static str| assignments_of(words, move |name| name == wanted);
    let (sizes, counts) = (named("hugepagesz"), named("hugepages"));
    let pairs = || sizes.iter().zip(&counts);
    (!ignored.is_empty() && sizes.len() == counts.len()).then(|| {
        let pairs: Vec<String> =
            pairs().map(|((_, _, size), (_, _, count))| format!("{size} {count}")).collect();
        pairs.join(" ")
    })
}
