//! What a server's owner may not read, nobody reads for him: not by a link, not by an include, not
//! by a log, and not so much of what he may read that others have to wait.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hugewise_testkit::{Skip, require};
use serde_json::Value;

use super::{Attacker, Fake, Looks};
use crate::real::harness::{self, Check, User, text};
use crate::real::mariadb;
use crate::real::postgresql::Cluster;

/// In no file that the attacker may read.
const SECRET: &str = "S3cret";

/// A folder that root alone may look into.
struct Vault(tempfile::TempDir);

impl Vault {
    fn new() -> Self {
        let folder = harness::folder();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).unwrap();
        Self(folder)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// A file in it that everybody could read if he could come to it.
    fn file(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        fs::write(self.path(name), bytes).unwrap();
        self.path(name)
    }
}

/// A file that root alone may read, in a folder that everybody may go through.
fn private(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    path
}

/// Who reads: root, and the user of the packaged unit with its capabilities.
struct Readers {
    folder: tempfile::TempDir,
}

impl Readers {
    /// A user who owns nothing.
    const UNIT: u32 = 4243;

    fn new() -> Self {
        let folder = harness::folder();
        let program = folder.path().join("hugewise");
        fs::copy(harness::HUGEWISE, &program).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        Self { folder }
    }

    fn program(&self) -> PathBuf {
        self.folder.path().join("hugewise")
    }

    fn root(&self) -> Command {
        Command::new(self.program())
    }

    /// As packaging/systemd/hugewise-serve.service has it.
    fn unit(&self) -> Command {
        const CAPABILITIES: &str = "-all,+sys_ptrace,+dac_read_search";
        let mut command = Command::new("setpriv");
        command.args([
            &format!("--reuid={}", Self::UNIT),
            &format!("--regid={}", Self::UNIT),
            "--clear-groups",
        ]);
        for set in ["--bounding-set", "--inh-caps", "--ambient-caps"] {
            command.arg(format!("{set}={CAPABILITIES}"));
        }
        command.args(["--pdeathsig=KILL", "--"]).arg(self.program());
        command
    }

    fn both(&self) -> [Command; 2] {
        [self.root(), self.unit()]
    }

    /// Everything that any command says of this host, whoever runs it.
    fn everything(&self) -> String {
        let mut said = String::new();
        let forms: [&[&str]; 5] = [
            &["check", "--format", "json"],
            &["check", "--verbose"],
            &["verify"],
            &["verify", "--format", "json"],
            &["size", "--format", "json"],
        ];
        for form in forms {
            for mut command in self.both() {
                let Output { stdout, stderr, .. } =
                    command.args(form).stdin(Stdio::null()).output().unwrap();
                said.push_str(&String::from_utf8_lossy(&stdout));
                said.push_str(&String::from_utf8_lossy(&stderr));
            }
        }
        let mut serving = self.unit();
        serving.args(["serve", "--listen", "127.0.0.1:0"]).stdout(Stdio::piped());
        let mut child = serving.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address =
            line.trim().strip_prefix("listening at http://").unwrap_or_else(|| panic!("{line}"));
        for path in ["/api/v1/check", "/metrics"] {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
            write!(stream, "GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n").unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            assert!(
                answer.starts_with("HTTP/1.0 200") || answer.starts_with("HTTP/1.1 200"),
                "{path}: {answer}"
            );
            said.push_str(&answer);
        }
        child.kill().unwrap();
        child.wait().unwrap();
        said
    }
}

/// What a check says, whoever runs it.
fn check(mut command: Command) -> Check {
    Check::read(&command.args(["check", "--format", "json"]).stdin(Stdio::null()).output().unwrap())
}

#[track_caller]
fn assert_silent(said: &str) {
    if let Some(at) = said.find(SECRET) {
        let around: String = said[at.saturating_sub(300)..].chars().take(500).collect();
        panic!("{around}");
    }
}

/// A fake with these arguments that sleeps in that folder, with memory enough to count as a server.
fn fake(
    attacker: &Attacker,
    program: &str,
    arguments: &[&str],
    directory: &Path,
) -> Result<Fake, Skip> {
    Fake::start(
        attacker,
        &Looks { program, arguments, directory, memory: "anon", mapped: 300, touched: 1 },
    )
}

