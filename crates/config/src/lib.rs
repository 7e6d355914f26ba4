//! What configuration files say: one file a mechanism, each a pure parser and the reading of it.
//!
//! A winner can be named only where every candidate was read. A file that counts and was denied
//! makes the whole mechanism denied, so that no rule takes half of it for all of it.

pub mod accounts;
pub mod bls;
pub mod boot;
mod bound_nodes;
pub mod clusterware;
pub mod cmdline;
pub mod directory;
pub mod exec_start;
mod expansion_budget;
pub mod files;
pub mod fstab;
pub mod grub;
mod grub_default;
mod grub_legacy;
pub mod identity;
pub mod init_system;
pub mod kernel_config;
pub mod kernel_default;
pub mod kernel_value;
pub mod launchers;
pub mod limits;
mod loaded;
pub mod pattern;
pub mod read_line;
pub mod sandbox;
pub mod scripts;
pub mod services;
pub mod sysctl;
pub mod systemd;
pub mod tmpfiles;
pub mod tuned;
pub mod unit;
pub mod unit_conditions;
pub mod unit_values;

use std::collections::BTreeSet;

use hugewise_model::configuration::{Configuration, ServiceUnit};
use hugewise_model::host::{Accounts, HugetlbfsMount};
use hugewise_model::{Host, Observed, Process};

use self::services::ServiceDefinition;
use hugewise_source::ConfigCache;
use hugewise_source::FactReader;

/// What readings of the last minute made of the files, for who reads one machine again and again.
#[derive(Debug, Default)]
pub struct HostConfigCache {
    host: ConfigCache<Observed<Vec<HugetlbfsMount>>, OfHost>,
    units: ConfigCache<BTreeSet<String>, Vec<ServiceUnit>>,
    services: ConfigCache<BTreeSet<String>, Vec<ServiceDefinition>>,
}

impl HostConfigCache {
    /// What was found for the same `key` within a minute, or what `read` finds.
    pub fn cached_services(
        &self,
        door: &mut FactReader<'_>,
        key: BTreeSet<String>,
        read: impl FnOnce(&mut FactReader<'_>) -> Vec<ServiceDefinition>,
    ) -> Vec<ServiceDefinition> {
        self.services.read(door, key, read)
    }
}

#[derive(Clone, Debug)]
struct OfHost {
    name: Observed<String>,
    os: Observed<String>,
    accounts: Accounts,
    configuration: Configuration,
}

/// Fills in what files say of a host but for the units, which need its processes: [`read_units`].
pub fn read(door: &mut FactReader<'_>, host: &mut Host, files: Option<&HostConfigCache>) {
    let mounted = &host.hugetlbfs_mounts;
    let found = match files {
        Some(files) => files.host.read(door, mounted.clone(), |door| read_anew(door, mounted)),
        None => read_anew(door, mounted),
    };
    (host.name, host.os, host.accounts, host.configuration) =
        (found.name, found.os, found.accounts, found.configuration);
}

fn read_anew(door: &mut FactReader<'_>, mounted: &Observed<Vec<HugetlbfsMount>>) -> OfHost {
    let starter = init_system::read(door);
    let mut writers = scripts::read(door);
    if !starter.is_systemd() {
        scripts::fill_earlier_scripts(door, &mut writers.pools);
    }
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
            menu_words: grub_default::predict_menu_words(door, &boot),
            boot,
            tuned: tuned::read(door),
            tmpfiles: tmpfiles::read(door),
            hugetlbfs: fstab::read(door, mounted),
            pool_writers: writers.pools,
            thp_writers: writers.thp,
            thp_of_kernel: kernel_config::read(door),
            unheeded: starter.ignored_files(door),
            sysctl_files: starter.sysctl,
            clusterware: clusterware::read(door),
        },
    }
}

/// The services that processes here run in, sorted by name, as their files describe them now.
pub fn read_units<'a>(
    door: &mut FactReader<'_>,
    processes: impl IntoIterator<Item = &'a Process>,
    files: Option<&HostConfigCache>,
) -> Vec<ServiceUnit> {
    let processes: Vec<&Process> = processes.into_iter().collect();
    let names = systemd::service_names(processes.iter().copied());
    let mut units = match files {
        Some(files) => {
            files.units.read(door, names.clone(), |door| systemd::read_named(door, &names))
        }
        None => systemd::read_named(door, &names),
    };
    loaded::fill_in(door.source, &mut units, &processes);
    units
}
