//! From where on page tables are large, on a host now and in an archive.

use crate::Bytes;

/// Worth a note. Fifteen readings of about twelve healthy hosts lay between 0.03 and 0.76 %.
pub const NOTE: f64 = 0.02;
/// Worth a note on a host of any size.
pub const NOTE_BYTES: Bytes = Bytes::from_gib(1);
/// From this part of memory on they displace what the host is for.
pub const WARN: f64 = 0.05;
/// A login storm can bring the host down: hosts that were in one had 9 to 24 %.
pub const ERROR: f64 = 0.10;
