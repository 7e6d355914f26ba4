//! What a program is: C library, allocator, runtime. These decide how it is told to use huge pages.

#![allow(
    clippy::disallowed_methods,
    reason = "programs of this machine are looked at, never those of a captured one"
)]

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use memchr::memmem;
use object::elf::{DT_NEEDED, DT_NULL, DT_STRSZ, DT_STRTAB, FileHeader32, FileHeader64};
use object::read::elf::{Dyn, FileHeader, ProgramHeader};
use object::{Endianness, FileKind, ReadCache};

/// The tunable's name is in every loader that knows it (glibc 2.35 and later, and back-ports).
const TUNABLE: &[u8] = b"glibc.malloc.hugetlb";
const LARGEST_SEARCHED: u64 = 1 << 30;
/// The kernel's limits of scripts that name scripts (`BINPRM_BUF_SIZE` and its depth, fs/exec.c).
const DEEPEST_SCRIPT: usize = 5;
const FIRST_LINE: usize = 256;

/// The C library of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CLibrary {
    /// glibc, dynamic or static.
    Glibc {
        /// Whether it has the tunable `glibc.malloc.hugetlb`.
        tunable: bool,
        /// Its release, such as 2.36; `None` where it does not say.
        release: Option<(u16, u16)>,
    },
    /// musl.
    Musl,
    /// Static with something else, or none at all.
    Other,
}

/// An allocator in place of the C library's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Allocator {
    /// jemalloc, and the environment variable that it reads.
    Jemalloc(&'static str),
    /// mimalloc.
    Mimalloc,
    /// tcmalloc.
    Tcmalloc,
}

/// A runtime with its own memory management.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runtime {
    /// The Java launcher.
    Java,
    /// CPython, whose small objects come from its own arenas.
    Python,
    /// Node.js.
    Node,
    /// A Go program.
    Go,
}

/// A program that can be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExaminedProgram {
    /// The file that is started.
    pub path: PathBuf,
    /// The file that finally runs: the interpreter where `path` is a script.
    pub runs: PathBuf,
    /// Its C library.
    pub c_library: CLibrary,
    /// An allocator of its own, linked or preloaded.
    pub allocator: Option<Allocator>,
    /// A known runtime.
    pub runtime: Option<Runtime>,
    /// Whether it runs with others' rights: the loader then ignores tunables.
    pub privileged: bool,
}

