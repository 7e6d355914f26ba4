//! What strict overcommit leaves for programs and pools: with vm.overcommit_memory=2 each page that
//! a pool takes lowers CommitLimit at once, while its server's memory counts against it until a
//! restart.

use hugewise_model::host::KernelSettings;
use hugewise_model::{Bytes, Host};

/// What the kernel keeps out of a program's reach below CommitLimit: vm.admin_reserve_kbytes and
/// vm.user_reserve_kbytes, 8 and 128 MiB by default (mm/util.c, `__vm_enough_memory`).
const RESERVED: Bytes = Bytes::from_mib(8 + 128);

#[derive(Clone, Copy, Debug)]
pub(crate) struct StrictCommit {
    pub(crate) limit: Bytes,
    pub(crate) committed: Bytes,
    /// vm.overcommit_ratio; zero where vm.overcommit_kbytes sets the limit, whatever the pools.
    pub(crate) ratio: u64,
}

impl StrictCommit {
    /// None where the kernel does not hold programs to the limit, or it is not known.
    pub(crate) fn from_host(host: &Host) -> Option<Self> {
        let settings = &host.kernel_settings;
        if settings.overcommit_memory.get() != Some(2) {
            return None;
        }
        let (limit, committed) = (host.memory.commit_limit.get()?, host.memory.committed.get()?);
        Some(Self::new(limit, committed, settings))
    }

    /// As it is where vm.overcommit_memory is 2.
    pub(crate) fn new(limit: Bytes, committed: Bytes, settings: &KernelSettings) -> Self {
        Self { limit, committed, ratio: settings.overcommit_ratio.get().unwrap_or(50) }
    }

    /// How much lower the limit is with so much in pools.
    pub(crate) fn taken_by(&self, pools: Bytes) -> Bytes {
        pools.shared_by(100).unwrap_or_default().saturating_mul(self.ratio)
    }

    /// What programs other than root's may still be promised.
    pub(crate) fn left(&self) -> Bytes {
        self.limit.saturating_sub(self.committed + RESERVED)
    }

    /// Why no pool may take so much now; none where it may, and is counted then.
    pub(crate) fn try_commit(&mut self, extra: Bytes) -> Option<String> {
        let less = self.taken_by(extra);
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
