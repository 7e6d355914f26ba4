//! From where on page tables are large: one measure for what a host has now and for what an archive tells.

use crate::Bytes;

/// From this part of memory on they are worth a note. Fifteen readings of about twelve hosts without the trouble lay between
/// 0.03 and 0.76 %.
pub const NOTE: f64 = 0.02;
/// Or from this much on, however large the host is.
pub const NOTE_BYTES: Bytes = Bytes::from_gib(1);
/// From this part of memory on they displace what the host is for.
pub const WARN: f64 = 0.05;
/// From this part of memory on a login storm can bring the host down: hosts that were in one had 9 to 24 %.
pub const ERROR: f64 = 0.10;
