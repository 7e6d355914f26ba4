//! A tar of such a folder, plain or compressed, read into memory once.

use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use flate2::read::MultiGzDecoder;
use hugewise_model::{Observed, PageSize, Unread};
use lzma_rust2::XzReader;

use super::captured::{Captured, Files};
use super::tree::Tree;
use super::{MAX_FILE, Machine, OpenError, Part, Source, beneath, looks_like_a_host};

/// Entries beyond this are no host.
const MAX_ENTRIES: u64 = 200_000;
/// Memory that the files may take in all.
const MAX_KEPT: u64 = 256 << 20;
/// Bytes that may come out of decompression: a sosreport is far below, a bomb far above.
const MAX_UNPACKED: u64 = 8 << 30;

/// A tar in memory.
#[derive(Debug)]
pub struct Archive(Captured<Unpacked>);

#[derive(Debug, Default)]
struct Unpacked {
    tree: Tree,
    problems: Vec<Unread>,
}

impl Archive {
    /// Reads a tar, told by its first bytes: plain, gzip or xz.
    ///
    /// # Errors
    /// No tar; a path that leads out of it; too many or too large entries; nothing in it that a host has.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        let opened = beneath::open_to_read(rustix::fs::CWD, &path.to_string_lossy());
        let mut file = std::fs::File::from(opened.map_err(|error| OpenError::io(path, error.into()))?);
        let mut magic = [0; 6];
        let length = read_full(&mut file, &mut magic).map_err(|error| OpenError::io(path, error))?;
        file.seek(SeekFrom::Start(0)).map_err(|error| OpenError::io(path, error))?;
        let name = path.file_name().map_or_else(|| path.to_string_lossy(), |name| name.to_string_lossy());
        let file = BufReader::with_capacity(64 << 10, file);
        let unpacked = match magic.get(..length).unwrap_or_default() {
            [0x1f, 0x8b, ..] => unpack(MultiGzDecoder::new(file), &name, path)?,
            [0xfd, b'7', b'z', b'X', b'Z', 0] => unpack(XzReader::new(file, true), &name, path)?,
            [] => return Err(OpenError::new(path, "is empty".into())),
            _ => unpack(file, &name, path)?,
        };
        Ok(Self(Captured::new(unpacked)))
    }
}

fn read_full(file: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut length = 0;
    while let Some(rest) = buffer.get_mut(length..).filter(|rest| !rest.is_empty()) {
        match file.read(rest)? {
            0 => break,
            more => length += more,
        }
    }
    Ok(length)
}

/// What an entry is, before the top folder is known.
enum Kept {
    Folder,
    File(Observed<Vec<u8>>),
    Link(String),
    HardLink(String),
}

fn unpack(stream: impl Read, name: &str, path: &Path) -> Result<Unpacked, OpenError> {
    let mut archive = tar::Archive::new(Bounded { stream, left: MAX_UNPACKED, zeros: 0, ended: false });
    let mut kept: Vec<(String, Kept)> = Vec::new();
    let mut problems = Vec::new();
    let mut total = 0_u64;
    let mut left_out = 0_u64;
    let entries = archive.entries().map_err(|error| OpenError::io(path, error))?;
    let mut count = 0_u64;
    for entry in entries {
        let mut entry = match entry {
            Ok(entry) => entry,
            Err(error) if count == 0 => return Err(OpenError::new(path, format!("no tar: {error}"))),
            Err(error) => {
                problems.push(torn(name, count, &error));
                break;
            }
        };
        count += 1;
        if count > MAX_ENTRIES {
            return Err(OpenError::new(path, format!("more than {MAX_ENTRIES} entries")));
        }
        let at = entry_path(&entry.path_bytes()).map_err(|what| OpenError::new(path, what))?;
        let kind = entry.header().entry_type();
        let target = entry.link_name_bytes().map(|target| String::from_utf8_lossy(&target).into_owned());
        let node = if kind.is_dir() {
            Kept::Folder
        } else if kind.is_symlink() {
            Kept::Link(target.unwrap_or_default())
        } else if kind.is_hard_link() {
            let target = entry_path(target.unwrap_or_default().as_bytes());
            Kept::HardLink(target.map_err(|what| OpenError::new(path, what))?)
        } else if kind.is_file() || kind.is_contiguous() || kind.is_gnu_sparse() {
            let size = entry.size();
            if size > MAX_FILE {
                Kept::File(beneath::too_large())
            } else if total.saturating_add(size) > MAX_KEPT && never_read(&at) {
                left_out += 1;
                continue;
            } else if total.saturating_add(size) > MAX_KEPT {
                return Err(OpenError::new(path, format!("holds more than {} MiB of files", MAX_KEPT >> 20)));
            } else {
                let mut bytes = Vec::new();
                match entry.read_to_end(&mut bytes) {
                    Ok(read) if u64::try_from(read).is_ok_and(|read| read == size) => {}
                    Ok(_) => {
                        problems.push(torn(name, count - 1, &io::ErrorKind::UnexpectedEof.into()));
                        break;
                    }
                    Err(error) => {
                        problems.push(torn(name, count - 1, &error));
                        break;
                    }
                }
                if never_read(&at) {
                    Kept::File(Observed::Malformed("not kept".into()))
                } else {
                    total += size;
                    Kept::File(Observed::Known(bytes))
                }
            }
        } else {
            // Devices and pipes are in no capture; a name without content keeps lists right.
            Kept::File(Observed::Malformed("not a regular file".into()))
        };
        kept.push((at, node));
    }
    let end = archive.into_inner();
    if problems.is_empty() && end.ended && end.zeros < 512 {
        problems.push(torn(name, count, &io::ErrorKind::UnexpectedEof.into()));
    }
    if left_out > 0 {
        let why = format!("skipped: {left_out} files beyond {} MiB", MAX_KEPT >> 20);
        problems.push(Unread { what: name.to_owned(), why });
    }
    let tree = plant(kept);
    if !tree.list("/").known().is_some_and(|names| looks_like_a_host(names)) {
        let torn = problems.first().map(|problem| format!(" ({})", problem.why)).unwrap_or_default();
        let mut error = OpenError::not_a_host(path);
        error.what.push_str(&torn);
        return Err(error);
    }
    Ok(Unpacked { tree, problems })
}

