//! What the kernel here says when it kills a process at a cgroup's limit, read from dmesg in its
//! two dated forms.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use hugewise_testkit::{Skip, require};

use crate::real::harness;

const LIMIT: u64 = 30 << 20;

/// A cgroup with a limit of memory, of the unified hierarchy or of the older one.
struct Limited {
    folder: PathBuf,
}

impl Limited {
    fn new() -> Result<Self, Skip> {
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let mounts = || mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
        let older = mounts()
            .find(|mount| mount[2] == "cgroup" && mount[3].split(',').any(|word| word == "memory"));
        let unified = mounts().find(|mount| mount[2] == "cgroup2").filter(|mount| {
            fs::read_to_string(format!("{}/cgroup.subtree_control", mount[1]))
                .is_ok_and(|text| text.contains("memory"))
        });
        let (root, file) = match (older, unified) {
            (Some(mount), _) => (mount[1].to_owned(), "memory.limit_in_bytes"),
            (None, Some(mount)) => (mount[1].to_owned(), "memory.max"),
            (None, None) => return Err(Skip("no cgroup with a memory controller".into())),
        };
        let folder =
            PathBuf::from(root).join(format!("hugewise-real-killed-{}", std::process::id()));
        fs::create_dir(&folder).map_err(|error| Skip(format!("{}: {error}", folder.display())))?;
        let made = Self { folder };
        fs::write(made.folder.join(file), LIMIT.to_string())
            .map_err(|error| Skip(error.to_string()))?;
        Ok(made)
    }
}

impl Drop for Limited {
    fn drop(&mut self) {
        for _ in 0..200 {
            if fs::remove_dir(&self.folder).is_ok() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
}

#[test]
fn a_kill_at_a_cgroups_limit_is_read_from_dmesg() {
    let python = require!(harness::program(&["/usr/bin/python3"]));
    let limited = require!(Limited::new());
    // What is swapped out is not killed: it is locked where it can be, and more than swap would
    // take where it cannot.
    let script = format!(
        "import os\nopen('{}/cgroup.procs', 'w').write(str(os.getpid()))\nheld = bytearray(4 * \
             {LIMIT})\nprint('alive')",
        limited.folder.display()
    );
    let child = Command::new(python).args(["-c", &script]).spawn().unwrap();
    let pid = child.id();
    let ended = child.wait_with_output().unwrap().status;
    assert!(!ended.success(), "it was not killed: {ended}");

    let folder = harness::folder();
    for arguments in [&["-T"][..], &["--time-format", "iso"]] {
        let Ok(said) = Command::new("dmesg").args(arguments).output() else { continue };
        require!(if said.status.success() {
            Ok(())
        } else {
            Err(Skip("dmesg may not be read".into()))
        });
        // The ring buffer may have begun to forget; what is of this process is at its end.
        let text = String::from_utf8_lossy(&said.stdout);
        let lines: Vec<&str> = text.lines().collect();
        let log = folder.path().join("dmesg");
        fs::write(&log, lines[lines.len().saturating_sub(400)..].join("\n") + "\n").unwrap();
        let report = Command::new(harness::HUGEWISE)
            .arg("investigate")
            .arg(&log)
            .args(["--format", "json"])
            .output();
        let report: serde_json::Value = serde_json::from_slice(&report.unwrap().stdout).unwrap();
        let incidents = report["incidents"].as_array().unwrap();
        let of_it =
            |incident: &&serde_json::Value| incident.to_string().contains(&format!("(pid {pid}, "));
        let incident = incidents.iter().find(of_it).unwrap_or_else(|| panic!("{report:#}"));
        assert_eq!(incident["verdict"], "cgroup-limit", "{incident:#}");
        let name = limited.folder.file_name().unwrap().to_string_lossy();
        assert!(incident.to_string().contains(&*name), "{incident:#}");
    }
}
