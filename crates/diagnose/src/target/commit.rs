//! What strict overcommit leaves for pools: with vm.overcommit_memory=2 each page that a pool takes
//! lowers CommitLimit at once, while its server's memory counts against it until a restart.

use hugewise_model::{Bytes, Host};

/// What the kernel keeps out of a program's reach below CommitLimit: vm.admin_reserve_kbytes and
/// vm.user_reserve_kbytes, 8 and 128 MiB by default (mm/util.c, `__vm_enough_memory`).
const RESERVED: Bytes = Bytes::from_mib(8 + 128);

#[derive(Clone, Copy, Debug)]
pub(super) struct Commit {
    limit: Bytes,
    committed: Bytes,
    /// vm.overcommit_ratio; zero where vm.overcommit_kbytes sets the limit, whatever the pools.
    ratio: u64,
}

impl Commit {
    /// None where the kernel does not hold programs to the limit, or it is not known.
    pub(super) fn from_host(host: &Host) -> Option<Self> {
        let settings = &host.kernel_settings;
        if settings.overcommit_memory.get() != Some(2) {
            return None;
        }
        let (limit, committed) = (host.memory.commit_limit.get()?, host.memory.committed.get()?);
        Some(Self { limit, committed, ratio: settings.overcommit_ratio.get().unwrap_or(50) })
    }

    /// Why no pool may take so much now; none where it may, and is counted then.
    pub(super) fn try_commit(&mut self, extra: Bytes) -> Option<String> {
        let less = extra.shared_by(100).unwrap_or_default().saturating_mul(self.ratio);
        let left = self.limit.saturating_sub(less);
        if less > Bytes::ZERO && left < self.committed + RESERVED {
            return Some(format!(
                "vm.overcommit_memory=2: {extra} more in the pool lower CommitLimit to {left} at \
                 once, beside {} committed until the servers have moved: programs would get no \
                 memory",
                self.committed
            ));
        }
        self.limit = left;
        None
    }
}
