//! Texts of the host in languages that evaluate: names that a user without rights chose for his
//! folders and servers, in what root reviews and pipes into shells, Ansible and cloud-init.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use hugewise_testkit::{Skip, require};

use super::{Attacker, Fake};
use crate::real::harness;
use crate::real::namespace::{self, State, assert_same};

/// A server of the attacker's that has to be set to ask for huge pages, in a folder of a name of
/// his.
struct Server {
    /// What `--instance` takes.
    name: String,
    _fake: Fake,
}

impl Server {
    /// `folder` is below its data directory, and `settings` is how its configuration names that.
    fn start(attacker: &Attacker, data: &str, folder: &str, settings: &str) -> Result<Self, Skip> {
        let data = attacker.postgresql(data, &format!("huge_pages = off\n{settings}\n"));
        fs::create_dir_all(data.join(folder)).unwrap();
        attacker.user.own(&data);
        let fake = Fake::postgres(attacker, &data, 272, 260)?;
        let checked = harness::check();
        let name = harness::text(&checked.instance("postgresql", fake.pid)["name"]);
        // Nothing speaks for it: it is planned for where its process is named.
        let of_pid = format!(" pid {}", fake.pid);
        let handle = format!("postgresql {}{of_pid}", name.strip_suffix(&of_pid).unwrap_or(&name));
        let mut server = Self { name: handle, _fake: fake };
        if hugewise(&["plan"], &[&server]).status.code() == Some(2) {
            server.name = name;
        }
        Ok(server)
    }
}

fn hugewise(arguments: &[&str], servers: &[&Server]) -> Output {
    let mut command = Command::new(harness::HUGEWISE);
    command.args(arguments).stdin(Stdio::null());
    for server in servers {
        command.args(["--instance", &server.name]);
    }
    command.output().unwrap()
}

/// What plan writes, by force; nothing where it refuses to write it.
fn written(format: &str, servers: &[&Server]) -> Option<String> {
    let output = hugewise(&["plan", "--force", "--format", format], servers);
    let text = String::from_utf8(output.stdout).unwrap();
    (!text.is_empty()).then_some(text)
}

pub(super) fn file(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, text).unwrap();
    path
}

/// An empty pool that takes any number, over the machine's: what is set in it sets nothing.
fn own_pool() {
    let pool = Path::new("/sys/kernel/mm/hugepages/hugepages-2048kB");
    let names: Vec<_> =
        fs::read_dir(pool).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    harness::must(Command::new("mount").args(["-t", "tmpfs", "-o", "mode=755", "pool"]).arg(pool));
    for name in names {
        fs::write(pool.join(name), "0\n").unwrap();
    }
}

/// Debian's own Python, for which its packages are.
pub(super) const PYTHON: &str = "/usr/bin/python3";

pub(super) fn interpreters() -> Result<(), Skip> {
    for program in ["/usr/bin/ansible-playbook", "/usr/bin/cloud-init", "/usr/bin/promtool", PYTHON]
    {
        harness::program(&[program])?;
    }
    Ok(())
}

/// ansible-playbook on this machine, with nothing of it outside of `home`.
pub(super) fn ansible(home: &Path, playbook: &Path, more: &[&str]) -> Output {
    let mut command = Command::new("ansible-playbook");
    command
        .args(["-i", "localhost,", "-c", "local", "-e", "hugewise_host=localhost"])
        .args(more)
        .arg(playbook);
    command
        .env("HOME", home)
        .env("ANSIBLE_HOME", home)
        .env("ANSIBLE_REMOTE_TEMP", home.join("remote"));
    command
        .env("ANSIBLE_LOCAL_TEMP", home.join("local"))
        .env("ANSIBLE_NOCOLOR", "1")
        .env("LC_ALL", "C.UTF-8");
    command.env("ANSIBLE_PYTHON_INTERPRETER", PYTHON);
    command.stdin(Stdio::null()).output().unwrap()
}

/// What cloud-init would run of a cloud-config, by cloud-init's own code, without what does it once
/// a boot.
const COMMANDS: &str = "
import sys, yaml
from cloudinit.util import shellify
config = yaml.safe_load(open(sys.argv[1]))
for section in ('bootcmd', 'runcmd'):
    entries = config.get(section) or []
    sys.stdout.write(shellify([e[3:] if e[0] == 'cloud-init-per' else e for e in entries]) + '\\n')
";

/// The commands of a cloud-config that cloud-init has nothing to say against, as the shell gets
/// them.
pub(super) fn commands_of_cloud_init(config: &Path) -> String {
    let valid =
        harness::must(Command::new("cloud-init").args(["schema", "--config-file"]).arg(config));
    assert!(valid.contains("Valid"), "{valid}");
    harness::must(Command::new(PYTHON).args(["-c", COMMANDS]).arg(config))
}

