//! What the next boot brings: pools, pages on demand, kernel settings and THP, from the files that decide.
//!
//! The boot goes by steps: the kernel's command line, systemd-sysctl, systemd-tmpfiles, and TuneD, which writes its
//! profile's settings and then the system's sysctl files once more. The last step that the kernel takes wins. Without systemd a
//! script carries out the sysctl files that it knows, and nothing tmpfiles.d. What else writes a pool when the host boots
//! (rc.local, a service, cron) comes in no order that files tell: such a pool is not known.

mod crowding;
mod feeds;
mod last_word;
mod line;
mod menu;
pub mod ours;
mod pools;
mod scripts;
mod settings;
mod shm;
#[cfg(test)]
mod tests;
mod thp;
mod writes;

use hugewise_host::config::{cmdline, sysctl, tmpfiles, tuned};
use hugewise_host::{Door, Source};
use hugewise_model::{Bytes, Host, Observed, PageSize};

use crate::{Missing, known};

pub use crowding::{Crowding, LARGE_PART, Part, crowding, reserved_early};
pub use feeds::{Feeds, feeds, place_to_edit, word_at};
pub use last_word::{LastWord, Outcome, last_words};
pub use line::{default_size, pages_on_command_line};
pub use menu::{NewMenu, default_size_not_in_menu, new_menu, not_in_menu, thp_not_in_menu};
pub use pools::{PoolAtBoot, PoolStep, pool_at_boot, pool_by_files, pools};
pub use scripts::{is_not_read, is_written, nothing_sets, unheeded, writers, written_by_start};
pub use settings::{overcommit, setting};
pub use shm::{ShmLimit, shm_limit, shm_limit_is_by_hand};
pub use thp::{is_distributions, thp, thp_is_tuneds, thp_is_undone_by, thp_switch};

/// One step of the boot that sets a value; a later step wins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step<T> {
    /// The value.
    pub value: T,
    /// Where it stands.
    pub place: String,
}

/// The steps that set the pool of one page size, in boot order, with what the pool has after each: files of nodes that
/// stand together are one step. The last one wins; none means that nothing sets it.
///
/// # Errors
/// A file that counts could not be read, or something else writes the pool too: see [`writers`].
pub fn pool(host: &Host, page: PageSize) -> Result<Vec<Step<u64>>, Missing> {
    pool_at_boot(host, page).map(together)
}

/// The same by the files that exist for it, whatever else writes the pool.
///
/// # Errors
/// A file that counts could not be read.
pub fn pool_of_files(host: &Host, page: PageSize) -> Result<Vec<Step<u64>>, Missing> {
    pool_by_files(host, page).map(together)
}

fn together(pool: PoolAtBoot) -> Vec<Step<u64>> {
    let mut steps: Vec<Step<u64>> = Vec::new();
    let mut of_node = false;
    for step in pool.steps {
        if of_node && step.node.is_some() {
            steps.pop();
        }
        of_node = step.node.is_some();
        steps.push(Step { value: step.total.get(), place: step.place });
    }
    steps
}

/// The command line of the next boot, or the running one where no boot loader's entry is known.
///
/// # Errors
/// The boot loader's files could not be read.
pub fn command_line(host: &Host) -> Result<(&[String], String), Missing> {
    if let Some(entry) = present(&host.configuration.boot, "the boot loader's entry")? {
        return Ok((&entry.command_line, entry.place.to_string()));
    }
    Ok((known(&host.command_line, "/proc/cmdline")?, "/proc/cmdline".into()))
}

/// The memory that the next kernel has: that of the running one, or what its command line limits it to.
///
/// # Errors
/// It is not known.
pub fn memory(host: &Host) -> Result<Bytes, Missing> {
    let all = *known(&host.memory.total, "/proc/meminfo MemTotal")?;
    let limit = command_line(host).ok().and_then(|(words, _)| cmdline::memory_limit(words));
    Ok(limit.map_or(all, |limit| limit.min(all)))
}

/// What of a host the boot depends on, with its files read anew from a source: the host as other files would leave it.
pub fn with_files(host: &Host, source: &dyn Source) -> Host {
    let mut after = Host {
        kernel: host.kernel.clone(),
        architecture: host.architecture.clone(),
        base_page: host.base_page.clone(),
        processors: host.processors.clone(),
        default_huge_page: host.default_huge_page.clone(),
        nodes: host.nodes.clone(),
        pools: host.pools.clone(),
        command_line: host.command_line.clone(),
        ..Host::default()
    };
    after.thp.pmd_size = host.thp.pmd_size.clone();
    after.thp.of_rhel_6 = host.thp.of_rhel_6;
    after.one_huge_page_size = host.one_huge_page_size;
    after.memory.total = host.memory.total.clone();
    after.kernel_settings = host.kernel_settings.clone();
    let mut door = Door::new(source);
    after.configuration.boot = host.configuration.boot.clone();
    after.configuration.pool_writers = host.configuration.pool_writers.clone();
    after.configuration.thp_writers = host.configuration.thp_writers.clone();
    after.configuration.thp_of_kernel = host.configuration.thp_of_kernel.clone();
    after.configuration.unheeded = host.configuration.unheeded.clone();
    after.configuration.sysctl_files = host.configuration.sysctl_files;
    after.configuration.sysctl = sysctl::read(&mut door);
    after.configuration.tmpfiles = tmpfiles::read(&mut door);
    after.configuration.tuned = tuned::read(&mut door);
    after
}

/// A fact of files that a host may do without: absent is fine, unreadable is not.
fn present<'a, T>(fact: &'a Observed<T>, what: &str) -> Result<Option<&'a T>, Missing> {
    if fact.is_absent() { Ok(None) } else { known(fact, what).map(Some) }
}
