//! Stories about other servers than Oracle's. Each happened in a virtual machine (`cargo xtask vm
//! stories`), and is replayed from what sysstat, the recorder, the kernel's and the server's logs
//! and `hugewise capture` kept of it, in `fixtures/servers`; what the kernel and the server
//! themselves said meanwhile stands in the notes beside each. docs/server-stories.md tells them.

mod jvm;
mod mariadb;
mod postgresql;
mod redis;

use std::path::PathBuf;

use serde_json::Value;

use crate::support::{fixtures, hugewise};

/// One of the stories.
struct Story {
    folder: PathBuf,
    notes: String,
}

impl Story {
    fn named(name: &str) -> Self {
        let notes =
            std::fs::read_to_string(fixtures(&format!("servers/{name}.notes.txt"))).unwrap();
        Self { folder: fixtures(&format!("servers/{name}")), notes }
    }

    /// What check says of a capture that was taken then.
    fn check(&self, then: &str) -> Value {
        let capture = self.folder.join(format!("{then}.tar.gz"));
        hugewise(&["check", "--root", capture.to_str().unwrap(), "--format", "json"]).json()
    }

    fn investigation(&self) -> Value {
        hugewise(&["investigate", self.folder.to_str().unwrap(), "--format", "json"]).json()
    }

    /// The whole of what investigate prints, as one line.
    fn told(&self) -> String {
        crate::stories::played::one_line(
            &hugewise(&["investigate", self.folder.to_str().unwrap()]).out,
        )
    }
}

/// The one incident of that verdict.
fn incident<'a>(investigation: &'a Value, verdict: &str) -> &'a Value {
    let all = investigation["incidents"].as_array().unwrap();
    let mut found = all.iter().filter(|incident| incident["verdict"] == verdict);
    let one = found.next().unwrap_or_else(|| panic!("no {verdict}: {all:#?}"));
    assert!(found.next().is_none(), "{all:#?}");
    one
}

fn finding<'a>(check: &'a Value, code: &str) -> Option<&'a Value> {
    check["findings"].as_array().unwrap().iter().find(|finding| finding["code"] == code)
}

fn instance<'a>(check: &'a Value, engine: &str) -> &'a Value {
    check["instances"]
        .as_array()
        .unwrap()
        .iter()
        .find(|instance| instance["engine"] == engine)
        .unwrap()
}

#[track_caller]
fn says(text: &str, all: &[&str]) {
    for words in all {
        assert!(text.contains(words), "{words}: {text}");
    }
}
