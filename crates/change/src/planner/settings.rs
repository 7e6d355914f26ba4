//! Servers' own settings, where a plan may change them: what each is set to, by which step, and
//! where that is written: a drop-in in a folder that packages make and its files include, or the
//! server itself. That they have the last word is tried: the engine reads it anew.

use std::collections::BTreeSet;

use hugewise_diagnose::coverage::Coverage;
use hugewise_diagnose::demand;
use hugewise_diagnose::target::{Insist, NotYet};
use hugewise_engines::options::{as_reader_opens, same_name};
use hugewise_engines::settable::{ByItself, Included, Settable, SettingAssignment, Unsettable};
use hugewise_engines::{EngineKind, SettingsBy};
use hugewise_host::config::accounts;
use hugewise_host::source::OverlaySource;
use hugewise_host::source::as_owner::{Budgets, OwnerReadLimits};
use hugewise_host::{FactReader, ParseError, Source};
use hugewise_model::observed::Reason;
use hugewise_model::{Engine, HugePageMode, Instance, PageSize, Process, Remedy};

use super::draft::{Draft, Drafted};
use super::{PlanRequest, commands, owned_files};
use crate::plan::{Change, CommandChange, EffectTime, Risk, Step};

pub(super) fn plan_server_settings(ask: &PlanRequest<'_>, draft: &mut Draft<'_>) {
    let insist = new_insist(ask, draft);
    let mut goals = Vec::new();
    for (instance, sized) in
        ask.sized_instances().filter(|(instance, _)| instance.pid != 0 && ask.is_chosen(instance))
    {
        let page = sized.page_size;
        let kind = EngineKind::for_engine(instance.engine);
        if let SettingsBy::Plan(settable) = kind.settings.changed_by {
            let wanted = choose_settings(ask, draft, &insist, settable, instance, page);
            if !wanted.is_empty() {
                goals.push(SettingsGoal { instance, settable, page, wanted });
            }
        }
    }
    if goals.is_empty() {
        return;
    }
    let all = build_changes(ask, draft, &goals);
    for (server, changes) in goals.iter().zip(all) {
        match changes {
            Ok(changes) => add_setting_step(ask, draft, server, changes),
            Err(why) => instruct_settings(ask, draft, server, &why.to_string()),
        }
    }
}

pub(super) fn new_insist<'a>(ask: &PlanRequest<'a>, draft: &Draft<'_>) -> Insist<'a> {
    Insist::new(ask.target, draft.pools.iter().map(|pool| (pool.page_size, pool.goal)))
}

struct SettingsGoal<'a> {
    instance: &'a Instance,
    settable: &'static Settable,
    page: PageSize,
    wanted: Vec<SettingAssignment>,
}

impl SettingsGoal<'_> {
    fn title(&self) -> String {
        let shown: Vec<String> =
            self.wanted.iter().map(|(name, value)| format!("{name} = {value}")).collect();
        format!("{}: {}", self.instance.title(), shown.join(", "))
    }

    fn insists(&self) -> bool {
        let is_it = |(name, value): (&str, &str)| {
            self.wanted.iter().any(|(set, to)| *set == name && to == value)
        };
        self.settable.insists.is_some_and(is_it)
    }

    fn sets_page_size(&self, (name, _): &SettingAssignment) -> bool {
        self.settable.page_size.is_some_and(|setting| *name == setting.name)
    }
}

fn add_setting_step(
    ask: &PlanRequest<'_>,
    draft: &mut Draft<'_>,
    server: &SettingsGoal<'_>,
    changes: Vec<Change>,
) {
    let SettingsGoal { instance, settable, page, wanted } = server;
    let insists = server.insists();
    let why = match instance.asked {
        HugePageMode::Try if insists => settable.why_insist.to_owned(),
        HugePageMode::Try | HugePageMode::Must | HugePageMode::Raises => {
            format!("its pages are to be of {page}")
        }
        _ => settable.why_ask.to_owned(),
    };
    let id = format!("{}-{}", instance.engine, instance.name);
    let step = Step { changes, ..Step::new(id, server.title(), Risk::Restart, why) };
    let mut step = Drafted::from(step).for_instance(instance);
    if insists {
        step.relies_on.extend(draft.find_pool_step(*page));
    }
    let resizes = wanted.iter().any(|pair| server.sets_page_size(pair));
    // Of one that tries, no less than that it insists is asked.
    let asks = instance.asked != HugePageMode::Try
        && !wanted.iter().all(|pair| server.sets_page_size(pair));
    if insists || asks {
        step.carry_remedy(Remedy::SetSetting(instance.id()), EffectTime::Now);
    }
    if let Some(left) = demand::page_size(ask.host, instance).filter(|_| resizes) {
        // It asks the pool that it was short of for nothing more.
        let there = draft.pool_goal(*page).is_some_and(|goal| goal.is_there());
        let when = if there { EffectTime::Now } else { EffectTime::Reboot };
        step.carry_for(Remedy::SetPool(left), when, BTreeSet::from([instance.id()]));
    }
    draft.add_step(step);
    if resizes {
        draft.resized.push(instance.id());
    }
}

