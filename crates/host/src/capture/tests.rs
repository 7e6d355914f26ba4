//! A capture answers as its host did, and holds none of its secrets.
#![allow(clippy::disallowed_methods)] // The written capture is looked at, not the machine.

use std::io::Read;

use hugewise_model::{Bytes, PageSize};

use super::*;
use hugewise_source::{LiveSource, MachineFacts, MapSource, Owner, Source, open_source};

const SECRETS: [&str; 12] = [
    "S3cretShort",
    "S3cretLong",
    "S3cretUrl",
    "S3cretEnv",
    "S3cretMy",
    "S3cretRedis",
    "S3cretKernel",
    "S3cretTitle",
    "S3cretGecos",
    "S3cretComment",
    "S3cretMount",
    "S3cretGrub",
];

static FORMS: Forms = Forms {
    title: Some(|title| {
        title.starts_with("postgres: ").then(|| "postgres: session - [local] idle".to_owned())
    }),
    rewrite: Some(|path, bytes| path.starts_with("/tmp/hsperf").then(|| bytes[..2].to_vec())),
    ..Forms::NONE
};

fn keeps() -> Keeps {
    Keeps {
        hidden: None,
        programs: vec![
            "postgres",
            "mysqld",
            "mariadbd",
            "java",
            "redis-server",
            "oracle",
            "mongod",
            "qemu-system-*",
        ],
        mappings: vec!["/memfd:java_heap", "/dev/shm/ora_", "/dev/shm/PostgreSQL."],
        options: vec!["-D", "--datadir", "--defaults-file", "--port"],
        settings: vec![
            "huge_pages",
            "large_pages",
            "innodb_buffer_pool_size",
            "port",
            "maxmemory",
            "data_directory",
        ],
        forms: vec![&FORMS],
        shape: Some(|name| {
            if name.ends_with("dir") { shape::ValueShape::Path } else { shape::ValueShape::Plain }
        }),
        writers: BTreeSet::new(),
        lines: BTreeMap::new(),
        starts: BTreeMap::new(),
        servers: CapturedServers {
            processes: BTreeSet::from([7, 8]),
            folders: BTreeSet::from([7]),
            users: BTreeSet::from([5]),
            cgroups: BTreeSet::from(["/a.service".to_owned()]),
            ..CapturedServers::default()
        },
    }
}

fn status(name: &str) -> String {
    format!(
        "Name:\t{name}\nPPid:\t1\nUid:\t5\t5\t5\t5\nGid:\t5\t5\t5\t5\nVmSize:\t9 kB\nThreads:\t1\n"
    )
}

