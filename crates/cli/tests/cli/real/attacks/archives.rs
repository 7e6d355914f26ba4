//! Archives that somebody left for root to read.

use std::fs;
use std::net::TcpListener;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use hugewise_testkit::{Skip, require};

use super::Attacker;
use crate::real::harness::{self, HUGEWISE};
use crate::real::namespace;

const ATOP: &str = "/usr/bin/atop";
const PMREP: &str = "/usr/bin/pmrep";

/// What a reader does that an archive has taken over: it says whose rights it has, and tries what
/// root may. What it says last is told as its complaint.
const TAKEN_OVER: &str = r#"#!/bin/bash
cat >/dev/null
said="by $(id -u) $(id -g) $(id -G | wc -w)"
while read -r name value; do
    case $name in Cap[IPEA]*|NoNewPrivs:) said="$said $name$value" ;; esac
done </proc/self/status
(read -r <SECRET) 2>/dev/null && said="$said secret"
(echo x >HOME/written) 2>/dev/null && said="$said written"
(echo x >/dev/tcp/127.0.0.1/PORT) 2>/dev/null && said="$said online"
[ -n "$TAKEN_ALONG" ] && said="$said environment"
ls /proc/$$/fd | grep -q '^9$' && said="$said descriptor"
setsid sleep 4242 >/dev/null 2>&1 &
setsid sleep 4243 &
echo "$said" >&2
exit 1
"#;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/collectors").join(name)
}

fn unpacked(name: &str) -> Vec<u8> {
    let output = Command::new("xz").arg("-dc").arg(fixture(name)).output().unwrap();
    assert!(output.status.success());
    output.stdout
}

/// A file of atop's whose layout is not known here: figures one byte longer than those of any
/// version. atop itself is asked.
fn atop_of_no_known_layout() -> Vec<u8> {
    let mut file = unpacked("atop.xz");
    file[28] += 1;
    file
}

fn investigate(path: &Path) -> Output {
    let mut command = Command::new("timeout");
    // What root has open when it starts hugewise is none of the reader's.
    command
        .args(["120", "sh", "-c", "exec 9</etc/shadow; exec \"$@\"", "sh", HUGEWISE, "investigate"])
        .arg(path);
    command.env("TAKEN_ALONG", "secret").stdin(Stdio::null()).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned()
}

/// Puts a file in the place of a program, in this namespace.
fn in_place_of(program: &str, file: &Path) -> Result<(), Skip> {
    fs::set_permissions(file, fs::Permissions::from_mode(0o755)).unwrap();
    if !Path::new(program).exists() {
        return Err(Skip(format!("{program} is not installed")));
    }
    harness::must(Command::new("mount").args(["--bind"]).arg(file).arg(program));
    Ok(())
}

fn sleepers() -> Vec<u32> {
    harness::kernel::processes(|command| command.starts_with("sleep\x00424"))
}

fn played(program: &str, archive: &Path) -> Result<(), Skip> {
    let folder = harness::folder();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (home, secret) = (folder.path().join("home"), folder.path().join("secret"));
    fs::create_dir(&home).unwrap();
    fs::write(&secret, "x\n").unwrap();
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
    fs::set_permissions(&home, fs::Permissions::from_mode(0o777)).unwrap();
    let shim = folder.path().join("shim");
    let text = TAKEN_OVER
        .replace("SECRET", secret.to_str().unwrap())
        .replace("HOME", home.to_str().unwrap());
    fs::write(&shim, text.replace("PORT", &listener.local_addr().unwrap().port().to_string()))
        .unwrap();
    in_place_of(program, &shim)?;
    let said = said(&investigate(archive));
    let (_, words) =
        said.split_once(&format!("{program}: by ")).unwrap_or_else(|| panic!("{program}: {said}"));
    let words: Vec<&str> = words.lines().next().unwrap().split_whitespace().collect();
    let [uid, gid, groups, rest @ ..] = &words[..] else { panic!("{words:?}") };
    assert!(*uid != "0" && uid == gid && *groups == "1", "{program}: {words:?}");
    assert_eq!(
        rest,
        [
            "CapInh:0000000000000000",
            "CapPrm:0000000000000000",
            "CapEff:0000000000000000",
            "CapAmb:0000000000000000",
            "NoNewPrivs:1"
        ],
        "{program}: {words:?}"
    );
    assert!(fs::read(home.join("written")).unwrap_or_default().is_empty());
    assert_eq!(sleepers(), Vec::<u32>::new(), "what it left running has ended");
    harness::must(Command::new("umount").arg(program));
    Ok(())
}

