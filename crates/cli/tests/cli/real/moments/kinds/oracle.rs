//! The stand-in with Oracle's process names, started as `use_large_pages` in its init.ora says.
//!
//! What the stand-in is told to do is what Oracle's documentation says of 11.2.0.3 and later: TRUE
//! takes the free huge pages and base pages for the rest, ONLY refuses to start where one is
//! missing, FALSE asks for none, AUTO has the pool raised first.

use std::cell::{Cell, RefCell};
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::{Kind, Live};
use crate::real::harness::{self, MIB, kernel};
use crate::real::moments::mappings::Mapping;
use crate::real::oracle;

const POOL: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB";

/// An Oracle home with one instance.
pub(in crate::real::moments) struct Oracle {
    home: tempfile::TempDir,
    sid: &'static str,
    settings: RefCell<String>,
    user: Cell<Option<u32>>,
}

impl Oracle {
    pub(in crate::real::moments) fn new(sid: &'static str) -> Self {
        let home = harness::folder();
        for folder in ["bin", "dbs"] {
            fs::create_dir(home.path().join(folder)).unwrap();
        }
        let program = home.path().join("bin/oracle");
        fs::copy(oracle::program(), &program).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        Self { home, sid, settings: RefCell::default(), user: Cell::new(None) }
    }

    /// From now on it runs as this user and the group of the same number.
    pub(in crate::real::moments) fn run_as(&self, user: u32) {
        self.user.set(Some(user));
    }

    fn setting(&self, name: &str) -> Option<String> {
        let settings = self.settings.borrow();
        settings
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix('=').map(str::to_owned))
    }

    /// What it asks for, from its parameters and the pool's free pages.
    fn memory(&self) -> Vec<String> {
        let size = self.setting("sga_target").expect("sga_target");
        let size: u64 = size.trim_end_matches('M').parse().expect("MiB");
        let wanted = size / 2;
        let number = |name: &str| -> u64 {
            fs::read_to_string(format!("{POOL}/{name}")).unwrap().trim().parse().unwrap()
        };
        let available = || number("free_hugepages") - number("resv_hugepages");
        let policy = self.setting("use_large_pages").unwrap_or_else(|| "TRUE".into());
        if policy == "AUTO" && available() < wanted {
            let raised = number("nr_hugepages") + wanted - available();
            fs::write(format!("{POOL}/nr_hugepages"), raised.to_string()).unwrap();
        }
        let huge = match policy.as_str() {
            "FALSE" => 0,
            "ONLY" => wanted,
            _ => available().min(wanted),
        };
        let words = match (huge * 2, size - huge * 2) {
            (0, base) => ["--segments".into(), format!("{base}M"), "--pages".into(), "base".into()],
            (huge, 0) => ["--segments".into(), format!("{huge}M"), "--pages".into(), "2M".into()],
            (huge, base) => {
                ["--segments".into(), format!("{huge}M,{base}M"), "--pages".into(), "mixed".into()]
            }
        };
        let mut words = words.to_vec();
        if policy != "ONLY" {
            words.push("--fall-back".into());
        }
        words
    }
}

/// The one that has started the instance: it ends all of it when its standard input closes.
struct Starter(Child);

impl Drop for Starter {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

impl Kind for Oracle {
    fn engine(&self) -> &'static str {
        "oracle"
    }

    /// Its init.ora; `sga_target` is in MiB and a multiple of 2.
    fn configure(&self, settings: &str) {
        settings.clone_into(&mut self.settings.borrow_mut());
        fs::write(
            self.home.path().join(format!("dbs/init{}.ora", self.sid)),
            format!("{settings}\n"),
        )
        .unwrap();
    }

    fn launch(&self) -> Result<Live, String> {
        let home: &Path = self.home.path();
        let mut command = Command::new(home.join("bin/oracle"));
        command.env("ORACLE_HOME", home).env("ORACLE_SID", self.sid).current_dir(home.join("dbs"));
        command
            .args(["--as", &format!("oracle:{}", self.sid), "--sessions", "2"])
            .args(self.memory());
        if let Some(user) = self.user.get() {
            command.args(["--user", &format!("{user}:{user}")]);
        }
        let log = fs::File::create(home.join("log")).unwrap();
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let ready = lines.map_while(Result::ok).any(|line| line == "ready");
        let starter = Starter(child);
        if !ready {
            drop(starter);
            return Err(fs::read_to_string(home.join("log")).unwrap_or_default().trim().to_owned());
        }
        let title = format!("ora_pmon_{}\0", self.sid);
        let pid = kernel::processes(|command| command == title).pop().expect("PMON");
        Ok(Live::new(pid, starter))
    }

    fn counts(&self, mapping: &Mapping) -> bool {
        mapping.name.starts_with("/SYSV") && mapping.size >= MIB
    }
}
