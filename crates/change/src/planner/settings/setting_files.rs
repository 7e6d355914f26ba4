//! Where a server's settings are written: a drop-in in a folder that packages make and its files
//! include, or the server itself. That they have the last word is tried: the engine reads it anew.

use std::collections::BTreeSet;

use hugewise_engines::options::{as_reader_opens, same_name};
use hugewise_engines::settable::{ByItself, Included, Settable, SettingAssignment, Unsettable};
use hugewise_host::config::accounts;
use hugewise_host::source::OverlaySource;
use hugewise_host::source::as_owner::{Budgets, OwnerReadLimits};
use hugewise_host::{FactReader, ParseError, Source};
use hugewise_model::observed::Reason;
use hugewise_model::{Engine, Instance, Observed, PageSize, Process};

use super::super::boot_loader::find_program;
use super::super::draft::Draft;
use super::super::{PlanRequest, owned_files};
use crate::plan::{Change, CommandChange};

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NotSet {
    #[error("it runs in a container: change the setting inside it")]
    Contained,
    /// Anybody can start a server with the configuration of another.
    #[error(
        "other servers may read its option files too: change the setting in the file that is its \
             own"
    )]
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

pub(super) struct SettingsGoal<'a> {
    pub(super) instance: &'a Instance,
    pub(super) settable: &'static Settable,
    pub(super) page: PageSize,
    pub(super) wanted: Vec<SettingAssignment>,
}

struct Proposal {
    file: String,
    text: String,
    /// What the server is told; nothing where the file itself is written.
    statements: Vec<Change>,
}

/// Empty where a server's settings are written already. All servers are read anew with the new
/// files laid over the host, and once more without those that do not help: what a client has told a
/// server before has the last word on any drop-in, so that it has to be told anew.
pub(super) fn build_changes(
    ask: &PlanRequest<'_>,
    draft: &mut Draft<'_>,
    goals: &[SettingsGoal<'_>],
) -> Vec<Result<Vec<Change>, NotSet>> {
    let mut proposals: Vec<Result<Proposal, NotSet>> = goals
        .iter()
        .map(|server| {
            match (propose_drop_in(ask, &draft.after, server), &server.settable.by_itself) {
                (Err(_), Some(by_itself)) => propose_statements(ask, server, by_itself),
                (proposal, _) => proposal,
            }
        })
        .collect();
    let mut described = describe_again(ask, draft, goals, &proposals);
    let mut is_final = true;
    for (server, proposal) in goals.iter().zip(&mut proposals) {
        let Ok(tried) = proposal else { continue };
        if takes_effect(&described, server) {
            continue;
        }
        is_final = false;
        *proposal = match &server.settable.by_itself {
            Some(by_itself) if tried.statements.is_empty() => {
                propose_statements(ask, server, by_itself)
            }
            Some(_) => Err(NotSet::CommandLine),
            None => Err(explain_no_last_word(ask, server)),
        };
    }
    if !is_final {
        described = describe_again(ask, draft, goals, &proposals);
    }
    let changes: Vec<_> = goals
        .iter()
        .zip(proposals)
        .map(|(server, proposal)| match proposal? {
            _ if !takes_effect(&described, server) => Err(NotSet::CommandLine),
            Proposal { file, text, statements } if statements.is_empty() => {
                Ok(draft.write(&file, &text).map(Change::from).into_iter().collect())
            }
            Proposal { file, text, statements } => {
                draft.after.set_file(&file, Some(text.into_bytes()));
                Ok(statements)
            }
        })
        .collect();
    if changes.iter().any(Result::is_ok) {
        draft.described = described;
    }
    changes
}

/// Other servers than those that are to be set may read these files too.
fn describe_again(
    ask: &PlanRequest<'_>,
    draft: &Draft<'_>,
    goals: &[SettingsGoal<'_>],
    proposals: &[Result<Proposal, NotSet>],
) -> Vec<Instance> {
    let mut files = draft.after.clone();
    for Proposal { file, text, .. } in proposals.iter().flatten() {
        files.set_file(file, Some(text.clone().into_bytes()));
    }
    let engines: BTreeSet<Engine> = goals.iter().map(|server| server.instance.engine).collect();
    let all = ask.instances.iter().chain(ask.strangers.iter().copied());
    let concerned: Vec<&Instance> =
        all.filter(|instance| engines.contains(&instance.engine)).collect();
    hugewise_engines::redescribe_instances(ask.host, &files, &concerned)
}

fn takes_effect(described: &[Instance], server: &SettingsGoal<'_>) -> bool {
    described.iter().find(|then| then.pid == server.instance.pid).is_some_and(|then| {
        server.wanted.iter().all(|(name, value)| then.setting_value(name) == Some(value))
    })
}

/// The last folder included, of those that packages make: a file there overrules earlier ones.
fn propose_drop_in(
    ask: &PlanRequest<'_>,
    files: &OverlaySource<'_>,
    server: &SettingsGoal<'_>,
) -> Result<Proposal, NotSet> {
    let settable = server.settable;
    if server.instance.containered {
        return Err(NotSet::Contained);
    }
    if !server.instance.is_known_to_the_host() {
        return Err(NotSet::NotItsOwn);
    }
    let included = included_folders(ask, server)?;
    let packaged = included.folders.iter().rev().filter(|folder| (settable.is_packaged)(folder));
    let mut placed = packaged.filter(|folder| is_there(ask, server, folder)).filter_map(|folder| {
        let file = format!("{folder}/{}", owned_files::of_server(settable));
        let there = owned_files::read_owned_file(files, &file).ok()?;
        let text = render_drop_in(settable, there.as_deref(), &server.wanted);
        Some(Proposal { file, text, statements: Vec::new() })
    });
    placed.next().ok_or_else(|| explain_no_last_word(ask, server))
}

fn included_folders(ask: &PlanRequest<'_>, server: &SettingsGoal<'_>) -> Result<Included, NotSet> {
    let process = require_process(ask, server.instance)?;
    let budgets = Budgets::new(OwnerReadLimits::CONFIGURATION);
    let files = budgets.for_owner(ask.source, process);
    Ok((server.settable.included)(ask.host, &files, process, server.instance)?)
}

fn is_there(ask: &PlanRequest<'_>, server: &SettingsGoal<'_>, folder: &str) -> bool {
    require_process(ask, server.instance).is_ok_and(|process| {
        ask.source.list_folder(&as_reader_opens(ask.host, process, folder)).is_known()
    })
}

fn explain_no_last_word(ask: &PlanRequest<'_>, server: &SettingsGoal<'_>) -> NotSet {
    let Included { from, folders } = match included_folders(ask, server) {
        Ok(included) => included,
        Err(why) => return why,
    };
    let what = server.wanted.first().map_or("", |(name, _)| name);
    match folders.iter().any(|folder| is_there(ask, server, folder)) {
        true => NotSet::NoLastWord { from, what },
        false => NotSet::NoFolder(from),
    }
}

fn render_drop_in(
    settable: &Settable,
    there: Option<&[u8]>,
    wanted: &[SettingAssignment],
) -> String {
    let replaced = |line: &str| {
        let name = line.split('=').next().map(str::trim).unwrap_or_default();
        Some(name) == settable.section || wanted.iter().any(|(set, _)| same_name(set, name))
    };
    let mut lines: Vec<String> = settable.section.map(str::to_owned).into_iter().collect();
    lines.extend(owned_files::kept_lines(there, replaced));
    lines.extend(wanted.iter().map(|(name, value)| format!("{name} = {value}")));
    owned_files::render_owned_file(&lines)
}

fn require_process<'a>(ask: &PlanRequest<'a>, instance: &Instance) -> Result<&'a Process, NotSet> {
    ask.host.find_process(instance.pid).ok_or(NotSet::NoProcess)
}