fn host() -> MapSource {
    let maps = "7f0000000000-7f0040000000 rw-s 00000000 00:01 7 /SYSV00000000 (deleted)\n";
    MapSource::new()
        .with_machine(MachineFacts {
            live: true,
            base_page: Observed::Known(PageSize::new(65536).unwrap()),
            read_at: Observed::Known(1_700_000_000),
            read_as: Observed::Known(0),
            own_root: Observed::Known(true),
            hidden: None,
            architecture: Observed::Known("aarch64".into()),
            tlb: Observed::Known(vec![hugewise_model::host::TlbLevel {
                level: 2,
                holds: hugewise_model::host::TlbHolds::Both,
                page_size: PageSize::MIB_2,
                entries: 1536,
            }]),
        })
        .with_file("/proc/meminfo", "MemTotal: 100 kB\n")
        .with_file("/proc/cmdline", "BOOT_IMAGE=/x root=/dev/sda hugepages=8 token=S3cretKernel\n")
        .with_file("/proc/mounts", "hugetlbfs /dev/hugepages hugetlbfs rw 0 0\n//h/s /mnt cifs \
             rw,password=S3cretMount 0 0\n")
        .with_file("/proc/7/status", status("mariadbd"))
        .with_file("/proc/7/cmdline", "/usr/sbin/mariadbd\0--datadir=/data\0-pS3cretShort\0--password\0S3cretLong\0--port\0u://a:S3cretUrl@h\0")
        .with_file("/proc/7/environ", "PGPASSWORD=S3cretEnv\0")
        .with_file("/proc/7/maps", maps)
        .with_file("/proc/7/limits", "Max locked memory 65536 65536 bytes\n")
        .with_file("/proc/7/cgroup", "0::/a.service\n")
        .with_link("/proc/7/exe", "/usr/sbin/mariadbd")
        .with_link("/proc/7/ns/mnt", "mnt:[4026531841]")
        .with_denied("/proc/7/cwd")
        .page_size(7, 0x7f00_0000_0000, PageSize::MIB_2)
        .with_file("/proc/8/status", status("postgres"))
        .with_file("/proc/8/cmdline", "postgres: bob S3cretTitle [local] idle\0\0\0")
        .with_denied("/proc/8/maps")
        .with_file("/etc/passwd", "mysql:x:5:5:S3cretGecos:/home:/bin/sh\n")
        .with_file("/etc/shadow", "mysql:S3cretGecos:1::::::\n")
        .with_file("/etc/sysctl.d/10-a.conf", "# S3cretComment\nvm.nr_hugepages = \
             7\nkernel.domainname = S3cretComment\n")
        .with_link("/etc/sysctl.d/99-sysctl.conf", "../sysctl.conf")
        .with_file("/etc/sysctl.conf", "vm.nr_hugepages=9\n")
        .with_file(
            "/etc/systemd/system/a.service",
            "[Service]\nEnvironment=A=S3cretEnv \\\n  B=S3cretEnv\nPassEnvironment=S3cretEnv\nSetCredential=x:S3cretEnv\n\
             ExecStart=/usr/sbin/mariadbd \
                 --datadir=/data \\\n  --password=S3cretLong\nLimitMEMLOCK=infinity\n",
        )
        .with_file(
            "/etc/mysql/my.cnf",
            "[client]\npassword=S3cretMy\n[mysqld]\nlarge_pages=1 # S3cretComment\n!includedir \
                 /etc/mysql/conf.d/\n",
        )
        .with_file("/etc/redis/redis.conf", "requirepass S3cretRedis\nmaxmemory 1gb\nuser x on \
             >S3cretRedis\n")
        .with_file("/etc/default/grub", "GRUB_CMDLINE_LINUX=\"hugepages=4 \
             luks.key=S3cretGrub\"\nGRUB_X=S3cretGrub\n")
        .with_file("/boot/grub/grub.cfg", "password_pbkdf2 root S3cretGrub\nmenuentry 'A' \
             {\n  linux /vmlinuz k=S3cretGrub hugepages=4\n}\n")
        .with_file("/proc/7/root/tmp/hsperfdata_a/1", "okS3cretMy\0")
        .with_file("/opt/app/binary", b"\0\x01S3cretMy")
}

/// Asks everything that a check would.
fn ask(source: &dyn Source) -> Vec<String> {
    let mut answers = Vec::new();
    for path in [
        "/proc/meminfo",
        "/proc/cmdline",
        "/proc/mounts",
        "/proc/7/status",
        "/proc/7/cmdline",
        "/proc/7/environ",
        "/proc/7/maps",
        "/proc/8/cmdline",
        "/proc/8/maps",
        "/etc/passwd",
        "/etc/shadow",
        "/etc/sysctl.d/10-a.conf",
        "/etc/sysctl.conf",
        "/etc/systemd/system/a.service",
        "/etc/mysql/my.cnf",
        "/etc/redis/redis.conf",
        "/etc/default/grub",
        "/boot/grub/grub.cfg",
        "/proc/7/root/tmp/hsperfdata_a/1",
        "/opt/app/binary",
        "/nothing",
        "/etc/mysql/../mysql/my.cnf",
        "/proc/7/limits",
        "/proc/7/cgroup",
    ] {
        answers.push(format!(
            "{path} {:?}",
            source.read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        ));
    }
    for folder in ["/proc", "/etc/sysctl.d", "/etc", "/nothing", "/proc/../etc"] {
        answers.push(format!("{folder} {:?}", source.list_folder(folder)));
    }
    for link in [
        "/proc/7/exe",
        "/proc/7/cwd",
        "/proc/7/ns/mnt",
        "/etc/sysctl.d/99-sysctl.conf",
        "/etc/sysctl.conf",
        "/nothing",
    ] {
        answers.push(format!("{link} {:?}", source.read_link(link)));
    }
    answers.push(format!(
        "{:?} {:?}",
        source.processes().mapping_page_size(7, 0x7f00_0000_0000),
        source.processes().mapping_page_size(7, 1)
    ));
    answers
}

