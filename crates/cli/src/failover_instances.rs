//! `--also`: instances of other nodes that may be started on this one.

use std::path::{Path, PathBuf};

use hugewise_diagnose::{Diagnosis, DiagnosisOptions};
use hugewise_engines::failover_peer::FailoverPeer;
use hugewise_host::Source;

use crate::outcome::{self, CommandFailure};

/// Captures of other nodes.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct Also {
    /// Also make room for the instances of another cluster node, in case they fail over to this
    /// host. Give that node's capture; may be repeated.
    #[arg(long, value_name = "PATH")]
    also: Vec<PathBuf>,
}

impl Also {
    pub(crate) fn paths(&self) -> impl Iterator<Item = &Path> {
        self.also.iter().map(PathBuf::as_path)
    }

    pub(crate) fn diagnose(
        &self,
        source: &dyn Source,
        options: &DiagnosisOptions<'_>,
    ) -> Result<Diagnosis, CommandFailure> {
        let mut peers = Vec::new();
        for path in &self.also {
            let opened = outcome::open_source(Some(path))?;
            peers.push(FailoverPeer::read(opened.as_ref(), path.display().to_string()));
        }
        let diagnosis = Diagnosis::run(source, &DiagnosisOptions { peers: &peers, ..*options });
        match peers.iter().find(|peer| peer.is_same_host(&diagnosis.host, source)) {
            None => Ok(diagnosis),
            Some(peer) => Err(CommandFailure::new(format!(
                "{}: this is a capture of the same host; --also takes another node's",
                peer.known_by
            ))),
        }
    }
}
