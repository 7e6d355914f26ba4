//! Asks the server's own program what a stopped server would need.
//!
//! `postgres -C` takes the lock of its data directory: it writes `postmaster.pid` there and removes
//! it again. If the directory belongs to a running server in another container or on another
//! machine, whose pid means nothing here, that server loses its lock and shuts down. So the program
//! never gets the data directory, but an empty one with copies of the files that it reads before it
//! knows its memory: `PG_VERSION`, `global/pg_control` and `postgresql.auto.conf`. It reads the
//! rest of the configuration in place.
//!
//! From 15 on `-C shared_memory_size` computes the size and takes no memory. Before that only a
//! failed start names it (`currently 70258786304 bytes`): a limit on the program's address space
//! makes the mapping of the main memory fail, before the server has anything to serve. Should it
//! get past that, it ends in its empty data directory.

use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::time::{Duration, Instant};

use hugewise_host::source::{Source, TrustedWriters};
use hugewise_model::{Bytes, Host, Observed, PageCount, PageSize};

use super::{demand, is_version};
use crate::shared::client::{Client, ClientAccount, ClientError};

const PATIENCE: Duration = Duration::from_secs(10);
/// The first release with `shared_memory_size`.
const SAYS_ITS_SIZE: u32 = 15;
/// Less address space than any program and its libraries need.
const SMALLEST_SPACE: Bytes = Bytes::from_mib(64);
/// More address space than any program and its libraries need.
const LARGEST_SPACE: Bytes = Bytes::from_gib(4);

