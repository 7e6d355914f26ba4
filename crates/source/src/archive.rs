//! A tar of such a folder, plain or compressed, read into memory once.

use std::io::{self, Read};
use std::path::Path;

use hugewise_model::{Observed, Reason, Unread};

use super::captured::{CapturedFiles, CapturedSource};
use super::tarred::{MAX_ENTRIES, MAX_KEPT, TarError, Tarred, entry_path, walk_entries};
use super::tree::Tree;
use super::{MAX_FILE, OpenError, looks_like_a_host, openat2, path_components};
use crate::compressed;

/// Memory that is reserved for a file before any of it came.
const MOST_AT_ONCE: u64 = 64 << 10;

/// A tar in memory.
#[derive(Debug)]
pub struct ArchiveSource(CapturedSource<Tree>);

impl ArchiveSource {
    /// Reads a tar, plain or compressed in a way that [`compressed`] knows. Errors: no tar, a path
    /// that leads out of it, too many or too large entries, or no host in it.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        let opened = openat2::open_to_read(rustix::fs::CWD, &path.to_string_lossy());
        let file =
            std::fs::File::from(opened.map_err(|error| OpenError::from_io(path, error.into()))?);
        if file.metadata().is_ok_and(|metadata| metadata.len() == 0) {
            return Err(OpenError::new(path, "is empty".into()));
        }
        Self::from_stream(file, path)
    }

    /// Errors name the path.
    pub(super) fn from_stream(stream: impl Read, path: &Path) -> Result<Self, OpenError> {
        let name =
            path.file_name().map_or_else(|| path.to_string_lossy(), |name| name.to_string_lossy());
        let plain = compressed::open_decompressed(stream)
            .map_err(|error| OpenError::from_io(path, error))?;
        unpack_tar(plain, &name, path).map(Self)
    }
}

enum ArchiveEntry {
    Folder,
    File(Observed<Vec<u8>>),
    Link(String),
    HardLink(String),
}

pub(super) fn unpack_tar(
    stream: impl Read,
    name: &str,
    path: &Path,
) -> Result<CapturedSource<Tree>, OpenError> {
    let mut unpacker = TarUnpacker::default();
    let Tarred { torn, .. } =
        walk_entries(stream, &entry_path, |path, entry| unpacker.read_entry(path, entry))
            .map_err(|why| OpenError::from_tar_error(path, &why))?;
    let problems = unpacker.describe_problems(name, torn.clone());
    let tree = build_tree(unpacker.entries, unpacker.total)
        .map_err(|why| OpenError::from_tar_error(path, &why))?;
    if !tree.list_folder("/").as_known().is_some_and(|names| looks_like_a_host(names)) {
        let why = problems.first().map(|problem| format!(" ({})", problem.why)).unwrap_or_default();
        let mut error = OpenError::not_a_host(path);
        error.what.push_str(&why);
        return Err(error);
    }
    Ok(CapturedSource::new(tree).with_problems(problems, torn))
}

#[derive(Default)]
struct TarUnpacker {
    entries: Vec<(String, ArchiveEntry)>,
    /// Bytes of files in memory.
    total: u64,
    /// Files beyond the memory limit that nobody asks for.
    left_out: u64,
}

impl TarUnpacker {
    /// Keeps an entry; see [`walk_entries`].
    fn read_entry<R: Read>(
        &mut self,
        path: String,
        entry: &mut tar::Entry<'_, R>,
    ) -> Result<io::Result<u64>, TarError> {
        let kind = entry.header().entry_type();
        let target =
            String::from_utf8_lossy(&entry.link_name_bytes().unwrap_or_default()).into_owned();
        let node = if kind.is_dir() {
            ArchiveEntry::Folder
        } else if kind.is_symlink() {
            ArchiveEntry::Link(target)
        } else if kind.is_hard_link() {
            ArchiveEntry::HardLink(entry_path(target.as_bytes())?)
        } else if kind.is_file() || kind.is_contiguous() || kind.is_gnu_sparse() {
            return self.read_file(path, entry);
        } else {
            // Captures have no devices and pipes; a name without content keeps lists right.
            ArchiveEntry::File(Observed::Malformed("not a regular file".into()))
        };
        self.entries.push((path, node));
        Ok(Ok(0))
    }

