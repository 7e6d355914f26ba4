//! `--host-namespaces`: from a container to the host.

use crate::outcome::{self, Failure, Outcome};

/// Goes there if that was asked for, before anything is read or a thread started.
pub(crate) fn enter(asked: bool) -> Result<(), Failure> {
    if !asked {
        return Ok(());
    }
    let entered = hugewise_host::host_namespaces::enter();
    let beyond = entered.map_err(|why| Failure::new(format!("--host-namespaces: {why}")))?;
    if let Some(why) = beyond {
        outcome::complain(&format!("--host-namespaces: process 1 is in a container itself: {why}"), Outcome::Fine)?;
    }
    Ok(())
}
