//! Values as the servers themselves read them: each form is given to the real server and to the
//! reader, side by side.

use std::fmt::Write as _;
use std::process::Command;
use std::sync::Arc;

use hugewise_engines::jvm::flags::Flags;
use hugewise_engines::mysql::cnf;
use hugewise_engines::postgresql::conf;
use hugewise_host::source::MapSource;
use hugewise_model::instance::Startup;
use hugewise_model::{Host, HugePageMode, Instance, Observed, PageSize, Process};
use hugewise_testkit::require;

use crate::real::harness;
use crate::real::postgresql::Cluster;

/// What comes of a form: a value, or no start.
type Outcome = Result<String, ()>;

/// Fails with all forms of which the reader says something else than the server.
#[track_caller]
fn assert_agree(forms: impl IntoIterator<Item = (String, Outcome, Outcome)>) {
    let (mut differ, mut count) = (String::new(), 0);
    for (form, real, read) in forms {
        count += 1;
        if real != read {
            writeln!(differ, "{form:?}: the server {real:?}, the reader {read:?}").unwrap();
        }
    }
    assert!(count >= 60, "{count}");
    assert!(differ.is_empty(), "\n{differ}");
}

/// The instance that a process with these files is.
fn instance(program: &str, command: &[&str], folder: &str, files: &[(String, String)]) -> Instance {
    let main = Process {
        pid: 50,
        name: program.into(),
        command: Observed::Known(command.iter().map(|word| (*word).to_owned()).collect()),
        executable: Observed::Known(format!("/usr/sbin/{program}")),
        directory: Observed::Known(folder.into()),
        mappings: Observed::Known(Vec::new()),
        ..Process::default()
    };
    let host = Host {
        base_page: Observed::Known(PageSize::KIB_4),
        default_huge_page: Observed::Known(PageSize::MIB_2),
        processes: Observed::Known(vec![Arc::new(main)]),
        ..Host::default()
    };
    let source = files
        .iter()
        .fold(MapSource::new(), |source, (path, text)| source.with_file(path, text.as_str()));
    let mut found = hugewise_engines::find_instances(&host, &source).instances;
    assert_eq!(found.len(), 1, "{command:?}");
    found.remove(0)
}

fn refuses(instance: &Instance) -> bool {
    matches!(instance.startup, Some(Startup::Refuses(_)))
}

/// Amounts, in the place of `V`.
const MARIADB_AMOUNTS: [&str; 34] = [
    "2GB",
    "2Gb",
    "2gib",
    "2G4",
    "2 G",
    "\" 2G\"",
    "2K",
    "2T",
    "1P",
    "1E",
    "2E",
    "16E",
    "1.5G",
    ".5G",
    "-1",
    "-5M",
    "+5M",
    "0x40000000",
    "0",
    "",
    "abc",
    "1k",
    "010M",
    "20000000000000000000",
    "99999999999999999999G",
    "5242880",
    "2B",
    "2x",
    "2,000,000",
    "1e9",
    "'2G'",
    "2G # c",
    "2G;c",
    "2m",
];

/// Lines that decide on large_pages.
const MARIADB_SWITCHES: [&str; 48] = [
    "large-pages=on",
    "large-pages=ON",
    "large-pages=1",
    "large-pages=TRUE",
    "large-pages=yes",
    "large-pages=y",
    "large-pages=t",
    "large-pages=2",
    "large-pages=off",
    "large-pages=0",
    "large-pages=no",
    "large-pages=",
    "large-pages=maybe",
    "large-pages=\"on\"",
    "large-pages= on # x",
    "large-pages=-1",
    "large-pages=01",
    "large-pages=on;",
    "large-pages",
    "large_pages",
    "large-page",
    "large-p",
    "large-",
    "lar",
    "large-p=1",
    "skip-large-pages",
    "skip_large-pages",
    "skip-large-pages=0",
    "skip-large-pages=1",
    "skip-large-pages=off",
    "disable-large-pages",
    "disable-large-pages=0",
    "enable-large-pages",
    "enable-large-pages=0",
    "enable-large-pages=off",
    "skip-large-p",
    "loose-large-pages",
    "loose-skip-large-pages",
    "loose-large-p",
    "skip-loose-large-pages",
    "Skip-Large-Pages",
    "[mysqld\nlarge-pages",
    "autoset-large-pages",
    "maximum-large-pages",
    "large-pages on",
    "--large-pages",
    "large-pages=on\nskip-large-pages",
    "skip-large-pages\nlarge_pages=1",
];

