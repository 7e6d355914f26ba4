//! A headless Chromium, driven by Debian's chromedriver (W3C WebDriver, Level 2).

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use hugewise_testkit::Skip;
use rustix::process::{Pid, Signal};
use serde_json::{Value, json};

use crate::real::harness::{self, Server, kernel};

/// Nothing that the browser is asked takes this long, its start on a busy machine included.
const LONG: Duration = Duration::from_secs(300);

/// A browser with one window; it and its driver are gone when dropped.
pub(super) struct Browser {
    // Dropped in this order, after the session has been ended below.
    driver: Server,
    folder: tempfile::TempDir,
    /// Where it has fonts of its own.
    fonts: Option<tempfile::TempDir>,
    port: u16,
    session: String,
}

/// A key as WebDriver has it.
pub(super) mod key {
    pub(in super::super) const TAB: &str = "\u{E004}";
    pub(in super::super) const ENTER: &str = "\u{E007}";
    pub(in super::super) const END: &str = "\u{E010}";
    pub(in super::super) const HOME: &str = "\u{E011}";
    pub(in super::super) const RIGHT: &str = "\u{E014}";
}

impl Browser {
    pub(super) fn start() -> Result<Self, Skip> {
        Self::start_with(&[])
    }

    /// One whose every letter is the same box, at the same size on any machine.
    pub(super) fn without_letters() -> Result<Self, Skip> {
        let fonts = harness::folder();
        let (font, config) = (fonts.path().join("boxes.ttf"), fonts.path().join("fonts.conf"));
        fs::write(font, include_bytes!("boxes.ttf")).unwrap();
        let place = fonts.path().display();
        let only = format!(
            "<fontconfig><dir>{place}</dir><cachedir>{place}/cache</cachedir></fontconfig>"
        );
        fs::write(&config, only).unwrap();
        let mut browser =
            Self::start_with(&[("FONTCONFIG_FILE", &config), ("TZ", Path::new("UTC"))])?;
        browser.fonts = Some(fonts);
        Ok(browser)
    }

    fn start_with(variables: &[(&str, &Path)]) -> Result<Self, Skip> {
        let chromium = harness::program(&["/usr/bin/chromium"])?;
        let program = harness::program(&["/usr/bin/chromedriver"])?;
        let folder = harness::folder();
        let mut command = Command::new("setpriv");
        command
            .args(["--pdeathsig=KILL", "--"])
            .arg(program)
            .arg("--port=0")
            .current_dir(folder.path());
        for (variable, place) in
            [("HOME", "home"), ("TMPDIR", "tmp"), ("XDG_CONFIG_HOME", "home/.config")]
        {
            let place = folder.path().join(place);
            fs::create_dir_all(&place).unwrap();
            command.env(variable, place);
        }
        command.envs(variables.iter().copied());
        let log = folder.path().join("driver.log");
        // It takes a free port of IPv6 and then the same of IPv4, which another program may have by
        // then.
        let mut started = (0..10).filter_map(|_| {
            let mut driver = Server::start(&mut command, &log, Signal::TERM);
            let port = driver.wait_for("chromedriver", |_| {
                let said = fs::read_to_string(&log).ok()?;
                if said.contains("Address already in use") {
                    return Some(None);
                }
                let (_, port) = said.split_once("started successfully on port ")?;
                Some(Some(port.split_once('.')?.0.parse().ok()?))
            });
            port.map(|port| (driver, port))
        });
        let (driver, port) = started.next().unwrap_or_else(|| panic!("chromedriver finds no port"));
        let mut browser = Self { driver, folder, fonts: None, port, session: String::new() };
        // A machine that is busy enough is given up on by the driver.
        let mut rounds = 0;
        browser.session = loop {
            rounds += 1;
            match browser.open(&chromium, &format!("profile{rounds}")) {
                Ok(session) => break session,
                Err(error) => assert!(rounds < 3, "no browser: {error}\n{}", browser.driver.log()),
            }
        };
        Ok(browser)
    }

    /// Has the driver start a browser; the session's name.
    fn open(&self, chromium: &Path, profile: &str) -> Result<String, String> {
        let profile = self.folder.path().join(profile);
        let options = json!({
            "binary": chromium,
            "args": [
                "--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--no-first-run",
                // With the driver's end the pipe ends, and with it the browser.
                "--remote-debugging-pipe",
                format!("--user-data-dir={}", profile.display()),
                // There is no world but this host.
                "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1", "--no-proxy-server",
                "--disable-background-networking", "--lang=en-US", "--window-size=1280,900",
            ],
        });
        let asked = json!({"capabilities": {"alwaysMatch": {
            "browserName": "chrome", "goog:chromeOptions": options, "goog:loggingPrefs": {"performance": "ALL"},
        }}});
        Ok(harness::text(&self.try_ask("POST", "/session", &asked)?["sessionId"]))
    }

    /// Asks the driver; its value, or why there is none.
    fn try_ask(&self, method: &str, path: &str, body: &Value) -> Result<Value, String> {
        let answer = converse(self.port, method, path, &body.to_string())
            .map_err(|error| error.to_string())?;
        let mut told: Value =
            serde_json::from_str(&answer).map_err(|error| format!("{error}: {answer}"))?;
        let value = told["value"].take();
        if value["error"].is_string() { Err(format!("{value:#}")) } else { Ok(value) }
    }

    #[track_caller]
    fn of_session(&self, path: &str, body: &Value) -> Value {
        let told = self.try_ask("POST", &format!("/session/{}/{path}", self.session), body);
        told.unwrap_or_else(|error| panic!("{path}: {error}\n{}", self.driver.log()))
    }

