//! A tar of such a folder, plain or compressed, read into memory once.

use std::io::{self, Read};
use std::path::Path;

use hugewise_model::{Observed, Reason, Unread};

use super::captured::{Captured, Files};
use super::tarred::{
    Bounded, LONGEST_HEADERS, MAX_ENTRIES, MAX_KEPT, NotTaken, add_content, at_its_start, ends_after, entry_path,
    is_refusal,
};
use super::tree::Tree;
use super::{MAX_FILE, OpenError, beneath, looks_like_a_host, names};
use crate::compressed;

/// Memory that is taken for a file before any of it came.
const MOST_AT_ONCE: u64 = 64 << 10;

/// A tar in memory.
#[derive(Debug)]
pub struct Archive(Captured<Unpacked>);

#[derive(Debug, Default)]
pub(super) struct Unpacked {
    tree: Tree,
    problems: Vec<Unread>,
    torn: Option<String>,
}

impl Archive {
    /// Reads a tar, plain or compressed in a way that [`compressed`] knows.
    ///
    /// # Errors
    /// No tar; a path that leads out of it; too many or too large entries; nothing in it that a host has.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        let opened = beneath::open_to_read(rustix::fs::CWD, &path.to_string_lossy());
        let file = std::fs::File::from(opened.map_err(|error| OpenError::io(path, error.into()))?);
        if file.metadata().is_ok_and(|metadata| metadata.len() == 0) {
            return Err(OpenError::new(path, "is empty".into()));
        }
        Self::of(file, path)
    }

    /// The same of a stream; it is called by its path.
    pub(super) fn of(stream: impl Read, path: &Path) -> Result<Self, OpenError> {
        let name = path.file_name().map_or_else(|| path.to_string_lossy(), |name| name.to_string_lossy());
        let plain = compressed::open(stream).map_err(|error| OpenError::io(path, error))?;
        let unpacked = unpack(plain, &name, path)?;
        Ok(Self(Captured::new(unpacked)))
    }
}

/// What an entry is, before the top folder is known.
enum Kept {
    Folder,
    File(Observed<Vec<u8>>),
    Link(String),
    HardLink(String),
}

