//! Where a server's settings are written: a drop-in in a folder that its files include and packages make, or the server itself.
//! That they have the last word there is tried: the engine reads its server anew.

use hugewise_engines::options::{as_reader_opens, same_name};
use hugewise_engines::settable::{Assignment, ByItself, Settable, Unsettable};
use hugewise_host::config::accounts;
use hugewise_host::source::owned::{Budgets, Limits};
use hugewise_host::{Door, ParseError, Source};
use hugewise_model::observed::Reason;
use hugewise_model::{Instance, Observed, Process};

use super::super::boot_loader::find_program;
use super::super::draft::Draft;
use super::super::overlay::Overlay;
use super::super::{Ask, ours};
use crate::plan::{Change, CommandChange};

/// Why a plan does not change a server's settings.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NotSet {
    #[error("it runs in a container: change the setting inside it")]
    Contained,
    /// Anybody can start a server with the configuration of another.
    #[error("other servers may read its option files too: change the setting in the file that is its own")]
    NotItsOwn,
    #[error("the server's process is not known")]
    NoProcess,
    #[error(transparent)]
    Engine(#[from] Unsettable),
    #[error("{} includes no folder for a drop-in", .0.join(" and "))]
    NoFolder(Vec<String>),
    #[error("no folder that {} includes has the last word on {what}", .from.join(" and "))]
    NoLastWord { from: Vec<String>, what: &'static str },
    #[error("its owner {0} is not in a local account file")]
    NoAccount(String),
    #[error("{file}: {why}")]
    Unread { file: String, why: Reason },
    #[error("{file}: {error}")]
    Senseless { file: String, error: ParseError },
    #[error("its command line has the last word on these settings: change them there")]
    CommandLine,
}

/// What sets a server to what is wanted; nothing where that is written already.
///
/// # Errors
/// Why a person has to.
pub(super) fn changes(
    ask: &Ask<'_>,
    draft: &mut Draft<'_>,
    settable: &Settable,
    instance: &Instance,
    wanted: &[Assignment],
) -> Result<Vec<Change>, NotSet> {
    match (drop_in(ask, draft, settable, instance, wanted), &settable.by_itself) {
        (Ok(Some(change)), _) => Ok(vec![change]),
        (_, Some(by_itself)) => through(ask, draft, by_itself, instance, wanted),
        (written, None) => written.map(|change| change.into_iter().collect()),
    }
}

/// Whether the server would read all these settings so, with these files.
fn holds(ask: &Ask<'_>, files: &Overlay<'_>, instance: &Instance, wanted: &[Assignment]) -> bool {
    let found = hugewise_engines::find(ask.host, files);
    let Some(then) = found.instances.into_iter().find(|other| other.pid == instance.pid) else { return false };
    wanted.iter().all(|(name, value)| then.setting_value(name) == Some(value))
}

/// A drop-in where it is included and has the last word.
fn drop_in(
    ask: &Ask<'_>,
    draft: &mut Draft<'_>,
    settable: &Settable,
    instance: &Instance,
    wanted: &[Assignment],
) -> Result<Option<Change>, NotSet> {
    if instance.containered {
        return Err(NotSet::Contained);
    }
    if !instance.is_known_to_the_host() {
        return Err(NotSet::NotItsOwn);
    }
    let process = process(ask, instance)?;
    let budgets = Budgets::new(Limits::CONFIGURATION);
    let included = (settable.included)(ask.host, &budgets.of(ask.source, process), process, instance)?;
    let is_there = |folder: &&String| ask.source.list(&as_reader_opens(ask.host, process, folder)).is_known();
    for folder in included.folders.iter().rev().filter(|folder| (settable.is_packaged)(folder)).filter(is_there) {
        let path = format!("{folder}/{}", ours::of_server(settable));
        let Ok(there) = ours::present(&draft.after, &path) else { continue };
        let text = text(settable, there.as_deref(), wanted);
        if holds(ask, &draft.after.with(&path, &text), instance, wanted) {
            return Ok(draft.write(&path, &text).map(Into::into));
        }
    }
    let what = wanted.first().map_or("", |(name, _)| name);
    Err(match included.folders.iter().any(|folder| is_there(&folder)) {
        true => NotSet::NoLastWord { from: included.from, what },
        false => NotSet::NoFolder(included.from),
    })
}

/// The drop-in with these settings, and what it had of others.
fn text(settable: &Settable, there: Option<&[u8]>, wanted: &[Assignment]) -> String {
    let replaced = |line: &str| {
        let name = line.split('=').next().map(str::trim).unwrap_or_default();
        Some(name) == settable.section || wanted.iter().any(|(set, _)| same_name(set, name))
    };
    let mut lines: Vec<String> = settable.section.map(str::to_owned).into_iter().collect();
    lines.extend(ours::kept_lines(there, replaced));
    lines.extend(wanted.iter().map(|(name, value)| format!("{name} = {value}")));
    ours::file(&lines)
}

fn process<'a>(ask: &Ask<'a>, instance: &Instance) -> Result<&'a Process, NotSet> {
    ask.host.process(instance.pid).ok_or(NotSet::NoProcess)
}

/// Through the server, as its owner.
fn through(
    ask: &Ask<'_>,
    draft: &mut Draft<'_>,
    by_itself: &ByItself,
    instance: &Instance,
    wanted: &[Assignment],
) -> Result<Vec<Change>, NotSet> {
    if instance.containered {
        return Err(NotSet::Contained);
    }
    // apply runs the client as an account of the host's own files, and asks no directory for one.
    let accounts = accounts::read(&mut Door::new(ask.source)).users;
    if !accounts.is_empty() && accounts.values().all(|account| account.name != instance.owner) {
        return Err(NotSet::NoAccount(instance.owner.clone()));
    }
    let reach = (by_itself.reach)(instance)?;
    let (process, file) = (process(ask, instance)?, &reach.file);
    let budgets = Budgets::new(Limits::CONFIGURATION);
    let there = budgets.of(ask.source, process).read(&as_reader_opens(ask.host, process, file));
    let unread = |why| Err(NotSet::Unread { file: file.clone(), why });
    let there = match there {
        Observed::Known(bytes) => bytes,
        Observed::Absent => Vec::new(),
        Observed::Denied => return unread(Reason::Denied),
        Observed::Malformed(why) => return unread(Reason::Malformed(why)),
    };
    let senseless = |error| NotSet::Senseless { file: file.clone(), error };
    let statements = (by_itself.statements)(&there, wanted).map_err(senseless)?;
    let trial = draft.after.with(file, &statements.after);
    if !holds(ask, &trial, instance, wanted) {
        return Err(NotSet::CommandLine);
    }
    let client =
        find_program(ask.source, &[by_itself.program]).unwrap_or_else(|| format!("/usr/bin/{}", by_itself.program));
    let command = |statement: String| -> Vec<String> {
        std::iter::once(client.clone()).chain(reach.arguments.iter().cloned()).chain([statement]).collect()
    };
    let changes = statements.all.into_iter().map(|statement| {
        CommandChange::new(command(statement.set), "the server keeps its own settings")
            .undone_by(command(statement.undo))
            .as_user(&instance.owner)
            .rewrites(file)
            .unless(file, statement.line)
            .into()
    });
    draft.after = trial;
    Ok(changes.collect())
}