fn all_bytes(folder: &Path, found: &mut Vec<u8>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        found.extend_from_slice(path.as_os_str().as_encoded_bytes());
        if path.is_symlink() {
            found.extend_from_slice(
                std::fs::read_link(&path).unwrap().as_os_str().as_encoded_bytes(),
            );
        } else if path.is_dir() {
            all_bytes(&path, found);
        } else {
            found.extend(std::fs::read(&path).unwrap());
        }
    }
}

fn capture(host: &dyn Source, target: &Path) -> WrittenCapture {
    let recording = RecordingSource::new(host);
    ask(&recording);
    crate::read(&recording);
    write(&recording, &keeps(), target).unwrap()
}

#[test]
fn no_planted_secret_gets_in() {
    let host = host();
    let folder = tempfile::tempdir().unwrap();
    let written = capture(&host, &folder.path().join("capture"));
    capture(&host, &folder.path().join("capture.tar.gz"));
    assert!(written.omitted.contains(&"/etc/shadow".to_owned()));
    assert!(written.omitted.contains(&"/proc/7/environ".to_owned()));
    let mut found = Vec::new();
    all_bytes(&folder.path().join("capture"), &mut found);
    let tar = std::fs::File::open(folder.path().join("capture.tar.gz")).unwrap();
    flate2::read::GzDecoder::new(tar).read_to_end(&mut found).unwrap();
    let found = String::from_utf8_lossy(&found);
    for secret in SECRETS {
        assert!(!found.contains(secret), "{secret} got in");
    }
    assert!(!found.contains("S3cret"));
}

#[test]
fn a_capture_answers_as_its_host_did() {
    let host = host();
    let folder = tempfile::tempdir().unwrap();
    let mut replayed = Vec::new();
    for name in ["capture", "capture.tar.gz"] {
        let target = folder.path().join(name);
        capture(&host, &target);
        let source = open_source(Some(&target)).unwrap();
        let machine = source.machine_facts();
        assert_eq!(MachineFacts { live: true, ..machine }, host.machine_facts());
        assert_eq!(source.list_problems(), []);
        replayed.push(ask(source.as_ref()));
    }
    assert_eq!(replayed[0], replayed[1]);
    let differ: Vec<_> = ask(&host)
        .into_iter()
        .zip(&replayed[0])
        .filter(|(live, kept)| live != *kept)
        .map(|(_, kept)| kept.clone())
        .collect();
    let left_out = |path: &str| format!("{path} Malformed(\"left out of the capture\")");
    assert_eq!(
        differ,
        [
            "/proc/cmdline Known(\"hugepages=8\\n\")".to_owned(),
            "/proc/mounts Known(\"hugetlbfs /dev/hugepages hugetlbfs rw 0 0\\n\\n\")".to_owned(),
            "/proc/7/cmdline \
                 Known(\"/usr/sbin/mariadbd\\0--datadir=/data\\0-\\0-\\0-\\0--port\\0?\\0\")"
                .to_owned(),
            left_out("/proc/7/environ"),
            "/proc/8/cmdline Known(\"postgres: session - [local] idle\\0\\0\\0\")".to_owned(),
            "/etc/passwd Known(\"mysql:x:5:5:::\\n\")".to_owned(),
            left_out("/etc/shadow"),
            "/etc/sysctl.d/10-a.conf Known(\"\\nvm.nr_hugepages = 7\\n\\n\")".to_owned(),
            "/etc/systemd/system/a.service Known(\"[Service]\\n\\n\\n\\n\\n\
             ExecStart=/usr/sbin/mariadbd --datadir=/data -\\n\\nLimitMEMLOCK=infinity\\n\")"
                .to_owned(),
            "/etc/mysql/my.cnf Known(\"[client]\\n\\n[mysqld]\\nlarge_pages=1\\n!includedir \
                 /etc/mysql/conf.d/\\n\")"
                .to_owned(),
            "/etc/redis/redis.conf Known(\"\\nmaxmemory 1gb\\n\\n\")".to_owned(),
            "/etc/default/grub Known(\"GRUB_CMDLINE_LINUX=\\\"hugepages=4\\\"\\n\\n\")".to_owned(),
            "/boot/grub/grub.cfg Known(\"\\nmenuentry 'A' \
                 {\\n  linux /vmlinuz hugepages=4\\n}\\n\")"
                .to_owned(),
            "/proc/7/root/tmp/hsperfdata_a/1 Known(\"ok\")".to_owned(),
            left_out("/opt/app/binary"),
            left_out("/etc/mysql/../mysql/my.cnf"),
        ]
    );
}