pub(super) fn unpack(stream: impl Read, name: &str, path: &Path) -> Result<Unpacked, OpenError> {
    let (bounded, headers) = Bounded::new(stream);
    let mut archive = tar::Archive::new(bounded);
    let mut kept: Vec<(String, Kept)> = Vec::new();
    let mut problems = Vec::new();
    let mut torn = None;
    let mut total = 0_u64;
    let mut content = 0_u64;
    let mut left_out = 0_u64;
    let mut entries = archive.entries_with_seek().map_err(|error| OpenError::io(path, error))?;
    let mut count = 0_u64;
    // Content of the entry before that nobody read, which comes before the next header.
    let mut skipped = 0_u64;
    loop {
        headers.set(LONGEST_HEADERS.saturating_add(skipped));
        let Some(entry) = entries.next() else { break };
        headers.set(u64::MAX);
        let mut entry = match entry {
            Err(error) if is_refusal(&error) => return Err(OpenError::io(path, error)),
            Ok(entry) => entry,
            Err(error) if count == 0 => return Err(OpenError::of(path, &NotTaken::NoTar(at_its_start(&error)))),
            Err(error) => {
                torn = Some(ends_after(count, &error));
                break;
            }
        };
        count += 1;
        if count > MAX_ENTRIES {
            return Err(OpenError::of(path, &NotTaken::Entries));
        }
        let at = entry_path(&entry.path_bytes()).map_err(|why| OpenError::of(path, &why))?;
        skipped = 0;
        let kind = entry.header().entry_type();
        let packed = entry.header().entry_size().unwrap_or(0);
        let size = if kind.is_gnu_sparse() { packed } else { packed.max(entry.size()) };
        content = add_content(content, size).map_err(|why| OpenError::of(path, &why))?;
        let target = entry.link_name_bytes().map(|target| String::from_utf8_lossy(&target).into_owned());
        let node = if kind.is_dir() {
            Kept::Folder
        } else if kind.is_symlink() {
            Kept::Link(target.unwrap_or_default())
        } else if kind.is_hard_link() {
            let target = entry_path(target.unwrap_or_default().as_bytes());
            Kept::HardLink(target.map_err(|why| OpenError::of(path, &why))?)
        } else if kind.is_file() || kind.is_contiguous() || kind.is_gnu_sparse() {
            let size = entry.size();
            if size > MAX_FILE {
                skipped = if kind.is_gnu_sparse() { entry.header().entry_size().unwrap_or(0) } else { size };
                Kept::File(super::bounds::too_large(super::MAX_FILE))
            } else if kind.is_gnu_sparse() && size > entry.header().entry_size().unwrap_or(0) {
                // Holes cost nothing in the tar and memory here: no file of interest has any.
                skipped = entry.header().entry_size().unwrap_or(0);
                Kept::File(Observed::Malformed("a file with holes".into()))
            } else if total.saturating_add(size) > MAX_KEPT && never_read(&at) {
                left_out += 1;
                skipped = size;
                continue;
            } else if total.saturating_add(size) > MAX_KEPT {
                return Err(OpenError::of(path, &NotTaken::Bytes));
            } else {
                // What a header promises takes no memory beyond what most files of a host have.
                let mut bytes = Vec::with_capacity(usize::try_from(size.min(MOST_AT_ONCE)).unwrap_or_default());
                match entry.read_to_end(&mut bytes) {
                    Ok(read) if u64::try_from(read).is_ok_and(|read| read == size) => {}
                    Ok(_) => {
                        torn = Some(ends_after(count - 1, &io::ErrorKind::UnexpectedEof.into()));
                        break;
                    }
                    Err(error) => {
                        torn = Some(ends_after(count - 1, &error));
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
    if torn.is_none() && end.is_torn() {
        torn = Some(ends_after(count, &io::ErrorKind::UnexpectedEof.into()));
    }
    problems.extend(torn.iter().map(|why| Unread::new(name, Reason::untold(why.clone()))));
    if left_out > 0 {
        let why = format!("{left_out} files beyond {} MiB", MAX_KEPT >> 20);
        problems.push(Unread::new(name, Reason::Skipped(why)));
    }
    let tree = plant(kept, total).map_err(|why| OpenError::of(path, &why))?;
    if !tree.list("/").known().is_some_and(|names| looks_like_a_host(names)) {
        let torn = problems.first().map(|problem| format!(" ({})", problem.why)).unwrap_or_default();
        let mut error = OpenError::not_a_host(path);
        error.what.push_str(&torn);
        return Err(error);
    }
    Ok(Unpacked { tree, problems, torn })
}

/// Logs and command outputs that no question is asked of.
fn never_read(path: &str) -> bool {
    let mut names = names(path).skip_while(|name| !matches!(*name, "var" | "sos_commands"));
    match (names.next(), names.next()) {
        (Some("var"), Some("log")) => {
            !names.last().is_some_and(|name| name.starts_with("dmesg") || name.starts_with("kern"))
        }
        (Some("sos_commands"), Some(group)) => {
            !matches!(group, "process" | "kernel" | "date" | "host" | "memory" | "numa" | "boot")
        }
        _ => false,
    }
}

/// Puts the entries into a tree, without the one folder that all of them are in; `total` bytes are in their files.
fn plant(kept: Vec<(String, Kept)>, mut total: u64) -> Result<Tree, NotTaken> {
    let mut tops: Vec<&str> = kept.iter().filter_map(|(path, _)| names(path).next()).collect();
    // Entries of one folder stand together.
    tops.dedup();
    tops.sort_unstable();
    tops.dedup();
    let tops: Vec<String> = tops.into_iter().map(str::to_owned).collect();
    let top = match tops.as_slice() {
        [only] if !looks_like_a_host(&tops) => format!("/{only}"),
        _ => String::new(),
    };
    let mut tree = Tree::default();
    for (path, node) in kept {
        if tree.size() > MAX_ENTRIES {
            return Err(NotTaken::Files);
        }
        let at = below(&path, &top);
        match node {
            Kept::Folder => tree.put_folder(at),
            Kept::File(content) => tree.put_file(at, content),
            Kept::Link(target) => tree.put_link(at, &target),
            Kept::HardLink(target) => {
                let content = tree.read(below(&target, &top));
                // Each of its names has the content for itself.
                let length = content.known().map_or(0, Vec::len);
                total = total.saturating_add(u64::try_from(length).unwrap_or(u64::MAX));
                if total > MAX_KEPT {
                    return Err(NotTaken::Bytes);
                }
                if !content.is_absent() {
                    tree.put_file(at, content);
                }
            }
        }
    }
    Ok(tree)
}

/// A path without the top folder that all are in.
fn below<'a>(path: &'a str, top: &str) -> &'a str {
    path.strip_prefix(top).unwrap_or(path)
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

    fn torn(&self) -> Option<String> {
        self.torn.clone()
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

source_of_captured!(Archive);

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::Source;

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
            .args(["-C", folder.path().to_str().unwrap()])
            .args(flags.split(' '))
            .arg(folder.path().join("out.tar"))
            .arg("top")
            .status();
        assert!(done.unwrap().success());
        folder
    }

    #[test]
    fn all_compressions_read_alike() {
        for flags in ["-cf", "-czf", "-cjf", "-cJf", "--zstd -cf"] {
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
                Ok(source) => assert!(source.problems()[0].why.to_string().contains("truncated"), "{flags}"),
                Err(error) => assert!(error.to_string().contains("torn"), "{flags} {error}"),
            }
            if flags == "-cf" {
                // Cut between two entries, where every entry is whole.
                std::fs::write(&torn, &whole[..whole.len().min(512 * 4)]).unwrap();
                assert!(Archive::open(&torn).unwrap().problems()[0].why.to_string().contains("truncated"));
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

    /// A header by hand: the tar library writes no hostile ones.
    fn header(name: &str, kind: tar::EntryType, size: u64, target: &str) -> Vec<u8> {
        let mut header = tar::Header::new_gnu();
        header.as_mut_bytes()[..name.len()].copy_from_slice(name.as_bytes());
        header.as_mut_bytes()[157..157 + target.len()].copy_from_slice(target.as_bytes());
        header.set_size(size);
        header.set_entry_type(kind);
        header.set_cksum();
        header.as_bytes().to_vec()
    }

    fn file(name: &str, size: u64) -> Vec<u8> {
        let mut bytes = header(name, tar::EntryType::Regular, size, "");
        bytes.resize(512 + usize::try_from(size.next_multiple_of(512)).unwrap(), 0);
        bytes
    }

    /// A tar of these parts, which ends in what a whole tar ends in.
    fn packed(parts: impl IntoIterator<Item = Vec<u8>>) -> (tempfile::TempDir, std::path::PathBuf) {
        use std::io::Write;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("host.tar");
        let mut tar = io::BufWriter::new(std::fs::File::create(&path).unwrap());
        for part in [file("proc/meminfo", 1)].into_iter().chain(parts).chain([vec![0; 1024]]) {
            tar.write_all(&part).unwrap();
        }
        tar.flush().unwrap();
        (folder, path)
    }

    fn refusal_of(parts: impl IntoIterator<Item = Vec<u8>>) -> String {
        let (_folder, path) = packed(parts);
        match Archive::open(&path) {
            Ok(_) => "not refused".into(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn a_file_of_sixteen_mebibytes_is_kept_and_a_larger_one_is_named() {
        let (_folder, path) = packed([file("etc/most", MAX_FILE), file("etc/more", MAX_FILE + 1), file("etc/next", 1)]);
        let source = Archive::open(&path).unwrap();
        assert_eq!(source.read("/etc/most").known().unwrap().len(), 16 << 20);
        assert_eq!(source.read("/etc/more"), Observed::Malformed("larger than 16 MiB".into()));
        assert_eq!(source.read("/etc/next"), Observed::Known(vec![0]));
        assert_eq!(source.problems(), []);
    }

    #[test]
    fn more_entries_or_bytes_than_a_host_has_are_refused() {
        let many = (0..200_000).map(|number| file(&format!("etc/{number}"), 0));
        assert!(refusal_of(many).contains("more than 200000 entries"));
        let folders = (0..6_000).map(|number| file(&format!("etc/{number}{}", "/a".repeat(40)), 0));
        assert!(refusal_of(folders).contains("more than 200000 files and folders"));
        let large = (0..17).map(|number| file(&format!("etc/{number}"), 16 << 20));
        assert!(refusal_of(large).contains("more than 256 MiB of files"));
        let links = (0..17).map(|number| header(&format!("etc/{number}"), tar::EntryType::Link, 0, "etc/x"));
        assert!(refusal_of([file("etc/x", 16 << 20)].into_iter().chain(links)).contains("more than 256 MiB of files"));
    }

    #[test]
    fn logs_beyond_the_memory_for_files_are_left_out_and_counted() {
        let logs = (0..17).map(|number| file(&format!("var/log/{number}"), 16 << 20));
        let kept = (0..16).map(|number| file(&format!("etc/{number}"), (16 << 20) - 1));
        let (_folder, path) = packed(kept.chain(logs));
        let problems = Archive::open(&path).unwrap().problems();
        assert_eq!(problems[0].why.to_string(), "skipped: 17 files beyond 256 MiB");
    }

    #[test]
    fn names_without_end_are_refused_before_they_fill_memory() {
        for kind in [tar::EntryType::GNULongName, tar::EntryType::GNULongLink, tar::EntryType::XHeader] {
            let long = header("x", kind, 64 << 20, "");
            let error = refusal_of([long, vec![b'a'; 64 << 20], file("x", 0)]);
            assert!(error.contains("names of more than 1 MiB"), "{kind:?} {error}");
        }
        let long = |path: String| {
            let mut bytes = path.into_bytes();
            let header = header("x", tar::EntryType::GNULongName, bytes.len() as u64, "");
            bytes.resize(bytes.len().next_multiple_of(512), 0);
            [header, bytes, file("x", 0)]
        };
        assert!(refusal_of(long("a".repeat(5000))).contains("more than 4096 bytes"));
        assert!(refusal_of(long("a/".repeat(1000))).contains("more than 128 folders"));
        // Content that nobody wants is no name.
        let (_folder, path) = packed([file("etc/log", 17 << 20), file("etc/next", 1)]);
        assert_eq!(Archive::open(&path).unwrap().read("/etc/next"), Observed::Known(vec![0]));
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
