//! A captured host where a machine is asked for that can be changed: it can be read, and nothing else.

use std::time::Duration;

use hugewise_change::plan::{Content, FileMode, FileState};
use hugewise_change::{Failure, System};
use hugewise_host::Source;
use hugewise_model::Observed;
use hugewise_system::{Lock, Ran, Unfit};

/// The host behind a source. What a capture does not keep, owners and permissions, is as usual for configuration:
/// root's, and everybody may read it.
pub(crate) struct Captured<'a>(pub(crate) &'a dyn Source);

fn read_only(what: &str) -> Failure {
    Failure::new(what, "a captured host cannot be changed")
}

impl Captured<'_> {
    fn bytes(&self, path: &str) -> Result<Option<Vec<u8>>, Failure> {
        match self.0.read(path) {
            Observed::Known(bytes) => Ok(Some(bytes)),
            Observed::Absent => Ok(None),
            other => Err(Failure::new(path, other.reason().unwrap_or_default())),
        }
    }
}

impl System for Captured<'_> {
    fn now(&self) -> i64 {
        self.0.machine().read_at.get().unwrap_or_default()
    }

    fn fit(&self) -> Result<(), Unfit> {
        Err(read_only("/").into())
    }

    fn text(&self, path: &str) -> Result<Option<String>, Failure> {
        Ok(self.bytes(path)?.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
    }

    fn file(&self, path: &str) -> Result<Option<FileState>, Failure> {
        let state = |bytes| FileState {
            content: Content::new(bytes),
            mode: FileMode(0o644),
            uid: 0,
            gid: 0,
            labels: Vec::new(),
        };
        Ok(self.bytes(path)?.map(state))
    }

    /// A source follows links inside of the captured host by itself.
    fn real(&self, path: &str) -> Result<Option<String>, Failure> {
        Ok(Some(path.to_owned()))
    }

    fn list(&self, folder: &str) -> Result<Option<Vec<String>>, Failure> {
        match self.0.list(folder) {
            Observed::Known(names) => Ok(Some(names)),
            Observed::Absent => Ok(None),
            other => Err(Failure::new(folder, other.reason().unwrap_or_default())),
        }
    }

    fn write_value(&self, path: &str, _value: &str) -> Result<(), Failure> {
        Err(read_only(path))
    }

    fn write_file(&self, path: &str, _temporary: &str, _file: &FileState) -> Result<(), Failure> {
        Err(read_only(path))
    }

    fn remove_file(&self, path: &str) -> Result<(), Failure> {
        Err(read_only(path))
    }

    fn is_in_other_hands(&self, _path: &str) -> bool {
        false
    }

    fn make_folder(&self, path: &str, _private: bool) -> Result<(), Failure> {
        Err(read_only(path))
    }

    fn remove_folder(&self, path: &str) -> Result<bool, Failure> {
        Err(read_only(path))
    }

    fn run(&self, command: &[String], _user: Option<&str>) -> Result<Ran, Failure> {
        Err(read_only(command.first().map_or("a command", String::as_str)))
    }

    fn sync(&self, path: &str) -> Result<(), Failure> {
        Err(read_only(path))
    }

    fn append(&self, path: &str, _bytes: &[u8]) -> Result<(), Failure> {
        Err(read_only(path))
    }

    fn cut(&self, path: &str, _length: u64) -> Result<(), Failure> {
        Err(read_only(path))
    }

    fn lock(&self, path: &str) -> Result<Option<Box<dyn Lock>>, Failure> {
        Err(read_only(path))
    }

    fn pause(&self, _time: Duration) {}
}
