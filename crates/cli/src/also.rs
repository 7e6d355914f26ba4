//! `--also`: instances of other nodes that may be started on this one.

use std::path::PathBuf;

use hugewise_host::Source;
use hugewise_model::{Host, Instance, Unread};

use crate::outcome::{self, Failure};

/// What a machine is known by, where a capture has it.
const MACHINE_ID: &str = "/etc/machine-id";

/// Captures of other nodes.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct Also {
    /// Also make room for the instances of another cluster node, in case they fail over to this host. Give that node's
    /// capture; may be repeated.
    #[arg(long, value_name = "PATH")]
    also: Vec<PathBuf>,
}

impl Also {
    /// As they were given.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &std::path::Path> {
        self.also.iter().map(PathBuf::as_path)
    }

    /// Adds the instances of those nodes to a host's own, and what could not be read of them.
    pub(crate) fn add(
        &self,
        host: &Host,
        source: &dyn Source,
        instances: &mut Vec<Instance>,
        unread: &mut Vec<Unread>,
    ) -> Result<(), Failure> {
        for path in &self.also {
            let opened = outcome::open(Some(path))?;
            let (there, found) = hugewise_engines::gather(opened.as_ref());
            let id =
                |source: &dyn Source| source.read(MACHINE_ID).into_known().filter(|id| !id.trim_ascii().is_empty());
            let same_id = id(source).zip(id(opened.as_ref())).map(|(here, there)| here == there);
            let same_name = host.name.known().is_some_and(|name| there.name.known() == Some(name));
            if same_id.unwrap_or(same_name) {
                let message =
                    format!("{}: this is a capture of the same host; --also takes another node's", path.display());
                return Err(Failure::new(message));
            }
            let node = there.name.known().cloned().unwrap_or_else(|| path.display().to_string());
            instances.extend(hugewise_engines::partner::of(host, &there, &found, &path.display().to_string()));
            let notes = there.unread.into_iter().chain(found.unread);
            unread.extend(notes.map(|note| Unread { what: format!("{} on {node}", note.what), ..note }));
        }
        instances.sort_by(|a, b| (a.engine, &a.name, a.pid).cmp(&(b.engine, &b.name, b.pid)));
        Ok(())
    }
}
