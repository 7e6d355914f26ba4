//! What tests of the command line have in common: the binary as its users run it, and the hosts
//! that are kept here.

pub(crate) mod host;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// How a command ended, and what it said.
pub(crate) struct Said {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Said {
    /// Runs it.
    pub(crate) fn by(command: &mut Command) -> Self {
        let output = command.output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Self {
            code: output.status.code().unwrap(),
            out: text(output.stdout),
            err: text(output.stderr),
        }
    }

    /// What it said on standard output, as JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out)
            .unwrap_or_else(|error| panic!("{error}: {}{}", self.out, self.err))
    }
}

/// Runs hugewise, at no terminal.
pub(crate) fn hugewise(words: &[&str]) -> Said {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hugewise"));
    Said::by(command.args(words).env_remove("COLUMNS").env_remove("NO_COLOR").stdin(Stdio::null()))
}

/// Runs a command of hugewise on a captured host.
pub(crate) fn on(command: &str, root: &Path, more: &[&str]) -> Said {
    hugewise(&[&[command, "--root", root.to_str().unwrap()], more].concat())
}

/// A folder or file below `fixtures`.
pub(crate) fn fixtures(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(name).canonicalize().unwrap()
}

/// Every captured host that is kept here.
pub(crate) fn hosts() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(fixtures("hosts")).unwrap();
    let mut hosts: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    // Beside each, what is expected of it.
    hosts.retain(|path| path.extension().is_none_or(|extension| extension != "txt"));
    hosts.sort();
    assert!(hosts.len() >= 12, "{hosts:?}");
    hosts
}

/// A captured host that may be changed.
pub(crate) struct Changed(pub(crate) TempDir);

impl Changed {
    /// A copy of the one of that name.
    pub(crate) fn of(name: &str) -> Self {
        let folder = TempDir::new().unwrap();
        let from = fixtures("hosts").join(name).join(".");
        let copied = Command::new("cp").arg("-r").arg(from).arg(folder.path()).status().unwrap();
        assert!(copied.success());
        Self(folder)
    }

    /// Writes a file of it.
    pub(crate) fn put(&self, path: &str, text: impl AsRef<[u8]>) {
        let path = self.0.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// What a command prints of it.
    pub(crate) fn run(&self, words: &[&str]) -> String {
        Self::run_on(self.0.path(), words)
    }

    /// The same as JSON.
    pub(crate) fn json(&self, words: &[&str]) -> Value {
        let words: Vec<&str> = words.iter().copied().chain(["--format", "json"]).collect();
        serde_json::from_str(&self.run(&words)).unwrap()
    }

    /// The same of a host that lies elsewhere.
    pub(crate) fn run_on(root: &Path, words: &[&str]) -> String {
        let binary = option_env!("HUGEWISE_BINARY").unwrap_or(env!("CARGO_BIN_EXE_hugewise"));
        let output =
            Command::new(binary).arg(words[0]).arg("--root").arg(root).args(&words[1..]).output();
        String::from_utf8(output.unwrap().stdout).unwrap()
    }
}
