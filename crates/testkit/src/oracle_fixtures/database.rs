//! Instances: an Oracle database, ASM, the management database.

use super::memlock::FixtureMemlock;
use super::mib_to_bytes;

/// What kind of instance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DatabaseKind {
    /// A database's.
    #[default]
    Rdbms,
    /// Automatic Storage Management, `+ASM1`.
    Asm,
    /// The Grid Infrastructure management repository, `-MGMTDB`.
    Management,
}

/// On which pages its SGA is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SgaPages {
    /// System V segments on pages of 4 KiB.
    #[default]
    Base,
    /// System V segments on pages of 2 MiB.
    Huge,
    /// So many pages of 2 MiB, and the rest on 4 KiB: from 11.2.0.3 on (Database Reference,
    /// USE_LARGE_PAGES).
    Mixed(u64),
    /// Files of /dev/shm: automatic memory management (Administrator's Reference for Linux 11.2,
    /// chapter 8).
    Amm,
}

/// Where its parameters are kept (Administrator's Guide, "About initialization parameter files and
/// startup").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ParameterStore {
    /// `initSID.ora`.
    #[default]
    Pfile,
    /// `spfileSID.ora`.
    Spfile,
    /// In ASM: a cluster's registry names the place, and no file of the host does.
    InAsm,
}

/// One instance.
#[derive(Clone, Debug)]
pub struct Database {
    /// Its system identifier.
    pub sid: String,
    /// What it is.
    pub kind: DatabaseKind,
    /// `11.2.0.3`; part of its home's path (Optimal Flexible Architecture).
    pub release: String,
    /// Its home, where it is not the usual one for its release.
    pub home: Option<String>,
    /// Whether the home is read-only: its files are below the base then (Installation Guide 18c,
    /// "About Read-Only Oracle Homes").
    pub read_only_home: bool,
    /// The account that owns the software.
    pub owner: String,
    /// Its SGA in bytes.
    pub sga: u64,
    /// Pages of the SGA.
    pub pages: SgaPages,
    /// Bytes of the SGA that each session has touched.
    pub touched: u64,
    /// Bytes of the SGA that are in swap.
    pub swapped: u64,
    /// Huge pages that nobody has touched yet: reserved.
    pub untouched: u64,
    /// Bytes of the managed global area: files of /dev/shm from 12.2 on, beside an SGA in System V
    /// segments.
    pub managed: u64,
    /// Dedicated servers.
    pub sessions: u32,
    /// Shared servers.
    pub shared_servers: u32,
    /// Private memory of each session: KiB.
    pub private: u64,
    /// Clients that hold its sessions: address and connections.
    pub clients: Vec<([u8; 4], u32)>,
    /// Its parameters, as its file has them.
    pub parameters: Vec<(String, String)>,
    /// Where these are.
    pub kept: ParameterStore,
    /// The memlock limit of its processes.
    pub memlock: FixtureMemlock,
    /// Whether it runs.
    pub running: bool,
    /// Whether oratab has it started at the boot.
    pub starts_at_boot: bool,
    /// Whether it has written an alert log.
    pub logs: bool,
    /// Whether Clusterware has started it: its processes are in its cgroup then.
    pub clustered: bool,
}

impl Database {
    /// An instance of the account `oracle` that runs with a small SGA on base pages and no
    /// sessions.
    #[must_use]
    pub fn new(sid: &str, release: &str) -> Self {
        Self {
            sid: sid.into(),
            kind: DatabaseKind::Rdbms,
            release: release.into(),
            home: None,
            read_only_home: false,
            owner: "oracle".into(),
            sga: mib_to_bytes(1024),
            pages: SgaPages::Base,
            touched: 0,
            swapped: 0,
            untouched: 0,
            managed: 0,
            sessions: 0,
            shared_servers: 0,
            private: 4096,
            clients: Vec::new(),
            parameters: Vec::new(),
            kept: ParameterStore::Pfile,
            memlock: FixtureMemlock::Kib(32),
            running: true,
            starts_at_boot: true,
            logs: true,
            clustered: false,
        }
    }

    /// The same with this SGA, which its parameters ask for too.
    #[must_use]
    pub fn with_sga(mut self, bytes: u64) -> Self {
        self.sga = bytes;
        self.touched = self.touched.min(bytes);
        self.with_parameter("sga_target", &format!("{}M", bytes >> 20))
    }