    fn read_file<R: Read>(
        &mut self,
        path: String,
        entry: &mut tar::Entry<'_, R>,
    ) -> Result<io::Result<u64>, TarError> {
        let is_sparse = entry.header().entry_type().is_gnu_sparse();
        let packed = entry.header().entry_size().unwrap_or(0);
        let size = entry.size();
        let (content, unread) = if size > MAX_FILE {
            (super::read_limits::too_large(MAX_FILE), if is_sparse { packed } else { size })
        } else if is_sparse && size > packed {
            // Holes cost nothing in the tar but memory here; no file of interest has any.
            (Observed::Malformed("a file with holes".into()), packed)
        } else if self.total.saturating_add(size) > MAX_KEPT {
            if !never_read(&path) {
                return Err(TarError::Bytes);
            }
            self.left_out += 1;
            return Ok(Ok(size));
        } else {
            match read_exactly(entry, size) {
                Err(error) => return Ok(Err(error)),
                Ok(_) if never_read(&path) => (Observed::Malformed("not kept".into()), 0),
                Ok(bytes) => {
                    self.total += size;
                    (Observed::Known(bytes), 0)
                }
            }
        };
        self.entries.push((path, ArchiveEntry::File(content)));
        Ok(Ok(unread))
    }

    fn describe_problems(&self, name: &str, torn: Option<String>) -> Vec<Unread> {
        let left_out = (self.left_out > 0).then(|| {
            Reason::Skipped(format!("{} files beyond {} MiB", self.left_out, MAX_KEPT >> 20))
        });
        let why = torn.map(Reason::from_text).into_iter().chain(left_out);
        why.map(|why| Unread::new(name, why)).collect()
    }
}

fn read_exactly(stream: &mut impl Read, size: u64) -> io::Result<Vec<u8>> {
    // A header's promise reserves no more memory than most files of a host need.
    let mut bytes = Vec::with_capacity(usize::try_from(size.min(MOST_AT_ONCE)).unwrap_or_default());
    let read = stream.read_to_end(&mut bytes)?;
    if u64::try_from(read).is_ok_and(|read| read == size) {
        Ok(bytes)
    } else {
        Err(io::ErrorKind::UnexpectedEof.into())
    }
}

fn never_read(path: &str) -> bool {
    let mut names =
        path_components(path).skip_while(|name| !matches!(*name, "var" | "sos_commands"));
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

/// Builds a tree without the single top folder; `total` bytes are in the files.
fn build_tree(kept: Vec<(String, ArchiveEntry)>, mut total: u64) -> Result<Tree, TarError> {
    let mut tops: Vec<&str> =
        kept.iter().filter_map(|(path, _)| path_components(path).next()).collect();
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
        if tree.node_count() > MAX_ENTRIES {
            return Err(TarError::Files);
        }
        let at = path.strip_prefix(top.as_str()).unwrap_or(&path);
        match node {
            ArchiveEntry::Folder => tree.put_folder(at),
            ArchiveEntry::File(content) => tree.put_file(at, content),
            ArchiveEntry::Link(target) => tree.put_link(at, &target),
            ArchiveEntry::HardLink(target) => {
                let content = tree.read(target.strip_prefix(top.as_str()).unwrap_or(&target));
                // Each of its names has a copy of the content.
                let length = content.as_known().map_or(0, Vec::len);
                total = total.saturating_add(u64::try_from(length).unwrap_or(u64::MAX));
                if total > MAX_KEPT {
                    return Err(TarError::Bytes);
                }
                if !content.is_absent() {
                    tree.put_file(at, content);
                }
            }
        }
    }
    Ok(tree)
}

impl CapturedFiles for Tree {
    fn read(&self, path: &str) -> Observed<Vec<u8>> {
        self.read(path)
    }
    fn list_folder(&self, folder: &str) -> Observed<Vec<String>> {
        self.list_folder(folder)
    }
    fn read_link(&self, path: &str) -> Observed<String> {
        self.read_link(path)
    }
}

