//! What the descriptions of all engines have in common.

use hugewise_host::Door;
use hugewise_model::vouch::Voucher;
use hugewise_model::{Engine, Host, HugePageUse, Instance, Observed, PageSize, Process, Reason, Unread};

use crate::Scene;
use crate::description::DescribeError;

/// The process that a described server would be, had it been started with these words.
pub(crate) fn process(command: Vec<String>) -> Process {
    Process { command: Observed::Known(command), ..Process::default() }
}

/// A server that runs nowhere: what a process would tell of it is not known.
pub(crate) fn instance(scene: &Scene<'_>, engine: Engine, name: String) -> Instance {
    without_process(scene.instance(engine, name, &Process::default(), Vec::new()))
}

/// Takes away what only a process would tell.
pub(crate) fn without_process(instance: Instance) -> Instance {
    Instance {
        pid: 0,
        pids: Vec::new(),
        owner: String::new(),
        sessions: Observed::Absent,
        segments: Vec::new(),
        huge_pages: HugePageUse::Unknown,
        page_tables: Observed::Absent,
        unit: None,
        transparent: Observed::Absent,
        vouchers: vec![Voucher::Described],
        containered: false,
        ..instance
    }
}

/// The page size that the host has huge pages of, or where it has none that of x86-64: a described server may be for another host.
pub(crate) fn page_size(host: &Host) -> PageSize {
    host.default_huge_page.get().unwrap_or(PageSize::MIB_2)
}

/// Whether a file is there and can be read, before anything is made of it.
///
/// # Errors
/// It is not, or cannot be.
pub(crate) fn must_be_there(door: &Door<'_>, path: &str, todo: &str) -> Result<(), DescribeError> {
    match door.source.read(path) {
        Observed::Known(_) => Ok(()),
        Observed::Absent => Err(DescribeError::of(path, "no such file", todo)),
        Observed::Denied => Err(DescribeError::of(path, "it may not be read", "run as a user who may read it")),
        Observed::Malformed(what) => Err(DescribeError::of(path, what, todo)),
    }
}

/// The first file that makes no sense, as an error; what may only not be read is none.
///
/// # Errors
/// There is one.
pub(crate) fn must_make_sense(unread: &[Unread], todo: &str) -> Result<(), DescribeError> {
    let Some(first) = unread.iter().find(|unread| !unread.why.is_denied()) else { return Ok(()) };
    let why = match &first.why {
        Reason::Malformed(why) => why.clone(),
        other => other.to_string(),
    };
    let with_line = || {
        let (line, what) = why.strip_prefix("line ")?.split_once(": ")?;
        Some((line.parse::<u64>().ok()?, what))
    };
    let (line, what) = with_line().unwrap_or((0, &why));
    Err(DescribeError::of(&first.what, what, todo).at(line))
}
