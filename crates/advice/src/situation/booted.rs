//! The host with the settings that its next boot will give it, as far as a server's right to huge pages hangs on them.

use std::sync::Arc;

use hugewise_engines::Kind;
use hugewise_model::configuration::{Loaded, Unit};
use hugewise_model::instance::Mechanism;
use hugewise_model::process::SoftHard;
use hugewise_model::{Bytes, Host, Instance, Limit, Observed, Process, Reason};

use crate::{Missing, boot, login};

/// What a kernel since 3.16 begins with: `ULONG_MAX - (1UL << 24)`, for kernel.shmmax and kernel.shmall alike.
const NO_LIMIT: u64 = u64::MAX - (1 << 24);

pub(super) fn booted(host: &Host, instances: &[Instance]) -> Host {
    let mut booted = host.clone();
    booted.kernel_settings.hugetlb_shm_group = match boot::setting(host, "vm.hugetlb_shm_group") {
        Ok(steps) => Observed::from(steps.last().map_or(Some(0), |step| step.value.trim().parse().ok())),
        Err(missing) => unknown(&missing),
    };
    booted.kernel_settings.shmmax =
        count(host, "kernel.shmmax", host.kernel_settings.shmmax.get().map(Bytes::get)).map(Bytes);
    booted.kernel_settings.shmall_pages = count(host, "kernel.shmall", host.kernel_settings.shmall_pages.get());
    by_their_units(&mut booted, host, instances);
    booted
}

/// A fact of the boot that could not be told.
fn unknown<T>(missing: &Missing) -> Observed<T> {
    let (Missing::Host(lack) | Missing::Instance(lack)) = missing;
    match lack.why {
        Reason::Denied => Observed::Denied,
        _ => Observed::Malformed(format!("at the next boot: {}", lack.text)),
    }
}

/// A number that no file sets is the kernel's own.
fn count(host: &Host, key: &str, now: Option<u64>) -> Observed<u64> {
    let steps = match boot::setting(host, key) {
        Ok(steps) => steps,
        Err(missing) => return unknown(&missing),
    };
    if let Some(step) = steps.last() {
        return Observed::from(step.value.trim().parse().ok());
    }
    let unlimited = host.kernel.known().is_some_and(|kernel| kernel.at_least(3, 16));
    match now {
        // Distributions gave older kernels limits of their own.
        Some(now) if now >= NO_LIMIT => Observed::Known(now),
        _ if unlimited => Observed::Known(NO_LIMIT),
        _ => Observed::Malformed("at the next boot: no file sets it".into()),
    }
}

/// The unit by which systemd starts a server itself; none of one that somebody else starts.
pub(super) fn unit_of<'a>(host: &'a Host, instance: &Instance) -> Option<&'a Unit> {
    let name = instance.unit.as_deref().filter(|unit| unit.ends_with(".service") && !instance.containered)?;
    let by_others = Kind::of(instance.engine).starter.as_ref().and_then(|it| (it.limits)(host, instance));
    let unit = host.configuration.units.iter().find(|unit| unit.name == name)?;
    by_others.is_none().then_some(unit)
}

/// What systemd gives a server that it starts by the unit's files; one that is started otherwise goes on as it is, and so does
/// one whose unit is as it was at its start: it may come by its limit in another way, such as su's.
pub(super) fn by_its_unit(host: &Host, instance: &Instance, process: &mut Arc<Process>) {
    let Some(unit) = unit_of(host, instance).filter(|unit| unit.loaded != Observed::Known(Loaded::Unchanged)) else {
        return;
    };
    let process = Arc::make_mut(process);
    process.memlock = match &unit.memlock {
        Observed::Known((soft, hard, _)) => Observed::Known(SoftHard { soft: *soft, hard: *hard }),
        Observed::Absent => match &host.configuration.default_memlock {
            Observed::Known((limit, _)) => Observed::Known(SoftHard { soft: *limit, hard: *limit }),
            Observed::Absent => {
                let limit = Limit::At(login::DEFAULT_MEMLOCK);
                Observed::Known(SoftHard { soft: limit, hard: limit })
            }
            Observed::Denied => Observed::Denied,
            Observed::Malformed(why) => Observed::Malformed(why.clone()),
        },
        Observed::Denied => Observed::Denied,
        Observed::Malformed(why) => Observed::Malformed(why.clone()),
    };
    if unit.ambient_ipc_lock {
        process.ipc_lock = Observed::Known(true);
    }
}

/// The host with every server that takes System V memory as its unit's files would have it.
pub(super) fn by_their_units(host: &mut Host, all: &Host, instances: &[Instance]) {
    let Observed::Known(processes) = &mut host.processes else { return };
    for instance in instances.iter().filter(|it| it.mechanism == Mechanism::SysvShm && it.pid != 0) {
        let at = processes.binary_search_by_key(&instance.pid, |process| process.pid);
        if let Some(process) = at.ok().and_then(|at| processes.get_mut(at)) {
            by_its_unit(all, instance, process);
        }
    }
}
