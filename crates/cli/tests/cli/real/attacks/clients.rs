//! Programs that hugewise runs as somebody else.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use hugewise_testkit::require;

use super::Attacker;
use crate::real::harness::{self, HUGEWISE, User};

/// Settings name libraries: whoever writes a configuration would have his code run as the owner of
/// the data directory that it names.
#[test]
fn no_program_runs_as_one_user_with_the_settings_of_another() {
    let attacker = require!(Attacker::new());
    let victim = require!(User::named("games"));
    let folder = harness::folder();
    let (program, log) = (folder.path().join("postgres"), folder.path().join("log"));
    let script =
        format!("#!/bin/sh\nid -u >>{}\necho 'postgres (PostgreSQL) 15.0'\n", log.display());
    fs::write(&program, script).unwrap();
    fs::write(&log, "").unwrap();
    for (path, mode) in [(&program, 0o755), (&log, 0o666)] {
        fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    }
    let data = folder.path().join("data");
    fs::create_dir_all(data.join("global")).unwrap();
    fs::write(data.join("PG_VERSION"), "15\n").unwrap();
    fs::write(data.join("postgresql.conf"), "shared_buffers = 1GB\n").unwrap();
    victim.own(&data);
    let run_as = |described: &[&str]| {
        fs::write(&log, "").unwrap();
        let mut command = Command::new(HUGEWISE);
        command.args(["size", "--engine", "postgresql", "--server-binary"]).arg(&program);
        let output = command.args(described).output().unwrap();
        (fs::read_to_string(&log).unwrap(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let data = data.to_str().unwrap();
    let (ran, said) = run_as(&["--data-dir", data]);
    assert!(ran.contains(&victim.uid.to_string()), "its own settings: {said}");

    let named = attacker.file("named.conf", format!("data_directory = '{data}'\n"));
    let included = attacker.file("included.conf", "shared_preload_libraries = '/tmp/evil'\n");
    let own = folder.path().join("own.conf");
    let include = format!("data_directory = '{data}'\ninclude = '{}'\n", included.display());
    fs::write(&own, include).unwrap();
    let link = attacker.link("link", data);
    for described in [
        ["--config", named.to_str().unwrap()],
        ["--config", own.to_str().unwrap()],
        ["--data-dir", link.to_str().unwrap()],
    ] {
        let (ran, said) = run_as(&described);
        assert_eq!(ran, "", "{described:?}: {said}");
        assert!(said.contains("others can write"), "{described:?}: {said}");
    }
}
