//! One file or folder a format, each from bytes or a stream to [`Series`](crate::Series).

pub mod sysstat;

use std::fmt;

/// Why a file is not read at all. What is wrong in a part of a file is a [`Problem`](crate::Problem) of its series.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused(pub String);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refused {}