pub(super) struct ProgramQuestion<'a> {
    pub(super) data: &'a str,
    pub(super) config: &'a str,
    /// The files that its settings were read from.
    pub(super) settings_files: &'a [String],
    pub(super) major: u32,
    pub(super) program: Option<&'a str>,
    pub(super) page_size: PageSize,
    pub(super) about: Bytes,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum Silence {
    #[error("the server was not asked")]
    NotAsked,
    #[error("a captured host cannot be asked")]
    Captured,
    #[error("its data directory is not known; name it with --data-dir")]
    NoData,
    #[error("PostgreSQL {0} is too old to be asked")]
    TooOld(String),
    #[error("{path}: {error}")]
    Io { path: String, error: io::Error },
    #[error("{0} belongs to root, and PostgreSQL does not run as root")]
    OfRoot(String),
    #[error("{0} belongs to another user; run as that user or as root")]
    OfAnother(String),
    #[error("others can write what its program would be run with: {0}")]
    OthersWrite(String),
    #[error("no program {0}")]
    NoProgram(String),
    #[error("{path} is PostgreSQL {theirs}, but the data directory is from {major}")]
    OtherVersion { path: String, theirs: String, major: u32 },
    #[error(
        "no postgres program of PostgreSQL {0} in the usual places; name it with --server-binary"
    )]
    NoneOfVersion(u32),
    #[error("it calls itself {0:?}")]
    Unnamed(String),
    #[error("no answer within {} s", PATIENCE.as_secs())]
    Late,
    #[error("it says {name} is {said:?}")]
    NoNumber { name: String, said: String },
    #[error("{0}")]
    Complaint(String),
    #[error(transparent)]
    Client(#[from] ClientError),
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct ProgramAnswer {
    /// Its main memory; from 15 on rounded up to a mebibyte.
    pub(super) size: Bytes,
    pub(super) pages: Option<PageCount>,
}

pub(super) fn query_program(
    host: &Host,
    source: &dyn Source,
    question: &ProgramQuestion<'_>,
) -> Result<ProgramAnswer, Silence> {
    let account = data_owner_account(question.data)?;
    check_writers(host, source, question, account)?;
    let deadline = Instant::now() + PATIENCE;
    let program = find_server_program(question, account, deadline)?;
    let scratch = ScratchDataDirectory::new(question.data, account, deadline)?;
    let asked = ScratchServerRun { question, program, scratch: &scratch.0, deadline };
    if question.major >= SAYS_ITS_SIZE { asked.size_by_name() } else { asked.size_by_failure() }
}

fn data_owner_account(data: &str) -> Result<ClientAccount, Silence> {
    let stat = rustix::fs::stat(data)
        .map_err(|error| Silence::Io { path: data.to_owned(), error: error.into() })?;
    let account = ClientAccount { uid: stat.st_uid, gid: stat.st_gid };
    let us = rustix::process::geteuid();
    if account.uid == 0 {
        return Err(Silence::OfRoot(data.to_owned()));
    }
    if !us.is_root() && us.as_raw() != account.uid {
        return Err(Silence::OfAnother(data.to_owned()));
    }
    Ok(account)
}

/// Settings name libraries that the program loads: root runs it as the data directory's owner only
/// where nobody else has a hand in what it is told, and in the links on the way to it.
fn check_writers(
    host: &Host,
    source: &dyn Source,
    question: &ProgramQuestion<'_>,
    account: ClientAccount,
) -> Result<(), Silence> {
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let writers = TrustedWriters {
        users: vec![account.uid],
        groups: host.accounts.own_group(account.uid).into_iter().collect(),
        has_sticky: true,
        process: None,
    };
    let paths = [question.data, question.config];
    let paths = paths.into_iter().chain(question.settings_files.iter().map(String::as_str));
    for path in paths {
        match source.check_writers(path, &writers) {
            Observed::Known(()) | Observed::Absent => {}
            Observed::Malformed(why) => return Err(Silence::OthersWrite(why)),
            other => {
                let why = other.reason_text().unwrap_or_default();
                return Err(Silence::OthersWrite(format!("{path}: {why}")));
            }
        }
    }
    Ok(())
}

fn usual_places(major: u32) -> Vec<String> {
    let of_version =
        ["/usr/lib/postgresql/{}/bin", "/usr/pgsql-{}/bin", "/usr/lib/postgresql{}/bin"];
    let of_version = of_version.iter().map(|place| place.replace("{}", &major.to_string()));
    let others = ["/usr/local/pgsql/bin", "/usr/local/bin", "/usr/bin", "/bin"].map(String::from);
    of_version.chain(others).map(|folder| format!("{folder}/postgres")).collect()
}

fn find_server_program(
    question: &ProgramQuestion<'_>,
    account: ClientAccount,
    deadline: Instant,
) -> Result<Client, Silence> {
    let major = question.major;
    if let Some(path) = question.program {
        let client = Client::from_path(path, account)
            .ok_or_else(|| Silence::NoProgram(path.to_owned()))??;
        let theirs = read_version(&client, deadline)?;
        return match demand::parse_major(&theirs) == Some(major) {
            true => Ok(client),
            false => Err(Silence::OtherVersion { path: path.to_owned(), theirs, major }),
        };
    }
    let mut why = Silence::NoneOfVersion(major);
    let is_of = |client: &Client| {
        read_version(client, deadline)
            .is_ok_and(|theirs| demand::parse_major(&theirs) == Some(major))
    };
    for path in usual_places(major) {
        match Client::from_path(&path, account) {
            Some(Ok(client)) if is_of(&client) => return Ok(client),
            Some(Err(distrusted)) => why = distrusted.into(),
            Some(Ok(_)) | None => {}
        }
    }
    Err(why)
}

/// `15.20` of `postgres (PostgreSQL) 15.20 (Debian 15.20-0+deb12u1)`.
fn read_version(client: &Client, deadline: Instant) -> Result<String, Silence> {
    let text = client.run(&["--version".into()], time_left(deadline)?)?;
    parse_version_line(&text)
        .ok_or_else(|| Silence::Unnamed(text.lines().next().unwrap_or_default().to_owned()))
}

fn parse_version_line(text: &str) -> Option<String> {
    let mut words = text.lines().next()?.split_whitespace();
    words.find(|word| word.ends_with(')'))?;
    let version = words.next()?;
    let number = version
        .find(|character: char| character.is_ascii_alphabetic())
        .map_or(version, |end| version.split_at(end).0);
    is_version(number).then(|| version.to_owned())
}

fn time_left(deadline: Instant) -> Result<Duration, Silence> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(Silence::Late) } else { Ok(left) }
}

struct ScratchDataDirectory(String);

