//! Instances: an Oracle database, ASM, the management database; their segments, processes and files.

use std::fmt::Write as _;

use crate::alert;
use crate::files::Files;
use crate::machine::{Distribution, Machine};
use crate::process::{Mapped, Memlock, Process, Processes};
use crate::{KIB_IN_HUGE, mib};

/// What kind of instance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
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
pub enum Pages {
    /// System V segments on pages of 4 KiB.
    #[default]
    Base,
    /// System V segments on pages of 2 MiB.
    Huge,
    /// So many pages of 2 MiB, and the rest on 4 KiB: from 11.2.0.3 on (Database Reference, USE_LARGE_PAGES).
    Mixed(u64),
    /// Files of /dev/shm: automatic memory management (Administrator's Reference for Linux 11.2, chapter 8).
    Amm,
}

/// Where its parameters are kept (Administrator's Guide, "About initialization parameter files and startup").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kept {
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
    pub kind: Kind,
    /// `11.2.0.3`; part of its home's path (Optimal Flexible Architecture).
    pub release: String,
    /// Its home, where it is not the usual one for its release.
    pub home: Option<String>,
    /// Whether the home is read-only: its files are below the base then (Installation Guide 18c, "About Read-Only Oracle Homes").
    pub read_only_home: bool,
    /// The account that owns the software.
    pub owner: String,
    /// Its SGA in bytes.
    pub sga: u64,
    /// Pages of the SGA.
    pub pages: Pages,
    /// Bytes of the SGA that each session has touched.
    pub touched: u64,
    /// Bytes of the SGA that are in swap.
    pub swapped: u64,
    /// Huge pages that nobody has touched yet: reserved.
    pub untouched: u64,
    /// Bytes of the managed global area: files of /dev/shm from 12.2 on, beside an SGA in System V segments.
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
    pub kept: Kept,
    /// The memlock limit of its processes.
    pub memlock: Memlock,
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
    /// An instance of the account `oracle` that runs with a small SGA on base pages and no sessions.
    #[must_use]
    pub fn new(sid: &str, release: &str) -> Self {
        Self {
            sid: sid.into(),
            kind: Kind::Rdbms,
            release: release.into(),
            home: None,
            read_only_home: false,
            owner: "oracle".into(),
            sga: mib(1024),
            pages: Pages::Base,
            touched: 0,
            swapped: 0,
            untouched: 0,
            managed: 0,
            sessions: 0,
            shared_servers: 0,
            private: 4096,
            clients: Vec::new(),
            parameters: Vec::new(),
            kept: Kept::Pfile,
            memlock: Memlock::Kib(32),
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
        self.set("sga_target", &format!("{}M", bytes >> 20))
    }

    /// The same with so many sessions, each of which has touched so many bytes of the SGA.
    #[must_use]
    pub fn with_sessions(mut self, sessions: u32, touched: u64) -> Self {
        (self.sessions, self.touched) = (sessions, touched.min(self.sga));
        self
    }

    /// The same with this parameter.
    #[must_use]
    pub fn set(mut self, name: &str, value: &str) -> Self {
        self.parameters.retain(|(other, _)| other != name);
        self.parameters.push((name.into(), value.into()));
        self
    }

    /// Its home (OFA: Installation Guide for Linux, "Optimal Flexible Architecture").
    #[must_use]
    pub fn home(&self) -> String {
        self.home.clone().unwrap_or_else(|| match self.kind {
            Kind::Rdbms => format!("{}/product/{}/dbhome_1", self.base(), self.release),
            Kind::Asm | Kind::Management => format!("/u01/app/{}/grid", self.release),
        })
    }

    /// Its base.
    #[must_use]
    pub fn base(&self) -> String {
        let home = self.home.as_deref().unwrap_or_default();
        let above = home.split_once("/product/").map(|(base, _)| base.to_owned());
        // SAP's: /oracle/SID/RELEASE.
        let of_sap = || Some(format!("/oracle/{}", home.strip_prefix("/oracle/")?.split_once('/')?.0));
        above.or_else(of_sap).unwrap_or_else(|| format!("/u01/app/{}", self.owner))
    }

    /// The folder of its parameter files.
    fn dbs(&self) -> String {
        if self.read_only_home { format!("{}/dbs", self.base()) } else { format!("{}/dbs", self.home()) }
    }

    /// Whether its release is that one or a newer one.
    #[must_use]
    pub fn is_release(&self, other: &[u32]) -> bool {
        let ours: Vec<u32> = self.release.split('.').filter_map(|part| part.parse().ok()).collect();
        ours.as_slice() >= other
    }

    /// Bytes of a granule, by the SGA's size and the release (My Oracle Support 947152.1).
    pub(crate) fn granule(&self) -> u64 {
        let steps: &[(u64, u64)] = if self.is_release(&[11, 2]) {
            &[(1, 4), (8, 16), (16, 32), (32, 64), (64, 128), (128, 256), (u64::MAX, 512)]
        } else if self.is_release(&[11]) {
            &[(1, 4), (4, 16), (16, 64), (64, 256), (u64::MAX, 512)]
        } else {
            &[(1, 4), (u64::MAX, 16)]
        };
        let gib = self.sga.div_ceil(1 << 30);
        steps.iter().find(|(most, _)| gib <= *most).map_or(mib(16), |(_, size)| mib(*size))
    }

    /// Its background processes that were always there since 11.1 (Database Reference, "Background Processes").
    fn background(&self) -> Vec<String> {
        let tasks: &[&str] = match self.kind {
            Kind::Asm => &[
                "pmon", "psp0", "vktm", "gen0", "diag", "dia0", "mman", "dbw0", "lgwr", "ckpt", "smon", "rbal", "gmon",
                "mmon", "mmnl",
            ],
            _ if self.is_release(&[11]) => &[
                "pmon", "psp0", "vktm", "gen0", "diag", "dbrm", "dia0", "mman", "dbw0", "lgwr", "ckpt", "smon", "reco",
                "mmon", "mmnl", "qmnc", "cjq0", "smco",
            ],
            _ => &["pmon", "psp0", "mman", "dbw0", "lgwr", "ckpt", "smon", "reco", "mmon", "mmnl", "qmnc", "cjq0"],
        };
        let prefix = self.prefix();
        let title = |task: &str| format!("{prefix}_{task}_{}", self.sid);
        let shared = (0..self.shared_servers).map(|number| title(&format!("s{number:03}")));
        tasks.iter().map(|task| title(task)).chain(shared).collect()
    }

    fn prefix(&self) -> &'static str {
        match self.kind {
            Kind::Rdbms if self.is_release(&[23]) => "db",
            Kind::Rdbms => "ora",
            Kind::Asm => "asm",
            Kind::Management => "mdb",
        }
    }

    fn is_on_huge_pages(&self) -> bool {
        matches!(self.pages, Pages::Huge | Pages::Mixed(_))
    }

    pub(crate) fn add(&self, machine: &Machine, segments: &[Segment], files: &mut Files, processes: &mut Processes) {
        self.add_parameters(files);
        let log = alert::Start { database: self, segments, machine };
        if self.logs {
            files.put(&alert::path(self), log.text());
        }
        if !self.running {
            return;
        }
        let background = self.background();
        let mut from = self.clients.iter().flat_map(|(address, count)| (0..*count).map(move |_| *address));
        let of_session = || format!("oracle{} (LOCAL=NO)", self.sid);
        let sessions = (0..self.sessions).map(|_| (of_session(), true));
        for (at, (title, is_session)) in background.into_iter().map(|title| (title, false)).chain(sessions).enumerate()
        {
            let mapped = mapped(segments, if is_session { self.touched } else { self.of_background(&title) });
            let sockets = if is_session { from.next() } else { None };
            let uid = machine.uid_of(&self.owner);
            let sockets = sockets.map(|client| processes.connect(client, 1521, uid)).into_iter().collect();
            processes.push(Process {
                name: if is_session { format!("oracle_{at}_{}", self.sid.to_lowercase()) } else { title.clone() },
                command: vec![title],
                executable: format!("{}/bin/oracle", self.home()),
                directory: self.dbs(),
                uid,
                groups: Machine::groups_of(&self.owner),
                memlock: self.memlock,
                cgroup: machine.cgroup(self.clustered),
                private: if is_session { self.private } else { 4096 },
                mapped,
                sockets,
                tells_pages: at == 0,
            });
        }
    }

    /// The database writer has touched all of it, the others what a session has.
    fn of_background(&self, title: &str) -> u64 {
        if title.contains("_dbw") { self.sga } else { self.touched }
    }

    fn add_parameters(&self, files: &mut Files) {
        let (home, dbs) = (self.home(), self.dbs());
        // What the program is, is nobody's business here: that it is there is.
        files.put(&format!("{home}/bin/oracle"), "");
        // Whose base it is, since 11.2; Y for a read-only home (Installation Guide 18c, "About orabasetab").
        if self.is_release(&[11, 2]) {
            let letter = if self.read_only_home { 'Y' } else { 'N' };
            files.put(&format!("{home}/install/orabasetab"), format!("{home}:{}:OraHome1:{letter}:\n", self.base()));
        }
        // `orapwSID` is there with every layout, so that the folder is.
        files.put(&format!("{dbs}/orapw{}", self.sid), "");
        let text: String = self.parameters.iter().map(|(name, value)| format!("*.{name}={value}\n")).collect();
        match self.kept {
            Kept::Pfile => files.put(&format!("{dbs}/init{}.ora", self.sid), text),
            Kept::Spfile => files.put(&format!("{dbs}/spfile{}.ora", self.sid), spfile(&text)),
            Kept::InAsm => {}
        }
    }
}