#[test]
fn what_reads_a_foreign_archive_has_no_rights() {
    if !require!(namespace::inside("attacks::archives::what_reads_a_foreign_archive_has_no_rights"))
    {
        return;
    }
    // What `namespace` starts has no network of its own: this machine's loopback is there.
    let attacker = require!(Attacker::new());
    let atop = attacker.file("raw", atop_of_no_known_layout());
    require!(played(ATOP, &atop));
    for part in ["0", "meta", "index"] {
        attacker.file(&format!("pcp/20261122.{part}"), unpacked(&format!("pcp.{part}.xz")));
    }
    require!(played(PMREP, &attacker.path("pcp")));
    let tar = attacker.path("pcp.tar");
    harness::must(
        Command::new("tar").arg("-cf").arg(&tar).arg("-C").arg(attacker.home()).arg("pcp"),
    );
    require!(played(PMREP, &tar));
}

/// A folder of programs that somebody else may write to, as an administrator's mistake makes one.
#[test]
fn a_reader_that_others_could_have_put_there_is_not_run() {
    if !require!(namespace::inside(
        "attacks::archives::a_reader_that_others_could_have_put_there_is_not_run"
    )) {
        return;
    }
    let attacker = require!(Attacker::new());
    let archive = attacker.file("raw", atop_of_no_known_layout());
    let shim = attacker.file("atop", "#!/bin/sh\necho taken over >&2\nexit 1\n");
    require!(in_place_of(ATOP, &shim));
    let said = said(&investigate(&archive));
    assert!(!said.contains("taken over") && said.contains("user 4242"), "{said}");
}

/// The real programs, as a user that is in no file.
#[test]
fn the_readers_read_without_rights() {
    let attacker = require!(Attacker::new());
    require!(harness::program(&[PMREP]));
    for part in ["0", "meta", "index"] {
        attacker.file(&format!("pcp/20261122.{part}"), unpacked(&format!("pcp.{part}.xz")));
    }
    let output = investigate(&attacker.path("pcp"));
    assert!(output.status.success() || output.status.code() == Some(1), "{}", said(&output));
    assert!(said(&output).contains("pcp"), "{}", said(&output));
}

/// Parts of an archive that are links to what only root reads: PCP's programs would follow them.
#[test]
fn links_in_an_archive_of_pcp_lead_nowhere() {
    // Without it every archive of PCP is refused, and nothing is shown.
    require!(harness::program(&[PMREP]));
    let attacker = require!(Attacker::new());
    let folder = harness::folder();
    for part in ["0", "meta", "index"] {
        fs::write(
            folder.path().join(format!("20261122.{part}")),
            unpacked(&format!("pcp.{part}.xz")),
        )
        .unwrap();
    }
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).unwrap();
    attacker.file("pcp/20261122.meta", unpacked("pcp.meta.xz"));
    for part in ["0", "index"] {
        attacker
            .link(&format!("pcp/20261122.{part}"), folder.path().join(format!("20261122.{part}")));
    }
    let output = investigate(&attacker.path("pcp"));
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    assert!(!said(&output).contains("db1"), "{}", said(&output));
}

/// Names that paint on a terminal, pipes that nobody writes to, files that grow as fast as they are
/// read.
#[test]
fn a_folder_of_traps_is_gone_through() {
    let attacker = require!(Attacker::new());
    let sar = fs::read(fixture("two-freezes.sar")).unwrap();
    attacker.file("logs/sar01", &sar);
    let painted =
        std::ffi::OsStr::from_bytes(b"logs/\x1b[2J\x1b]0;owned\x07\r\nhugewise: all is well\xff");
    fs::write(attacker.home().join(painted), b"\xef\xbe\xed\xfe nothing of atop").unwrap();
    for name in ["logs/sa01", "logs/vmstat.log"] {
        harness::must(attacker.command("mkfifo").arg(attacker.path(name)));
    }
    attacker.link("logs/sa02", "/dev/zero");
    attacker.link("logs/sa03", "/etc/shadow");
    let grows = attacker.file("logs/sar02", &sar);
    let mut grower = attacker.command("/bin/sh");
    grower
        .args(["-c", "while :; do cat \"$0\" >>\"$1\"; done"])
        .arg(attacker.path("logs/sar01"))
        .arg(&grows);
    let mut grower = grower.stderr(Stdio::null()).spawn().unwrap();
    let output = investigate(&attacker.path("logs"));
    grower.kill().unwrap();
    grower.wait().unwrap();
    assert_ne!(output.status.code(), Some(124), "it did not end");
    let bytes = [&output.stdout[..], &output.stderr].concat();
    assert!(
        !bytes.contains(&0x1b) && !bytes.contains(&0x07) && !bytes.contains(&b'\r'),
        "{}",
        said(&output)
    );
    assert!(
        !said(&output).lines().any(|line| line.starts_with("hugewise: all is well")),
        "{}",
        said(&output)
    );
    assert!(!said(&output).contains("root:"), "{}", said(&output));
    assert!(
        said(&output).contains("are pipes, sockets or devices, and not opened"),
        "{}",
        said(&output)
    );
}