fn torn(name: &str, count: u64, error: &io::Error) -> Unread {
    Unread { what: name.to_owned(), why: format!("truncated after {count} entries: {error}") }
}

/// Logs and command outputs that no question is asked of.
fn never_read(path: &str) -> bool {
    let inside = path.split('/').skip_while(|name| !matches!(*name, "var" | "sos_commands")).collect::<Vec<_>>();
    match inside.as_slice() {
        ["var", "log", rest @ ..] => {
            !rest.last().is_some_and(|name| name.starts_with("dmesg") || name.starts_with("kern"))
        }
        ["sos_commands", group, ..] => {
            !matches!(*group, "process" | "kernel" | "date" | "host" | "memory" | "numa" | "boot")
        }
        _ => false,
    }
}

/// The path of an entry below the root, without `.` and a leading slash.
fn entry_path(bytes: &[u8]) -> Result<String, String> {
    let text = String::from_utf8_lossy(bytes);
    let mut path = String::with_capacity(text.len());
    for name in text.split('/').filter(|name| !name.is_empty() && *name != ".") {
        if name == ".." {
            return Err(format!("{text}: leads out of the archive"));
        }
        path.push('/');
        path.push_str(name);
    }
    Ok(path)
}

/// Puts the entries into a tree, without the one folder that all of them are in.
fn plant(kept: Vec<(String, Kept)>) -> Tree {
    let first = |path: &str| path.split('/').nth(1).unwrap_or_default().to_owned();
    let names: std::collections::BTreeSet<String> =
        kept.iter().map(|(path, _)| first(path)).filter(|name| !name.is_empty()).collect();
    let names: Vec<String> = names.into_iter().collect();
    let top = match names.as_slice() {
        [only] if !looks_like_a_host(&names) => format!("/{only}"),
        _ => String::new(),
    };
    let below = |path: &str| path.strip_prefix(top.as_str()).unwrap_or(path).to_owned();
    let mut tree = Tree::default();
    for (path, node) in kept {
        let at = below(&path);
        match node {
            Kept::Folder => tree.put_folder(&at),
            Kept::File(content) => tree.put_file(&at, content),
            Kept::Link(target) => tree.put_link(&at, &target),
            Kept::HardLink(target) => {
                let content = tree.read(&below(&target));
                if !content.is_absent() {
                    tree.put_file(&at, content);
                }
            }
        }
    }
    tree
}

/// Ends with an error where more comes than any host has.
struct Bounded<R> {
    stream: R,
    left: u64,
    /// Zero bytes at the end of what has come so far: a whole tar ends with two blocks of them.
    zeros: usize,
    /// Whether the stream has ended.
    ended: bool,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.stream.read(buffer)?;
        self.ended |= read == 0 && !buffer.is_empty();
        let came = buffer.get(..read).unwrap_or_default();
        self.zeros = match came.iter().rposition(|byte| *byte != 0) {
            Some(last) => came.len() - last - 1,
            None => self.zeros.saturating_add(came.len()),
        };
        match self.left.checked_sub(u64::try_from(read).unwrap_or(u64::MAX)) {
            Some(left) => self.left = left,
            None => return Err(io::Error::other(format!("more than {} GiB unpacked", MAX_UNPACKED >> 30))),
        }
        Ok(read)
    }
}

impl Files for Unpacked {
    fn read(&self, path: &str) -> Observed<Vec<u8>> {
        self.tree.read(path)
    }

    fn list(&self, folder: &str) -> Observed<Vec<String>> {
        self.tree.list(folder)
    }

    fn link(&self, path: &str) -> Observed<String> {
        self.tree.link(path)
    }

    fn problems(&self) -> Vec<Unread> {
        self.problems.clone()
    }
}

#[cfg(test)]
impl Files for Tree {
    fn read(&self, path: &str) -> Observed<Vec<u8>> {
        self.read(path)
    }