#[test]
fn links_to_what_root_alone_may_read_tell_nothing_of_postgresql() {
    let attacker = require!(attacker_of(4260));
    let (readers, vault, open) = (Readers::new(), Vault::new(), harness::folder());
    // By its mode, and by its folder's.
    let secrets = [
        private(open.path(), "line", &format!("{SECRET}Line of a key\n")),
        private(
            open.path(),
            "settings",
            &format!("cluster_name = {SECRET}Name\nhuge_pages = {SECRET}Pages\n"),
        ),
        vault.file(
            "settings",
            format!("port = {SECRET}Port\nunix_socket_directories = '/{SECRET}Socket'\n"),
        ),
        private(open.path(), "lock", &format!("{SECRET}Lock\n")),
        private(open.path(), "version", &format!("{SECRET}Version\n")),
    ];
    let mut fakes = Vec::new();
    for (at, secret) in secrets.iter().enumerate() {
        for name in ["postgresql.conf", "postgresql.auto.conf", "postmaster.pid", "PG_VERSION"] {
            let data = attacker.postgresql(&format!("{at}-{name}"), "shared_buffers = 128MB\n");
            let _ = fs::remove_file(data.join(name));
            symlink(secret, data.join(name)).unwrap();
            fakes.push(require!(Fake::postgres(&attacker, &data, 300, 1)));
        }
        let include = format!("include '{0}'\ninclude_if_exists '{0}'\n", secret.display());
        let data = attacker.postgresql(&format!("{at}-include"), &include);
        fakes.push(require!(Fake::postgres(&attacker, &data, 300, 1)));
        let link = attacker.link(&format!("{at}-link"), secret);
        let data = attacker.postgresql(&format!("{at}-linked"), "");
        let option = format!("config_file={}", link.display());
        let arguments = ["-D", data.to_str().unwrap(), "-c", &option];
        fakes.push(require!(fake(&attacker, "postgres", &arguments, &data)));
    }
    // A folder in place of a file, and links in it.
    let data =
        attacker.postgresql("folder", &format!("include_dir '{}'\n", vault.0.path().display()));
    vault.file("vault.conf", format!("cluster_name = {SECRET}Folder\n"));
    fakes.push(require!(Fake::postgres(&attacker, &data, 300, 1)));
    assert_silent(&readers.everything());
    let seen = check(readers.unit());
    assert!(fakes.iter().all(|fake| seen.instance("postgresql", fake.pid)["pid"] == fake.pid));
}