/// The file of a command, found as the shell does.
/// Errors: `NotFound`, or `PermissionDenied` where it cannot be executed.
pub fn find_program(command: &OsStr, path: Option<&OsStr>) -> io::Result<PathBuf> {
    if command.as_bytes().contains(&b'/') {
        let found = PathBuf::from(command);
        return check_executable(&found).map(|()| found);
    }
    let mut failed = io::Error::from(io::ErrorKind::NotFound);
    for folder in std::env::split_paths(path.unwrap_or(OsStr::new("/usr/local/bin:/usr/bin:/bin")))
    {
        let found = folder.join(command);
        match check_executable(&found) {
            Ok(()) => return Ok(found),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

fn check_executable(path: &Path) -> io::Result<()> {
    let facts = std::fs::metadata(path)?;
    let is = facts.is_file() && facts.permissions().mode() & 0o111 != 0;
    if is { Ok(()) } else { Err(io::ErrorKind::PermissionDenied.into()) }
}

/// Examines a program. `preload` is the environment's `LD_PRELOAD`, `path` its `PATH`.
/// Errors: the file cannot be read, even if it could be executed.
pub fn examine_program(
    file: &Path,
    path: Option<&OsStr>,
    preload: Option<&OsStr>,
) -> io::Result<ExaminedProgram> {
    let runs = follow_interpreter(file, path)?;
    let privileged = std::fs::metadata(&runs)?.permissions().mode() & 0o6000 != 0;
    let elf = read_elf(&runs)?;
    let inside = search_binary(&runs)?;
    let c_library = match &elf {
        Elf { loader: Some(loader), .. }
            if loader.file_name().is_some_and(|name| contains_bytes(name, b"ld-musl")) =>
        {
            CLibrary::Musl
        }
        Elf { loader: Some(loader), .. } => search_binary(loader)?.into(),
        Elf { loader: None, .. } if inside.tunable || inside.glibc => inside.clone().into(),
        Elf { loader: None, .. } => CLibrary::Other,
    };
    let preloaded = preload.map(|list| list.as_bytes().split(|byte| matches!(byte, b':' | b' ')));
    let libraries =
        preloaded.into_iter().flatten().chain(elf.needed.iter().map(|name| name.as_bytes()));
    let allocator = libraries.into_iter().find_map(allocator_from_library).or(inside.allocator);
    let names = [file, &runs].map(|path| path.canonicalize().unwrap_or_else(|_| path.to_owned()));
    let named = [file.to_owned()].iter().chain(&names).find_map(|path| runtime_from_path(path));
    let runtime = named.or(inside.go.then_some(Runtime::Go));
    Ok(ExaminedProgram { path: file.to_owned(), runs, c_library, allocator, runtime, privileged })
}

fn contains_bytes(name: &OsStr, part: &[u8]) -> bool {
    memmem::find(name.as_bytes(), part).is_some()
}

fn allocator_from_library(name: &[u8]) -> Option<Allocator> {
    let is = |part: &str| memmem::find(name, part.as_bytes()).is_some();
    match () {
        () if is("jemalloc") => Some(Allocator::Jemalloc("MALLOC_CONF")),
        () if is("mimalloc") => Some(Allocator::Mimalloc),
        () if is("tcmalloc") => Some(Allocator::Tcmalloc),
        () => None,
    }
}

/// The runtime by its usual name: `python3.11` is one, `python-config` is not.
fn runtime_from_path(path: &Path) -> Option<Runtime> {
    let name = path.file_name()?.to_str()?;
    if name == "java" {
        return Some(Runtime::Java);
    }
    if matches!(name, "node" | "nodejs") {
        return Some(Runtime::Node);
    }
    let version = name.strip_prefix("python")?;
    version.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.').then_some(Runtime::Python)
}

/// Follows `#!` to the program that finally runs.
fn follow_interpreter(file: &Path, path: Option<&OsStr>) -> io::Result<PathBuf> {
    let mut file = file.to_owned();
    for _ in 0..DEEPEST_SCRIPT {
        let mut first = Vec::new();
        File::open(&file)?
            .take(u64::try_from(FIRST_LINE).unwrap_or(256))
            .read_to_end(&mut first)?;
        let Some(line) = first.strip_prefix(b"#!") else { return Ok(file) };
        let line = line.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let mut words =
            line.split(|byte| matches!(byte, b' ' | b'\t')).filter(|word| !word.is_empty());
        let program =
            words.next().ok_or_else(|| io::Error::other("its first line names no interpreter"))?;
        file = PathBuf::from(OsString::from_vec(program.to_vec()));
        if file.file_name() == Some(OsStr::new("env"))
            && let Some(name) = words.find(|word| !word.starts_with(b"-") && !word.contains(&b'='))
        {
            file = find_program(OsStr::from_bytes(name), path)?;
        }
    }
    Err(io::Error::other("its interpreter is a script, whose interpreter is a script, and so on"))
}

#[derive(Debug, Default)]
struct Elf {
    loader: Option<PathBuf>,
    needed: Vec<OsString>,
}

fn read_elf(file: &Path) -> io::Result<Elf> {
    let data = ReadCache::new(File::open(file)?);
    let parsed = match FileKind::parse(&data) {
        Ok(FileKind::Elf64) => read_dynamic_section::<FileHeader64<Endianness>>(&data),
        Ok(FileKind::Elf32) => read_dynamic_section::<FileHeader32<Endianness>>(&data),
        _ => return Err(io::Error::other("the kernel cannot run it")),
    };
    parsed.map_err(|error| io::Error::other(format!("damaged: {error}")))
}

fn read_dynamic_section<Header: FileHeader<Endian = Endianness>>(
    data: &ReadCache<File>,
) -> object::Result<Elf> {
    let header = Header::parse(data)?;
    let endian = header.endian()?;
    let segments = header.program_headers(endian, data)?;
    let mut elf = Elf::default();
    let (mut strings, mut size, mut names) = (0_u64, 0_u64, Vec::new());
    for segment in segments {
        if let Some(loader) = segment.interpreter(endian, data)? {
            elf.loader = Some(PathBuf::from(OsStr::from_bytes(loader)));
        }
        for entry in segment.dynamic(endian, data)?.unwrap_or_default() {
            let value = entry.val(endian);
            match entry.tag(endian) {
                DT_NULL => break,
                DT_STRTAB => strings = value,
                DT_STRSZ => size = value,
                DT_NEEDED => names.push(value),
                _ => {}
            }
        }
    }
    let table = segments
        .iter()
        .find_map(|segment| segment.data_range(endian, data, strings, size).ok().flatten());
    for at in names {
        let name = usize::try_from(at).ok().and_then(|at| table?.get(at..)).unwrap_or_default();
        let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
        elf.needed.push(OsStr::from_bytes(name).to_owned());
    }
    Ok(elf)
}

#[derive(Clone, Debug, Default)]
struct Inside {
    tunable: bool,
    release: Option<(u16, u16)>,
    glibc: bool,
    go: bool,
    allocator: Option<Allocator>,
}

impl From<Inside> for CLibrary {
    fn from(inside: Inside) -> Self {
        Self::Glibc { tunable: inside.tunable, release: inside.release }
    }
}

/// From glibc's version message: `ld.so (...) stable release version 2.36.`
fn parse_glibc_release(bytes: &[u8]) -> Option<(u16, u16)> {
    const WORDS: &[u8] = b" release version ";
    memmem::find_iter(bytes, WORDS).find_map(|at| {
        let rest = bytes.get(at + WORDS.len()..)?;
        let length = rest.iter().position(|byte| !byte.is_ascii_digit() && *byte != b'.')?;
        let mut numbers = std::str::from_utf8(rest.get(..length)?).ok()?.split('.').map(str::parse);
        Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
    })
}

/// Searches a file piece by piece, to save memory.
fn search_binary(file: &Path) -> io::Result<Inside> {
    const PIECE: usize = 1 << 20;
    // Longer than any of the words.
    const OVERLAP: usize = 64;
    let mut inside = Inside::default();
    let mut file = File::open(file)?.take(LARGEST_SEARCHED);
    let mut buffer = Vec::new();
    loop {
        let kept = buffer.len().min(OVERLAP);
        buffer.drain(..buffer.len() - kept);
        let read = file
            .by_ref()
            .take(u64::try_from(PIECE).unwrap_or(u64::MAX))
            .read_to_end(&mut buffer)?;
        if read == 0 {
            return Ok(inside);
        }
        let has = |word: &[u8]| memmem::find(&buffer, word).is_some();
        inside.tunable |= has(TUNABLE);
        inside.glibc |= has(b"GLIBC_TUNABLES");
        inside.release = inside.release.or_else(|| parse_glibc_release(&buffer));
        inside.go |= has(b"\xff Go buildinf:");
        if inside.allocator.is_none() {
            // jemalloc's prefixes in Rust's, Redis's and Debian's builds.
            let prefixes = ["_RJEM_MALLOC_CONF", "JE_MALLOC_CONF", "MALLOC_CONF"];
            let jemalloc =
                prefixes.into_iter().find(|name| has(&[name.as_bytes(), b"\0"].concat()));
            let mimalloc = has(b"mimalloc: ").then_some(Allocator::Mimalloc);
            inside.allocator = jemalloc.map(Allocator::Jemalloc).or(mimalloc);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(file: &Path) -> ExaminedProgram {
        examine_program(file, Some(OsStr::new("/usr/bin:/bin")), None).unwrap()
    }

    #[test]
    fn a_shell_is_an_ordinary_program_of_glibc() {
        let found =
            find_program(OsStr::new("sort"), Some(OsStr::new("/nowhere:/usr/bin:/bin"))).unwrap();
        let sort = look(&found);
        // glibc's own word, such as `ldd (Debian GLIBC 2.36-9+deb12u14) 2.36`. 2.35 brought the
        // tunable.
        let says = std::process::Command::new("ldd").arg("--version").output().unwrap();
        let says = String::from_utf8(says.stdout).unwrap();
        let (major, minor) =
            says.lines().next().unwrap().rsplit_once(' ').unwrap().1.split_once('.').unwrap();
        let release = Some((major.parse().unwrap(), minor.parse().unwrap()));
        assert_eq!(sort.c_library, CLibrary::Glibc { tunable: true, release });
        assert_eq!((sort.allocator, sort.runtime, sort.privileged), (None, None, false));
    }

    #[test]
    fn scripts_are_followed_to_what_runs() {
        let folder = tempfile::tempdir().unwrap();
        let script = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
            path
        };
        let plain = script("plain", "#! /bin/sh -e\nexit 0\n");
        assert_eq!(look(&plain).runs, Path::new("/bin/sh"));
        let through_env = script("through-env", "#!/usr/bin/env -S A=1 sh\n");
        assert!(look(&through_env).runs.ends_with("sh"));
        let round = folder.path().join("round");
        script("round", &format!("#!{}\n", round.display()));
        assert!(examine_program(&round, None, None).is_err());
        let nonsense = script("nonsense", "no program\n");
        assert!(examine_program(&nonsense, None, None).is_err());
        let denied = folder.path().join("denied");
        std::fs::write(&denied, "").unwrap();
        assert_eq!(
            find_program(denied.as_os_str(), None).unwrap_err().kind(),
            io::ErrorKind::PermissionDenied
        );
        assert_eq!(
            find_program(OsStr::new("no-such-program"), None).unwrap_err().kind(),
            io::ErrorKind::NotFound
        );
    }

    #[test]
    fn allocators_are_known_by_library_preload_and_text() {
        let sort = find_program(OsStr::new("sort"), Some(OsStr::new("/usr/bin:/bin"))).unwrap();
        for (preload, allocator) in [
            ("/usr/lib/libjemalloc.so.2", Allocator::Jemalloc("MALLOC_CONF")),
            ("libc.so libmimalloc.so.2.0", Allocator::Mimalloc),
            ("a.so:libtcmalloc_minimal.so.4", Allocator::Tcmalloc),
        ] {
            let seen = examine_program(&sort, None, Some(OsStr::new(preload))).unwrap();
            assert_eq!(seen.allocator, Some(allocator), "{preload}");
        }
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a");
        // Across the border of two pieces.
        let mut bytes = vec![b'x'; (1 << 20) - 9];
        bytes.extend_from_slice(b"_RJEM_MALLOC_CONF\0");
        std::fs::write(&file, &bytes).unwrap();
        assert_eq!(
            search_binary(&file).unwrap().allocator,
            Some(Allocator::Jemalloc("_RJEM_MALLOC_CONF"))
        );
    }

    #[test]
    fn a_release_is_read_where_one_is_told() {
        let number_of = |text: &str| parse_glibc_release(text.as_bytes());
        assert_eq!(
            number_of("\0ld.so (Debian GLIBC 2.36-9+deb12u14) stable release version 2.36.\n"),
            Some((2, 36))
        );
        assert_eq!(
            number_of("GNU C Library (GNU libc) development release version 2.38.9000.\n"),
            Some((2, 38))
        );
        assert_eq!(
            number_of("its release version is; a release version x.1, a release version 99999.1."),
            None
        );
        assert_eq!(number_of(" release version 2.36"), None);
    }

    #[test]
    fn runtimes_are_known_by_their_names() {
        let runtime_of = |name: &str| runtime_from_path(Path::new(name));
        assert_eq!(runtime_of("/usr/lib/jvm/jdk/bin/java"), Some(Runtime::Java));
        assert_eq!(runtime_of("/usr/bin/python3.11"), Some(Runtime::Python));
        assert_eq!(runtime_of("python"), Some(Runtime::Python));
        assert_eq!(runtime_of("node"), Some(Runtime::Node));
        assert_eq!(runtime_of("python3-config"), None);
        assert_eq!(runtime_of("javac"), None);
    }

    proptest::proptest! {
        #[test]
        fn damaged_programs_are_no_panic(cut in 0_usize..4096, at in 0_usize..2048, byte: u8) {
            let folder = tempfile::tempdir().unwrap();
            let file = folder.path().join("a");
            let mut bytes = std::fs::read("/proc/self/exe").unwrap();
            bytes.truncate(4096.max(cut));
            if let Some(one) = bytes.get_mut(at) { *one = byte; }
            std::fs::write(&file, &bytes).unwrap();
            let _ = read_elf(&file);
        }
    }
}
