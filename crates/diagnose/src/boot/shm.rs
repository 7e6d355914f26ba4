//! What the next boot allows of System V segments.

use hugewise_model::{Bytes, Host, Lack, Reason};

use super::predict_setting;
use crate::Missing;

/// Of kernel.shmmax and kernel.shmall since Linux 3.16: `ULONG_MAX - (1UL << 24)`.
const NO_LIMIT: u64 = u64::MAX - (1 << 24);

/// What every kernel begins with: SHMMNI.
const SEGMENTS: u64 = 4096;

/// The most that it takes: IPCMNI.
const MOST_SEGMENTS: u64 = 32_768;

const AMPLE: u64 = 2;

/// A limit of System V segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShmLimit {
    /// kernel.shmmax: bytes of one.
    Largest,
    /// kernel.shmall: base pages of all.
    All,
    /// kernel.shmmni: how many there may be.
    Number,
}

impl ShmLimit {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Largest, Self::All, Self::Number];

    /// Its name with dots.
    pub const fn sysctl_key(self) -> &'static str {
        match self {
            Self::Largest => "kernel.shmmax",
            Self::All => "kernel.shmall",
            Self::Number => "kernel.shmmni",
        }
    }

    /// What it is set to where so much is needed: with room for servers that come and grow.
    pub fn with_room(self, needed: u64) -> u64 {
        let ample = needed.saturating_mul(AMPLE);
        match self {
            Self::Number => ample.clamp(SEGMENTS, MOST_SEGMENTS),
            Self::Largest | Self::All => ample,
        }
    }

    pub(crate) fn current_value(self, host: &Host) -> Option<u64> {
        let settings = &host.kernel_settings;
        match self {
            Self::Largest => settings.shmmax.get().map(Bytes::get),
            Self::All => settings.shmall_pages.get(),
            Self::Number => settings.shmmni.get(),
        }
    }
}

/// What the next boot leaves a limit at: what the files set, or what the kernel begins with.
///
/// # Errors
/// A file that counts could not be read; or no file sets it, and this kernel is one of those that
/// distributions gave limits of their own ([`Reason::Untold`]).
pub fn shm_limit(host: &Host, limit: ShmLimit) -> Result<u64, Missing> {
    let lack = |why: Reason| Missing::Host(Lack::new(limit.sysctl_key(), why));
    if let Some(step) = predict_setting(host, limit.sysctl_key())?.pop() {
        let value = step.value.trim().parse();
        return value
            .map_err(|_| lack(Reason::Malformed(format!("{} ({})", step.value, step.place))));
    }
    let since_3_16 = host.kernel.as_known().is_some_and(|kernel| kernel.at_least(3, 16));
    match limit.current_value(host) {
        _ if limit == ShmLimit::Number => Ok(SEGMENTS),
        Some(now) if now >= NO_LIMIT => Ok(now),
        _ if since_3_16 => Ok(NO_LIMIT),
        _ => Err(lack(Reason::from_text(
            "no file sets it for the next boot, and what this kernel begins with is not known",
        ))),
    }
}

/// Whether a limit seems set by hand: it is known, and no file sets the next boot's.
pub fn shm_limit_is_by_hand(host: &Host, limit: ShmLimit) -> bool {
    let is_untold = |missing: Missing| {
        let (Missing::Host(lack) | Missing::Instance(lack)) = missing;
        matches!(lack.why, Reason::Untold(_))
    };
    limit.current_value(host).is_some() && shm_limit(host, limit).is_err_and(is_untold)
}
