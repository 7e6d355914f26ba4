//! Archives that somebody made to harm who reads them: nothing leads out, nothing hangs, what is
//! good beside them is read.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use hugewise_investigate::{Investigation, Options, investigate};

/// Far above what anything in here takes on a slow machine.
const PATIENCE: Duration = Duration::from_secs(300);

/// A file of one host with some samples.
fn good() -> Vec<u8> {
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/sysstat/12.6.1.xz");
    let mut bytes = Vec::new();
    hugewise_host::compressed::open_decompressed(File::open(fixture).unwrap())
        .unwrap()
        .read_to_end(&mut bytes)
        .unwrap();
    bytes
}

/// What it says, in a thread of its own so that a hang is a failure with a name.
fn looked_at(paths: &[&Path]) -> Result<Investigation, String> {
    let paths: Vec<PathBuf> = paths.iter().map(|path| path.to_path_buf()).collect();
    let (done, ended) = mpsc::channel();
    std::thread::spawn(move || {
        let _ = done.send(
            investigate(&paths, &Options::default(), &|_| {}).map_err(|error| error.to_string()),
        );
    });
    ended.recv_timeout(PATIENCE).expect("it ends, and does not panic")
}

/// Samples of all sources.
fn samples(investigation: &Investigation) -> usize {
    investigation.sources.iter().map(|source| source.samples).sum()
}

/// All that is said to be wrong.
fn problems(investigation: &Investigation) -> String {
    let problems = investigation.sources.iter().flat_map(|source| {
        let path = &source.path;
        source.problems.iter().map(move |problem| format!("{path}: {problem}\n"))
    });
    problems.chain(investigation.unknown.iter().cloned()).collect()
}

/// One entry of a tar, as raw as it may come.
struct Entry<'a> {
    name: &'a [u8],
    kind: u8,
    link: &'a [u8],
    /// What the header says, where that is not the truth.
    size: Option<[u8; 12]>,
    content: &'a [u8],
}

impl<'a> Entry<'a> {
    const fn file(name: &'a [u8], content: &'a [u8]) -> Self {
        Self { name, kind: b'0', link: b"", size: None, content }
    }

    const fn link(name: &'a [u8], kind: u8, link: &'a [u8]) -> Self {
        Self { name, kind, link, size: None, content: b"" }
    }

    /// Header and content, padded.
    fn write(&self, to: &mut impl Write) {
        let mut header = [0_u8; 512];
        header[..self.name.len()].copy_from_slice(self.name);
        header[100..108].copy_from_slice(b"0000644\0");
        header[108..116].copy_from_slice(b"0000000\0");
        header[116..124].copy_from_slice(b"0000000\0");
        let size = format!("{:011o}\0", self.content.len());
        header[124..136]
            .copy_from_slice(&self.size.unwrap_or_else(|| size.as_bytes().try_into().unwrap()));
        header[136..148].copy_from_slice(b"00000000000\0");
        header[156] = self.kind;
        header[157..157 + self.link.len()].copy_from_slice(self.link);
        header[257..265].copy_from_slice(b"ustar\x0000");
        header[148..156].fill(b' ');
        let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
        header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        to.write_all(&header).unwrap();
        to.write_all(self.content).unwrap();
        to.write_all(&vec![0; self.content.len().next_multiple_of(512) - self.content.len()])
            .unwrap();
    }
}

fn tar(entries: &[Entry<'_>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for entry in entries {
        entry.write(&mut bytes);
    }
    bytes.extend([0; 1024]);
    bytes
}

