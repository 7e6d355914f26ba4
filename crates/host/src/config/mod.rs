//! What configuration files say: one file a mechanism, each a pure parser and the reading of it.
//!
//! A winner can be named only where every candidate was read. A file that counts and was denied
//! makes the whole mechanism denied, so that no rule takes half of it for all of it.

pub mod accounts;
pub mod bls;
pub mod boot;
mod bound_nodes;
pub(crate) mod clusterware;
pub mod cmdline;
pub(crate) mod exec_start;
pub mod files;
mod filling;
pub mod fstab;
pub mod grub;
mod grub_default;
pub mod grub_legacy;
pub mod identity;
pub mod kernel_config;
pub mod kernel_default;
pub mod kernel_value;
pub mod limits;
mod loaded;
pub mod pattern;
pub mod read_line;
pub(crate) mod scripts;
pub mod services;
pub(crate) mod starter;
pub mod sysctl;
pub mod systemd;
pub mod tmpfiles;
pub mod tuned;
pub mod unit;
pub(crate) mod unit_values;

use std::collections::BTreeSet;

use hugewise_model::configuration::{Configuration, Unit};
use hugewise_model::host::{Accounts, HugetlbfsMount};
use hugewise_model::{Host, Observed, Process};

use self::services::Service;
use crate::Door;
use crate::kernel::cpuinfo;
use crate::source::Remembered;

/// What an earlier reading made of the files, for who reads one machine again and again.
#[derive(Debug, Default)]
pub struct Files {
    host: Remembered<Observed<Vec<HugetlbfsMount>>, OfHost>,
    units: Remembered<BTreeSet<String>, Vec<Unit>>,
    services: Remembered<BTreeSet<String>, Vec<Service>>,
    pub(crate) processors: cpuinfo::Known,
}

impl Files {
    /// The services that were found for the same `key`, where none of their files was changed since; what `read` finds
    /// otherwise.
    pub fn services(
        &self,
        door: &mut Door<'_>,
        key: BTreeSet<String>,
        read: impl FnOnce(&mut Door<'_>) -> Vec<Service>,
    ) -> Vec<Service> {
        self.services.read(door, key, read)
    }
}

/// What files say of a host as a whole.
#[derive(Clone, Debug)]
struct OfHost {
    name: Observed<String>,
    os: Observed<String>,
    accounts: Accounts,
    configuration: Configuration,
}

/// Fills the host's name, system and accounts, and its configuration, but for the units:
/// which of them count is known only with the processes, see [`read_units`].
pub(crate) fn read(door: &mut Door<'_>, host: &mut Host, files: Option<&Files>) {
    let mounted = &host.hugetlbfs_mounts;
    let found = match files {
        Some(files) => files.host.read(door, mounted.clone(), |door| read_anew(door, mounted)),
        None => read_anew(door, mounted),
    };
    (host.name, host.os, host.accounts, host.configuration) =
        (found.name, found.os, found.accounts, found.configuration);
}

fn read_anew(door: &mut Door<'_>, mounted: &Observed<Vec<HugetlbfsMount>>) -> OfHost {
    let starter = starter::read(door);
    let writers = scripts::read(door);
    let boot = boot::read(door);
    OfHost {
        name: identity::read_name(door),
        os: identity::read_os(door),
        accounts: accounts::read(door),
        configuration: Configuration {
            sysctl: sysctl::read(door),
            limits: limits::read(door),
            units: Vec::new(),
            default_memlock: systemd::read_default_memlock(door),
            systemd: systemd::read_release(door),
            menu_words: grub_default::words(door, &boot),
            boot,
            tuned: tuned::read(door),
            tmpfiles: tmpfiles::read(door),
            hugetlbfs: fstab::read(door, mounted),
            pool_writers: writers.pools,
            thp_writers: writers.thp,
            thp_of_kernel: kernel_config::read(door),
            unheeded: starter.unheeded(door),
            sysctl_files: starter.sysctl,
            clusterware: clusterware::read(door),
        },
    }
}

/// The services that processes here run in, sorted by name, as their files describe them now.
pub(crate) fn read_units<'a>(
    door: &mut Door<'_>,
    processes: impl IntoIterator<Item = &'a Process>,
    files: Option<&Files>,
) -> Vec<Unit> {
    let processes: Vec<&Process> = processes.into_iter().collect();
    let names = systemd::names(processes.iter().copied());
    let mut units = match files {
        Some(files) => files.units.read(door, names.clone(), |door| systemd::read_named(door, &names)),
        None => systemd::read_named(door, &names),
    };
    loaded::fill_in(door.source, &mut units, &processes);
    units
}
