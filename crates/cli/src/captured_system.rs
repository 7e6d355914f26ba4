//! A captured host where a `System` is needed: it can only be read.

use std::time::Duration;

use hugewise_change::plan::{FileContent, FileMode, FileState};
use hugewise_change::{System, SystemFailure};
use hugewise_host::Source;
use hugewise_system::{Ran, SystemLock, Unfit};

/// A capture keeps no owners and permissions: files count as root's, and readable by everybody.
pub(crate) struct CapturedSystem<'a>(pub(crate) &'a dyn Source);

fn read_only(what: &str) -> SystemFailure {
    SystemFailure::new(what, "a captured host cannot be changed")
}

impl CapturedSystem<'_> {
    fn read_bytes(&self, path: &str) -> Result<Option<Vec<u8>>, SystemFailure> {
        self.0.read(path).into_present().map_err(|why| SystemFailure::new(path, why.to_string()))
    }
}

impl System for CapturedSystem<'_> {
    fn unix_time(&self) -> i64 {
        self.0.machine_facts().read_at.get().unwrap_or_default()
    }
    fn check_can_change(&self) -> Result<(), Unfit> {
        Err(read_only("/").into())
    }
    fn read_text(&self, path: &str) -> Result<Option<String>, SystemFailure> {
        Ok(self.read_bytes(path)?.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
    }

    fn read_file(&self, path: &str) -> Result<Option<FileState>, SystemFailure> {
        let state = |bytes| FileState {
            content: FileContent::new(bytes),
            mode: FileMode(0o644),
            uid: 0,
            gid: 0,
            labels: Vec::new(),
        };
        Ok(self.read_bytes(path)?.map(state))
    }

    /// A source follows links inside of the captured host by itself.
    fn resolve_path(&self, path: &str) -> Result<Option<String>, SystemFailure> {
        Ok(Some(path.to_owned()))
    }

    fn list_folder(&self, folder: &str) -> Result<Option<Vec<String>>, SystemFailure> {
        let names = self.0.list_folder(folder).into_present();
        names.map_err(|why| SystemFailure::new(folder, why.to_string()))
    }

    fn write_value(&self, path: &str, _value: &str) -> Result<(), SystemFailure> {
        Err(read_only(path))
    }

    fn write_file(
        &self,
        path: &str,
        _temporary: &str,
        _file: &FileState,
    ) -> Result<(), SystemFailure> {
        Err(read_only(path))
    }

    fn remove_file(&self, path: &str) -> Result<(), SystemFailure> {
        Err(read_only(path))
    }
    fn is_in_other_hands(&self, _path: &str) -> bool {
        false
    }
    fn make_folder(&self, path: &str, _private: bool) -> Result<(), SystemFailure> {
        Err(read_only(path))
    }
    fn remove_folder(&self, path: &str) -> Result<bool, SystemFailure> {
        Err(read_only(path))
    }
    fn run(&self, command: &[String], _user: Option<&str>) -> Result<Ran, SystemFailure> {
        Err(read_only(command.first().map_or("a command", String::as_str)))
    }
    fn sync_file(&self, path: &str) -> Result<(), SystemFailure> {
        Err(read_only(path))
    }
    fn append_to_file(&self, path: &str, _bytes: &[u8]) -> Result<(), SystemFailure> {
        Err(read_only(path))
    }
    fn truncate_file(&self, path: &str, _length: u64) -> Result<(), SystemFailure> {
        Err(read_only(path))
    }
    fn take_lock(&self, path: &str) -> Result<Option<Box<dyn SystemLock>>, SystemFailure> {
        Err(read_only(path))
    }

    fn pause_for(&self, _time: Duration) {}
}
