//! Whatever a user can put a secret into, a capture of the host does not hold it, and says of its
//! servers what the host said.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use hugewise_testkit::{Skip, require};
use serde_json::{Value, json};

use super::reading::attacker_of;
use super::{Attacker, Fake, Looks};
use crate::real::harness;
use crate::real::namespace;

/// Each secret is this with a word of its own behind it.
const SECRET: &str = "hunter2Xyzzy";

/// A process of the attacker's, killed when dropped.
struct Started(Child);

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Everything that a capture at both its forms holds, unpacked; and the archive, to be checked.
fn captured(folder: &Path) -> (String, String) {
    let (archive, plain) = (folder.join("host.tar.gz"), folder.join("plain"));
    for target in [&archive, &plain] {
        harness::must(Command::new(harness::HUGEWISE).args(["capture", "-o"]).arg(target));
    }
    let unpacked = harness::must(
        Command::new("sh").args(["-c", "gzip -dc \"$1\" | strings -n 4", "sh"]).arg(&archive),
    );
    let script = "find \"$1\"; find \"$1\" -type l -printf '%l\\n'; find \"$1\" -type f -exec \
         strings -n 4 -f {} +";
    let files = harness::must(Command::new("sh").args(["-c", script, "sh"]).arg(&plain));
    (unpacked + &files, archive.display().to_string())
}

#[track_caller]
fn assert_clean(held: &str) {
    let lines: Vec<&str> = held.lines().filter(|line| line.contains(SECRET)).collect();
    assert!(lines.is_empty(), "{}", lines.join("\n"));
}

/// What the report says of instances: the same of the host and of its capture.
fn verdicts(check: &Value) -> Value {
    let pick = |list: &str, fields: &[&str]| -> Vec<Value> {
        let items = check[list].as_array().unwrap();
        items.iter().map(|item| fields.iter().map(|field| item[field].clone()).collect()).collect()
    };
    let states = |instance: &Value| -> Vec<Value> {
        let links = instance["chain"].as_array().cloned().unwrap_or_default();
        links.iter().map(|link| json!([link["link"], link["state"]])).collect()
    };
    json!({
        "chains": check["instances"].as_array().unwrap().iter().map(states).collect::<Vec<_>>(),
        "findings": pick("findings", &["code", "name", "level", "instance"]),
        "instances": pick("instances", &["engine", "name", "pid", "version", "sessions", "huge_pages", "max_sessions"]),
    })
}

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

/// Puts `@` for the secret, so that each place has a word of its own.
fn planted(text: &str) -> String {
    text.replace('@', SECRET)
}