impl Drop for ScratchDataDirectory {
    fn drop(&mut self) {
        // What cannot be removed now is a few kilobytes in /tmp.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl ScratchDataDirectory {
    /// Copies as the owner, who may have put links to other people's files there, and no more than
    /// such files hold.
    const COPY: &str = "head -c 65536 \"$1/PG_VERSION\" >PG_VERSION && head -c 65536 \
        \"$1/global/pg_control\" >global/pg_control && if test -e \"$1/postgresql.auto.conf\"; \
        then head -c 1048576 \"$1/postgresql.auto.conf\"; fi >postgresql.auto.conf";

    fn new(data: &str, account: ClientAccount, deadline: Instant) -> Result<Self, Silence> {
        let failed = |error| Silence::Io { path: "/tmp".into(), error };
        let scratch = Self::create_empty().map_err(failed)?;
        let global = format!("{}/global", scratch.0);
        std::fs::create_dir(&global).map_err(failed)?;
        for path in [&global, &scratch.0] {
            hand_over(path, account).map_err(failed)?;
        }
        let shell = Client::from_path("/bin/sh", account)
            .ok_or_else(|| Silence::NoProgram("/bin/sh".into()))??;
        let script = format!("cd \"$0\" && {}", Self::COPY);
        let arguments = ["-c".to_owned(), script, scratch.0.clone(), data.to_owned()];
        shell.run(&arguments, time_left(deadline)?)?;
        Ok(scratch)
    }

    /// A folder of our own; an existing one is never taken.
    fn create_empty() -> io::Result<Self> {
        let mut folder = std::fs::DirBuilder::new();
        folder.mode(0o700);
        let mut tries = 0..1000;
        loop {
            let path = format!(
                "/tmp/hugewise-{}-{}",
                std::process::id(),
                tries.next().unwrap_or_default()
            );
            match folder.create(&path) {
                Ok(()) => return Ok(Self(path)),
                Err(error) if error.kind() == ErrorKind::AlreadyExists && !tries.is_empty() => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// The server insists on a data directory that nobody else can read.
fn hand_over(path: &str, account: ClientAccount) -> io::Result<()> {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o700))?;
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::lchown(path, Some(account.uid), Some(account.gid))?;
    }
    Ok(())
}

struct ScratchServerRun<'a> {
    question: &'a ProgramQuestion<'a>,
    program: Client,
    scratch: &'a str,
    deadline: Instant,
}

impl ScratchServerRun<'_> {
    /// The command line beats every file, so that the server keeps its log, port, socket and pid
    /// file in the scratch directory.
    fn command_arguments(&self) -> Vec<String> {
        let scratch = self.scratch;
        let settings = [
            format!("config_file={}", self.question.config),
            format!("data_directory={scratch}"),
            format!("unix_socket_directories={scratch}"),
            format!("external_pid_file={scratch}/external.pid"),
            "listen_addresses=".into(),
            "logging_collector=off".into(),
            "log_destination=stderr".into(),
            "log_min_messages=warning".into(),
            "log_line_prefix=".into(),
            "lc_messages=C".into(),
            "ssl=off".into(),
            "huge_pages=off".into(),
        ];
        let settings = settings.into_iter().flat_map(|setting| ["-c".to_owned(), setting]);
        ["-D".to_owned(), scratch.to_owned()].into_iter().chain(settings).collect()
    }

    fn size_by_name(&self) -> Result<ProgramAnswer, Silence> {
        let size = Bytes::from_mib(self.read_setting("shared_memory_size", &[])?);
        let page = self.question.page_size.bytes();
        // For larger pages the size says enough.
        let pages = (page < Bytes::from_mib(1)).then(|| {
            let page_size = ["-c".into(), format!("huge_page_size={}kB", page.get() / 1024)];
            self.read_setting("shared_memory_size_in_huge_pages", &page_size).map(PageCount)
        });
        Ok(ProgramAnswer { size, pages: pages.transpose()? })
    }

    fn read_setting(&self, name: &str, more: &[String]) -> Result<u64, Silence> {
        let words = ["-C".to_owned(), name.to_owned()];
        let arguments: Vec<String> =
            self.command_arguments().into_iter().chain(more.iter().cloned()).chain(words).collect();
        let text = self.program.run(&arguments, time_left(self.deadline)?)?;
        // Libraries may have printed before.
        let last = text.lines().last().unwrap_or_default().trim();
        last.parse()
            .ok()
            .filter(|number| *number > 0)
            .ok_or_else(|| Silence::NoNumber { name: name.to_owned(), said: last.to_owned() })
    }

