//! What could not be done, in words that name the file and what to do.

/// Something that could not be read or done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}: {why}{}", .advice.iter().map(|advice| format!("; {advice}")).collect::<String>())]
pub struct SystemFailure {
    /// The file or program.
    pub what: String,
    /// What went wrong.
    pub why: String,
    /// What can be done about it.
    pub advice: Option<String>,
}

impl SystemFailure {
    /// Without advice.
    pub fn new(what: impl Into<String>, why: impl Into<String>) -> Self {
        Self { what: what.into(), why: why.into(), advice: None }
    }

    /// With advice.
    #[must_use]
    pub fn with_advice(mut self, advice: impl Into<String>) -> Self {
        self.advice = Some(advice.into());
        self
    }
}

/// Why a machine cannot be changed from here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// Only root changes a host.
    #[error("only root can change a host: run it with sudo")]
    NotRoot,
    /// `/proc` or `/sys` is not the kernel's own: whatever is written there would change nothing.
    #[error(
        "{path} does not come from the kernel ({is}), so writing there changes nothing: run \
             hugewise on the host itself"
    )]
    NotReal {
        /// Which of them.
        path: String,
        /// What it is instead.
        is: String,
    },
    /// A container or a chroot: what is written here is not the host's, and not all of it is seen.
    #[error("cannot change the host from here: {why}. Nothing was changed")]
    Confined {
        /// How that is known.
        why: String,
    },
    /// What stands for the machine cannot be changed at all.
    #[error(transparent)]
    Failed(#[from] SystemFailure),
}
