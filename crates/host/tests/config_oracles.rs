//! The real tools read the same files, and must agree. Skipped, with a word, where a tool is not
//! installed; where `HUGEWISE_REQUIRE_REAL=1` asks for them, that is a failure.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::print_stderr,
    clippy::panic,
    missing_docs
)]

use std::path::Path;
use std::process::Command;

use hugewise_host::FactReader;
use hugewise_host::config::{sysctl, tmpfiles};
use hugewise_host::source::map::MapSource;
use hugewise_testkit::Skip;

/// Files as path and text; a text that starts with `->` is a link's target.
type Files<'a> = &'a [(&'a str, &'a str)];

fn source(files: Files<'_>) -> MapSource {
    files.iter().fold(MapSource::new(), |source, (path, text)| match text.strip_prefix("->") {
        Some(target) => source.with_link(path, target),
        None => source.with_file(path, text),
    })
}

fn write(root: &Path, files: Files<'_>) {
    for (path, text) in files {
        let path = root.join(path.trim_start_matches('/'));
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        match text.strip_prefix("->") {
            Some(target) => std::os::unix::fs::symlink(target, &path).unwrap(),
            None => std::fs::write(&path, text).unwrap(),
        }
    }
}

/// Says that a tool is not there, or fails where it has to be.
/// What a tool prints about the files below a root of their own.
fn run(tool: &str, arguments: &[&str], files: Files<'_>) -> Option<String> {
    let root = tempfile::tempdir().unwrap();
    write(root.path(), files);
    let output = Command::new(tool)
        .arg(format!("--root={}", root.path().display()))
        .args(arguments)
        .output();
    match output {
        Ok(output) => Some(String::from_utf8_lossy(&output.stdout).into_owned()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Skip(format!("{tool} is not installed")).report();
            None
        }
        Err(error) => panic!("{tool}: {error}"),
    }
}

#[test]
fn systemd_reads_sysctl_files_in_this_order() {
    let files = [
        ("/etc/systemd/system.conf", ""),
        ("/etc/sysctl.conf", "vm.nr_hugepages=1\n"),
        ("/etc/sysctl.d/99-sysctl.conf", "->../sysctl.conf"),
        ("/etc/sysctl.d/50-db.conf", "vm.nr_hugepages=2\n"),
        ("/etc/sysctl.d/70-hidden.conf", "->/dev/null"),
        ("/etc/sysctl.d/80-empty.conf", ""),
        ("/etc/sysctl.d/readme.txt", "vm.nr_hugepages=3\n"),
        ("/usr/local/lib/sysctl.d/50-db.conf", "vm.nr_hugepages=4\n"),
        ("/etc/sysctl.d/60-run.conf", "vm.nr_hugepages=5\n"),
        ("/usr/local/lib/sysctl.d/60-run.conf", "vm.nr_hugepages=6\n"),
        ("/usr/local/lib/sysctl.d/9-local.conf", "vm.nr_hugepages=7\n"),
        ("/usr/lib/sysctl.d/10-default.conf", "vm.nr_hugepages=8\n"),
        ("/usr/lib/sysctl.d/70-hidden.conf", "vm.nr_hugepages=9\n"),
        ("/usr/lib/sysctl.d/80-empty.conf", "vm.nr_hugepages=10\n"),
        ("/usr/lib/sysctl.d/Z.conf", "vm.nr_hugepages=11\n"),
        ("/usr/lib/sysctl.d/a.conf", "vm.nr_hugepages=12\n"),
    ];
    let Some(printed) = run("systemd-analyze", &["cat-config", "sysctl.d"], &files) else { return };
    let expected: Vec<String> =
        sysctl::parse("", printed.as_bytes()).into_iter().map(|found| found.value).collect();
    assert!(expected.len() > 5, "{printed}");
    let source = source(&files);
    let ours = sysctl::read(&mut FactReader::new(&source)).into_known().unwrap();
    assert_eq!(ours.into_iter().map(|found| found.value).collect::<Vec<_>>(), expected);
}

/// The tool carries the lines out below a root; the root's own /sys and /proc are plain files.
#[test]
fn systemd_tmpfiles_writes_the_same() {
    let paths = ["/sys/kernel/a", "/sys/kernel/b", "/sys/kernel/c d", "/sys/kernel/e"];
    let files = [
        (
            "/etc/tmpfiles.d/10.conf",
            "w /sys/kernel/a - - - - first\nw! /sys/kernel/e - - - - boot\n",
        ),
        (
            "/etc/tmpfiles.d/20.conf",
            "w /sys/kernel/a - - - - second\nw- \"/sys/kernel/c d\" - - - - \"q\" \\x41\\101\\n\n",
        ),
        ("/usr/lib/tmpfiles.d/20.conf", "w /sys/kernel/b - - - - hidden\n"),
        (
            "/usr/lib/tmpfiles.d/30.conf",
            "w+ /sys/kernel/b - - - - one\nw+ /sys//kernel/b/ - - - - two\nw /sys/kernel/b - - - \
                 - no\n",
        ),
        ("/usr/local/lib/tmpfiles.d/05.conf", "w /sys/kernel/e - - - - local\n"),
        (paths[0], ""),
        (paths[1], ""),
        (paths[2], ""),
        (paths[3], ""),
    ];
    let root = tempfile::tempdir().unwrap();
    write(root.path(), &files);
    let option = format!("--root={}", root.path().display());
    match Command::new("systemd-tmpfiles").args(["--create", "--boot", &option]).output() {
        Ok(_) => {}
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Skip("systemd-tmpfiles is not installed".into()).report();
        }
        Err(error) => panic!("systemd-tmpfiles: {error}"),
    }
    let source = source(&files);
    let ours = tmpfiles::read(&mut FactReader::new(&source)).into_known().unwrap();
    for path in paths {
        let expected = std::fs::read_to_string(root.path().join(&path[1..])).unwrap();
        let written: String = ours
            .iter()
            .filter(|write| write.path == path)
            .map(|write| write.value.as_str())
            .collect();
        assert_eq!(written, expected, "{path}");
    }
}