/// A process whose root is the host's is in no container: with a link to `//` it was taken for one.
#[test]
fn the_root_folder_is_the_root_folder_in_a_tar_too() {
    let host = host().with_link("/proc/7/root", "/");
    let recording = RecordingSource::new(&host);
    ask(&recording);
    recording.read_link("/proc/7/root");
    let folder = tempfile::tempdir().unwrap();
    for name in ["capture", "capture.tar.gz"] {
        let target = folder.path().join(name);
        write(&recording, &keeps(), &target).unwrap();
        assert_eq!(
            open_source(Some(&target)).unwrap().read_link("/proc/7/root"),
            Observed::Known("/".into()),
            "{name}"
        );
    }
    let listed = std::process::Command::new("tar")
        .arg("tvzf")
        .arg(folder.path().join("capture.tar.gz"))
        .output()
        .unwrap();
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    assert!(listed.contains("/proc/7/root -> /\n"), "{listed}");
    // As tars have it that were written so.
    let old = folder.path().join("old");
    write(&recording, &keeps(), &old).unwrap();
    std::fs::remove_file(old.join("proc/7/root")).unwrap();
    std::os::unix::fs::symlink("//", old.join("proc/7/root")).unwrap();
    assert_eq!(
        open_source(Some(&old)).unwrap().read_link("/proc/7/root"),
        Observed::Known("/".into())
    );
}

/// The time of a change is in no tar: the answers go along.
#[test]
fn whether_files_were_changed_since_is_kept() {
    use hugewise_model::Process;
    const LOADED: &str = "/run/systemd/systemd-units-load";
    let host = host()
        .changed_since_start(7, "/etc/mysql/my.cnf", false)
        .changed_since_start(8, "/etc/mysql/my.cnf", true)
        .changed_since_start(9, "/etc/mysql/my.cnf", false)
        .changed_since_start(7, "/srv/S3cretName", false)
        .changed_after("/etc/systemd/system/a.service", LOADED, true)
        .changed_after("/etc/systemd/system/S3cretName", LOADED, true);
    let recording = RecordingSource::new(&host);
    ask(&recording);
    let owner = |pid| Owner::from_process(&Process { pid, ..Process::default() });
    let questions: [(u32, &str, Option<bool>); 5] = [
        (7, "/etc/mysql/my.cnf", Some(false)),
        (8, "/etc/mysql/my.cnf", Some(true)),
        (7, "/etc/redis/redis.conf", None),
        // No server's, and a file that is not in it.
        (9, "/etc/mysql/my.cnf", None),
        (7, "/srv/S3cretName", None),
    ];
    for (pid, path, _) in questions {
        recording.changed_since_start(&owner(pid), path, pid);
    }
    for path in ["/etc/systemd/system/a.service", "/etc/systemd/system/S3cretName"] {
        recording.changed_after(path, LOADED);
    }
    let folder = tempfile::tempdir().unwrap();
    for name in ["capture", "capture.tar.gz"] {
        let target = folder.path().join(name);
        write(&recording, &keeps(), &target).unwrap();
        let source = open_source(Some(&target)).unwrap();
        for (pid, path, kept) in questions {
            assert_eq!(
                source.changed_since_start(&owner(pid), path, pid),
                Observed::from(kept),
                "{pid} {path}"
            );
        }
        assert_eq!(
            source.changed_after("/etc/systemd/system/a.service", LOADED),
            Observed::Known(true)
        );
        assert_eq!(
            source.changed_after("/etc/systemd/system/S3cretName", LOADED),
            Observed::Absent
        );
        assert_eq!(source.changed_after("/etc/mysql/my.cnf", LOADED), Observed::Absent);
    }
    let note =
        std::fs::read_to_string(folder.path().join("capture/hugewise/capture.json")).unwrap();
    assert!(!note.contains("S3cret"), "{note}");
}