/// Links in the place of what is written, in folders that everybody may write to.
#[test]
fn planted_links_are_not_written_through() {
    let attacker = require!(Attacker::new());
    let folder = harness::folder();
    let shared = folder.path().join("shared");
    fs::create_dir(&shared).unwrap();
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o1777)).unwrap();
    let precious = folder.path().join("precious");
    let writes: [(&str, &[&str]); 4] = [
        ("capture.tar", &["capture", "-o"]),
        ("hugewise.prom", &["serve", "--once", "--textfile"]),
        (
            "report.json",
            &["run", "--report", "--format", "json", "--out", "PATH", "--", "/bin/true"],
        ),
        ("plan.json", &["plan", "--out"]),
    ];
    for (name, arguments) in writes {
        fs::write(&precious, "precious").unwrap();
        let path = shared.join(name);
        std::os::unix::fs::symlink(&precious, &path).unwrap();
        std::os::unix::fs::lchown(&path, Some(attacker.user.uid), Some(attacker.user.gid)).unwrap();
        let mut command = Command::new(HUGEWISE);
        let named = arguments.contains(&"PATH");
        command.args(
            arguments
                .iter()
                .map(|word| if *word == "PATH" { path.to_str().unwrap() } else { word }),
        );
        let output = if named { command.output() } else { command.arg(&path).output() }.unwrap();
        assert!(!said(&output).contains("Usage:"), "{name}: {}", said(&output));
        assert_eq!(fs::read(&precious).unwrap(), b"precious", "{name}: {}", said(&output));
        let facts = fs::symlink_metadata(&path).unwrap();
        let mode = facts.permissions().mode() & 0o777;
        assert!(facts.is_symlink() || name != "capture.tar" || mode == 0o600, "{name}: {mode:o}");
    }
    let left: Vec<_> =
        fs::read_dir(&shared).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.len() <= 4, "{left:?}");
}

/// A link of a user's in the place of a folder, which the kernel follows in his own folders.
#[test]
fn no_folder_of_a_path_that_is_written_is_a_link_of_another_users() {
    let attacker = require!(Attacker::new());
    let folder = harness::folder();
    let victim = folder.path().join("victim");
    fs::create_dir(&victim).unwrap();
    let out = attacker.link("out", &victim);
    std::os::unix::fs::lchown(&out, Some(4242), Some(4242)).unwrap();
    let sar = fixture("two-freezes.sar");
    let (series, report) = (out.join("series.csv"), out.join("report.html"));
    let written = |name: &str| out.join(name).into_os_string().into_string().unwrap();
    let writes: [&[&str]; 8] = [
        &["capture", "-o", &written("capture.tar.gz")],
        &["capture", "-o", &written("capture")],
        &["serve", "--once", "--textfile", &written("hugewise.prom")],
        &["run", "--report", "--format", "json", "--out", &written("run.json"), "--", "/bin/true"],
        &["plan", "--out", &written("plan.json")],
        &["report", "--output", report.to_str().unwrap()],
        &["investigate", "--series", series.to_str().unwrap(), sar.to_str().unwrap()],
        &["collect", "--out", &written("lake"), sar.to_str().unwrap()],
    ];
    for arguments in writes {
        let output = Command::new(HUGEWISE).args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", said(&output));
        assert!(said(&output).contains("user 4242"), "{arguments:?}: {}", said(&output));
        assert_eq!(fs::read_dir(&victim).unwrap().count(), 0, "{arguments:?}");
    }
    // An administrator's own link, and a user's folder itself, are what they say.
    let own = folder.path().join("own");
    std::os::unix::fs::symlink(&victim, &own).unwrap();
    for place in [&own, &attacker.folder("mine")] {
        let path = place.join("capture.tar.gz");
        harness::must(Command::new(HUGEWISE).args(["capture", "-o"]).arg(&path));
        assert!(path.exists());
    }
}
