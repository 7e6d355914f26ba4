//! What was given, as captures to read: files, folders, and what is below folders. Links are not followed.

use std::fs::File;
use std::io::{self, Seek};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hugewise_host::source::files::{self, Below, Given};

use crate::bundle::{self, Content};
use crate::failed::Failed;
#[cfg(feature = "store")]
use crate::store::Captures;

/// One capture to read.
#[derive(Debug)]
pub(crate) struct Unit {
    /// How people call it.
    pub(crate) path: PathBuf,
    pub(crate) at: At,
}

#[derive(Debug)]
pub(crate) enum At {
    /// A file that was given.
    File,
    /// A file below a folder that was given, by its path from there.
    Below(Arc<Below>, PathBuf),
    /// A folder that looks like a host's root, the same way.
    Folder(Arc<Below>, PathBuf),
    /// One of a bundle, which is held.
    Held(Content),
    /// One of a bucket or a container, by its name there, with its size.
    #[cfg(feature = "store")]
    Stored(Arc<dyn Captures>, String, u64),
}

/// A capture that was opened.
#[derive(Debug)]
pub(crate) enum Opened {
    /// With its size in bytes.
    File(File, u64),
    Bytes(Vec<u8>),
    Folder(Below),
}

/// A folder that could not be listed, and why.
pub(crate) type Unlisted = (PathBuf, String);

impl Unit {
    /// Opens it; whatever stands at its path afterwards, that is what is read.
    pub(crate) fn open(self) -> Result<Opened, Failed> {
        let sized = |file: io::Result<File>| -> Result<Opened, Failed> {
            let sized = file.and_then(|file| Ok((file.metadata()?.len(), file)));
            sized.map(|(size, file)| Opened::File(file, size)).map_err(|error| Failed::io(&error))
        };
        let held = |content| match content {
            Content::Bytes(bytes) => Ok(Opened::Bytes(bytes)),
            Content::File(file) => sized(Ok(file)),
        };
        match self.at {
            At::Folder(folder, path) => folder.folder(&path).map(Opened::Folder).map_err(|error| Failed::io(&error)),
            At::Below(folder, path) => sized(folder.open(&path)),
            At::Held(content) => held(content),
            #[cfg(feature = "store")]
            At::Stored(captures, key, size) => captures.fetch(&key, size).and_then(|member| held(member.content)),
            At::File => match files::open(&self.path) {
                Ok(Given::File(file, entry)) => Ok(Opened::File(file, entry.size)),
                Ok(Given::Folder(_)) => Err(Failed::io(&io::ErrorKind::IsADirectory.into())),
                Err(error) => Err(Failed::io(&error)),
            },
        }
    }
}

impl Unit {
    /// Whether it is a file with many captures in it. What cannot be opened is not: its reading says why.
    pub(crate) fn bundled(&self) -> Option<File> {
        let opened = match &self.at {
            At::Below(folder, path) => folder.open(path),
            At::File => match files::open(&self.path) {
                Ok(Given::File(file, _)) => Ok(file),
                _ => return None,
            },
            _ => return None,
        };
        let mut file = opened.ok()?;
        let is_bundle = bundle::is_one(&file);
        file.rewind().ok()?;
        is_bundle.then_some(file)
    }
}

/// What is at a path.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// Captures.
    pub(crate) units: Vec<Unit>,
    /// What could not be listed.
    pub(crate) problems: Vec<Unlisted>,
}

/// The captures at a path, but for what is in the folder of the tables.
pub(crate) fn at(path: &Path, lake: &Path) -> io::Result<Found> {
    let folder = match files::open(path)? {
        Given::File(..) => {
            return Ok(Found { units: vec![Unit { path: path.to_owned(), at: At::File }], problems: Vec::new() });
        }
        Given::Folder(folder) => folder,
    };
    let real = folder.real_path()?;
    if real == Path::new("/") {
        return Err(io::Error::other("is this machine; hugewise capture makes a capture of it"));
    }
    if real.starts_with(lake) {
        return Err(io::Error::other("is in the folder of the tables"));
    }
    let lake = lake.strip_prefix(&real).ok();
    let is_ours = |below: &Path| lake.is_some_and(|lake| below.starts_with(lake));
    let walk = folder.walk();
    let problems = walk.problems.into_iter().filter(|(below, _)| !is_ours(below));
    let problems = problems.map(|(below, why)| (joined(path, &below), why)).collect();
    let folder = Arc::new(folder);
    let hosts = walk.hosts;
    let unit = |host: &PathBuf| Unit { path: joined(path, host), at: At::Folder(folder.clone(), host.clone()) };
    let mut units: Vec<Unit> = hosts.iter().map(unit).collect();
    let of_hosts = |file: &Path| hosts.iter().any(|host| file.starts_with(host));
    let files = walk.files.into_iter().filter(|file| !of_hosts(&file.path) && !is_ours(&file.path));
    units.extend(files.map(|file| Unit { path: path.join(&file.path), at: At::Below(folder.clone(), file.path) }));
    Ok(Found { units, problems })
}

/// Without a slash at the end where nothing comes behind it.
fn joined(path: &Path, below: &Path) -> PathBuf {
    if below.as_os_str().is_empty() { path.to_owned() } else { path.join(below) }
}