fn instruct_settings(
    ask: &PlanRequest<'_>,
    draft: &mut Draft<'_>,
    server: &SettingsGoal<'_>,
    why: &str,
) {
    let instance = server.instance;
    let mut lines = (server.settable.by_hand)(instance, &server.wanted, why);
    if !matches!(instance.asked, HugePageMode::Try | HugePageMode::Must) {
        lines.extend(commands::restart_commands(ask.host, instance));
    }
    let setting = Remedy::SetSetting(instance.id());
    draft.instruct_for(setting, server.title(), &lines, Risk::Restart, Some(instance));
}

fn choose_settings(
    ask: &PlanRequest<'_>,
    draft: &mut Draft<'_>,
    insist: &Insist<'_>,
    settable: &Settable,
    instance: &Instance,
    page: PageSize,
) -> Vec<SettingAssignment> {
    let mut wanted = Vec::new();
    let setting = Remedy::SetSetting(instance.id());
    let called_for = ask.calls_for(&setting) || ask.is_asked_for(instance);
    if let Some((name, value)) =
        settable.can.filter(|_| instance.asked == HugePageMode::Cannot && called_for)
    {
        wanted.push((name, value.to_owned()));
    }
    let other_size = instance.asked_page_size.get().is_some_and(|asked| asked != page);
    if let Some(size) = settable.page_size.filter(|_| other_size) {
        if let Some(why) = explain_kept_size(ask, draft, insist, instance, page) {
            draft.add_warning(format!("{} keeps its page size: {why}", instance.title()));
            return Vec::new();
        }
        wanted.push((size.name, (size.value)(page)));
    }
    let off = matches!(instance.asked, HugePageMode::No | HugePageMode::Cannot);
    let asks = || (settable.asks.0, settable.asks.1.to_owned());
    let Some((name, value)) = settable.insists else {
        if off && draft.may_ask(instance, page) {
            wanted.push(asks());
        } else if off {
            // Nobody is told to do by hand what may not be.
            draft.explained.insert(setting);
        }
        return wanted;
    };
    if !called_for || !(off || instance.asked == HugePageMode::Try) {
        return wanted;
    }
    match may_insist(ask, draft, insist, instance) {
        Ok(()) => wanted.push((name, value.to_owned())),
        Err(why) => {
            let title = instance.title();
            let why = format!("{title} is not set to refuse to start without huge pages: {why}");
            draft.leave_undone(setting, why);
            let (name, value) = settable.asks;
            let now = instance.setting_value(name);
            let tries = now.is_some_and(|now| now.eq_ignore_ascii_case(value));
            if off && !tries && draft.may_ask(instance, page) {
                wanted.push(asks());
            }
        }
    }
    wanted
}

fn explain_kept_size(
    ask: &PlanRequest<'_>,
    draft: &Draft<'_>,
    insist: &Insist<'_>,
    instance: &Instance,
    page: PageSize,
) -> Option<String> {
    if draft.pool_goal(page).is_some_and(|pool| pool.crowds) {
        // It would leave pages that it has for such as the host is not to have.
        return Some(format!("the pool gets no {page} pages for it"));
    }
    // Pages that the boot brings it now are not left for such as no boot brings.
    let has_some = ask
        .boot_forecast(instance)
        .is_some_and(|boot| matches!(boot.coverage, Coverage::All | Coverage::Partly));
    if has_some && !draft.pool_goal(page).is_some_and(|pool| pool.at_boot || pool.by_hand) {
        return Some(format!("the next boot brings no {page} pages for it"));
    }
    let why = may_insist(ask, draft, insist, instance).err()?;
    (instance.asked == HugePageMode::Must).then(|| format!("{why}, and it insists on them"))
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum MayNot {
    /// Somebody asked for what there is of a plan.
    #[error("its pool may fall short, and the rest of the plan goes on anyway")]
    Partial,
    #[error(transparent)]
    NotYet(#[from] NotYet),
}

/// The target's answer, with the pools as the steps leave them.
pub(super) fn may_insist(
    ask: &PlanRequest<'_>,
    draft: &Draft<'_>,
    insist: &Insist<'_>,
    instance: &Instance,
) -> Result<(), MayNot> {
    if ask.options.keep_partial {
        return Err(MayNot::Partial);
    }
    Ok(insist.may_insist(instance, |page| draft.is_secured(page))?)
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum NotSet {
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

struct Proposal {
    file: String,
    text: String,
    /// What the server is told; nothing where the file itself is written.
    statements: Vec<Change>,
}

/// Empty where a server's settings are written already. All servers are read anew with the new
/// files laid over the host, and once more without those that do not help: what a client has told a
/// server before has the last word on any drop-in, so that it has to be told anew.
fn build_changes(
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
    let there = budgets.for_owner(ask.source, process).read(&path).into_present();
    let there = there.map_err(unread)?.unwrap_or_default();
    let statements = (by_itself.statements)(&there, &server.wanted)
        .map_err(|error| NotSet::Senseless { file: reach.file.clone(), error })?;
    let client = ask
        .find_program(&[by_itself.program])
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