/// A server parameter file: blocks of 512 bytes with a header of 20, a tail of 4, and the text between them (Frits Hoogland,
/// "Getting the database parameters from a spfile"; the sample of RedHatInsights' insights-core).
fn spfile(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for part in text.as_bytes().chunks(512 - 24) {
        let mut block = vec![0_u8; 20];
        block.splice(..2, *b"C\"");
        block.extend_from_slice(part);
        block.resize(512, 0);
        bytes.extend(block);
    }
    bytes.extend([0; 512]);
    bytes
}

/// A segment of shared memory.
#[derive(Clone, Debug)]
pub(crate) struct Segment {
    pub(crate) id: u64,
    pub(crate) key: u32,
    pub(crate) start: u64,
    pub(crate) bytes: u64,
    pub(crate) huge: bool,
    /// The file of /dev/shm; none of a System V segment.
    pub(crate) file: Option<String>,
    /// KiB in swap.
    pub(crate) swapped: u64,
    /// KiB that nobody has touched.
    pub(crate) untouched: u64,
}

impl Segment {
    pub(crate) fn kib(&self) -> u64 {
        self.bytes >> 10
    }

    /// KiB of it that are in memory.
    pub(crate) fn resident(&self) -> u64 {
        self.kib().saturating_sub(self.swapped + self.untouched)
    }
}

