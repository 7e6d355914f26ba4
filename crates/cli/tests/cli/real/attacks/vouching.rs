//! Who gets root's word for a server: a unit's account and a container's tenants, by what they
//! control.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

use hugewise_lab::guard::PoolGuard;
use hugewise_testkit::{Skip, require};
use serde_json::Value;

use super::plans::{Cgroup, start_in_service};
use super::{Attacker, Fake, Looks};
use crate::real::harness::{self, HUGEWISE, User};
use crate::real::namespace;

fn plan() -> Value {
    let output = Command::new(HUGEWISE).args(["plan", "--format", "json"]).output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

#[track_caller]
fn assert_no_steps(plan: &Value) {
    assert_eq!(plan["steps"].as_array().map(Vec::len), Some(0), "{plan:#}");
    assert!(plan["refusal"].is_null(), "{plan:#}");
}

fn vouchers(instance: &Value) -> Vec<&str> {
    instance["vouched_by"].as_array().unwrap().iter().filter_map(Value::as_str).collect()
}

fn write_unit(lines: &str) {
    let unit = format!("[Service]\nUser=4242\n{lines}\n");
    fs::write("/etc/systemd/system/hw-web.service", unit).unwrap();
}

fn write_program(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// A service's own program maps huge pages without a reservation: only itself tells how many.
#[test]
fn what_a_units_own_program_maps_and_never_touches_gets_no_pool() {
    if !require!(namespace::inside(
        "attacks::vouching::what_a_units_own_program_maps_and_never_touches_gets_no_pool"
    )) {
        return;
    }
    let _guard = require!(PoolGuard::take_for_test());
    let attacker = require!(Attacker::new());
    write_unit("ExecStart=/usr/sbin/hw-appd");
    for memory in ["huge", "sysv"] {
        let looks = Looks {
            program: "/usr/sbin/hw-appd",
            arguments: &[],
            directory: attacker.home(),
            memory,
            mapped: 3000,
            touched: 0,
        };
        let (fake, _place) = require!(start_in_service(&attacker, &looks));
        let checked = harness::check();
        let instance = checked.instance("other", fake.pid);
        assert_eq!(vouchers(instance), ["unit"], "{instance:#}");
        assert_eq!(instance["touched_bytes"].as_u64(), Some(0), "{instance:#}");
        assert_no_steps(&plan());
        drop(fake);
    }
}

/// A tenant is root in his container, or has the number of any account of the host's.
#[test]
fn a_tenant_is_neither_root_nor_an_account_of_the_host() {
    if !require!(namespace::inside(
        "attacks::vouching::a_tenant_is_neither_root_nor_an_account_of_the_host"
    )) {
        return;
    }
    let _guard = require!(PoolGuard::take_for_test());
    let attacker = require!(Attacker::new());
    let account = require!(User::named("mysql"));
    let scope = format!("system.slice/docker-{}.scope", "0123456789abcdef".repeat(4));
    let users = [0, account.uid, attacker.user.uid];
    for (uid, memory) in users.into_iter().flat_map(|uid| [(uid, "anon"), (uid, "huge")]) {
        let (program, engine) =
            if memory == "huge" { ("hw-appd", "other") } else { ("mariadbd", "mariadb") };
        let data = format!("--datadir={}", attacker.home().display());
        let looks = Looks {
            program,
            arguments: &[
                "--no-defaults",
                "--innodb-buffer-pool-size=12G",
                "--large-pages",
                data.as_str(),
            ],
            directory: attacker.home(),
            memory,
            // His arguments say 12 GiB, and his mappings of huge pages.
            mapped: if memory == "huge" { 12 << 10 } else { 700 },
            touched: 0,
        };
        let in_container = |_: &Path| {
            let mut command = Command::new("unshare");
            let user = [format!("--reuid={uid}"), format!("--regid={uid}")];
            command.args(["--mount", "setpriv"]).args(user);
            command.args(["--clear-groups", "--pdeathsig=KILL", "bash"]);
            command
        };
        let fake = require!(Fake::start_by(&attacker, &looks, in_container));
        let place = require!(Cgroup::new(&scope));
        require!(place.move_process(fake.pid));
        let checked = harness::check();
        let instance = checked.instance(engine, fake.pid);
        assert_eq!(vouchers(instance), ["container"], "{uid}: {instance:#}");
        assert!(instance["touched_bytes"].as_u64().unwrap() < 64 << 20, "{instance:#}");
        assert_no_steps(&plan());
        drop(fake);
    }
}

/// Whoever owns a folder on the way to a unit's script, or a file of its variables, has files of
/// root's and words of his own in their place.
#[test]
fn no_unit_vouches_by_what_its_account_has_put_there() {
    if !require!(namespace::inside(
        "attacks::vouching::no_unit_vouches_by_what_its_account_has_put_there"
    )) {
        return;
    }
    let _guard = require!(PoolGuard::take_for_test());
    let attacker = require!(Attacker::new());
    let data = attacker.postgresql("data", "shared_buffers = 600MB\nhuge_pages = try\n");
    let variables = attacker.file("env", "OPTS=/x/pg_ctl\n");
    let looks = Looks {
        program: "/usr/sbin/postgres",
        arguments: &["-D", data.to_str().unwrap()],
        directory: &data,
        memory: "anon",
        mapped: 620,
        touched: 620,
    };
    let script = "#!/bin/sh\nexec postgres -D \"$1\"\n";
    let roots = Path::new("/usr/sbin/hw-start");
    write_program(roots, script);
    // Not his, as a log of his service's that systemd has made is not, and moved where he likes.
    let moved = attacker.path("moved/hw-start");
    write_program(&moved, script);
    let fake = require!(Fake::start(&attacker, &looks));
    let linked = attacker.path("linked");
    symlink(format!("/proc/{}/root/usr/sbin", fake.pid), &linked).unwrap();
    fs::write("/etc/hw-env", "OPTS=/usr/sbin/hw-start\n").unwrap();
    let place = require!(Cgroup::new("system.slice/hw-web.service"));
    require!(place.move_process(fake.pid));
    let perl = "/usr/bin/perl $OPTS /srv/app.pl";
    for (lines, why) in [
        (format!("ExecStart={}", roots.display()), None),
        (format!("EnvironmentFile=/etc/hw-env\nExecStart={perl}"), None),
        (format!("ExecStart={}", moved.display()), Some("is not root's alone")),
        (format!("ExecStart={}/hw-start", linked.display()), Some("is not root's alone")),
        (
            format!("ExecStart=/proc/{}/root/usr/sbin/hw-start", fake.pid),
            Some("is in /proc or on a FUSE"),
        ),
        (
            format!("EnvironmentFile={}\nExecStart={perl}", variables.display()),
            Some("starts /srv/app.pl, but"),
        ),
        (format!("ExecStart={}", attacker.path("pg_ctl").display()), Some("hw-web.service starts")),
    ] {
        write_unit(&lines);
        let checked = harness::check();
        let instance = checked.instance("postgresql", fake.pid);
        let expected: &[&str] = if why.is_none() { &["unit"] } else { &[] };
        assert_eq!(vouchers(instance), expected, "{lines}: {instance:#}");
        let failed = instance["trust"].to_string();
        assert!(failed.contains(why.unwrap_or_default()), "{lines}: {failed}");
    }
    drop(fake);
}

/// Neither root nor the service's account.
const THIRD: u32 = 4343;

fn compile_library(path: &Path) -> Result<(), Skip> {
    let cc = harness::program(&["/usr/bin/cc"])?;
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mut command = Command::new(cc);
    command.args(["-shared", "-fPIC", "-x", "c", "/dev/null", "-o"]).arg(path);
    harness::must(&mut command);
    Ok(())
}

/// A third user writes the configuration of a unit's server, a library in its memory, or what the
/// unit's variables lead to: the next start is what he says.
#[test]
fn no_unit_vouches_where_a_third_user_writes() {
    if !require!(namespace::inside("attacks::vouching::no_unit_vouches_where_a_third_user_writes"))
    {
        return;
    }
    let attacker = require!(Attacker::new());
    let settings = "shared_buffers = 600MB\nhuge_pages = try\ninclude_dir = 'conf.d'\n";
    let data = attacker.postgresql("data", settings);
    let included = attacker.file("data/conf.d/a.conf", "work_mem = 5MB\n");
    let folder = included.parent().unwrap();
    let library = Path::new("/usr/sbin/hw-lib/libhw.so");
    require!(compile_library(library));
    let looks = Looks {
        program: "/usr/sbin/postgres",
        arguments: &["-D", data.to_str().unwrap()],
        directory: &data,
        memory: "anon",
        mapped: 620,
        touched: 620,
    };
    let with_library = |program: &Path| {
        let mut command = attacker.command(program);
        command.env("LD_PRELOAD", library);
        command
    };
    let fake = require!(Fake::start_by(&attacker, &looks, with_library));
    let place = require!(Cgroup::new("system.slice/hw-web.service"));
    require!(place.move_process(fake.pid));
    let third = Path::new("/usr/sbin/hw-third");
    fs::create_dir(third).unwrap();
    chown(third, Some(THIRD), Some(THIRD)).unwrap();
    let start = "ExecStart=/usr/sbin/postgres -D /d";
    let assert_vouched = |by: &[&str], why: &str| {
        let checked = harness::check();
        let instance = checked.instance("postgresql", fake.pid);
        assert_eq!(vouchers(instance), by, "{why}: {instance:#}");
        let proofs = instance["trust"].to_string();
        assert!(proofs.contains(why), "{why}: {proofs}");
    };
    let unit = ["unit"];
    write_unit(start);
    assert_vouched(&unit, "nobody but root and 4242 can write its program");
    for path in [data.join("postgresql.conf").as_path(), folder, &included, library] {
        let own = if path == library { 0 } else { attacker.user.uid };
        chown(path, Some(THIRD), None).unwrap();
        assert_vouched(&[], &format!("{} belongs to user {THIRD}", path.display()));
        chown(path, Some(own), None).unwrap();
        assert_vouched(&unit, "nobody but root");
    }
    for mode in [0o777, 0o1777] {
        fs::set_permissions(folder, fs::Permissions::from_mode(mode)).unwrap();
        assert_vouched(&[], &format!("{}: every user may write to it", folder.display()));
    }
    let output = Command::new(HUGEWISE).args(["check", "-v"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("others can write its configuration"), "{said}");
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
    for line in ["Environment=LD_LIBRARY_PATH=", "EnvironmentFile=-", "Environment=LD_PRELOAD="] {
        write_unit(&format!("{line}{}/x\n{start}", third.display()));
        assert_vouched(&[], &format!("{} belongs to user {THIRD}", third.display()));
    }
    let (there, directory) = (third.display(), format!("WorkingDirectory={}", third.display()));
    for lines in [
        format!("{directory}\nEnvironment=LD_LIBRARY_PATH=lib"),
        format!("{directory}\nEnvironment=LD_LIBRARY_PATH=/usr/lib:"),
        format!("Environment=PYTHONPATH={there}"),
    ] {
        write_unit(&format!("{lines}\n{start}"));
        assert_vouched(&[], &format!("{there} belongs to user {THIRD}"));
    }
    // The third user's library goes on being run when he has removed its file.
    write_unit(start);
    chown(library, Some(THIRD), None).unwrap();
    let folder = library.parent().unwrap();
    fs::set_permissions(folder, fs::Permissions::from_mode(0o1777)).unwrap();
    fs::remove_file(library).unwrap();
    assert_vouched(&[], "libhw.so (deleted)");
    drop(fake);
}

/// A start script of root's talks to a server elsewhere; whoever has taken over the service's
/// account starts one in the place of what it does start.
#[test]
fn no_unit_vouches_for_a_server_that_its_script_only_mentions() {
    if !require!(namespace::inside(
        "attacks::vouching::no_unit_vouches_for_a_server_that_its_script_only_mentions"
    )) {
        return;
    }
    let attacker = require!(Attacker::new());
    let data = attacker.postgresql("data", "shared_buffers = 600MB\nhuge_pages = try\n");
    let looks = Looks {
        program: "/usr/sbin/postgres",
        arguments: &["-D", data.to_str().unwrap()],
        directory: &data,
        memory: "anon",
        mapped: 620,
        touched: 620,
    };
    let (fake, _place) = require!(start_in_service(&attacker, &looks));
    let script = Path::new("/usr/sbin/hw-start");
    write_unit("ExecStart=/usr/sbin/hw-start");
    for (line, by) in [
        ("exec /usr/sbin/postgres -D /d", &["unit"][..]),
        ("pg_isready -q -h db1 -U postgres; exec shop # postgres", &[]),
    ] {
        write_program(script, &format!("#!/bin/sh\n{line}\n"));
        let checked = harness::check();
        let instance = checked.instance("postgresql", fake.pid);
        assert_eq!(vouchers(instance), by, "{line}: {instance:#}");
    }
    drop(fake);
}

/// Beside a server lies a client of root's choice, and what answers may be anybody.
#[test]
fn no_client_runs_as_root() {
    if !require!(namespace::inside("attacks::vouching::no_client_runs_as_root")) {
        return;
    }
    let attacker = require!(Attacker::new());
    let folder = harness::folder();
    let (server, mark) = (folder.path().join("sbin/mariadbd"), folder.path().join("ran"));
    let client = folder.path().join("bin/mariadb");
    write_program(&client, &format!("#!/bin/sh\nid >{}\n", mark.display()));
    let socket = format!("--socket={}/s", folder.path().display());
    let looks = Looks {
        program: server.to_str().unwrap(),
        arguments: &["--no-defaults", socket.as_str()],
        directory: folder.path(),
        memory: "anon",
        mapped: 300,
        touched: 300,
    };
    let by_root = |program: &Path| {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig=KILL", "--"]).arg(program).stdin(Stdio::null());
        command
    };
    let fake = require!(Fake::start_by(&attacker, &looks, by_root));
    let output = Command::new(HUGEWISE).args(["check", "--connect"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(!mark.exists(), "{}", fs::read_to_string(&mark).unwrap_or_default());
    assert!(said.contains("root runs it, and no client is run as root"), "{said}");
    drop(fake);
}