/// Compressed by the tool itself, from a stream that need not fit in memory.
fn packed(path: &Path, tool: &str, write: impl FnOnce(&mut dyn Write)) {
    let mut child = Command::new(tool)
        .args(["-1", "-c"])
        .stdin(Stdio::piped())
        .stdout(File::create(path).unwrap())
        .spawn()
        .unwrap_or_else(|error| panic!("{tool}: {error}"));
    let mut input = child.stdin.take().unwrap();
    write(&mut input);
    drop(input);
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_tar_leads_nowhere() {
    let folder = tempfile::tempdir().unwrap();
    let (good, outside) = (good(), folder.path().join("outside"));
    fs::write(&outside, &good).unwrap();
    let outside_name = outside.as_os_str().as_bytes();
    let whole = "var/log/sa/sa21";
    let path = folder.path().join("sos.tar");
    let alone = tar(&[Entry::file(whole.as_bytes(), &good)]);
    fs::write(&path, alone).unwrap();
    let expected = samples(&looked_at(&[&path]).unwrap());
    assert!(expected >= 5, "the fixture is read from a tar: {expected}");

    let cases: [(&str, Vec<Entry<'_>>); 7] = [
        ("a symbolic link out of it", vec![Entry::link(b"var/log/sa/sa01", b'2', outside_name)]),
        ("a hard link out of it", vec![Entry::link(b"var/log/sa/sa01", b'1', outside_name)]),
        ("a link to itself", vec![Entry::link(b"var/log/sa/sa01", b'2', b"sa01")]),
        (
            "a folder that is a link, and a file in it",
            vec![
                Entry::link(b"var/log/sa", b'2', b"/etc"),
                Entry::file(b"var/log/sa/passwd", b"root:x:0:0::/:/bin/sh\n"),
            ],
        ),
        ("a device", vec![Entry::link(b"var/log/sa/sa01", b'3', b"")]),
        ("a pipe", vec![Entry::link(b"var/log/sa/sa01", b'6', b"")]),
        ("an entry of a kind that nobody knows", vec![Entry::link(b"var/log/sa/sa01", b'~', b"")]),
    ];
    for (what, mut entries) in cases {
        entries.push(Entry::file(whole.as_bytes(), &good));
        fs::write(&path, tar(&entries)).unwrap();
        let investigation = looked_at(&[&path]).unwrap();
        assert_eq!(samples(&investigation), expected, "{what}: {}", problems(&investigation));
    }
}

#[test]
fn a_path_out_of_a_tar_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let good = good();
    for name in ["../sa01", "var/log/../../../sa01", "/../sa01", "var/log/sa/.."] {
        let path = folder.path().join("sos.tar");
        fs::write(
            &path,
            tar(&[Entry::file(b"var/log/sa/sa21", &good), Entry::file(name.as_bytes(), &good)]),
        )
        .unwrap();
        let said = match looked_at(&[&path]) {
            Ok(investigation) => problems(&investigation),
            Err(error) => error,
        };
        assert!(said.contains("leads out"), "{name}: {said}");
        let beside: Vec<_> =
            fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(beside, ["sos.tar"], "{name}");
    }
}

#[test]
fn sizes_that_are_lies_bring_nothing_down() {
    let folder = tempfile::tempdir().unwrap();
    let good = good();
    let path = folder.path().join("sos.tar");
    // Base-256, as GNU writes what octal digits cannot: 2^63 - 1, 2^63 and -1; and what is no
    // number.
    let mut sizes = vec![*b"77777777777\0", *b"xxxxxxxxxxx\0", [0xff; 12]];
    for top in [0x7f_u8, 0x80, 0xff] {
        let mut size = [0xff_u8; 12];
        size[..4].copy_from_slice(&[0x80, 0, 0, 0]);
        size[4] = top;
        sizes.push(size);
    }
    for size in sizes {
        let lie = Entry { size: Some(size), ..Entry::file(b"var/log/sa/sa22", b"x") };
        fs::write(&path, tar(&[Entry::file(b"var/log/sa/sa21", &good), lie])).unwrap();
        match looked_at(&[&path]) {
            Ok(investigation) => {
                assert!(samples(&investigation) >= 5, "{size:?}: what came before it is kept");
                assert!(
                    !problems(&investigation).is_empty(),
                    "{size:?}: and that it is torn is said"
                );
            }
            Err(error) => assert!(!error.is_empty()),
        }
    }
}

#[test]
fn a_bomb_is_given_up_or_gone_through_without_being_held() {
    let folder = tempfile::tempdir().unwrap();
    let good = good();
    let zeros = vec![0_u8; 1 << 20];
    let inner = tar(&[Entry::file(b"sos/var/log/sa/sa21", &good)]);
    // 192 MiB of nothing: alone, in a tar, and under a name that a collector would use.
    packed(&folder.path().join("sa01.gz"), "gzip", |to| {
        (0..192).for_each(|_| to.write_all(&zeros).unwrap())
    });
    packed(&folder.path().join("zeros.tar.gz"), "gzip", |mut to| {
        let size = *b"01400000000\0";
        Entry { size: Some(size), ..Entry::file(b"sos/var/log/sa/sa20", b"") }.write(&mut to);
        (0..192).for_each(|_| to.write_all(&zeros).unwrap());
        to.write_all(&inner).unwrap();
    });
    // Tars in tars, each in gzip.
    let mut nested = inner.clone();
    for depth in 0..40 {
        let name = format!("sos/depth{depth}.tar.gz");
        let mut compressed = Vec::new();
        let path = folder.path().join("layer");
        packed(&path, "gzip", |to| to.write_all(&nested).unwrap());
        File::open(&path).unwrap().read_to_end(&mut compressed).unwrap();
        fs::remove_file(&path).unwrap();
        nested = tar(&[Entry::file(name.as_bytes(), &compressed)]);
    }
    fs::write(folder.path().join("nested.tar"), &nested).unwrap();
    fs::write(folder.path().join("sa21"), &good).unwrap();
    let investigation = looked_at(&[folder.path()]).unwrap();
    let read = investigation.sources.iter().filter(|source| source.samples > 0).count();
    assert!(read >= 1, "what is good is read: {}", problems(&investigation));
}

#[test]
fn entries_without_end_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("many.tar");
    let mut block = Vec::new();
    for number in 0..1000 {
        Entry::file(format!("sos/var/log/sa/sa{number}").as_bytes(), b"").write(&mut block);
    }
    let mut file = File::create(&path).unwrap();
    (0..210).for_each(|_| file.write_all(&block).unwrap());
    let said = match looked_at(&[&path]) {
        Ok(investigation) => problems(&investigation),
        Err(error) => error,
    };
    assert!(said.contains("entries"), "{said}");
}

