//! What the descriptions of all engines have in common.

use hugewise_host::FactReader;
use hugewise_model::instance::ServerSetting;
use hugewise_model::trusted_by::TrustReason;
use hugewise_model::{
    Engine, Host, HugePageUse, Instance, Observed, PageSize, Process, Reason, Unread,
};

use crate::EngineContext;
use crate::shared::description::{DescribeError, Description};
use crate::shared::settings::redact_value;

pub(crate) fn process_from_command(command: Vec<String>) -> Process {
    Process { command: Observed::Known(command), ..Process::default() }
}

pub(crate) fn command_of<'a>(
    description: &'a Description,
    example: &str,
    beginning: &str,
) -> Result<&'a [String], DescribeError> {
    match description {
        Description::Command { command, .. } if !command.is_empty() => Ok(command),
        Description::Command { .. } => Err(DescribeError::new(
            "the command line is empty",
            format!("begin it with the program: {beginning}"),
        )),
        _ => Err(DescribeError::new(
            "no command line is given",
            format!("write it after --: {example}"),
        )),
    }
}

pub(crate) fn new_described_instance(
    scene: &EngineContext<'_>,
    engine: Engine,
    name: String,
) -> Instance {
    without_process(scene.new_instance(engine, name, &Process::default(), Vec::new()))
}

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
        trusted_by: vec![TrustReason::Described],
        containered: false,
        ..instance
    }
}

pub(crate) fn invalid_size_error(setting: &ServerSetting) -> DescribeError {
    let ServerSetting { name, value, place } = setting;
    let what = format!("{name} is not a size: {:?}", redact_value(name, value));
    let todo = "write a whole number of bytes, or one followed by K, M, G or T";
    match place {
        Some(place) => DescribeError::for_file(&place.file, what, todo).at_line(place.line),
        None => DescribeError::new(what, todo),
    }
}

/// The host's huge page size, or x86-64's: a described server may be for another host.
pub(crate) fn page_size(host: &Host) -> PageSize {
    host.default_huge_page.get().unwrap_or(PageSize::MIB_2)
}

pub(crate) fn must_be_there(
    facts: &FactReader<'_>,
    path: &str,
    todo: &str,
) -> Result<(), DescribeError> {
    match facts.source.read(path) {
        Observed::Known(_) => Ok(()),
        Observed::Absent => Err(DescribeError::for_file(path, "no such file", todo)),
        Observed::Denied => Err(DescribeError::for_file(
            path,
            "it may not be read",
            "run as a user who may read it",
        )),
        Observed::Malformed(what) => Err(DescribeError::for_file(path, what, todo)),
    }
}

/// The first file that makes no sense, where it `matters`; one that only may not be read is no error.
pub(crate) fn must_make_sense(
    facts: &FactReader<'_>,
    matters: impl Fn(&str) -> bool,
    todo: &str,
) -> Result<(), DescribeError> {
    let is_broken = |unread: &Unread| matters(&unread.what) && !unread.why.is_denied();
    let mut notes = facts.unread.iter().enumerate();
    let Some((at, first)) = notes.find(|(_, unread)| is_broken(unread)) else { return Ok(()) };
    let (line, what) = match (facts.errors.get(&at), &first.why) {
        (Some(error), _) => (error.line, error.message()),
        (None, Reason::Malformed(why)) => (0, why.clone()),
        (None, other) => (0, other.to_string()),
    };
    Err(DescribeError::for_file(&first.what, what, todo).at_line(line))
}
