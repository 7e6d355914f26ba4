//! Grid Infrastructure: the processes that start a cluster's databases, and the files that give
//! them their limits.
//!
//! Names: Clusterware Administration and Deployment Guide 11.2 to 19c, "Overview of Oracle
//! Clusterware Platform-Specific Software Components" and "Oracle Clusterware Processes"; the file
//! of the stack's environment there too, under limits.

use std::fmt::Write as _;

use super::files::FixtureFiles;
use super::machine::FixtureMachine;
use super::memlock::FixtureMemlock;
use super::process::{FixtureProcess, FixtureProcesses};

/// A stack that runs on this node.
#[derive(Clone, Debug)]
pub struct Grid {
    /// Its release, part of its home's path.
    pub release: String,
    /// Limits of its processes, and so of what they start.
    pub memlock: FixtureMemlock,
    /// `CRS_LIMIT_MEMLOCK` in `s_crsconfig_NODE_env.txt`, where it has the line.
    pub environment: Option<FixtureMemlock>,
    /// `ulimit -l` in the script `ohasd`, where somebody has added it.
    pub script: Option<FixtureMemlock>,
    /// Accounts for which it runs an agent that starts databases.
    pub owners: Vec<String>,
}

impl Grid {
    /// A stack of that release, whose processes have this limit, for the databases of `oracle`.
    #[must_use]
    pub fn new(release: &str, memlock: FixtureMemlock) -> Self {
        Self {
            release: release.into(),
            memlock,
            environment: None,
            script: None,
            owners: vec!["grid".into(), "oracle".into()],
        }
    }

    /// Its home.
    #[must_use]
    pub fn home(&self) -> String {
        format!("/u01/app/{}/grid", self.release)
    }

    pub(crate) fn add(
        &self,
        machine: &FixtureMachine,
        files: &mut FixtureFiles,
        processes: &mut FixtureProcesses,
    ) {
        let home = self.home();
        let node = &machine.name;
        files.add_file(
            "/etc/oracle/olr.loc",
            format!("olrconfig_loc={home}/cdata/{node}.olr\ncrs_home={home}\n"),
        );
        let mut environment = "# set by the installer; read when the stack \
                 starts\nTZ=UTC\nNLS_LANG=AMERICAN_AMERICA.AL32UTF8\n"
            .to_owned();
        if let Some(memlock) = self.environment {
            let _ = writeln!(environment, "CRS_LIMIT_MEMLOCK={memlock}");
        }
        files.add_file(&format!("{home}/crs/install/s_crsconfig_{node}_env.txt"), environment);
        let mut script = "#!/bin/sh\nstart()\n{\n".to_owned();
        if let Some(memlock) = self.script {
            let _ = writeln!(script, "  ulimit -n 65536\n  ulimit -l {memlock}");
        }
        files.add_file("/etc/init.d/ohasd", script + "  $START_OHASD\n}\n");
        files.add_file("/etc/init.d/init.ohasd", "#!/bin/sh\n# run by init\n");

        let mut all: Vec<(Vec<String>, String, &str)> = vec![(
            vec!["/bin/sh".into(), "/etc/init.d/init.ohasd".into(), "run".into()],
            "/bin/sh".into(),
            "root",
        )];
        let program = |name: &str| format!("{home}/bin/{name}");
        for (name, word, owner) in [
            ("ohasd.bin", Some("reboot"), "root"),
            ("orarootagent.bin", None, "root"),
            ("cssdmonitor", None, "root"),
            ("cssdagent", None, "root"),
            ("ocssd.bin", None, "grid"),
            ("octssd.bin", Some("reboot"), "root"),
            ("crsd.bin", Some("reboot"), "root"),
            ("evmd.bin", None, "grid"),
            ("gpnpd.bin", None, "grid"),
            ("mdnsd.bin", None, "grid"),
        ] {
            let command = std::iter::once(program(name)).chain(word.map(str::to_owned)).collect();
            all.push((command, program(name), owner));
        }
        for owner in &self.owners {
            all.push((vec![program("oraagent.bin")], program("oraagent.bin"), owner));
        }
        for (command, executable, owner) in all {
            let name = if executable == "/bin/sh" {
                "init.ohasd"
            } else {
                executable.rsplit('/').next().unwrap_or_default()
            };
            processes.push(FixtureProcess {
                name: name.to_owned(),
                command,
                directory: "/".into(),
                uid: machine.uid_of(owner),
                groups: FixtureMachine::groups_of(owner),
                memlock: self.memlock,
                cgroup: machine.cgroup_path(true),
                private: 30_000,
                mapped: Vec::new(),
                sockets: Vec::new(),
                tells_pages: false,
                executable,
            });
        }
    }
}