#[test]
fn of_mariadb_are_what_it_makes_of_them() {
    let program = require!(harness::program(&["/usr/sbin/mariadbd"]));
    let folder = harness::folder();
    let file = folder.path().join("my.cnf");
    let real = |lines: &str, name: &str| -> Outcome {
        std::fs::write(&file, format!("[mariadbd]\n{lines}\n")).unwrap();
        let output = Command::new(&program)
            .arg(format!("--defaults-file={}", file.display()))
            .args(["--verbose", "--help"])
            .output()
            .unwrap();
        if String::from_utf8_lossy(&output.stderr).contains("[ERROR]") {
            return Err(());
        }
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name} ")));
        line.map(|value| value.trim().to_owned()).ok_or(())
    };
    let read = |lines: &str| {
        let files = [
            ("/f.cnf".to_owned(), format!("[mariadbd]\n{lines}\n")),
            ("/data/mysql_upgrade_info".to_owned(), "10.11.19-MariaDB\n".to_owned()),
        ];
        instance("mariadbd", &["/usr/sbin/mariadbd", "--defaults-file=/f.cnf"], "/data", &files)
    };
    let amounts = MARIADB_AMOUNTS.iter().map(|value| format!("innodb_buffer_pool_size={value}"));
    let more = [
        "innodb-buffer-pool-siz=2G",
        "innodb-buffer-pool-size",
        "INNODB-Buffer-Pool-Size=2G",
        "maximum-innodb-buffer-pool-size=2G",
        "loose-innodb-buffer-pool-size=2G",
        "innodb-buffer-pool-size=1G\ninnodb_buffer_pool_size=3G",
    ];
    let amounts = amounts.chain(more.map(str::to_owned)).map(|lines| {
        let real = real(&lines, "innodb-buffer-pool-size");
        let instance = read(&lines);
        let bytes = instance.setting_value("innodb_buffer_pool_size").and_then(cnf::parse_bytes);
        // Less than it takes is adjusted, with a warning.
        let read = bytes
            .filter(|_| !refuses(&instance))
            .map(|bytes| bytes.max(2 << 20).to_string())
            .ok_or(());
        (lines, real, read)
    });
    let switches = MARIADB_SWITCHES.iter().map(|lines| {
        let instance = read(lines);
        let asked = if instance.asked == HugePageMode::Try { "TRUE" } else { "FALSE" };
        let read = if refuses(&instance) { Err(()) } else { Ok(asked.to_owned()) };
        ((*lines).to_owned(), real(lines, "large-pages"), read)
    });
    assert_agree(amounts.chain(switches));
}

/// Values of shared_buffers.
const BUFFERS: [&str; 45] = [
    "4g",
    "1g",
    "'1 GB'",
    "1GB",
    "1.5GB",
    "'1.5GB'",
    "100kB",
    "128kB",
    "127kB",
    "0",
    "-1",
    "15",
    "16",
    "1e5",
    "'1e5'",
    "1e5kB",
    "0x100",
    "0x100kB",
    "0x10.8",
    "0100",
    "' 4 MB '",
    "'4 mb'",
    "4Mb",
    "4B",
    "4TB",
    "8TB",
    "16TB",
    "''",
    "abc",
    "'16384 '",
    "1.5",
    "16.4",
    "16.6",
    "'16 .5'",
    ".5GB",
    "5.GB",
    "'+64'",
    "'0x1p10'",
    "infinity",
    "1_000",
    "2147483648",
    "1073741823",
    "08000",
    "131072B",
    "64us",
];

