//! The host as its next boot will make it, whoever asks for what it brings.

use std::borrow::Cow;

use hugewise_model::{Host, Instance, Observed, Reason};

use super::boot_pools::BootPools;
use super::mount::HugetlbfsDemand;
use crate::cgroup::HugetlbLimits;
use crate::{Missing, boot};

pub(super) struct BootGround<'a> {
    pub(super) host: &'a Host,
    pub(super) booted: Cow<'a, Host>,
    pub(super) pools: BootPools,
    pub(super) limits: &'a HugetlbLimits,
    pub(super) hugetlbfs: HugetlbfsDemand,
}

impl<'a> BootGround<'a> {
    pub(super) fn predict(
        host: &'a Host,
        instances: &[Instance],
        limits: &'a HugetlbLimits,
    ) -> Self {
        Self {
            host,
            booted: predict_settings(host),
            pools: BootPools::predict(host),
            limits,
            hugetlbfs: HugetlbfsDemand::new(host, instances),
        }
    }
}

/// The host with the settings of its next boot that a server's right to huge pages depends on.
fn predict_settings(host: &Host) -> Cow<'_, Host> {
    let group = match boot::predict_setting(host, "vm.hugetlb_shm_group") {
        Ok(steps) => {
            Observed::from(steps.last().map_or(Some(0), |step| step.value.trim().parse().ok()))
        }
        Err(Missing::Host(lack) | Missing::Instance(lack)) => match lack.why {
            Reason::Denied => Observed::Denied,
            _ => Observed::Malformed(format!("at the next boot: {}", lack.text)),
        },
    };
    // Nearly always it is the group that has the right now, and a host is much to copy.
    if group == host.kernel_settings.hugetlb_shm_group {
        return Cow::Borrowed(host);
    }
    let mut booted = host.clone();
    booted.kernel_settings.hugetlb_shm_group = group;
    Cow::Owned(booted)
}
