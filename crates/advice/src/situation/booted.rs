//! The host with the settings that its next boot will give it, as far as a server's right to huge pages hangs on them.

use std::borrow::Cow;

use hugewise_model::{Host, Observed, Reason};

use crate::{Missing, boot};

pub(super) fn booted(host: &Host) -> Cow<'_, Host> {
    let group = match boot::setting(host, "vm.hugetlb_shm_group") {
        Ok(steps) => Observed::from(steps.last().map_or(Some(0), |step| step.value.trim().parse().ok())),
        Err(missing) => unknown(&missing),
    };
    // Nearly always it is the group that has the right now, and a host is much to copy.
    if group == host.kernel_settings.hugetlb_shm_group {
        return Cow::Borrowed(host);
    }
    let mut booted = host.clone();
    booted.kernel_settings.hugetlb_shm_group = group;
    Cow::Owned(booted)
}

/// A fact of the boot that could not be told.
fn unknown<T>(missing: &Missing) -> Observed<T> {
    let (Missing::Host(lack) | Missing::Instance(lack)) = missing;
    match lack.why {
        Reason::Denied => Observed::Denied,
        _ => Observed::Malformed(format!("at the next boot: {}", lack.text)),
    }
}