/// Names of folders that run something in one language or another, each its own file.
fn live(owned: &dyn Fn(usize) -> String) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    let mut add = |string_of: &dyn Fn(&str) -> String| {
        let path = owned(names.len());
        names.push(string_of(&path));
    };
    for braces in 1..=6 {
        let (open, close) = ("{".repeat(braces), "}".repeat(braces));
        add(&|path| format!("x{open} lookup(\"pipe\",\"touch {path}\") {close}"));
    }
    add(&|path| format!("{{%% if lookup(\"pipe\",\"touch {path}\") %}}{{% endif %}}"));
    add(&|path| format!("{{{{% if lookup(\"pipe\",\"touch {path}\") %}}}}{{% endif %}}"));
    add(&|path| format!("{{#{{{{{{ lookup(\"pipe\",\"touch {path}\") }}}}#}}"));
    add(&|path| format!("$(touch {path})"));
    add(&|path| format!("`touch {path}`"));
    add(&|path| format!("\";touch {path};\""));
    add(&|path| format!("- !!python/object/apply:os.system [\"touch {path}\"]"));
    names
}

/// A folder's name is somebody's choice; what it names for a shell, for Ansible or for cloud-init
/// is not.
#[test]
fn no_name_of_a_folder_is_a_command() {
    if !require!(namespace::inside("attacks::formats::no_name_of_a_folder_is_a_command")) {
        return;
    }
    require!(interpreters());
    let attacker = require!(Attacker::new());
    own_pool();
    let scratch = harness::folder();
    let marks = harness::folder();
    let owned = |at: usize| marks.path().join(format!("OWNED{at}")).to_str().unwrap().to_owned();
    let mut servers = Vec::new();
    for (at, name) in live(&owned).iter().enumerate() {
        let folder = format!("conf.d/{name}");
        let quoted = |text: &str| text.replace('\'', "''");
        // Its own name is one of them too, or a number.
        let called = if at % 2 == 0 {
            format!("port = {}", 6100 + at)
        } else {
            format!("cluster_name = '{}'", quoted(name))
        };
        let settings = format!("{called}\ninclude_dir = '{}'", quoted(&folder));
        servers.push(require!(Server::start(&attacker, &format!("data{at}"), &folder, &settings)));
    }
    let servers: Vec<&Server> = servers.iter().collect();
    let done = || {
        fs::read_dir(marks.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect::<Vec<_>>()
    };

    if let Some(playbook) = written("ansible", &servers) {
        let playbook = file(scratch.path(), "playbook", &playbook);
        let output = ansible(scratch.path(), &playbook, &["--check"]);
        assert!(done().is_empty(), "{:?} by ansible", done());
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}\n{said}", String::from_utf8_lossy(&output.stdout));
    }
    if let Some(script) = written("shell", &servers) {
        let script = file(scratch.path(), "script", &script);
        Command::new("sh").arg(&script).stdin(Stdio::null()).output().unwrap();
        assert!(done().is_empty(), "{:?} by the shell", done());
    }
    if let Some(config) = written("cloud-init", &servers) {
        let config = file(scratch.path(), "config", &config);
        let commands = file(scratch.path(), "commands", &commands_of_cloud_init(&config));
        Command::new("sh").arg(&commands).stdin(Stdio::null()).output().unwrap();
        assert!(done().is_empty(), "{:?} by cloud-init", done());
    }
}

/// What ends a line or moves a cursor in one program or another, and how PostgreSQL's configuration
/// writes it.
const ENDS: [(&str, &str); 7] = [
    ("\n", "\\n"),
    ("\r", "\\r"),
    ("\r\n", "\\r\\n"),
    ("\u{85}", "\u{85}"),
    ("\u{2028}", "\u{2028}"),
    ("\u{b}", "\\013"),
    ("\x1b[1E", "\\033[1E"),
];

/// A line that a plan could have, and one that a script could.
const FORGED: &str = "9  pools-boot  safe  nothing to review here";

/// What root reviews has the lines that hugewise writes, and no others: neither the plan nor any of
/// its formats, nor what check and verify say.
#[test]
fn no_name_of_a_folder_is_a_line() {
    if !require!(namespace::inside("attacks::formats::no_name_of_a_folder_is_a_line")) {
        return;
    }
    let attacker = require!(Attacker::new());
    own_pool();
    let mut servers = Vec::new();
    for (at, (end, written)) in ENDS.into_iter().enumerate() {
        let (name, written) =
            (format!("x{end}{FORGED}{end}y"), format!("x{written}{FORGED}{written}y"));
        let settings = match at % 2 {
            0 => format!("port = {}\ninclude_dir = '{written}'", 6100 + at),
            _ => format!("cluster_name = '{written}{at}'\ninclude_dir = '{written}'"),
        };
        servers.push(require!(Server::start(
            &attacker,
            &format!("data{at}{name}"),
            &name,
            &settings
        )));
    }
    for server in &servers {
        let one = [server];
        for arguments in [
            &["plan"][..],
            &["plan", "--force", "--format", "shell"],
            &["plan", "--force", "--format", "ansible"],
            &["plan", "--force", "--format", "cloud-init"],
            &["check", "-v", "--instance", &server.name],
            &["verify", "--format", "nagios", "--instance", &server.name],
            &["size", "--instance", "none of these"],
        ] {
            let named: &[&Server] = if arguments[0] == "plan" { &one } else { &[] };
            let output = hugewise(arguments, named);
            for text in [&output.stdout, &output.stderr] {
                let text = String::from_utf8_lossy(text);
                let active = text.contains(['\r', '\u{85}', '\u{2028}', '\u{b}', '\x1b']);
                let forged = text
                    .lines()
                    .any(|line| line.trim_start_matches(['#', ' ']).starts_with(FORGED));
                assert!(!active && !forged, "{arguments:?} of {:?}:\n{text}", server.name);
            }
        }
    }
}

