//! What the next boot brings of pools, pages on demand, kernel settings and THP, by its files.
//!
//! The steps of a boot: the kernel's command line, systemd-sysctl, systemd-tmpfiles, and TuneD,
//! which writes its profile's settings and then the system's sysctl files once more. The last step
//! that the kernel accepts wins. Without systemd a script carries out the sysctl files that it
//! knows, and nothing of tmpfiles.d. Whatever else writes a pool (rc.local, a service, cron) comes
//! in no order that files tell: such a pool is not known.

mod boot_place;
mod cmdline_pages;
mod cmdline_sources;
pub(crate) mod crowding;
mod effective_setting;
mod kernel_file_writes;
mod menu;
pub mod overruling;
mod pool_writers;
mod pools;
mod refused;
mod settings;
mod shm;
#[cfg(test)]
mod tests;
mod thp;

use hugewise_host::config::{cmdline, sysctl, tmpfiles, tuned};
use hugewise_host::{FactReader, Source};
use hugewise_model::configuration::{Configuration, FileLocation};
use hugewise_model::{Bytes, Host, Observed, PageCount, PageSize};

use crate::{Missing, require_known};

pub use boot_place::BootPlace;
pub(crate) use cmdline_pages::reserved_by_command_line;
pub use cmdline_pages::{default_size, is_left_to_cma};
pub(crate) use cmdline_sources::place_to_edit;
pub use cmdline_sources::{CmdlineSource, find_cmdline_source};
pub use crowding::{
    Crowding, CrowdingPool, LARGE_PART, find_crowding_of, predict_crowding, reserved_early,
};
pub use effective_setting::{EffectiveSetting, SettingOutcome, predict_effective_settings};
pub use menu::{NewMenu, new_menu};
pub(crate) use menu::{default_size_not_in_menu, not_in_menu, thp_not_in_menu};
pub use pool_writers::{find_ignored_files, is_not_read, is_written, pool_writers};
pub(crate) use pool_writers::{find_late_writer, nothing_sets, written_by_start};
pub(crate) use pools::pool_by_files;
pub use pools::{PoolStep, PredictedPool, pool_at_boot};
pub(crate) use refused::{RefusedValue, find_refused_values, read_page_words, reorder_page_words};
pub use settings::{predict_overcommit, predict_setting};
pub use shm::{ShmLimit, shm_limit, shm_limit_is_by_hand};
pub use thp::predict_thp;
pub(crate) use thp::{thp_is_tuneds, thp_is_undone_by, thp_switch};

/// One step of the boot that sets a value; a later step wins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BootStep<T> {
    /// The value.
    pub value: T,
    /// Where it stands.
    pub place: BootPlace,
}

/// The steps that set the pool of one page size in boot order, each with what the pool has after
/// it: files of nodes that stand together are one step. None means that nothing sets it.
///
/// # Errors
/// A file that counts could not be read, or something else writes the pool too ([`pool_writers`]).
pub fn predict_pool_steps(host: &Host, page: PageSize) -> Result<Vec<BootStep<u64>>, Missing> {
    pool_at_boot(host, page).map(merge_node_steps)
}

/// Pages that the next boot brings; none where nothing sets the pool, or it cannot be told.
pub fn pages_at_boot(host: &Host, page: PageSize) -> Option<PageCount> {
    Some(PageCount(predict_pool_steps(host, page).ok()?.last()?.value))
}

/// [`predict_pool_steps`] by the files that exist for it, whatever else writes the pool.
///
/// # Errors
/// A file that counts could not be read.
pub fn pool_of_files(host: &Host, page: PageSize) -> Result<Vec<BootStep<u64>>, Missing> {
    pool_by_files(host, page).map(merge_node_steps)
}

fn merge_node_steps(pool: PredictedPool) -> Vec<BootStep<u64>> {
    let mut steps: Vec<BootStep<u64>> = Vec::new();
    let mut of_node = false;
    for step in pool.steps {
        if of_node && step.node.is_some() {
            steps.pop();
        }
        of_node = step.node.is_some();
        steps.push(BootStep { value: step.total.get(), place: step.place });
    }
    steps
}

/// The command line of the next boot, or the running one where no boot loader's entry is known.
///
/// # Errors
/// The boot loader's files could not be read.
pub fn command_line(host: &Host) -> Result<(&[String], FileLocation), Missing> {
    if let Some(entry) = require_readable(&host.configuration.boot, "the boot loader's entry")? {
        return Ok((&entry.command_line, entry.place.clone()));
    }
    let place = FileLocation { file: "/proc/cmdline".into(), line: 0 };
    Ok((require_known(&host.command_line, &place.file)?, place))
}

/// Memory of the next kernel: that of the running one, or what its command line limits it to.
pub(crate) fn predict_memory(host: &Host) -> Result<Bytes, Missing> {
    let all = *require_known(&host.memory.total, "/proc/meminfo MemTotal")?;
    let limit = command_line(host).ok().and_then(|(words, _)| cmdline::memory_limit(words));
    Ok(limit.map_or(all, |limit| limit.min(all)))
}

/// What the boot of a host depends on, with its files read anew from `source`.
pub fn with_files(host: &Host, source: &dyn Source) -> Host {
    let mut door = FactReader::new(source);
    let mut after = copy_boot_facts(host);
    after.configuration.sysctl = sysctl::read(&mut door);
    after.configuration.tmpfiles = tmpfiles::read(&mut door);
    after.configuration.tuned = tuned::read(&mut door);
    after
}

/// What the boot of a host depends on: the whole host is much to copy.
fn copy_boot_facts(host: &Host) -> Host {
    let files = &host.configuration;
    let mut facts = Host {
        kernel: host.kernel.clone(),
        architecture: host.architecture.clone(),
        base_page: host.base_page.clone(),
        processors: host.processors.clone(),
        default_huge_page: host.default_huge_page.clone(),
        one_huge_page_size: host.one_huge_page_size,
        nodes: host.nodes.clone(),
        pools: host.pools.clone(),
        command_line: host.command_line.clone(),
        kernel_settings: host.kernel_settings.clone(),
        configuration: Configuration {
            boot: files.boot.clone(),
            sysctl: files.sysctl.clone(),
            sysctl_files: files.sysctl_files,
            tmpfiles: files.tmpfiles.clone(),
            tuned: files.tuned.clone(),
            unheeded: files.unheeded.clone(),
            pool_writers: files.pool_writers.clone(),
            thp_writers: files.thp_writers.clone(),
            thp_of_kernel: files.thp_of_kernel.clone(),
            ..Configuration::default()
        },
        ..Host::default()
    };
    facts.thp.pmd_size = host.thp.pmd_size.clone();
    facts.thp.of_rhel_6 = host.thp.of_rhel_6;
    facts.memory.total = host.memory.total.clone();
    facts
}

/// A fact of files that a host may do without: absent is fine, unreadable is not.
pub(crate) fn require_readable<'a, T>(
    fact: &'a Observed<T>,
    what: &str,
) -> Result<Option<&'a T>, Missing> {
    if fact.is_absent() { Ok(None) } else { require_known(fact, what).map(Some) }
}