/// Lines of a configuration file, and the setting that is asked for.
const LINES: [(&str, &str); 53] = [
    ("huge_pages = on", "huge_pages"),
    ("huge_pages = ON", "huge_pages"),
    ("huge_pages = t", "huge_pages"),
    ("huge_pages = true", "huge_pages"),
    ("huge_pages = yes", "huge_pages"),
    ("huge_pages = 1", "huge_pages"),
    ("huge_pages = 0", "huge_pages"),
    ("huge_pages = no", "huge_pages"),
    ("huge_pages = Try", "huge_pages"),
    ("huge_pages = ' on'", "huge_pages"),
    ("huge_pages = 'on '", "huge_pages"),
    ("huge_pages = 01", "huge_pages"),
    ("shared_memory_type = MMAP", "huge_pages"),
    ("shared_memory_type = posix", "huge_pages"),
    ("huge_page_size = -1", "huge_pages"),
    ("huge_page_size = 4TB", "huge_pages"),
    ("max_connections = 0", "huge_pages"),
    ("max_connections = 262143", "huge_pages"),
    ("max_connections = 100kB", "huge_pages"),
    ("max_connections = ten", "huge_pages"),
    ("wal_buffers = -2", "huge_pages"),
    ("wal_buffers = 2GB", "huge_pages"),
    ("wal_buffers = 16MB", "huge_pages"),
    ("shared_buffer = 2GB", "huge_pages"),
    ("Shared_Buffers = 1GB", "shared_buffers"),
    ("a.b = 1", "huge_pages"),
    ("a.b.c = 1", "huge_pages"),
    ("sort_mem = 4096", "huge_pages"),
    ("block_size = 8192", "huge_pages"),
    ("shared_buffers = 4g\nshared_buffers = 1GB", "shared_buffers"),
    ("port 5433", "huge_pages"),
    ("port'5433'", "huge_pages"),
    ("port = 5433 x", "huge_pages"),
    ("port=", "huge_pages"),
    ("port", "huge_pages"),
    ("= 1", "huge_pages"),
    ("port == 1", "huge_pages"),
    ("unix_socket_directories = /tmp", "huge_pages"),
    ("log_directory = pg_log/x-y:z.w", "huge_pages"),
    ("9port=1", "huge_pages"),
    ("port=5433#c", "huge_pages"),
    ("port=5433;", "huge_pages"),
    ("'port'=5433", "huge_pages"),
    ("port = \"5433\"", "huge_pages"),
    ("work_mem = 4g", "huge_pages"),
    ("log_min_messages = loud", "huge_pages"),
    ("log_min_messages = debug", "huge_pages"),
    ("fsync = of", "huge_pages"),
    ("fsync = o", "huge_pages"),
    ("checkpoint_timeout = 5", "huge_pages"),
    ("checkpoint_timeout = 5min", "huge_pages"),
    ("temp_buffers = 99", "huge_pages"),
    ("include_if_exists = nosuch.conf", "huge_pages"),
];

