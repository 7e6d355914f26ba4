//! The files of a host that is made.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

/// What is at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FixtureEntry {
    /// A file with this text.
    File(Vec<u8>),
    /// A link to this target.
    Link(String),
}

/// Files and links by their path, which begins with `/`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FixtureFiles(BTreeMap<String, FixtureEntry>);

impl FixtureFiles {
    /// Adds a file, in the place of one that is there.
    pub fn add_file(&mut self, path: &str, text: impl AsRef<[u8]>) {
        self.0.insert(path.to_owned(), FixtureEntry::File(text.as_ref().to_vec()));
    }

    /// Adds a link.
    pub fn read_link(&mut self, path: &str, target: &str) {
        self.0.insert(path.to_owned(), FixtureEntry::Link(target.to_owned()));
    }

    /// Leaves out what does not lie below one of these folders.
    #[must_use]
    pub fn only_below(mut self, folders: &[&str]) -> Self {
        self.0.retain(|path, _| folders.iter().any(|folder| path.starts_with(folder)));
        self
    }

    /// The text of a file; none where there is no such file.
    #[must_use]
    pub fn text(&self, path: &str) -> Option<&str> {
        match self.0.get(path)? {
            FixtureEntry::File(bytes) => std::str::from_utf8(bytes).ok(),
            FixtureEntry::Link(_) => None,
        }
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &FixtureEntry)> {
        self.0.iter().map(|(path, entry)| (path.as_str(), entry))
    }

    /// Writes them below a folder; other files there stay.
    ///
    /// # Errors
    /// Where one cannot be written.
    pub fn write(&self, folder: &Path) -> io::Result<()> {
        for (path, entry) in &self.0 {
            let at = folder.join(path.trim_start_matches('/'));
            if let Some(parent) = at.parent() {
                std::fs::create_dir_all(parent)?;
            }
            match entry {
                FixtureEntry::File(bytes) => std::fs::write(&at, bytes)?,
                FixtureEntry::Link(target) => match std::fs::remove_file(&at) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                    _ => std::os::unix::fs::symlink(target, &at)?,
                },
            }
        }
        Ok(())
    }
}