/// Segments of each instance, with identifiers that are theirs alone.
pub(crate) fn layout(databases: &[Database]) -> Vec<Vec<Segment>> {
    let mut id = 32_769;
    databases.iter().map(|database| if database.running { segments(database, &mut id) } else { Vec::new() }).collect()
}

/// Up to 11.2.0.2 one segment; from 11.2.0.3 on the fixed part, the rest, and a page for the key (Asanga Pradeep, "Oracle Shared
/// Memory Segments", of 11.2.0.3 and 12.1). Where pages are mixed, what is on huge pages is a segment of its own.
fn segments(database: &Database, id: &mut u64) -> Vec<Segment> {
    let (sga, granule) = (database.sga, database.granule());
    let whole = |huge| vec![(sga, huge)];
    let parts = match database.pages {
        Pages::Amm => vec![(granule, false); usize::try_from(sga.div_ceil(granule)).unwrap_or_default()],
        Pages::Mixed(pages) => {
            let huge = (pages * (KIB_IN_HUGE << 10)).min(sga);
            vec![(huge, true), (sga - huge, false)]
        }
        Pages::Base | Pages::Huge if database.is_release(&[11, 2, 0, 3]) => {
            let huge = database.is_on_huge_pages();
            vec![(granule, huge), (sga.saturating_sub(granule), huge), (KIB_IN_HUGE << 10, huge)]
        }
        Pages::Base | Pages::Huge => whole(database.is_on_huge_pages()),
    };
    let managed = (database.managed > 0).then_some(database.managed);
    let mut start = 0x6000_0000_u64;
    let last = parts.len().saturating_sub(1);
    let (mut swapped, mut untouched) = (database.swapped >> 10, database.untouched * KIB_IN_HUGE);
    let in_files = database.pages == Pages::Amm;
    let mut made: Vec<Segment> = Vec::new();
    for (at, (bytes, huge)) in parts.into_iter().filter(|(bytes, _)| *bytes > 0).enumerate() {
        let kib = bytes >> 10;
        let (out, free) = (if huge { 0 } else { swapped.min(kib) }, if huge { untouched.min(kib) } else { 0 });
        (swapped, untouched) = (swapped - out, untouched - free);
        made.push(Segment {
            id: *id,
            key: if at == last { 0x7b2c_1d44 ^ u32::try_from(*id & 0xffff).unwrap_or_default() } else { 0 },
            start,
            bytes,
            huge,
            // The form that Oracle's processes show: ora_SID_SHMID_N.
            file: in_files.then(|| format!("/dev/shm/ora_{}_{}_{at}", database.sid, 229_381)),
            swapped: out,
            untouched: free,
        });
        *id += 1;
        start = (start + bytes).next_multiple_of(mib(2));
    }
    if let Some(bytes) = managed {
        let file = Some(format!("/dev/shm/ora_{}_mga_0", database.sid));
        made.push(Segment {
            id: *id,
            key: 0,
            start: start.next_multiple_of(mib(1024)),
            bytes,
            huge: false,
            file,
            swapped: 0,
            untouched: 0,
        });
        *id += 1;
    }
    made
}

