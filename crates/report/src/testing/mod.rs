//! What tests of several modules share.

mod hostile;
pub(crate) mod sample_investigations;