#[test]
fn links_to_what_root_alone_may_read_tell_nothing_of_other_engines() {
    let attacker = require!(attacker_of(4261));
    let (readers, open) = (Readers::new(), harness::folder());
    let secret = |name: &str, text: &str| {
        private(open.path(), name, &text.replace('@', SECRET)).display().to_string()
    };
    let mut fakes = Vec::new();

    let options =
        secret("my.cnf", "[mysqld]\nport=@Port\nsocket=/@Socket\nlarge_pages=@Pages\n[@Group\n");
    let whole = secret("whole.cnf", "[mysqld]\nport=@Port\nsocket=/@Socket\nlarge_pages=@Pages\n");
    for (at, file) in [options, whole].iter().enumerate() {
        let data = attacker.folder(&format!("mysql{at}"));
        let including =
            attacker.file(&format!("including{at}.cnf"), format!("[mysqld]\n!include {file}\n"));
        let including = including.display();
        for option in [
            format!("--defaults-file={file}"),
            format!("--defaults-extra-file={file}"),
            format!("--defaults-file={including}"),
        ] {
            fakes.push(require!(fake(&attacker, "mysqld", &[&option], &data)));
        }
    }
    let data = attacker.folder("mysql-data");
    symlink(
        secret("auto", r#"{"mysql_server": {"port": {"Value": "@Json"}}}"#),
        data.join("mysqld-auto.cnf"),
    )
    .unwrap();
    symlink(secret("info", "10.@Version"), data.join("mysql_upgrade_info")).unwrap();
    fakes.push(require!(fake(&attacker, "mysqld", &["--no-defaults"], &data)));

    let home = attacker.folder("product/19/dbhome");
    attacker.folder("product/19/dbhome/dbs");
    symlink(
        secret("init.ora", "sga_target=@Target\nprocesses=@Processes\nuse_large_pages=@Large\n"),
        home.join("dbs/initFAKE.ora"),
    )
    .unwrap();
    let looks = Looks {
        program: "product/19/dbhome/bin/oracle",
        arguments: &[],
        directory: &home,
        memory: "sysv",
        mapped: 300,
        touched: 1,
    };
    let oracle = Fake::start_by(&attacker, &looks, |bash| {
        // In place of the name that it would be started by.
        let mut command = attacker.command(bash);
        command.args(["-c", "shift 3; exec -a ora_pmon_FAKE \"$@\"", "bash"]);
        command
    });
    fakes.push(require!(oracle));

    let conf = attacker.link(
        "redis.conf",
        secret("redis", "port @Port\nunixsocket /@Socket\nmaxmemory @Memory\n"),
    );
    fakes.push(require!(fake(
        &attacker,
        "redis-server",
        &[conf.to_str().unwrap()],
        attacker.home()
    )));

    let yaml = "storage:\n  dbPath: /@Path\nnet:\n  port: @Port\n";
    let conf = attacker.link("mongod.conf", secret("yaml", yaml));
    fakes.push(require!(fake(
        &attacker,
        "mongod",
        &["--config", conf.to_str().unwrap()],
        attacker.home()
    )));

    let words = attacker
        .link("jvm.options", secret("words", "-Xmx@Heap\n-XX:LargePageSizeInBytes=@Size\n"));
    let file = format!("@{}", words.display());
    fakes.push(require!(fake(
        &attacker,
        "java",
        &["-XX:+UseLargePages", &file, "Main"],
        attacker.home()
    )));

    assert_silent(&readers.everything());
    let seen = check(readers.root());
    for (engine, pid) in
        ["redis", "mongodb", "jvm"].into_iter().zip(fakes.iter().rev().take(3).rev())
    {
        seen.instance(engine, pid.pid);
    }
}

#[test]
fn logs_that_root_alone_may_read_are_not_shown() {
    let attacker = require!(attacker_of(4262));
    let (readers, open) = (Readers::new(), harness::folder());
    let line = format!(
        "2026-01-01 00:00:00.000 UTC [1] FATAL:  could not map anonymous shared memory: \
             {SECRET}Log\n"
    );
    let log = private(open.path(), "server.log", &line);
    let data = attacker.postgresql("data", "");
    attacker.file("data/current_logfiles", format!("stderr {}\n", log.display()));
    let _named = require!(Fake::postgres(&attacker, &data, 300, 1));
    let data = attacker.postgresql("linked", "");
    symlink(
        private(open.path(), "list", &format!("stderr {SECRET}Path\n")),
        data.join("current_logfiles"),
    )
    .unwrap();
    let _linked = require!(Fake::postgres(&attacker, &data, 300, 1));
    let data = attacker.folder("mysql");
    let option = format!("--log-error={}", log.display());
    let _mysql =
        require!(fake(&attacker, "mysqld", &["--no-defaults", &option, "--large-pages"], &data));
    assert_silent(&readers.everything());
}

/// What is told of a server, without what sets it apart from another.
fn told_of(check: &Check, pid: u32, own: &str) -> String {
    let mut instance = check.instance("postgresql", pid).clone();
    for changing in ["pid", "pids", "name", "segments", "page_tables_bytes", "chain"] {
        instance[changing] = Value::Null;
    }
    let unread = check.json["unread"].as_array().unwrap();
    let unread: Vec<String> =
        unread.iter().map(Value::to_string).filter(|unread| unread.contains(own)).collect();
    format!("{instance}\n{}", unread.join("\n")).replace(own, "OWN")
}

#[test]
fn whether_a_file_exists_shows_to_nobody_who_may_not_look() {
    let attacker = require!(attacker_of(4263));
    let (readers, vault) = (Readers::new(), Vault::new());
    vault.file("there", "port = 5555\n");
    fs::create_dir(vault.path("folder")).unwrap();
    let server = |name: &str, target: &str| {
        let target = vault.path(target).display().to_string();
        let text = format!("include_if_exists '{target}'\ninclude_dir '{target}'\n");
        let data = attacker.postgresql(name, &text);
        symlink(&target, data.join("postmaster.pid")).unwrap();
        symlink(&target, data.join("postgresql.auto.conf")).unwrap();
        Ok::<_, Skip>((
            Fake::postgres(&attacker, &data, 300, 1)?,
            data.display().to_string(),
            target,
        ))
    };
    let there = require!(server("one", "there"));
    let folder = require!(server("two", "folder"));
    let none = require!(server("six", "none"));
    for command in readers.both() {
        let checked = check(command);
        let told = |(fake, data, target): &(Fake, String, String)| {
            told_of(&checked, fake.pid, data).replace(target, "TARGET")
        };
        assert_eq!(told(&there), told(&none));
        assert_eq!(told(&folder), told(&none));
        let unread = checked.json["unread"].to_string();
        for (_, _, target) in [&there, &folder, &none] {
            let lines = unread.matches(target.as_str()).count();
            assert_eq!(lines, unread.matches(none.2.as_str()).count(), "{unread}");
        }
    }
}

/// `su` waits for a password as root, in a folder and under a name that the attacker chose.
#[test]
fn a_program_of_roots_that_an_attacker_starts_reads_with_his_rights() {
    let attacker = require!(attacker_of(4264));
    require!(harness::program(&["/usr/bin/su"]));
    let (readers, open) = (Readers::new(), harness::folder());
    let data = attacker.postgresql("data", "");
    for name in ["postgresql.conf", "postmaster.pid"] {
        let _ = fs::remove_file(data.join(name));
        symlink(private(open.path(), name, &format!("{SECRET}Su\n")), data.join(name)).unwrap();
    }
    for name in ["postgres", "redis-server", "mysqld"] {
        attacker.link(name, "/usr/bin/su");
        let mut command = attacker.command("bash");
        let script = "exec -a \"$0\" \"$1\"";
        command.args(["-c", script, name]).arg(attacker.path(name)).current_dir(&data);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        harness::wait_for("su runs", || {
            let ran = fs::read_link(format!("/proc/{}/exe", child.id())).ok()?;
            (ran == Path::new("/usr/bin/su")).then_some(())
        });
        assert_silent(&readers.everything());
        drop(child.stdin.take());
        let _ = child.kill();
        child.wait().unwrap();
    }
}

/// A file that is one moment his own and the next a link.
#[test]
fn a_file_that_turns_into_a_link_while_it_is_read_tells_nothing() {
    let attacker = require!(attacker_of(4265));
    let (readers, open) = (Readers::new(), harness::folder());
    let secret = private(open.path(), "secret", &format!("cluster_name = {SECRET}Race\n"));
    let data = attacker.postgresql("data", "");
    let _fake = require!(Fake::postgres(&attacker, &data, 300, 1));
    let (conf, folder) = (data.join("postgresql.conf"), data.clone());
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut turn = 0_u64;
            while !done.load(Ordering::Relaxed) {
                let next = folder.join("next");
                if turn.is_multiple_of(2) {
                    symlink(&secret, &next).unwrap();
                } else {
                    fs::write(&next, "cluster_name = mine\n").unwrap();
                }
                fs::rename(&next, &conf).unwrap();
                turn += 1;
            }
        });
        for _ in 0..15 {
            for mut command in readers.both() {
                let output = command.args(["check", "--format", "json"]).output().unwrap();
                let said = String::from_utf8_lossy(&output.stdout).into_owned();
                if said.contains(SECRET) {
                    done.store(true, Ordering::Relaxed);
                }
                assert_silent(&said);
            }
        }
        done.store(true, Ordering::Relaxed);
    });
}