#[test]
fn of_postgresql_are_what_it_makes_of_them() {
    let cluster = require!(Cluster::debian("postgres"));
    let file = cluster.data().join("forms.conf");
    let real = |lines: &str, name: &str| -> Outcome {
        std::fs::write(&file, format!("{lines}\n")).unwrap();
        let mut command = cluster.command("postgres");
        command
            .arg("-D")
            .arg(cluster.data())
            .arg("-c")
            .arg(format!("config_file={}", file.display()));
        let output = command.args(["-C", name]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        output.status.success().then_some(said).ok_or(())
    };
    let read = |lines: &str, name: &str| -> Outcome {
        let files = [
            ("/data/PG_VERSION".to_owned(), "15\n".to_owned()),
            ("/data/postgresql.conf".to_owned(), format!("{lines}\n")),
        ];
        let instance = instance(
            "postgres",
            &["/usr/lib/postgresql/15/bin/postgres", "-D", "/data"],
            "/data",
            &files,
        );
        if refuses(&instance) {
            return Err(());
        }
        Ok(match (name, instance.asked) {
            ("shared_buffers", _) => {
                let text = instance.setting_value("shared_buffers").unwrap_or_default();
                conf::parse_memory(text, 8192)
                    .map_or_else(|| format!("? {text}"), |bytes| (bytes / 8192).to_string())
            }
            (_, HugePageMode::Must) => "on".into(),
            (_, HugePageMode::Try) => "try".into(),
            (_, HugePageMode::No) => "off".into(),
            (_, other) => format!("{other:?}"),
        })
    };
    let buffers =
        BUFFERS.iter().map(|value| (format!("shared_buffers = {value}"), "shared_buffers"));
    let lines = LINES.iter().map(|(lines, name)| ((*lines).to_owned(), *name));
    assert_agree(buffers.chain(lines).map(|(lines, name)| {
        let (real, read) = (real(&lines, name), read(&lines, name));
        (lines, real, read)
    }));
}

/// Amounts of memory; those that no machine has are not among them.
const HEAPS: [&str; 34] = [
    "0x40000000",
    "0X40000000",
    "0x400m",
    "1g",
    "1G",
    "1gb",
    "1073741824",
    "01g",
    "010m",
    "+1g",
    "-1g",
    "1.5g",
    "",
    "g",
    "0",
    "64m",
    "64M",
    "65536k",
    "65536K",
    "1t",
    "1T",
    "0x1t",
    "0x",
    "0xg",
    "99999999999999999999",
    "1e9",
    "1kk",
    "1m1",
    "m64",
    " 64m",
    "64 m",
    "0x4000000",
    "0x100m",
    "64mb",
];

#[test]
fn of_java_are_what_it_makes_of_them() {
    let program = require!(harness::program(&["/usr/lib/jvm/java-17-openjdk-amd64/bin/java"]));
    let folder = harness::folder();
    let (options, flags) = (folder.path().join("options"), folder.path().join("flags"));
    std::fs::write(&options, "-Xmx96m\n\"-Xms32m\"\n").unwrap();
    std::fs::write(&flags, "# first\nMaxHeapSize=112m -UseTransparentHugePages\n").unwrap();
    let real = |words: &[String], name: &str| -> Outcome {
        let plain = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:+PrintFlagsFinal"];
        let output =
            Command::new(&program).args(words).args(plain).arg("-version").output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let value = text.lines().find_map(|line| {
            let mut words = line.split_whitespace();
            (words.nth(1) == Some(name) && words.next() == Some("="))
                .then(|| words.next().unwrap_or_default().to_owned())
        });
        value.filter(|_| output.status.success()).ok_or(())
    };
    let read = |words: &[String]| -> Outcome {
        let flags = Flags::read(words.iter().map(String::as_str));
        let size = flags.size_value("MaxHeapSize").filter(|_| flags.find_unclear_flag().is_none());
        size.map(|size| size.get().to_string()).ok_or(())
    };
    let heaps =
        HEAPS.iter().flat_map(|value| [format!("-Xmx{value}"), format!("-XX:MaxHeapSize={value}")]);
    let forms = heaps.map(|word| {
        let words = [word.clone()];
        (word, real(&words, "MaxHeapSize"), read(&words))
    });
    // What stands in files: the last word counts, but what stands in the file of flags comes before
    // all others.
    let (options, flags) = (
        format!("-XX:VMOptionsFile={}", options.display()),
        format!("-XX:Flags={}", flags.display()),
    );
    let text = |path: &str| std::fs::read_to_string(path.split_once('=').unwrap().1).unwrap();
    let files = [(options.clone(), text(&options)), (flags.clone(), text(&flags))];
    let in_files = [
        vec![options.clone()],
        vec!["-Xmx128m".to_owned(), options.clone()],
        vec![options.clone(), "-Xmx128m".to_owned()],
        vec![flags.clone()],
        vec!["-Xmx128m".to_owned(), flags.clone()],
        vec![options, flags],
    ];
    let in_files = in_files.into_iter().map(|words| {
        let own = files
            .iter()
            .map(|(word, text)| (word.split_once('=').unwrap().1.to_owned(), text.clone()));
        let command: Vec<&str> =
            ["java"].into_iter().chain(words.iter().map(String::as_str)).collect();
        let command = [&command[..], &["-XX:+UseLargePages", "Main"]].concat();
        let instance = instance("java", &command, "/", &own.collect::<Vec<_>>());
        let given = instance.setting_value("maxheapsize").unwrap_or_default().to_owned();
        let given =
            Flags::read([format!("-Xmx{given}").as_str()].into_iter()).size_value("MaxHeapSize");
        (
            words.join(" "),
            real(&words, "MaxHeapSize"),
            given.map(|size| size.get().to_string()).ok_or(()),
        )
    });
    assert_agree(forms.chain(in_files));
}
