//! kernel.shmmax and kernel.shmall in words: which of them is too low for the servers here, now or at the next boot, and
//! what it is to be.

use hugewise_model::instance::{Mechanism, SegmentKind};
use hugewise_model::{Bytes, Host, Instance, PageCount, PageSize};

use crate::boot;
use crate::target::Target;

/// Times what is needed now: the limits protect nothing on a database host, and memory grows.
pub const AMPLE: u64 = 2;

/// One of the limits.
struct Limit {
    key: &'static str,
    /// In the setting's own unit: bytes, or base pages.
    needed: u64,
    now: Option<u64>,
}

impl Limit {
    /// What is to be done about it; none where it is high enough now and at the next boot.
    fn remedy(&self, host: &Host) -> Option<String> {
        let (key, now) = (self.key, self.now?);
        if now < self.needed {
            return Some(format!("set {key} = {}", self.needed.saturating_mul(AMPLE)));
        }
        let steps = boot::setting(host, key).ok()?;
        let last = steps.last()?;
        let then: u64 = last.value.trim().parse().ok()?;
        (then < self.needed).then(|| format!("keep {key} = {now} at each boot: {} sets {then}", last.place))
    }
}

/// What is to be done about the limits of System V memory on a host.
pub(crate) fn in_words(host: &Host, instances: &[Instance], target: &Target) -> String {
    let sysv = instances.iter().filter(|it| it.mechanism == Mechanism::SysvShm && it.is_vouched());
    let segments = sysv.flat_map(|instance| &instance.segments).filter(|it| it.kind == SegmentKind::SystemV);
    let sizes: Vec<Bytes> = segments.map(|segment| segment.size).collect();
    let planned = target.sizing.as_ref().map(|sizing| &sizing.limits);
    let largest = sizes.iter().copied().max().max(planned.and_then(|limits| limits.shmmax.needed)).unwrap_or_default();
    let base = host.base_page.get();
    let pages = |base: PageSize| sizes.iter().map(|size| base.pages_for(*size)).sum::<PageCount>().get();
    let all = base.map(pages).max(planned.and_then(|limits| limits.shmall_pages.needed)).unwrap_or_default();
    let settings = &host.kernel_settings;
    let limits = [
        Limit { key: "kernel.shmmax", needed: largest.get(), now: settings.shmmax.get().map(Bytes::get) },
        Limit { key: "kernel.shmall", needed: all, now: settings.shmall_pages.get() },
    ];
    let remedies: Vec<String> = limits.iter().filter_map(|limit| limit.remedy(host)).collect();
    if remedies.is_empty() { "raise kernel.shmmax and kernel.shmall".into() } else { remedies.join("; ") }
}