/// An attacker whose servers share what they may take, and how many are looked at, with no other
/// test's.
pub(super) fn attacker_of(uid: u32) -> Result<Attacker, Skip> {
    let attacker = Attacker { user: User { uid, gid: uid }, ..Attacker::new()? };
    attacker.user.own(attacker.home());
    Ok(attacker)
}

/// Runs a check that may take so many seconds of processor time; whoever takes more is killed.
fn check_within(seconds: u32, program: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new("prlimit");
    command.arg(format!("--cpu={seconds}")).arg("--").arg(program).args(arguments);
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert!(
        output.status.code().is_some(),
        "it took more than {seconds} s of processor time: {}",
        output.status
    );
    output
}

#[test]
fn many_large_files_of_one_user_take_no_time_from_others() {
    let attacker = require!(attacker_of(4251));
    require!(harness::program(&["/usr/bin/prlimit"]));
    let readers = Readers::new();
    // A file that is too large for a configuration, and one that is not, each by hundreds of links.
    let line = "work_mem = 4096 # and so on\n";
    let large = attacker.file("large.conf", line.repeat((15 << 20) / line.len()));
    let fitting = attacker.file("fitting.conf", line.repeat(1_000_000 / line.len()));
    let mut fakes = Vec::new();
    for at in 0..10 {
        let target = if at % 2 == 0 { &large } else { &fitting };
        let data = attacker.postgresql(&format!("data{at}"), "include_dir 'links'\n");
        fs::create_dir(data.join("links")).unwrap();
        for link in 0..490 {
            symlink(target, data.join(format!("links/{link}.conf"))).unwrap();
        }
        fakes.push(require!(Fake::postgres(&attacker, &data, 300, 1)));
    }
    let other = require!(attacker_of(4545));
    let data = other.postgresql("data", "max_connections = 77\n");
    let theirs = require!(Fake::postgres(&other, &data, 300, 1));
    let checked =
        Check::read(&check_within(30, &readers.program(), &["check", "--format", "json"]));
    assert_eq!(checked.instance("postgresql", theirs.pid)["max_sessions"], 77);
    let unread = checked.json["unread"].to_string();
    assert!(
        unread.contains("left out: the files of user 4251's servers take more than"),
        "{unread}"
    );
    assert!(!unread.contains("user 4545"), "{unread}");
    // One user's many lines hide nobody's.
    assert!(checked.json["unread"].as_array().unwrap().len() < 500);
}

