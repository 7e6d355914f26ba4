//! `--host-namespaces`: from a container to the host.

use crate::outcome::{self, CommandFailure, CommandOutcome};

/// Must come before anything is read or a thread started.
pub(crate) fn enter_host_namespaces(asked: bool) -> Result<(), CommandFailure> {
    if !asked {
        return Ok(());
    }
    let entered = hugewise_host::host_namespaces::enter_host_namespaces();
    let beyond = entered.map_err(|why| CommandFailure::new(format!("--host-namespaces: {why}")))?;
    if let Some(why) = beyond {
        outcome::print_complaint(
            &format!("--host-namespaces: process 1 is in a container itself: {why}"),
            CommandOutcome::Fine,
        )?;
    }
    Ok(())
}