#[test]
fn no_secret_of_a_servers_own_words_gets_in() {
    let attacker = require!(attacker_of(4280));
    require!(harness::program(&["/usr/bin/strings"]));
    let mut fakes = Vec::new();

    // PostgreSQL: malformed and trailing words, comments, values of other kinds, lock and version.
    for (at, conf) in [
        "port = 5999 '@Port'\n",
        "huge_pages = @Pages\nshared_buffers = '@Buffers'\nmax_connections = 12@Connections\n",
        "cluster_name = 'main;password=@Name'\n",
        "shared_preload_libraries = 'x password=@Library'\n",
        "unix_socket_directories = '/run/x;password=@Socket'\n",
        "include_if_exists 'none.conf;@Include'\ninclude_if_exists 'a.conf' # @Behind\n",
        "huge_pages = 'on' @Trailing\n",
        "huge_pages = 'on @Open\n",
        "# @Comment\nhuge_pages = on # @Comment\nprimary_conninfo = 'password=@Info'\n",
    ]
    .into_iter()
    .enumerate()
    {
        let data = attacker.postgresql(&format!("data{at}"), &planted(conf));
        if at == 1 {
            attacker.file(
                "data1/postmaster.pid",
                planted("1\n/@Data\n@Start\n5432\n/tmp@x;@Socket\n@Listen\n@Key\n@Status\n"),
            );
            attacker.file("data1/PG_VERSION", planted("15 @Version\n"));
        }
        fakes.push(require!(Fake::postgres(&attacker, &data, 300, 1)));
    }
    let data = attacker.postgresql("titled", "");
    let option = planted("primary_conninfo=password=@Option");
    let words = [
        "-D",
        data.to_str().unwrap(),
        "-c",
        &option,
        &planted("--huge-pages=@Long"),
        "-p",
        &planted("@Letter"),
    ];
    fakes.push(require!(fake(&attacker, "postgres", &words, &data)));

    // MySQL.
    let cnf = "[mysqld]\nsocket=/run/x;password=@Socket\nport=3306 \
         @Port\nlarge_pages=@Pages\nlog_error=/x @Log\n\
               user=u;@User\n[@Group;x]\nport=1\n";
    let cnf = attacker.file("my.cnf", planted(cnf));
    let data = attacker.folder("mysql-data");
    attacker.file(&planted("mysql-data/@Database/x"), "");
    attacker.file(
        "mysql-data/mysqld-auto.cnf",
        planted(r#"{"a": {"port": {"Value": "@Json", "Metadata": "@Meta"}}}"#),
    );
    attacker.file("mysql-data/mysql_upgrade_info", planted("10.@Upgrade;x\n@More\n"));
    attacker.file(&planted("mysql-data/debian-@Flag.flag"), "");
    let words = [
        format!("--defaults-file={}", cnf.display()),
        planted("--password=@Option"),
        planted("--port=@OptionPort"),
    ];
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    fakes.push(require!(fake(&attacker, "mysqld", &words, &data)));

    // Redis and MongoDB.
    let conf =
        "port 6379 @Behind\nrequirepass @Pass\nmaxmemory @Memory\nunixsocket /run/x;@Socket\n";
    let conf = attacker.file("redis.conf", planted(conf));
    fakes.push(require!(fake(
        &attacker,
        "redis-server",
        &[conf.to_str().unwrap()],
        attacker.home()
    )));
    let yaml = "@Block:\n  x: 1\nstorage:\n  dbPath: /x;@Path\n  @Inner:\n    a: b\nnet:\n  port: \
         27017 @Port\n";
    let conf = attacker.file("mongod.conf", planted(yaml));
    let words = [
        "--config",
        conf.to_str().unwrap(),
        &planted("--port=@Option"),
        "--dbpath",
        &planted("/x;@Option"),
    ];
    fakes.push(require!(fake(&attacker, "mongod", &words, attacker.home())));

    // Java: its words, an argument file, what it says of itself.
    let file = attacker.file(
        "jvm.options",
        planted("-Xmx@File\n-Dx=@Property\n# @Comment\n-XX:MaxHeapSize=1@Size\n"),
    );
    let words = [
        "-XX:+UseLargePages".to_owned(),
        planted("-XX:+UseLargePages@Flag"),
        planted("-Xms@Heap"),
        planted("-Dpassword=@Word"),
        format!("@{}", file.display()),
        "a.Main".to_owned(),
        planted("@Argument"),
    ];
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    fakes.push(require!(fake(&attacker, "java", &words, attacker.home())));

    // QEMU: guest name, objects, memory.
    let words = [
        "-name",
        &planted("guest=vm password=@Name,debug=@Debug"),
        "-m",
        &planted("size=1G,slots=@Slots"),
        "-object",
        &planted("memory-backend-memfd,id=@Id,size=1G,hugetlb=on,x=@Property"),
        "-object",
        &planted("secret,id=x,data=@Data"),
        &planted("@Drive"),
    ];
    fakes.push(require!(fake(&attacker, "qemu-system-x86_64", &words, attacker.home())));

    // Oracle.
    let home = attacker.folder("product/19/dbhome");
    let ora = "*.sga_target=1G # \
         @Comment\n*.processes=@Processes\n@Sid;.sga_max_size=1G\nuse_large_pages='@Large'\n";
    attacker.file("product/19/dbhome/dbs/initFAKE.ora", planted(ora));
    let looks = Looks {
        program: "product/19/dbhome/bin/oracle",
        arguments: &[&planted("@Argument")],
        directory: &home,
        memory: "sysv",
        mapped: 300,
        touched: 1,
    };
    fakes.push(require!(Fake::start_by(&attacker, &looks, |bash| {
        // In place of the name that it would be started by.
        let mut command = attacker.command(bash);
        command.args(["-c", "shift 3; exec -a ora_pmon_FAKE \"$@\"", "bash"]);
        command
    })));

    let live = harness::check();
    let folder = harness::folder();
    let (held, archive) = captured(folder.path());
    assert_clean(&held);
    let again = harness::check_with(&["--root", &archive]);
    for fake in &fakes {
        let jsons_of = |check: &harness::Check| {
            let mut all = verdicts(&check.json)["instances"].as_array().unwrap().clone();
            all.retain(|instance| instance[2] == fake.pid);
            assert_eq!(all.len(), 1, "{}", fake.pid);
            all
        };
        assert_eq!(jsons_of(&again), jsons_of(&live));
    }
}

#[test]
fn no_secret_of_other_processes_gets_in() {
    let attacker = require!(attacker_of(4281));
    require!(harness::program(&["/usr/bin/strings"]));
    let name = |word: &str| planted(&format!("@{word}"));
    // A name of 15 bytes, a folder, an argument, a title, a mapped file, and a cgroup where one can
    // be made.
    let program = require!(attacker.program(&SECRET[..SECRET.len().min(15)]));
    let folder = attacker.folder(&name("Folder"));
    let mut command = attacker.command(&program);
    command.args([name("Argument"), format!("--password={}", name("Option"))]).current_dir(&folder);
    command
        .env("MEMORY", "anon")
        .env("MAPPED", "1")
        .env("TOUCHED", "0")
        .env("PGPASSWORD", name("Environment"));
    let _named = Started(command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap());
    let mut titled = attacker.command("bash");
    titled.args(["-c", &format!("exec -a '{}' sleep 600", name("Title"))]);
    let _titled = Started(titled.stdout(Stdio::null()).spawn().unwrap());
    let mapped = attacker.file(&name("Mapped"), vec![0; 1 << 20]);
    let script = "import mmap,os,sys,time\n\
                  f=os.open(sys.argv[1],os.O_RDWR)\n\
                  m=mmap.mmap(f,1<<20)\n\
                  g=os.memfd_create(sys.argv[2])\n\
                  os.ftruncate(g,1<<20)\n\
                  n=mmap.mmap(g,1<<20)\n\
                  print('ready',flush=True)\n\
                  time.sleep(600)\n";
    let python =
        ["/usr/bin/python3", "/usr/local/bin/python3"].iter().find(|path| Path::new(path).exists());
    let _mapping = python.map(|python| {
        let mut command = attacker.command(python);
        command.args(["-c", script]).arg(&mapped).arg(name("Memfd")).stdout(Stdio::piped());
        let mut child = Started(command.spawn().unwrap());
        let mut line = String::new();
        let output = child.0.stdout.take().unwrap();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(output), &mut line).unwrap();
        child
    });
    let made = |mount: &str| {
        let cgroup = Path::new(mount).join(name("Cgroup"));
        fs::create_dir(&cgroup).ok()?;
        let real = cgroup.join("cgroup.procs").exists();
        real.then_some(()).or_else(|| fs::remove_dir(&cgroup).ok().and(None))?;
        Some(cgroup)
    };
    let cgroup = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/pids"]
        .into_iter()
        .find_map(made);
    let member = cgroup.as_ref().map(|cgroup| {
        let child = Started(attacker.command("sleep").arg("600").spawn().unwrap());
        let _ = fs::write(cgroup.join("cgroup.procs"), child.0.id().to_string());
        child
    });
    harness::wait_for("sleeping", || {
        let all = harness::kernel::processes(|command| command.contains(&name("Title")));
        (!all.is_empty()).then_some(())
    });
    let scratch = harness::folder();
    let (held, _) = captured(scratch.path());
    drop(member);
    if let Some(cgroup) = cgroup {
        harness::wait_for("its cgroup is empty", || fs::remove_dir(&cgroup).ok());
    }
    assert_clean(&held);
}