    /// Gives the program more and more space until its libraries fit: steps of half its main memory
    /// never reach that.
    fn size_by_failure(&self) -> Result<ProgramAnswer, Silence> {
        let step = Bytes((self.question.about.get() / 2).clamp(1 << 20, 1 << 30));
        let mut space = SMALLEST_SPACE;
        let arguments = self.command_arguments();
        loop {
            let outcome = self.program.run_within(space, &arguments, time_left(self.deadline)?)?;
            if let Some(size) = size_in_hint(&outcome.complaint) {
                return Ok(ProgramAnswer { size, pages: None });
            }
            if !is_short_of_space(&outcome.complaint) || space >= LARGEST_SPACE {
                return Err(Silence::Complaint(first_fatal(&outcome.complaint)));
            }
            space += step;
        }
    }
}

/// The number in `... reduce the request size (currently 1125302272 bytes), reduce ...`.
pub(super) fn size_in_hint(text: &str) -> Option<Bytes> {
    let (_, behind) = text.split_once("(currently ")?;
    let (number, _) = behind.split_once(" bytes)")?;
    number.parse().ok().filter(|bytes| *bytes > 0).map(Bytes)
}

/// Whether the program did not reach its main memory; a linker without space crashes silently.
fn is_short_of_space(complaint: &str) -> bool {
    let signs = [
        "error while loading shared libraries",
        "out of memory",
        "annot allocate memory",
        "failed to map",
    ];
    complaint.trim().is_empty()
        || complaint.contains("Segmentation fault")
        || signs.iter().any(|sign| complaint.contains(sign))
}

fn first_fatal(complaint: &str) -> String {
    let mut lines = complaint.lines().map(str::trim);
    let fatal = lines.clone().find(|line| line.contains("FATAL:"));
    fatal.or_else(|| lines.next()).unwrap_or("failed without a word").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_start_names_the_size() {
        let text = "FATAL:  could not map anonymous shared memory: Cannot allocate memory\n\
            HINT:  This error usually means that PostgreSQL's request for a shared memory segment \
             exceeded available memory, \
            swap space, or huge pages. To reduce the request size (currently 1125302272 bytes), \
             reduce PostgreSQL's ...\n";
        assert_eq!(size_in_hint(text), Some(Bytes(1_125_302_272)));
        for text in [
            "",
            "(currently ",
            "(currently x bytes)",
            "(currently 0 bytes)",
            "(currently 99999999999999999999 bytes)",
        ] {
            assert_eq!(size_in_hint(text), None, "{text}");
        }
    }

    #[test]
    fn a_complaint_about_anything_else_ends_the_search() {
        assert!(is_short_of_space(
            "postgres: error while loading shared libraries: libz.so.1: failed to map segment"
        ));
        assert!(is_short_of_space("Segmentation fault\n"));
        let complaint = "LOG:  invalid value for parameter \"x\"\nFATAL:  configuration \
             file \"/c\" contains errors\n";
        assert!(!is_short_of_space(complaint));
        assert_eq!(first_fatal(complaint), "FATAL:  configuration file \"/c\" contains errors");
    }

    #[test]
    fn the_program_says_its_version() {
        for (text, version) in [
            ("postgres (PostgreSQL) 15.20 (Debian 15.20-0+deb12u1)\n", Some("15.20")),
            ("postgres (PostgreSQL) 18beta1\n", Some("18beta1")),
            ("postgres (EnterpriseDB) 14.8.1\n", Some("14.8.1")),
            ("psql\n", None),
            ("", None),
        ] {
            assert_eq!(parse_version_line(text).as_deref(), version, "{text}");
        }
    }

    #[test]
    fn a_data_directory_of_root_is_not_acted_for() {
        assert!(data_owner_account("/").unwrap_err().to_string().contains("belongs to root"));
        assert!(data_owner_account("/no/such/folder").is_err());
    }

    #[test]
    fn no_answer_is_waited_for_past_the_deadline() {
        assert!(time_left(Instant::now()).is_err());
        assert!(time_left(Instant::now() + PATIENCE).is_ok());
    }
}