/// What a process maps that has touched so many bytes: the first segments first.
fn mapped(segments: &[Segment], touched: u64) -> Vec<Mapped> {
    let mut left = touched >> 10;
    let map = |segment: &Segment| {
        let share = left.min(segment.resident());
        left -= share;
        let of_system_v = segment.file.is_none();
        Mapped {
            start: segment.start,
            bytes: segment.bytes,
            device: if of_system_v { "00:04" } else { "00:13" },
            inode: segment.id,
            name: segment.file.clone().unwrap_or_else(|| format!("/SYSV{:08x} (deleted)", segment.key)),
            huge: segment.huge,
            touched: share,
        }
    };
    segments.iter().map(map).collect()
}

/// oratab, and limits and kernel parameters as Oracle's preinstallation sets them.
pub(crate) fn add_tables(databases: &[Database], clustered: bool, files: &mut Files) {
    let mut text = "# written by dbca and root.sh: $ORACLE_SID:$ORACLE_HOME:<N|Y>:\n".to_owned();
    for database in databases {
        // Of a cluster's databases Clusterware decides, and the table says N.
        let letter = if database.starts_at_boot && !clustered { 'Y' } else { 'N' };
        let _ = writeln!(text, "{}:{}:{letter}", database.sid, database.home());
    }
    if !databases.is_empty() {
        files.put("/etc/oratab", text);
    }
}

/// Rows of /proc/sysvipc/shm; kernels before 2.6.33 know no rss and swap (ipc/shm.c).
pub(crate) fn system_v(machine: &Machine, databases: &[Database], layout: &[Vec<Segment>]) -> String {
    let tells = machine.distribution != Distribution::RedHat5;
    let more = if tells { "                   rss                  swap" } else { "" };
    let mut text = format!(
        "       key      shmid perms                  size  cpid  lpid nattch   uid   gid  cuid  cgid      atime      dtime      ctime{more}\n"
    );
    for (database, segments) in databases.iter().zip(layout) {
        let attached = database.background().len() + usize::try_from(database.sessions).unwrap_or_default();
        for segment in segments.iter().filter(|segment| segment.file.is_none()) {
            let uid = machine.uid_of(&database.owner);
            let _ = write!(
                text,
                "{:>10} {:>10}  640 {:>21}  4100  4100 {attached:>6} {uid} 54321 {uid} 54321 1759900000 1759900000 1759890000",
                segment.key, segment.id, segment.bytes
            );
            if tells {
                let _ = write!(text, " {:>21} {:>21}", segment.resident() << 10, segment.swapped << 10);
            }
            text.push('\n');
        }
    }
    text
}