    /// Goes to an address, and is there when its page has been loaded.
    pub(super) fn go(&self, url: &str) {
        self.of_session("url", &json!({ "url": url }));
    }

    /// What a function's body returns in the page.
    #[track_caller]
    pub(super) fn run(&self, script: &str) -> Value {
        self.of_session("execute/sync", &json!({"script": script, "args": []}))
    }

    /// What a person reads in the first element of that kind; nothing where there is none.
    #[track_caller]
    pub(super) fn text(&self, selector: &str) -> String {
        self.try_text(selector).unwrap_or_else(|error| panic!("{selector}: {error}"))
    }

    /// The same of a page that may have gone.
    pub(super) fn try_text(&self, selector: &str) -> Result<String, String> {
        let script = format!("return document.querySelector({})?.innerText ?? ''", json!(selector));
        let path = format!("/session/{}/execute/sync", self.session);
        self.try_ask("POST", &path, &json!({"script": script, "args": []}))
            .map(|told| harness::text(&told))
    }

    /// Presses keys and lets them go, one after the other.
    #[track_caller]
    pub(super) fn press(&self, keys: &[&str]) {
        let strokes = keys
            .iter()
            .flat_map(|key| ["keyDown", "keyUp"].map(|kind| json!({"type": kind, "value": key})));
        let actions: Vec<Value> = strokes.collect();
        self.of_session(
            "actions",
            &json!({"actions": [{"type": "key", "id": "keyboard", "actions": actions}]}),
        );
    }

    /// Moves the pointer to a place in the window.
    #[track_caller]
    pub(super) fn point_at(&self, x: f64, y: f64) {
        let to = json!({"type": "pointerMove", "x": x.round(), "y": y.round(), "duration": 0, "origin": "viewport"});
        let pointer = json!({"type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"}, "actions": [to]});
        self.of_session("actions", &json!({"actions": [pointer]}));
    }

    /// How wide the page is, whatever the window's least is.
    pub(super) fn widen(&self, width: u32) {
        let metrics =
            json!({"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false});
        self.of_devtools("Emulation.setDeviceMetricsOverride", &metrics);
    }

    /// What the page is shown on: `screen` or `print`, `light` or `dark`.
    pub(super) fn show_on(&self, medium: &str, scheme: &str) {
        let feature = json!({"name": "prefers-color-scheme", "value": scheme});
        self.of_devtools(
            "Emulation.setEmulatedMedia",
            &json!({"media": medium, "features": [feature]}),
        );
    }

    /// A picture of the page, down to that height at the most, as WebP in base64, so many times as
    /// large as the page.
    #[track_caller]
    pub(super) fn picture(&self, scale: f64, most: u32) -> String {
        let size = self.run(
            "const page = document.documentElement; return [page.clientWidth, page.scrollHeight]",
        );
        let height = size[1].as_u64().unwrap().min(most.into());
        let clip = json!({"x": 0, "y": 0, "width": size[0], "height": height, "scale": scale});
        let how =
            json!({"format": "webp", "quality": 80, "captureBeyondViewport": true, "clip": clip});
        harness::text(&self.of_devtools("Page.captureScreenshot", &how)["data"])
    }

    #[track_caller]
    fn of_devtools(&self, command: &str, parameters: &Value) -> Value {
        self.of_session("goog/cdp/execute", &json!({"cmd": command, "params": parameters}))
    }

    /// What a function's body hands to `done`, whenever it does.
    #[track_caller]
    pub(super) fn run_later(&self, script: &str) -> Value {
        let script = format!("const done = arguments[arguments.length - 1]; {script}");
        self.of_session("execute/async", &json!({"script": script, "args": []}))
    }

    /// The address of every request that was made for a page of some server since this was last
    /// asked.
    pub(super) fn requests(&self) -> Vec<String> {
        let entries = self.of_session("se/log", &json!({"type": "performance"}));
        let text_of = |entry: &Value| {
            let message: Value = serde_json::from_str(entry["message"].as_str()?).ok()?;
            let (event, told) = (&message["message"]["method"], &message["message"]["params"]);
            // The browser has pages of its own, as it starts; they are documents inside it.
            let for_a_page = told["documentURL"].as_str()?.starts_with("http");
            (event == "Network.requestWillBeSent" && for_a_page)
                .then(|| harness::text(&told["request"]["url"]))
        };
        entries.as_array().unwrap().iter().filter_map(text_of).collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.try_ask("DELETE", &format!("/session/{}", self.session), &Value::Null);
        // Whatever became of the session: who works in this folder belongs to it, the driver
        // included.
        let until = Instant::now() + Duration::from_secs(60);
        loop {
            let left = working_in(self.folder.path());
            for pid in &left {
                let _ = rustix::process::kill_process(*pid, Signal::KILL);
            }
            if left.is_empty() || Instant::now() > until {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Processes whose working directory that is.
fn working_in(folder: &Path) -> Vec<Pid> {
    let works = |pid: &u32| {
        fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|at| at.starts_with(folder))
    };
    let pids = kernel::processes(|_| true).into_iter().filter(works);
    pids.filter_map(|pid| Pid::from_raw(i32::try_from(pid).ok()?)).collect()
}

/// One request, and the body of its answer.
fn converse(port: u16, method: &str, path: &str, body: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(LONG))?;
    let length = body.len();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: localhost:{port}\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    )?;
    let (mut answer, mut line, mut length) = (BufReader::new(stream), String::new(), 0);
    while answer.read_line(&mut line)? > 2 {
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().map_err(std::io::Error::other)?;
        }
        line.clear();
    }
    let mut body = String::new();
    answer.take(length).read_to_string(&mut body)?;
    Ok(body)
}