    fn list(&self, folder: &str) -> Observed<Vec<String>> {
        self.list(folder)
    }

    fn link(&self, path: &str) -> Observed<String> {
        self.link(path)
    }
}

impl Source for Archive {
    fn read(&self, path: &str) -> Observed<Vec<u8>> {
        self.0.read(path)
    }

    fn read_part(&self, path: &str, before: Option<u64>, max: u64) -> Observed<Part> {
        self.0.read_part(path, before, max)
    }

    fn list(&self, folder: &str) -> Observed<Vec<String>> {
        self.0.list(folder)
    }

    fn link(&self, path: &str) -> Observed<String> {
        self.0.link(path)
    }

    fn mapping_page_size(&self, pid: u32, start: u64) -> Observed<PageSize> {
        self.0.mapping_page_size(pid, start)
    }

    fn machine(&self) -> Machine {
        self.0.machine()
    }

    fn problems(&self) -> Vec<Unread> {
        self.0.problems()
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// A tar by the real tool of a folder with these files and links.
    fn tarred(flags: &str, files: &[(&str, &str)], links: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let at = folder.path().join(path);
            std::fs::create_dir_all(at.parent().unwrap()).unwrap();
            std::fs::write(at, text).unwrap();
        }
        for (path, target) in links {
            std::os::unix::fs::symlink(target, folder.path().join(path)).unwrap();
        }
        let done = Command::new("tar")
            .args(["-C", folder.path().to_str().unwrap(), flags])
            .arg(folder.path().join("out.tar"))
            .arg("top")
            .status();
        assert!(done.unwrap().success());
        folder
    }

    #[test]
    fn all_compressions_read_alike() {
        for flags in ["-cf", "-czf", "-cJf"] {
            let folder = tarred(
                flags,
                &[("top/proc/meminfo", "MemTotal: 1 kB\n"), ("top/etc/a", "a")],
                &[("top/etc/b", "/etc/a"), ("top/etc/out", "../../../../etc/passwd"), ("top/etc/loop", "loop")],
            );
            let source = super::super::open(Some(&folder.path().join("out.tar"))).unwrap();
            assert_eq!(source.read("/proc/meminfo"), Observed::Known(b"MemTotal: 1 kB\n".to_vec()), "{flags}");
            assert_eq!(source.read("/etc/b"), Observed::Known(b"a".to_vec()));
            assert_eq!(source.read("/etc/out"), Observed::Absent);
            assert!(matches!(source.read("/etc/loop"), Observed::Malformed(_)));
            assert_eq!(source.list("/etc").into_known().unwrap(), ["a", "b", "loop", "out"]);
            assert_eq!(source.problems(), []);
        }
    }

    #[test]
    #[allow(clippy::disallowed_methods)]
    fn a_torn_archive_keeps_what_was_whole_and_says_so() {
        let noise: String = (0..200_000_u32)
            .map(|number| char::from(b'a' + (number.wrapping_mul(2_654_435_761) >> 28) as u8))
            .collect();
        for flags in ["-cf", "-czf", "-cJf"] {
            let folder = tarred(flags, &[("top/proc/meminfo", "x"), ("top/sys/z", &noise)], &[]);
            let whole = std::fs::read(folder.path().join("out.tar")).unwrap();
            let torn = folder.path().join("torn");
            std::fs::write(&torn, &whole[..whole.len() * 2 / 3]).unwrap();
            match Archive::open(&torn) {
                Ok(source) => assert!(source.problems()[0].why.contains("truncated"), "{flags}"),
                Err(error) => assert!(error.to_string().contains("torn"), "{flags} {error}"),
            }
            if flags == "-cf" {
                // Cut between two entries, where every entry is whole.
                std::fs::write(&torn, &whole[..whole.len().min(512 * 4)]).unwrap();
                assert!(Archive::open(&torn).unwrap().problems()[0].why.contains("truncated"));
            }
            for length in [0, 1, 100, 511, 513] {
                std::fs::write(&torn, &whole[..length.min(whole.len())]).unwrap();
                let _ = Archive::open(&torn);
            }
        }
    }

    #[test]
    fn a_path_that_leads_out_is_refused_by_name() {
        let mut header = tar::Header::new_gnu();
        let name = b"proc/../../etc/evil";
        header.as_mut_bytes()[..name.len()].copy_from_slice(name);
        header.set_size(0);
        header.set_entry_type(tar::EntryType::Regular);
        header.set_cksum();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("evil.tar");
        let mut bytes = header.as_bytes().to_vec();
        bytes.extend([0; 1024]);
        std::fs::write(&path, bytes).unwrap();
        let error = Archive::open(&path).unwrap_err().to_string();
        assert!(error.contains("proc/../../etc/evil: leads out of the archive"), "{error}");
    }

    #[test]
    fn noise_is_no_tar() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("noise");
        for bytes in [&b"hello"[..], &[0x1f, 0x8b, 1, 2, 3], &[0xfd, b'7', b'z', b'X', b'Z', 0, 9], &[7; 4096]] {
            std::fs::write(&path, bytes).unwrap();
            assert!(Archive::open(&path).is_err());
        }
    }
}