#[test]
fn files_that_never_end_are_not_begun() {
    let attacker = require!(attacker_of(4252));
    require!(harness::program(&["/usr/bin/prlimit"]));
    let readers = Readers::new();
    let mut fakes = Vec::new();
    let mut server = |name: &str, make: &dyn Fn(&Path)| -> Result<(), Skip> {
        let data = attacker.postgresql(name, "include_dir 'more'\n");
        let conf = data.join("postgresql.auto.conf");
        make(&conf);
        attacker.user.own(&data);
        fakes.push(Fake::postgres(&attacker, &data, 300, 1)?);
        Ok(())
    };
    let fifo = |path: &Path| {
        harness::must(Command::new("mkfifo").arg(path));
    };
    require!(server("fifo", &fifo));
    require!(server("sparse", &|path| fs::File::create(path).unwrap().set_len(1 << 40).unwrap()));
    require!(server("zero", &|path| symlink("/dev/zero", path).unwrap()));
    require!(server("kernel", &|path| symlink("/proc/kmsg", path).unwrap()));
    require!(server("other", &|path| symlink("/proc/1/root/etc/passwd", path).unwrap()));
    require!(server("self", &|path| symlink("postgresql.auto.conf", path).unwrap()));
    require!(server("chain", &|path| {
        // Each link is a long way round to the next.
        let folder = path.parent().unwrap();
        let around = "more/../".repeat(500);
        for at in 0..39 {
            symlink(format!("{around}link{}", at + 1), folder.join(format!("link{at}"))).unwrap();
        }
        fs::create_dir(folder.join("more")).unwrap();
        symlink("link0", path).unwrap();
    }));
    require!(server("names", &|path| {
        let more = path.parent().unwrap().join("more");
        fs::create_dir(&more).unwrap();
        let script = "cd \"$1\" && seq -f %0200g.conf 100000 | xargs touch";
        harness::must(Command::new("sh").args(["-c", script, "sh"]).arg(more));
    }));
    let arguments = "--port 1 ".repeat(5000);
    let arguments: Vec<&str> = arguments.split_whitespace().collect();
    let _mysql = require!(fake(&attacker, "mysqld", &arguments, attacker.home()));
    let json = Check::read(&check_within(30, &readers.program(), &["check", "--format", "json"]));
    assert!(!json.json.to_string().contains("root:x:0"), "{:#}", json.json["unread"]);
    assert!(
        json.json["unread"].to_string().contains("too many names"),
        "{:#}",
        json.json["unread"]
    );
}

