//! What configuration files say: one file a mechanism, each a pure parser and the reading of it.
//!
//! A winner can be named only where every candidate was read. A file that counts and was denied
//! makes the whole mechanism denied, so that no rule takes half of it for all of it.

pub mod accounts;
pub mod bls;
pub mod boot;
pub mod cmdline;
pub mod files;
pub mod fstab;
pub mod grub;
pub mod identity;
pub mod kernel_value;
pub mod limits;
pub mod pattern;
pub mod read_line;
pub mod sysctl;
pub mod systemd;
pub mod tmpfiles;
pub mod tuned;
pub mod unit;
pub(crate) mod unit_values;

use hugewise_model::Host;

use crate::Door;

/// Fills the host's name, system and accounts, and its configuration, but for the units:
/// which of them count is known only with the processes, see [`systemd::read_units`].
pub fn read(door: &mut Door<'_>, host: &mut Host) {
    host.name = identity::read_name(door);
    host.os = identity::read_os(door);
    host.accounts = accounts::read(door);
    let configuration = &mut host.configuration;
    configuration.sysctl = sysctl::read(door);
    configuration.limits = limits::read(door);
    configuration.default_memlock = systemd::read_default_memlock(door);
    configuration.boot = boot::read(door);
    configuration.tuned = tuned::read(door);
    configuration.tmpfiles = tmpfiles::read(door);
    configuration.hugetlbfs = fstab::read(door, &host.hugetlbfs_mounts);
}