    /// The same with so many sessions, each of which has touched so many bytes of the SGA.
    #[must_use]
    pub fn with_sessions(mut self, sessions: u32, touched: u64) -> Self {
        (self.sessions, self.touched) = (sessions, touched.min(self.sga));
        self
    }

    /// The same with this parameter.
    #[must_use]
    pub fn with_parameter(mut self, name: &str, value: &str) -> Self {
        self.parameters.retain(|(other, _)| other != name);
        self.parameters.push((name.into(), value.into()));
        self
    }

    /// Its home (OFA: Installation Guide for Linux, "Optimal Flexible Architecture").
    #[must_use]
    pub fn home(&self) -> String {
        self.home.clone().unwrap_or_else(|| match self.kind {
            DatabaseKind::Rdbms => format!("{}/product/{}/dbhome_1", self.base(), self.release),
            DatabaseKind::Asm | DatabaseKind::Management => {
                format!("/u01/app/{}/grid", self.release)
            }
        })
    }

    /// Its base.
    #[must_use]
    pub fn base(&self) -> String {
        let home = self.home.as_deref().unwrap_or_default();
        let above = home.split_once("/product/").map(|(base, _)| base.to_owned());
        // SAP's: /oracle/SID/RELEASE.
        let of_sap =
            || Some(format!("/oracle/{}", home.strip_prefix("/oracle/")?.split_once('/')?.0));
        above.or_else(of_sap).unwrap_or_else(|| format!("/u01/app/{}", self.owner))
    }

    /// The folder of its parameter files.
    pub(crate) fn dbs_folder(&self) -> String {
        if self.read_only_home {
            format!("{}/dbs", self.base())
        } else {
            format!("{}/dbs", self.home())
        }
    }

    /// Whether its release is that one or a newer one.
    #[must_use]
    pub fn is_release(&self, other: &[u32]) -> bool {
        let ours: Vec<u32> = self.release.split('.').filter_map(|part| part.parse().ok()).collect();
        ours.as_slice() >= other
    }

    /// Bytes of a granule, by the SGA's size and the release (My Oracle Support 947152.1).
    pub(crate) fn granule_bytes(&self) -> u64 {
        let steps: &[(u64, u64)] = if self.is_release(&[11, 2]) {
            &[(1, 4), (8, 16), (16, 32), (32, 64), (64, 128), (128, 256), (u64::MAX, 512)]
        } else if self.is_release(&[11]) {
            &[(1, 4), (4, 16), (16, 64), (64, 256), (u64::MAX, 512)]
        } else {
            &[(1, 4), (u64::MAX, 16)]
        };
        let gib = self.sga.div_ceil(1 << 30);
        steps
            .iter()
            .find(|(most, _)| gib <= *most)
            .map_or(mib_to_bytes(16), |(_, size)| mib_to_bytes(*size))
    }

    /// Its background processes that were always there since 11.1 (Database Reference, "Background
    /// Processes").
    pub(crate) fn background_processes(&self) -> Vec<String> {
        let tasks: &[&str] = match self.kind {
            DatabaseKind::Asm => &[
                "pmon", "psp0", "vktm", "gen0", "diag", "dia0", "mman", "dbw0", "lgwr", "ckpt",
                "smon", "rbal", "gmon", "mmon", "mmnl",
            ],
            _ if self.is_release(&[11]) => &[
                "pmon", "psp0", "vktm", "gen0", "diag", "dbrm", "dia0", "mman", "dbw0", "lgwr",
                "ckpt", "smon", "reco", "mmon", "mmnl", "qmnc", "cjq0", "smco",
            ],
            _ => &[
                "pmon", "psp0", "mman", "dbw0", "lgwr", "ckpt", "smon", "reco", "mmon", "mmnl",
                "qmnc", "cjq0",
            ],
        };
        let prefix = self.process_prefix();
        let title = |task: &str| format!("{prefix}_{task}_{}", self.sid);
        let shared = (0..self.shared_servers).map(|number| title(&format!("s{number:03}")));
        tasks.iter().map(|task| title(task)).chain(shared).collect()
    }

    pub(crate) fn process_prefix(&self) -> &'static str {
        match self.kind {
            DatabaseKind::Rdbms if self.is_release(&[23]) => "db",
            DatabaseKind::Rdbms => "ora",
            DatabaseKind::Asm => "asm",
            DatabaseKind::Management => "mdb",
        }
    }

    pub(crate) fn is_on_huge_pages(&self) -> bool {
        matches!(self.pages, SgaPages::Huge | SgaPages::Mixed(_))
    }
}