/// Includes that branch at each of their levels.
#[test]
fn files_that_include_each_other_end() {
    let attacker = require!(attacker_of(4253));
    require!(harness::program(&["/usr/bin/prlimit"]));
    let readers = Readers::new();
    let home = attacker.folder("product/19/dbhome");
    let file = home.join("dbs/initFAKE.ora");
    attacker.file(
        "product/19/dbhome/dbs/initFAKE.ora",
        format!("ifile={}\n", file.display()).repeat(40),
    );
    let looks = Looks {
        program: "product/19/dbhome/bin/oracle",
        arguments: &[],
        directory: &home,
        memory: "sysv",
        mapped: 300,
        touched: 1,
    };
    let _oracle = require!(Fake::start_by(&attacker, &looks, |bash| {
        // In place of the name that it would be started by.
        let mut command = attacker.command(bash);
        command.args(["-c", "shift 3; exec -a ora_pmon_FAKE \"$@\"", "bash"]);
        command
    }));
    let checked =
        Check::read(&check_within(60, &readers.program(), &["check", "--format", "json"]));
    assert!(
        checked.json["unread"].to_string().contains("left out"),
        "{:#}",
        checked.json["unread"]
    );
}

/// A server's settings with the files that they are from.
fn settings(check: &Check, engine: &str, pid: u32) -> Value {
    let instance = check.instance(engine, pid);
    let mut kept = serde_json::Map::new();
    for name in [
        "name",
        "version",
        "settings",
        "data_directory",
        "endpoints",
        "max_sessions",
        "asked",
        "setting",
    ] {
        kept.insert(name.into(), instance[name].clone());
    }
    Value::Object(kept)
}

/// Nothing is lost of those who mean well, whoever reads.
#[test]
fn real_servers_are_read_whole_by_root_and_by_the_unit() {
    let cluster = require!(Cluster::debian("postgres"));
    let installed = require!(mariadb::Installed::new());
    let readers = Readers::new();
    let _server = {
        // Debian's way: the configuration is root's, and its group may read it.
        let folder = cluster.folder.path().join("etc");
        fs::create_dir(&folder).unwrap();
        let conf = folder.join("postgresql.conf");
        let socket = cluster.folder.path().display();
        fs::write(
            &conf,
            format!(
                "max_connections = 33\nunix_socket_directories = '{socket}'\nlisten_addresses \
                 = ''\n"
            ),
        )
        .unwrap();
        for (path, mode) in [(&folder, 0o750), (&conf, 0o640)] {
            std::os::unix::fs::chown(path, Some(0), Some(cluster.owner.gid)).unwrap();
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        }
        assert_eq!(fs::metadata(cluster.data()).unwrap().permissions().mode() & 0o777, 0o700);
        let mut command = cluster.command("postgres");
        let option = format!("config_file={}", conf.display());
        let server = cluster.start_as(command.arg("-D").arg(cluster.data()).args(["-c", &option]));
        for command in readers.both() {
            let checked = check(command);
            let read = settings(&checked, "postgresql", server.pid);
            assert_eq!(read["max_sessions"], 33, "{read:#}");
            assert_eq!(text(&read["version"]), "15");
            assert!(read.to_string().contains(&format!("{socket}/.s.PGSQL.5432")), "{read:#}");
            assert!(
                !checked.json["unread"].to_string().contains(&socket.to_string()),
                "{:#}",
                checked.json["unread"]
            );
        }
        server
    };
    let server = installed.start("max_connections=44");
    let user = require!(User::named("mysql"));
    std::os::unix::fs::chown(installed.config(), Some(0), Some(user.gid)).unwrap();
    fs::set_permissions(installed.config(), fs::Permissions::from_mode(0o640)).unwrap();
    for command in readers.both() {
        let checked = check(command);
        let read = settings(&checked, "mariadb", server.pid);
        assert_eq!(read["max_sessions"], 44, "{read:#}");
        let folder = installed.config().parent().unwrap().display().to_string();
        assert!(
            !checked.json["unread"].to_string().contains(&folder),
            "{:#}",
            checked.json["unread"]
        );
    }
}
