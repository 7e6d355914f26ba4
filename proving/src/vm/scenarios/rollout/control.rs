//! The control node: this machine's Ansible with the collection, a key of its own, and what its
//! hosts are called.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use sha2::{Digest, Sha256};
use tempfile::TempDir;

use hugewise_testkit::tools::{Failure, debian, shell};

/// What it needs of this machine.
const NEEDS: debian::Needs =
    &[("/usr/bin/ansible-playbook", "ansible-core"), ("/usr/bin/ssh", "openssh-client")];

/// The waves, and the hosts of each.
pub(super) const WAVES: [(&str, &[&str]); 3] =
    [("canaries", &["a1"]), ("second", &["b1", "b2"]), ("third", &["c1"])];

/// Ansible as an administrator starts it. What it has written is gone with this value.
pub(super) struct Control {
    /// Short, as the sockets of ssh lie in it.
    folder: TempDir,
}

/// What a playbook did.
pub(super) struct Played {
    pub(super) succeeded: bool,
    pub(super) text: String,
    pub(super) seconds: u64,
}

impl Played {
    /// The line of Ansible's recap on that host.
    pub(super) fn recap(&self, host: &str) -> &str {
        let lines = self.text.lines().rev();
        let mut recap =
            lines.filter(|line| line.starts_with(host) && line.contains("unreachable="));
        recap.next().unwrap_or_default()
    }
}

impl Control {
    pub(super) fn new() -> Result<Self, Failure> {
        let missing = debian::missing(NEEDS);
        if !missing.is_empty() {
            debian::install(&missing)?;
        }
        let control = Self { folder: tempfile::Builder::new().prefix("rollout-").tempdir()? };
        let mut key = shell::command("ssh-keygen");
        shell::output(key.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(control.path("key")))?;
        let mut build = control.command("ansible-galaxy");
        build
            .args(["collection", "build", "--output-path", "."])
            .arg(shell::root().join("fleet/ansible"));
        shell::output(&mut build)?;
        let archive = control.only("hugewise-hosts-")?;
        let mut install = control.command("ansible-galaxy");
        shell::output(
            install.args(["collection", "install", "-p", "collections", "--offline"]).arg(archive),
        )?;
        Ok(control)
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Its public key.
    pub(super) fn key(&self) -> Result<String, Failure> {
        Ok(fs::read_to_string(self.path("key.pub"))?)
    }

    /// Notes where each host is, and the key that its sshd shows.
    pub(super) fn knows(&self, hosts: &[(&str, u16, String)]) -> Result<(), Failure> {
        let mut inventory = "[all:vars]\nansible_host=127.0.0.1\nansible_user=ops\nansible_ssh_private_key_file=key\n\
            ansible_python_interpreter=/usr/bin/python3\n\
            ansible_ssh_common_args='-o UserKnownHostsFile=known -o StrictHostKeyChecking=yes'\n"
            .to_owned();
        let mut known = String::new();
        for (wave, names) in WAVES {
            inventory.push_str(&format!("[{wave}]\n"));
            for (name, port, key) in hosts.iter().filter(|(name, ..)| names.contains(name)) {
                inventory.push_str(&format!("{name} ansible_port={port}\n"));
                known.push_str(&format!("[127.0.0.1]:{port} {}\n", key.trim()));
            }
        }
        fs::write(self.path("hosts"), inventory)?;
        Ok(fs::write(self.path("known"), known)?)
    }

    /// An archive of that program as `cargo xtask dist` makes them, and its SHA-256.
    pub(super) fn archive(&self, program: &Path) -> Result<(PathBuf, String), Failure> {
        let folder = self.path("hugewise-portable");
        fs::create_dir(&folder)?;
        fs::copy(program, folder.join("hugewise"))?;
        let archive = self.path("hugewise.tar.gz");
        let mut tar = shell::command("tar");
        tar.arg("-czf").arg(&archive).arg("-C").arg(self.folder.path()).arg("hugewise-portable");
        shell::output(&mut tar)?;
        let digest = digest(&archive)?;
        Ok((archive, digest))
    }

    /// The Debian package of that program, and its SHA-256.
    pub(super) fn package(&self, program: &Path) -> Result<(PathBuf, String), Failure> {
        let folder = self.path("package");
        fs::create_dir(&folder)?;
        let package = shell::dist_part(&["deb".as_ref(), program.as_ref(), folder.as_ref()])?;
        let digest = digest(&package)?;
        Ok((package, digest))
    }

    /// What a reviewer notes of the plans that were fetched.
    pub(super) fn review(&self) -> Result<(), Failure> {
        let mut reviewed = String::new();
        for host in WAVES.iter().flat_map(|(_, hosts)| *hosts) {
            let name = format!("{host}.plan.json");
            reviewed.push_str(&format!("{}  {name}\n", digest(&self.path("plans").join(&name))?));
        }
        Ok(fs::write(self.path("reviewed.sha256"), reviewed)?)
    }

    /// Plays a playbook: one of the collection's, or one that lies in the folder.
    pub(super) fn play(
        &self,
        name: &str,
        variables: &serde_json::Value,
    ) -> Result<Played, Failure> {
        let begun = Instant::now();
        let mut play = self.command("ansible-playbook");
        let output = play.args(["-i", "hosts", name, "-e", &variables.to_string()]).output()?;
        let text = [output.stdout, output.stderr]
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .concat();
        Ok(Played { succeeded: output.status.success(), text, seconds: begun.elapsed().as_secs() })
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.folder.path()).env("ANSIBLE_HOME", self.path("ansible"));
        command
            .env("ANSIBLE_COLLECTIONS_PATH", self.path("collections"))
            .env("ANSIBLE_NOCOLOR", "1");
        command.env("ANSIBLE_SSH_CONTROL_PATH_DIR", self.path("s")).env("LC_ALL", "C.UTF-8");
        // An emulated processor takes its time over a key exchange.
        command.env("ANSIBLE_TIMEOUT", "180").env("ANSIBLE_PIPELINING", "1");
        command
    }

    /// The file whose name begins so.
    fn only(&self, begins: &str) -> Result<PathBuf, Failure> {
        let mut files = fs::read_dir(self.folder.path())?.flatten().map(|entry| entry.path());
        let found = files.find(|path| {
            path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(begins))
        });
        found.ok_or_else(|| format!("no {begins}* was built").into())
    }
}

fn digest(file: &Path) -> Result<String, Failure> {
    let bytes = fs::read(file).map_err(|error| format!("{}: {error}", file.display()))?;
    Ok(Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect())
}

/// A port of the loopback address that nobody has.
pub(super) fn free_port() -> Result<u16, Failure> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}
