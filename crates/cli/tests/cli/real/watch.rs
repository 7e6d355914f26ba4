//! `hugewise watch` in a real terminal, which is one of tmux's.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use hugewise_lab::guard::PoolGuard;
use hugewise_model::{PageCount, PageSize};
use hugewise_testkit::{Skip, require};
use tempfile::TempDir;

use crate::real::harness::{self, HUGEWISE};

/// A terminal in which `hugewise watch` runs; gone with all that is in it when dropped.
struct Terminal {
    tmux: PathBuf,
    folder: TempDir,
}

impl Terminal {
    fn watch(arguments: &str) -> Result<Self, Skip> {
        Self::watch_after("", arguments)
    }

    fn watch_after(before: &str, arguments: &str) -> Result<Self, Skip> {
        let tmux = harness::program(&["/usr/bin/tmux"])?;
        let terminal = Self { tmux, folder: harness::folder() };
        // What holds of the terminal before and after it, and how it ended.
        let script = format!(
            "{before}cd '{}'; stty -a >before; echo $$ >shell; '{HUGEWISE}' watch {arguments}; \
                 echo \"ended with $?\" >ended; \
             stty -a >after; mv after settings; cat",
            terminal.path("").display()
        );
        terminal.tmux(&["new-session", "-d", "-s", "watch", "-x", "100", "-y", "30", &script]);
        Ok(terminal)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn tmux(&self, arguments: &[&str]) -> String {
        let mut command = Command::new(&self.tmux);
        command
            .env("LC_ALL", "C.UTF-8")
            .arg("-S")
            .arg(self.path("socket"))
            .args(["-f", "/dev/null"]);
        harness::must(command.args(arguments))
    }

    fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p", "-t", "watch"])
    }

    fn press(&self, keys: &[&str]) {
        self.tmux(&[&["send-keys", "-t", "watch"], keys].concat());
    }

    /// The screen, once all of that is on it.
    fn shows(&self, texts: &[&str]) -> String {
        let what = format!("a screen with {texts:?}");
        harness::wait_for(&what, || {
            let screen = self.screen();
            texts.iter().all(|text| screen.contains(text)).then_some(screen)
        })
    }

    /// Holds that it has ended with 0, and that the terminal is as it was before.
    fn has_ended(&self) {
        let read = |name: &str| fs::read_to_string(self.path(name)).ok();
        let after = harness::wait_for("watch ends", || read("settings"));
        assert_eq!(read("ended").unwrap(), "ended with 0\n");
        assert_eq!(after, read("before").unwrap());
        // A program that draws over all of a terminal puts back what was on it.
        assert_eq!(self.screen().trim(), "");
    }

    /// The process of hugewise itself.
    fn pid(&self) -> String {
        let shell = fs::read_to_string(self.path("shell")).unwrap();
        let children = format!("/proc/{0}/task/{0}/children", shell.trim());
        fs::read_to_string(children).unwrap().trim().to_owned()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ =
            Command::new(&self.tmux).arg("-S").arg(self.path("socket")).arg("kill-server").status();
    }
}

fn fixture(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(name).display().to_string()
}

#[test]
fn a_pool_that_changes_is_seen_to_change() {
    let guard = require!(PoolGuard::take_for_test());
    require!(guard.set_pool(PageSize::MIB_2, PageCount(16)));
    let terminal = require!(Terminal::watch("--interval 1"));
    terminal.shows(&["live", "page tables", "16 pages, 0 taken, 16 left"]);
    require!(guard.set_pool(PageSize::MIB_2, PageCount(24)));
    terminal.shows(&["24 pages, 0 taken, 24 left"]);
    // Back to what was seen before, while the host goes on.
    terminal.press(&["Home"]);
    terminal.shows(&["paused", "16 pages, 0 taken"]);
    terminal.press(&["q"]);
    terminal.has_ended();
}

#[test]
fn an_archive_is_walked_through_and_a_signal_leaves_the_terminal_as_it_was() {
    let terminal = require!(Terminal::watch(&format!(
        "--replay '{}' --speed 64",
        fixture("collectors/two-freezes.sar")
    )));
    terminal.shows(&["recorded 23 of 23", "db7  Linux 5.4.17", "2026-11-21T11:20:01"]);
    terminal.press(&["Home"]);
    terminal.shows(&["recorded 1 of 23", "2026-11-21T07:40:01", "no data about instances"]);
    terminal.shows(&[
        "07:40 to 11:20",
        "2: n next, N back",
        "next: reclaim-by-page-tables at 2026-11-21T08:20:01 (n)",
    ]);
    // The rows of the file in which both incidents begin.
    terminal.press(&["n", "n"]);
    terminal.shows(&["recorded 18 of 23", "2026-11-21T10:30:01", "reclaim-by-page-tables"]);
    terminal.press(&["N", "Right", "Right", "Tab"]);
    terminal.shows(&["recorded 7 of 23", "reclaim-by-page-tables"]);
    terminal.press(&["Enter"]);
    terminal.shows(&["Finding", "hugewise size"]);
    harness::must(Command::new("kill").args(["-TERM", &terminal.pid()]));
    terminal.has_ended();
}

#[test]
fn a_capture_is_shown_as_the_host_was() {
    let terminal =
        require!(Terminal::watch(&format!("--replay '{}'", fixture("hosts/oracle-many-sessions"))));
    terminal.shows(&["recorded 1 of 1", "oracle ", "HW"]);
    terminal.press(&["Enter"]);
    terminal.shows(&["What it needs to get huge pages", "Esc back"]);
    terminal.press(&["Escape"]);
    terminal.shows(&["Instances"]);
    terminal.press(&["C-c"]);
    terminal.has_ended();
}

#[test]
fn a_terminal_that_goes_takes_it_along() {
    // The second one does not hear that its terminal hangs up.
    for before in ["", "trap '' HUP; "] {
        let terminal = require!(Terminal::watch_after(before, "--interval 1"));
        terminal.shows(&["live"]);
        let process = PathBuf::from(format!("/proc/{}", terminal.pid()));
        assert!(process.exists());
        drop(terminal);
        harness::wait_for("the end of watch", || (!process.exists()).then_some(()));
    }
}

#[test]
fn without_a_terminal_it_says_what_to_use_instead() {
    let output = Command::new(HUGEWISE).arg("watch").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("needs a terminal") && said.contains("check"), "{said}");
}
