//! What running servers may yet take of a pool without a restart: heaps that have not grown.

use hugewise_model::trusted_by::TrustReason;
use hugewise_model::{Instance, PageCount, PageSize};

use crate::demand;

/// A server whose memory grows while it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrowingServer {
    /// Its title.
    pub title: String,
    /// Its main process.
    pub pid: u32,
    /// Pages that it has mapped.
    pub held: PageCount,
    /// Pages that it may take beyond them.
    pub to_come: PageCount,
    /// Whether its arguments are worth anything: a stranger and a container's tenant can claim any
    /// number of pages.
    pub is_vouched_for: bool,
}

/// Servers on huge pages of a size that have not grown to their end.
pub fn find_growing_servers(instances: &[Instance], page: PageSize) -> Vec<GrowingServer> {
    let growing = instances.iter().map(|instance| GrowingServer {
        title: instance.title(),
        pid: instance.pid,
        held: demand::pages_held(instance, page),
        to_come: demand::pages_to_grow(instance, page),
        is_vouched_for: instance
            .trusted_by
            .iter()
            .any(|voucher| *voucher != TrustReason::Container),
    });
    growing.filter(|server| server.to_come > PageCount::ZERO).collect()
}