impl super::RawSource for ArchiveSource {
    fn base(&self) -> Option<&dyn super::Source> {
        Some(&self.0)
    }
    fn processes(&self) -> &dyn super::ProcessSource {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::{RawSource as _, Source as _};

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
                &[
                    ("top/etc/b", "/etc/a"),
                    ("top/etc/out", "../../../../etc/passwd"),
                    ("top/etc/loop", "loop"),
                ],
            );
            let source = crate::open_source(Some(&folder.path().join("out.tar"))).unwrap();
            assert_eq!(
                source.read("/proc/meminfo"),
                Observed::Known(b"MemTotal: 1 kB\n".to_vec()),
                "{flags}"
            );
            assert_eq!(source.read("/etc/b"), Observed::Known(b"a".to_vec()));
            assert_eq!(source.read("/etc/out"), Observed::Absent);
            assert!(matches!(source.read("/etc/loop"), Observed::Malformed(_)));
            assert_eq!(source.list_folder("/etc").into_known().unwrap(), ["a", "b", "loop", "out"]);
            assert_eq!(source.list_problems(), []);
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
            match ArchiveSource::open(&torn) {
                Ok(source) => assert!(
                    source.list_problems()[0].why.to_string().contains("truncated"),
                    "{flags}"
                ),
                Err(error) => assert!(error.to_string().contains("torn"), "{flags} {error}"),
            }
            if flags == "-cf" {
                // Cut between two entries, where every entry is whole.
                std::fs::write(&torn, &whole[..whole.len().min(512 * 4)]).unwrap();
                assert!(
                    ArchiveSource::open(&torn).unwrap().list_problems()[0]
                        .why
                        .to_string()
                        .contains("truncated")
                );
            }
            for length in [0, 1, 100, 511, 513] {
                std::fs::write(&torn, &whole[..length.min(whole.len())]).unwrap();
                let _ = ArchiveSource::open(&torn);
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
        let error = ArchiveSource::open(&path).unwrap_err().to_string();
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
        match ArchiveSource::open(&path) {
            Ok(_) => "not refused".into(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn a_file_of_sixteen_mebibytes_is_kept_and_a_larger_one_is_named() {
        let (_folder, path) = packed([
            file("etc/most", MAX_FILE),
            file("etc/more", MAX_FILE + 1),
            file("etc/next", 1),
        ]);
        let source = ArchiveSource::open(&path).unwrap();
        assert_eq!(source.read("/etc/most").as_known().unwrap().len(), 16 << 20);
        assert_eq!(source.read("/etc/more"), Observed::Malformed("larger than 16 MiB".into()));
        assert_eq!(source.read("/etc/next"), Observed::Known(vec![0]));
        assert_eq!(source.list_problems(), []);
    }

    #[test]
    fn more_entries_or_bytes_than_a_host_has_are_refused() {
        let many = (0..200_000).map(|number| file(&format!("etc/{number}"), 0));
        assert!(refusal_of(many).contains("more than 200000 entries"));
        let folders = (0..6_000).map(|number| file(&format!("etc/{number}{}", "/a".repeat(40)), 0));
        assert!(refusal_of(folders).contains("more than 200000 files and folders"));
        let large = (0..17).map(|number| file(&format!("etc/{number}"), 16 << 20));
        assert!(refusal_of(large).contains("more than 256 MiB of files"));
        let links = (0..17)
            .map(|number| header(&format!("etc/{number}"), tar::EntryType::Link, 0, "etc/x"));
        assert!(
            refusal_of([file("etc/x", 16 << 20)].into_iter().chain(links))
                .contains("more than 256 MiB of files")
        );
    }

    #[test]
    fn logs_beyond_the_memory_for_files_are_left_out_and_counted() {
        let logs = (0..17).map(|number| file(&format!("var/log/{number}"), 16 << 20));
        let kept = (0..16).map(|number| file(&format!("etc/{number}"), (16 << 20) - 1));
        let (_folder, path) = packed(kept.chain(logs));
        let problems = ArchiveSource::open(&path).unwrap().list_problems();
        assert_eq!(problems[0].why.to_string(), "skipped: 17 files beyond 256 MiB");
    }

    #[test]
    fn names_without_end_are_refused_before_they_fill_memory() {
        for kind in
            [tar::EntryType::GNULongName, tar::EntryType::GNULongLink, tar::EntryType::XHeader]
        {
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
        assert_eq!(ArchiveSource::open(&path).unwrap().read("/etc/next"), Observed::Known(vec![0]));
    }

    #[test]
    fn noise_is_no_tar() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("noise");
        for bytes in [
            &b"hello"[..],
            &[0x1f, 0x8b, 1, 2, 3],
            &[0xfd, b'7', b'z', b'X', b'Z', 0, 9],
            &[7; 4096],
        ] {
            std::fs::write(&path, bytes).unwrap();
            assert!(ArchiveSource::open(&path).is_err());
        }
    }
}
