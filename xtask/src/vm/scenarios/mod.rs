//! The scenarios, one file each.

mod smoke;

use super::Scenario;

/// In the order in which they run.
pub(super) static ALL: &[Scenario] = &[smoke::SCENARIO];