fn propose_statements(
    ask: &PlanRequest<'_>,
    server: &SettingsGoal<'_>,
    by_itself: &ByItself,
) -> Result<Proposal, NotSet> {
    let instance = server.instance;
    if instance.containered {
        return Err(NotSet::Contained);
    }
    // apply runs the client as an account of the host's own files, and asks no directory for one.
    let accounts = accounts::read(&mut FactReader::new(ask.source)).users;
    if !accounts.is_empty() && accounts.values().all(|account| account.name != instance.owner) {
        return Err(NotSet::NoAccount(instance.owner.clone()));
    }
    let reach = (by_itself.reach)(instance)?;
    let process = require_process(ask, instance)?;
    let path = as_reader_opens(ask.host, process, &reach.file);
    let budgets = Budgets::new(OwnerReadLimits::CONFIGURATION);
    let unread = |why| NotSet::Unread { file: reach.file.clone(), why };
    let there = match budgets.for_owner(ask.source, process).read(&path) {
        Observed::Known(bytes) => bytes,
        Observed::Absent => Vec::new(),
        Observed::Denied => return Err(unread(Reason::Denied)),
        Observed::Malformed(why) => return Err(unread(Reason::Malformed(why))),
    };
    let statements = (by_itself.statements)(&there, &server.wanted)
        .map_err(|error| NotSet::Senseless { file: reach.file.clone(), error })?;
    let client = find_program(ask.source, &[by_itself.program])
        .unwrap_or_else(|| format!("/usr/bin/{}", by_itself.program));
    let command = |statement: String| {
        [client.clone()].into_iter().chain(reach.arguments.iter().cloned()).chain([statement])
    };
    let changes = statements.all.into_iter().map(|statement| {
        CommandChange::new(command(statement.set), "the server keeps its own settings")
            .undone_by(command(statement.undo))
            .as_user(&instance.owner)
            .with_rewritten_file(&reach.file)
            .unless_file_holds(&reach.file, statement.line)
            .into()
    });
    let file = reach.file.clone();
    Ok(Proposal { file, text: statements.after, statements: changes.collect() })
}
