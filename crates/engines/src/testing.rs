//! What the tests of several engines make hosts of.

use std::sync::Arc;

use hugewise_model::{Host, Observed, Process};

/// As a host has them.
pub(crate) fn known(processes: impl IntoIterator<Item = Process>) -> Observed<Vec<Arc<Process>>> {
    Observed::Known(processes.into_iter().map(Arc::new).collect())
}

/// The processes of a host whose processes are known, to be changed.
pub(crate) fn processes(host: &mut Host) -> Vec<&mut Process> {
    match &mut host.processes {
        Observed::Known(processes) => processes.iter_mut().map(Arc::make_mut).collect(),
        _ => panic!("no processes"),
    }
}
