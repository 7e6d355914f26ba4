//! What the boot's files bring is foretold as the real systemd-sysctl, systemd-tmpfiles, `sysctl
//! --system` and the kernel have it: hundreds of forms of such files, each carried out by the real
//! programs in a namespace whose folders are the test's own.

mod forms;
mod kernel;
mod tools;
mod words;

use std::fs;
use std::path::Path;
use std::process::Command;

use hugewise_host::source::{LiveSource, OverlaySource};
use hugewise_testkit::Skip;

use crate::real::harness;

/// A set of files of the boot: a text that starts with `->` is a link's target, and `/` alone makes
/// a folder.
#[derive(Clone, Debug)]
pub(crate) struct Form {
    pub(crate) name: String,
    pub(crate) files: Vec<(String, Vec<u8>)>,
}

/// Folders that the boot's files lie in.
const FOLDERS: [&str; 8] = [
    "/etc/sysctl.d",
    "/run/sysctl.d",
    "/usr/local/lib/sysctl.d",
    "/usr/lib/sysctl.d",
    "/etc/tmpfiles.d",
    "/run/tmpfiles.d",
    "/usr/local/lib/tmpfiles.d",
    "/usr/lib/tmpfiles.d",
];

/// The real programs.
pub(crate) struct Programs {
    sysctl: String,
    tmpfiles: String,
    procps: String,
}

impl Programs {
    pub(crate) fn find() -> Result<Self, Skip> {
        let path = |paths: &[&str]| harness::program(paths).map(|path| path.display().to_string());
        Ok(Self {
            sysctl: path(&["/usr/lib/systemd/systemd-sysctl", "/lib/systemd/systemd-sysctl"])?,
            tmpfiles: path(&["/usr/bin/systemd-tmpfiles", "/bin/systemd-tmpfiles"])?,
            procps: path(&["/usr/sbin/sysctl", "/sbin/sysctl"])?,
        })
    }

    /// As systemd-sysctl.service does.
    pub(crate) fn systemd_sysctl(&self) {
        run(&self.sysctl, &[]);
    }

    /// As systemd-tmpfiles-setup.service does.
    pub(crate) fn systemd_tmpfiles(&self) {
        // A distribution's own files empty /tmp at a boot, and that is the machine's here.
        let leave = ["--exclude-prefix=/dev", "--exclude-prefix=/tmp", "--exclude-prefix=/var/tmp"];
        run(&self.tmpfiles, &[&["--create", "--remove", "--boot"], &leave[..]].concat());
    }

    /// As the init script of Debian's procps does.
    pub(crate) fn sysctl_system(&self) {
        run(&self.procps, &["-q", "--system"]);
    }
}

/// `apply_sysctl` of Red Hat's initscripts since 9.03.24, as its documentation and tests of it say
/// what it does: sysctl.conf, then each file of the folder that is no backup.
pub(crate) const RC_SYSINIT: &str = "\
sysctl -e -p /etc/sysctl.conf >/dev/null 2>&1
for file in /etc/sysctl.d/*; do
    case \"$file\" in *~ | *.bak | *.orig | *.rpmnew | *.rpmorig | *.rpmsave) continue ;; esac
    [ -f \"$file\" ] && sysctl -e -p \"$file\" >/dev/null 2>&1
done
";

/// What it did before, and what RHEL 4 does.
pub(crate) const RC_SYSINIT_BEFORE: &str = "sysctl -e -p /etc/sysctl.conf >/dev/null 2>&1\n";

/// Carries such a script out.
pub(crate) fn rc_sysinit(script: &str) {
    run("/bin/sh", &["-c", script]);
}

/// This host as started by such a script.
pub(crate) fn started_by_script<'a>(live: &'a LiveSource, script: &str) -> OverlaySource<'a> {
    let mut source = started_by(live, "init");
    source.set_file("/etc/rc.d/rc.sysinit", Some(script.as_bytes().to_vec()));
    source
}

/// Lines that a program refuses make it fail; what it wrote is what counts. A boot finds nothing
/// below /run.
fn run(program: &str, arguments: &[&str]) {
    let below_run = FOLDERS.iter().filter(|folder| folder.starts_with("/run/"));
    let put_aside: Vec<(&str, Vec<std::ffi::OsString>)> = below_run
        .map(|folder| (*folder, names_in(folder)))
        .filter(|(_, names)| !names.is_empty())
        .collect();
    for (folder, names) in &put_aside {
        fs::create_dir(Path::new(folder).join(ASIDE)).unwrap();
        names.iter().for_each(|name| {
            fs::rename(Path::new(folder).join(name), Path::new(folder).join(ASIDE).join(name))
                .unwrap();
        });
    }
    Command::new(program).args(arguments).output().unwrap();
    for (folder, names) in &put_aside {
        names.iter().for_each(|name| {
            fs::rename(Path::new(folder).join(ASIDE).join(name), Path::new(folder).join(name))
                .unwrap();
        });
        fs::remove_dir(Path::new(folder).join(ASIDE)).unwrap();
    }
}

/// A folder that no program takes for a file of settings.
const ASIDE: &str = "aside";

fn names_in(folder: &str) -> Vec<std::ffi::OsString> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    entries.map(|entry| entry.unwrap().file_name()).collect()
}

/// An empty folder of the test's own in place of each.
pub(crate) fn own_folders(folders: &[&str]) {
    for folder in folders {
        fs::create_dir_all(folder).unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "mode=755", "hugewise", folder])
            .status();
        assert!(mounted.unwrap().success(), "{folder}");
    }
}

/// Puts a form's files in place of those of the form before.
pub(crate) fn place(form: &Form) {
    for folder in FOLDERS {
        for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap()) {
            let path = entry.path();
            if entry.file_type().unwrap().is_dir() {
                fs::remove_dir(path)
            } else {
                fs::remove_file(path)
            }
            .unwrap();
        }
    }
    let _ = fs::remove_file("/etc/sysctl.conf");
    for (path, text) in &form.files {
        let path = Path::new(path);
        match text.strip_prefix(b"->") {
            Some(target) => {
                std::os::unix::fs::symlink(std::str::from_utf8(target).unwrap(), path).unwrap()
            }
            None if text == b"/" => fs::create_dir(path).unwrap(),
            None => fs::write(path, text).unwrap(),
        }
    }
}

/// This host as the boot would find it, started by systemd or by something else.
pub(crate) fn started_by<'a>(live: &'a LiveSource, init: &str) -> OverlaySource<'a> {
    let mut source = OverlaySource::new(live);
    source.set_file("/proc/1/comm", Some(format!("{init}\n").into_bytes()));
    source
}