#[test]
fn what_is_no_file_is_not_opened() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("sa21"), good()).unwrap();
    for name in ["sa01", "vmstat.log"] {
        assert!(Command::new("mkfifo").arg(at(name)).status().unwrap().success());
    }
    let _socket = UnixListener::bind(at("sa02")).unwrap();
    symlink("/dev/zero", at("sa03")).unwrap();
    symlink(".", at("again")).unwrap();
    symlink("sa04", at("sa04")).unwrap();
    symlink("sa01", at("sa05")).unwrap();
    fs::create_dir(at("inner")).unwrap();
    symlink("..", at("inner/up")).unwrap();
    // Only root may make one; a container's root may not.
    let _ =
        Command::new("mknod").arg(at("sa06")).args(["c", "1", "5"]).stderr(Stdio::null()).status();
    let investigation = looked_at(&[folder.path()]).unwrap();
    let read: Vec<_> = investigation.sources.iter().filter(|source| source.samples > 0).collect();
    assert_eq!(read.len(), 1, "{read:#?}");
    assert!(read[0].path.ends_with("sa21"), "{}", read[0].path);

    for name in ["sa01", "sa02", "sa04", "sa06"] {
        if let Ok(investigation) = looked_at(&[&at(name)]) {
            assert_eq!(samples(&investigation), 0, "{name} given by its name");
        }
    }
}

#[test]
fn a_file_that_changes_while_it_is_read_brings_nothing_down() {
    let folder = tempfile::tempdir().unwrap();
    let (good, path) = (good(), folder.path().join("sa21"));
    fs::write(&path, &good).unwrap();
    let (stop, stopped) = mpsc::channel::<()>();
    let changing = {
        let path = path.clone();
        std::thread::spawn(move || {
            for round in 0_u64.. {
                if stopped.try_recv() != Err(mpsc::TryRecvError::Empty) {
                    break;
                }
                let file = File::options().write(true).open(&path).unwrap();
                file.set_len(round * 977 % 60_000).unwrap();
                if round % 3 == 0 {
                    let mut file = file;
                    file.write_all(&good).unwrap();
                }
            }
        })
    };
    for _ in 0..30 {
        // What it says depends on when it came; that it says something does not.
        let _ = looked_at(&[folder.path()]);
    }
    drop(stop);
    changing.join().unwrap();
}

#[test]
fn a_file_that_says_it_is_longer_than_it_is_is_read_as_far_as_it_goes() {
    // Files of /proc say 0 bytes and have some, files of /sys say 4096 and have fewer.
    for path in [
        "/proc/meminfo",
        "/proc/self/stat",
        "/sys/kernel/mm/transparent_hugepage/enabled",
        "/proc/self/mem",
    ] {
        if let Ok(investigation) = looked_at(&[Path::new(path)]) {
            // One reading of meminfo is one sample.
            assert!(samples(&investigation) <= usize::from(path == "/proc/meminfo"), "{path}");
        }
    }
}

#[test]
fn names_that_are_no_text_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let good = good();
    let name = OsStr::from_bytes(b"host\xff\x1b[31m");
    fs::create_dir(folder.path().join(name)).unwrap();
    fs::write(folder.path().join(name).join("sa21"), &good).unwrap();
    let investigation = looked_at(&[folder.path()]).unwrap();
    assert!(samples(&investigation) >= 5, "{}", problems(&investigation));

    let path = folder.path().join("sos.tar");
    fs::write(&path, tar(&[Entry::file(b"sos/var/log/sa/sa\xff\xfe\n21", &good)])).unwrap();
    let investigation = looked_at(&[&path]).unwrap();
    assert!(samples(&investigation) >= 5, "{}", problems(&investigation));
}

#[test]
fn paths_that_are_not_there_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let nowhere = folder.path().join("nowhere");
    let said = looked_at(&[&nowhere]).unwrap_err();
    assert!(said.contains("nowhere"), "{said}");
    // Nothing to read is no quiet host.
    let said = match looked_at(&[folder.path()]) {
        Ok(investigation) => problems(&investigation),
        Err(error) => error,
    };
    assert!(!said.is_empty(), "an empty folder");
}