/// Files that root writes, where a secret stands behind or in place of a value.
#[test]
fn no_secret_of_the_hosts_own_files_gets_in() {
    const NAME: &str = "attacks::captures::no_secret_of_the_hosts_own_files_gets_in";
    if !require!(namespace::inside(NAME)) {
        return;
    }
    for (path, text) in [
        (
            "/etc/sysctl.d/50-x.conf",
            "vm.nr_hugepages = 0 ; @Semicolon\nvm.swappiness = @Value # @Comment\n",
        ),
        ("/etc/sysctl.conf", "vm.@Key = 1\nkernel.shmmax = 1 @Behind\n"),
        (
            "/etc/security/limits.d/x.conf",
            "* soft memlock unlimited @Behind\n* hard memlock @Value\n@Who - memlock 5 @x\n",
        ),
        (
            "/etc/tmpfiles.d/x.conf",
            "w /sys/kernel/mm/transparent_hugepage/enabled - - - - never ; @Behind\n",
        ),
        (
            "/etc/systemd/system.conf",
            "[Manager]\nDefaultLimitMEMLOCK=1;@Behind\nDefaultEnvironment=A=@Value\n",
        ),
        (
            "/etc/default/grub",
            "GRUB_CMDLINE_LINUX=\"hugepages=1 key=@Word\" # @Comment\nGRUB_DEFAULT=0 # @Default\n",
        ),
        ("/etc/os-release", "PRETTY_NAME=\"Debian\"\nSECRET=\"@Os\"\n"),
        ("/etc/passwd", "root:x:0:0:@Gecos:/root:/bin/sh\n@User:x:7777:7777::/:/bin/sh\n"),
        ("/etc/group", "root:x:0:@Member\n@Group:x:7777:\n"),
        (
            "/var/log/kern.log",
            "Out of memory: Killed process 1 (@Comm)\nhuge @Log\nHugeTLB: @Log\n",
        ),
    ] {
        fs::create_dir_all(Path::new(path).parent().unwrap()).unwrap();
        let _ = fs::remove_file(path);
        // In /etc/security the sign stands for a group.
        fs::write(path, planted(text)).unwrap();
    }
    let folder = harness::folder();
    let (held, _) = captured(folder.path());
    assert_clean(&held);
}
