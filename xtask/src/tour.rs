//! `cargo xtask tour`: the pictures of docs/tour.md, taken anew of the real program in a real
//! browser and a real terminal.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use hugewise_testkit::tools::{Failure, programs, shell};

/// How long what is live is let go on, so that there is a history to be seen.
const HISTORY: Duration = Duration::from_secs(45);

/// Pictures of a page that fills itself.
const SHOTS: u32 = 5;

/// The pages that are taken: name, command line, height.
const PAGES: [(&str, &str, u32); 5] = [
    ("check", "check --root fixtures/hosts/oracle-many-sessions --format html", 1250),
    (
        "report",
        "report --root fixtures/hosts/oracle-many-sessions --format html \
             fixtures/collectors/two-freezes.sar",
        1250,
    ),
    (
        "size",
        "size --memory 128G --sessions 1000 --engine oracle --sga 34G --asm --format html",
        1300,
    ),
    ("investigate", "investigate fixtures/collectors/two-freezes.sar --format html", 1250),
    (
        "lab",
        "lab page-tables --segment 512M --sessions 100 --pages 4k,2m --yes --format html",
        1250,
    ),
];

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// This program instead of a release build.
    #[arg(long, value_name = "PROGRAM")]
    hugewise: Option<PathBuf>,
    /// Only these pictures: check, report, size, investigate, lab, dashboard, watch.
    names: Vec<String>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let hugewise = programs::hugewise(arguments.hugewise.as_deref())?;
    let folder = tempfile::tempdir()?;
    let tour = Tour {
        hugewise,
        folder: folder.path().to_owned(),
        pictures: shell::root().join("docs/tour"),
    };
    fs::create_dir_all(&tour.pictures)?;
    let is_wanted = |name: &str| {
        arguments.names.is_empty() || arguments.names.iter().any(|wanted| wanted == name)
    };
    for (name, words, height) in PAGES.into_iter().filter(|(name, ..)| is_wanted(name)) {
        tour.page(name, &words.split(' ').collect::<Vec<_>>(), height)?;
    }
    if !(is_wanted("dashboard") || is_wanted("watch")) {
        return Ok(());
    }
    let mut server = Command::new(programs::standin()?);
    server.args(["--as", "oracle:PROD", "--segments", "1G", "--sessions", "100"]);
    let _server = Running::start(&mut server, true, |line| (line == "ready").then_some(()))?;
    if is_wanted("dashboard") {
        tour.dashboard()?;
    }
    if is_wanted("watch") { tour.watch() } else { Ok(()) }
}

struct Tour {
    hugewise: PathBuf,
    /// For what is only on the way.
    folder: PathBuf,
    pictures: PathBuf,
}

impl Tour {
    /// A report that is one page.
    fn page(&self, name: &str, arguments: &[&str], height: u32) -> Result<(), Failure> {
        println!("$ hugewise {}", arguments.join(" "));
        let output =
            shell::command(&self.hugewise).args(arguments).stdin(Stdio::null()).output()?;
        if output.stdout.is_empty() {
            return Err(format!("{name}: {}", String::from_utf8_lossy(&output.stderr)).into());
        }
        let page = self.folder.join(format!("{name}.html"));
        fs::write(&page, output.stdout)?;
        self.picture(name, &format!("file://{}", page.display()), height)
    }

    fn dashboard(&self) -> Result<(), Failure> {
        let mut command = Command::new(&self.hugewise);
        command.args(["serve", "--listen", "127.0.0.1:0", "--interval", "1"]);
        let (_serve, address) = Running::start(&mut command, false, |line| {
            line.strip_prefix("listening at ").map(str::to_owned)
        })?;
        thread::sleep(HISTORY);
        // It is filled by events, which may come after the picture was taken: the fullest of
        // several.
        let file = self.pictures.join("dashboard.png");
        let mut fullest = Vec::new();
        for _ in 0..SHOTS {
            self.picture("dashboard", &address, 2250)?;
            let shot = fs::read(&file)?;
            if shot.len() > fullest.len() {
                fullest = shot;
            }
        }
        Ok(fs::write(file, fullest)?)
    }

    fn watch(&self) -> Result<(), Failure> {
        let socket = self.folder.join("tmux");
        let tmux = |arguments: &[&str]| {
            let mut command = shell::command("tmux");
            command
                .env("LC_ALL", "C.UTF-8")
                .arg("-S")
                .arg(&socket)
                .args(["-f", "/dev/null"])
                .args(arguments);
            shell::output(&mut command)
        };
        let watch = format!("'{}' watch --interval 1", self.hugewise.display());
        tmux(&["new-session", "-d", "-x", "100", "-y", "26", &watch])?;
        thread::sleep(HISTORY);
        let screen = String::from_utf8(tmux(&["capture-pane", "-p"])?)?;
        tmux(&["kill-server"])?;
        let text = screen.replace('&', "&amp;").replace('<', "&lt;");
        let style = "margin:0;padding:16px;background:#0d1117;color:#e6edf3;font:15px/1.25 \
             'DejaVu Sans Mono',monospace";
        let page = self.folder.join("watch.html");
        fs::write(
            &page,
            format!("<!doctype html><meta charset=utf-8><body style=\"{style}\"><pre>{text}</pre>"),
        )?;
        self.picture("watch", &format!("file://{}", page.display()), 540)
    }

    fn picture(&self, name: &str, address: &str, height: u32) -> Result<(), Failure> {
        let file = self.pictures.join(format!("{name}.png"));
        let profile = self.folder.join("profile");
        let mut browser = shell::command("chromium");
        browser.args([
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
            "--timeout=10000",
        ]);
        browser
            .arg(format!("--user-data-dir={}", profile.display()))
            .arg(format!("--window-size=1000,{height}"));
        browser.arg(format!("--screenshot={}", file.display())).arg(address);
        shell::output(&mut browser)?;
        println!("{}: {} bytes", file.display(), fs::metadata(&file)?.len());
        Ok(())
    }
}

/// A program that runs until it is dropped.
struct Running {
    child: Child,
    /// It ends when its input does, and would leave something behind if it were killed.
    ends_with_input: bool,
}

impl Running {
    /// Starts it, and waits for a line of its that says so.
    fn start<T>(
        command: &mut Command,
        ends_with_input: bool,
        mut ready: impl FnMut(&str) -> Option<T>,
    ) -> Result<(Self, T), Failure> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let output = child.stdout.take();
        let running = Self { child, ends_with_input };
        for line in output.map(BufReader::new).into_iter().flat_map(BufRead::lines) {
            if let Some(told) = ready(&line?) {
                return Ok((running, told));
            }
        }
        Err(format!("{} does not start", command.get_program().to_string_lossy()).into())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        if !self.ends_with_input {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}