#[test]
fn nothing_is_overwritten_and_nothing_half_done_stays() {
    let host = host();
    let folder = tempfile::tempdir().unwrap();
    let recording = RecordingSource::new(&host);
    ask(&recording);
    for name in ["a.tar.gz", "full"] {
        let target = folder.path().join(name);
        if name == "full" {
            std::fs::create_dir(&target).unwrap();
            std::fs::write(target.join("mine"), "mine").unwrap();
        } else {
            std::fs::write(&target, "mine").unwrap();
        }
        assert!(write(&recording, &keeps(), &target).is_err());
    }
    std::fs::create_dir(folder.path().join("empty")).unwrap();
    write(&recording, &keeps(), &folder.path().join("empty")).unwrap();
    assert!(write(&recording, &keeps(), &folder.path().join("no/such/folder")).is_err());
    let mut names: Vec<_> =
        std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["a.tar.gz", "empty", "full"]);
    assert_eq!(std::fs::read(folder.path().join("a.tar.gz")).unwrap(), b"mine");
}

#[test]
fn a_link_above_others_is_never_followed_when_writing() {
    let outside = tempfile::tempdir().unwrap();
    let host = MapSource::new()
        .with_file("/proc/meminfo", "")
        .with_link("/trap", outside.path().to_str().unwrap());
    let recording = RecordingSource::new(&host);
    recording.seen.borrow_mut().links.insert("/trap/inner".into(), Observed::Known("x".into()));
    recording.read_link("/trap");
    recording.read("/proc/meminfo");
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("out");
    write(&recording, &keeps(), &target).unwrap();
    assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 0);
    let source = open_source(Some(&target)).unwrap();
    assert_eq!(source.read_link("/trap/inner"), Observed::Known("x".into()));
}

#[test]
fn this_machine_can_be_captured_and_read_again() {
    let live = LiveSource::new();
    let recording = RecordingSource::new(&live);
    let host = crate::read(&recording);
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("host.tgz");
    write(&recording, &keeps(), &target).unwrap();
    let again = crate::read(open_source(Some(&target)).unwrap().as_ref());
    let tables = |host: &hugewise_model::Host| -> Vec<(u32, Observed<Bytes>, Observed<Vec<hugewise_model::Mapping>>)> {
        let processes = host.processes.as_known().unwrap().iter();
        // Names of files are left out.
        let unnamed = |mapping: hugewise_model::Mapping| hugewise_model::Mapping { name: String::new(), ..mapping };
        let mappings = |mappings: Vec<_>| mappings.into_iter().map(unnamed).collect();
        processes
            .map(|process| (process.pid, process.page_tables.clone(), process.mappings.clone().map(mappings)))
            .collect()
    };
    assert_eq!(tables(&host), tables(&again));
    assert_eq!(host.unread, again.unread);
    assert_eq!((host.base_page, host.architecture), (again.base_page, again.architecture));
}

/// A connection that breaks off, or a full disk: what came must be enough to say which host it is,
/// and how its memory stands.
#[test]
fn a_capture_that_is_torn_among_its_processes_has_the_machine_whole() {
    let mut content = CaptureFileSet::default();
    for (path, bytes) in
        [("/proc/meminfo", "MemTotal: 1024 kB\n"), ("/proc/sys/kernel/hostname", "db7\n")]
    {
        content.files.insert(path.to_owned(), bytes.into());
    }
    for pid in 1..500 {
        content.files.insert(format!("/proc/{pid}/maps"), format!("{pid:0>3000}").into());
    }
    let whole = write_tar(&content, Vec::new()).unwrap();
    let source =
        hugewise_source::open_archive_bytes(&whole[..whole.len() / 2], Path::new("torn")).unwrap();
    assert!(source.truncated_at().is_some());
    assert_eq!(
        source.read("/proc/sys/kernel/hostname").as_known().map(Vec::as_slice),
        Some(b"db7\n".as_slice())
    );
}
