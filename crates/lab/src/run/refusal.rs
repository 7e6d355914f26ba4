//! Why a program is not started.

/// Why it cannot be done, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct LaunchRefusal(pub String);