/// The same plan in all three formats, for a server that is named.
fn all_three(folder: &Path, server: &Server) -> [PathBuf; 3] {
    ["shell", "ansible", "cloud-init"].map(|format| {
        let text = written(format, &[server]).expect("a plan");
        assert!(text.contains("vm.nr_hugepages"), "{text}");
        file(folder, format, &text)
    })
}

/// Runs it with these settings; what it said on both sides, and whether it went well.
fn run(command: &mut Command) -> (bool, String) {
    let output = command.stdin(Stdio::null()).output().unwrap();
    let said = [output.stdout, output.stderr]
        .map(|said| String::from_utf8_lossy(&said).into_owned())
        .concat();
    (output.status.success(), said)
}

/// A script that gets to another host, and a playbook that is run without a thought on a whole
/// inventory.
#[test]
fn another_host_than_the_plans_is_left_as_it_is() {
    if !require!(namespace::inside(
        "attacks::formats::another_host_than_the_plans_is_left_as_it_is"
    )) {
        return;
    }
    require!(interpreters());
    let attacker = require!(Attacker::new());
    own_pool();
    let scratch = harness::folder();
    let server = require!(Server::start(&attacker, "data", "conf.d", "include_dir = 'conf.d'"));
    fs::write("/etc/machine-id", "0123456789abcdef0123456789abcdef\n").unwrap();
    let [script, playbook, _] = all_three(scratch.path(), &server);
    let inventory = ["-i", "localhost,", "-c", "local"];
    let text = fs::read_to_string(&playbook).unwrap();
    assert!(!text.contains("hosts: all"), "{text}");
    let (well, said) =
        run(Command::new("ansible-playbook").args(inventory).arg("--list-hosts").arg(&playbook));
    assert!(!well && said.contains("hugewise_host=NAME"), "{said}");

    fs::write("/etc/machine-id", "fedcba9876543210fedcba9876543210\n").unwrap();
    let before = State::etc();
    let (well, said) = run(Command::new("sh").arg(&script));
    assert!(!well && said.contains("0123456789abcdef0123456789abcdef"), "{said}");
    assert_same(&before, &State::etc());
    let output = ansible(scratch.path(), &playbook, &[]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        !output.status.success() && said.contains("0123456789abcdef0123456789abcdef"),
        "{said}"
    );
    assert_same(&before, &State::etc());

    // Whoever says so has it all the same.
    let output = ansible(scratch.path(), &playbook, &["-e", "hugewise_any_host=true"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    assert!(Path::new("/etc/sysctl.d/zz-hugewise-pool.conf").exists());
    let (well, said) = run(Command::new("sh").arg(&script).env("HUGEWISE_ANY_HOST", "yes"));
    assert!(well, "{said}");
}

/// A server that maps more than it has needs pages that the next boot would take from everything
/// else: a file for the next boot is as bad as a pool.
#[test]
fn a_host_without_the_memory_is_left_as_it_is() {
    if !require!(namespace::inside("attacks::formats::a_host_without_the_memory_is_left_as_it_is"))
    {
        return;
    }
    require!(interpreters());
    let attacker = require!(Attacker::new());
    own_pool();
    let scratch = harness::folder();
    let server = require!(Server::start(&attacker, "data", "conf.d", "include_dir = 'conf.d'"));
    let [script, playbook, config] = all_three(scratch.path(), &server);
    let small = file(
        scratch.path(),
        "meminfo",
        "MemTotal: 200000 kB\nMemAvailable: 99999999 kB\nHugepagesize: 2048 kB\n",
    );
    harness::must(Command::new("mount").arg("--bind").arg(small).arg("/proc/meminfo"));
    let before = State::etc();
    let (well, said) = run(Command::new("sh").arg(&script));
    assert!(!well && said.contains("do not fit"), "{said}");
    assert_same(&before, &State::etc());
    let output = ansible(scratch.path(), &playbook, &[]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(!output.status.success() && said.contains("do not fit"), "{said}");
    assert_same(&before, &State::etc());
    let commands = file(scratch.path(), "commands", &commands_of_cloud_init(&config));
    let (_, said) = run(Command::new("sh").arg(commands));
    assert!(said.contains("do not fit"), "{said}");
    assert_same(&before, &State::etc());
}
