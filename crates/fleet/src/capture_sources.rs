//! What was given, as captures to read: files, folders, and what is below folders. Links are not
//! followed.

use std::fs::File;
use std::io::{self, Seek};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hugewise_host::source::files::{self, OpenFolder, OpenedPath};

use crate::bundle::{self, CaptureContent};
use crate::capture_failure::CaptureFailure;
#[cfg(feature = "store")]
use crate::store::Captures;

/// One capture to read.
#[derive(Debug)]
pub(crate) struct CaptureUnit {
    /// How people call it.
    pub(crate) path: PathBuf,
    pub(crate) at: CaptureLocation,
}

#[derive(Debug)]
pub(crate) enum CaptureLocation {
    /// A file that was given.
    File,
    /// A file below a folder that was given, by its path from there.
    Below(Arc<OpenFolder>, PathBuf),
    /// A folder that looks like a host's root, the same way.
    Folder(Arc<OpenFolder>, PathBuf),
    /// One of a bundle, which is held.
    Held(CaptureContent),
    /// One of a bucket or a container, by its name there, with its size.
    #[cfg(feature = "store")]
    Stored(Arc<dyn Captures>, String, u64),
}

/// A capture that was opened.
#[derive(Debug)]
pub(crate) enum OpenedCapture {
    /// With its size in bytes.
    File(File, u64),
    Bytes(Vec<u8>),
    Folder(OpenFolder),
}

/// A folder that could not be listed, and why.
pub(crate) type Unlisted = (PathBuf, String);

impl CaptureUnit {
    /// Opens it; whatever stands at its path afterwards, that is what is read.
    pub(crate) fn open(self) -> Result<OpenedCapture, CaptureFailure> {
        let sized = |file: io::Result<File>| -> Result<OpenedCapture, CaptureFailure> {
            let sized = file.and_then(|file| Ok((file.metadata()?.len(), file)));
            sized
                .map(|(size, file)| OpenedCapture::File(file, size))
                .map_err(|error| CaptureFailure::from_io(&error))
        };
        let held = |content| match content {
            CaptureContent::Bytes(bytes) => Ok(OpenedCapture::Bytes(bytes)),
            CaptureContent::File(file) => sized(Ok(file)),
        };
        match self.at {
            CaptureLocation::Folder(folder, path) => folder
                .open_folder(&path)
                .map(OpenedCapture::Folder)
                .map_err(|error| CaptureFailure::from_io(&error)),
            CaptureLocation::Below(folder, path) => sized(folder.open_file(&path)),
            CaptureLocation::Held(content) => held(content),
            #[cfg(feature = "store")]
            CaptureLocation::Stored(captures, key, size) => {
                captures.fetch_object(&key, size).and_then(|member| held(member.content))
            }
            CaptureLocation::File => match files::open_path(&self.path) {
                Ok(OpenedPath::File(file, entry)) => Ok(OpenedCapture::File(file, entry.size)),
                Ok(OpenedPath::Folder(_)) => {
                    Err(CaptureFailure::from_io(&io::ErrorKind::IsADirectory.into()))
                }
                Err(error) => Err(CaptureFailure::from_io(&error)),
            },
        }
    }
}

impl CaptureUnit {
    /// Whether it is a file with many captures in it. What cannot be opened is not: its reading
    /// says why.
    pub(crate) fn open_bundle(&self) -> Option<File> {
        let opened = match &self.at {
            CaptureLocation::Below(folder, path) => folder.open_file(path),
            CaptureLocation::File => match files::open_path(&self.path) {
                Ok(OpenedPath::File(file, _)) => Ok(file),
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
pub(crate) struct FoundCaptures {
    /// Captures.
    pub(crate) units: Vec<CaptureUnit>,
    /// What could not be listed.
    pub(crate) problems: Vec<Unlisted>,
}

/// The captures at a path, but for what is in the folder of the tables.
pub(crate) fn find_captures(path: &Path, lake: &Path) -> io::Result<FoundCaptures> {
    let folder = match files::open_path(path)? {
        OpenedPath::File(..) => {
            return Ok(FoundCaptures {
                units: vec![CaptureUnit { path: path.to_owned(), at: CaptureLocation::File }],
                problems: Vec::new(),
            });
        }
        OpenedPath::Folder(folder) => folder,
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
    let mut problems: Vec<Unlisted> =
        problems.map(|(below, why)| (join_path(path, &below), why)).collect();
    let show = |below: &Path| path.join(below).display().to_string();
    problems.extend(walk.special.describe(show).map(|why| (path.to_owned(), why)));
    let folder = Arc::new(folder);
    let hosts = walk.hosts;
    let unit = |host: &PathBuf| CaptureUnit {
        path: join_path(path, host),
        at: CaptureLocation::Folder(folder.clone(), host.clone()),
    };
    let mut units: Vec<CaptureUnit> = hosts.iter().map(unit).collect();
    let of_hosts = |file: &Path| hosts.iter().any(|host| file.starts_with(host));
    let files = walk.files.into_iter().filter(|file| !of_hosts(&file.path) && !is_ours(&file.path));
    units.extend(files.map(|file| CaptureUnit {
        path: path.join(&file.path),
        at: CaptureLocation::Below(folder.clone(), file.path),
    }));
    Ok(FoundCaptures { units, problems })
}

/// Without a slash at the end where nothing comes behind it.
fn join_path(path: &Path, below: &Path) -> PathBuf {
    if below.as_os_str().is_empty() { path.to_owned() } else { path.join(below) }
}
