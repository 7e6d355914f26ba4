//! PostgreSQL's own settings: a drop-in where its configuration includes a folder, ALTER SYSTEM elsewhere.

use hugewise_advice::demand;
use hugewise_advice::target::Insist;
use hugewise_engines::options::as_reader_opens;
use hugewise_engines::postgresql::conf::{self, Content};
use hugewise_host::config::accounts;
use hugewise_host::source::owned::{Budgets, Limits};
use hugewise_host::{Door, Source};
use hugewise_model::{Asked, Engine, Instance, PageSize, Remedy};

use super::boot_loader::find_program;
use super::draft::{Draft, Drafted};
use super::overlay::Overlay;
use super::settings::may_insist;
use super::{Ask, commands, ours, pools_at_boot, pools_now};
use crate::packages;
use crate::plan::{CommandChange, Risk, Step, When};

pub(super) fn plan(ask: &Ask<'_>, draft: &mut Draft<'_>) {
    let ask = *ask;
    let insist = Insist::new(ask.target(), draft.pools.iter().map(|pool| (pool.page_size, pool.goal)));
    for (instance, sized) in ask.sized() {
        if instance.engine == Engine::PostgreSql && instance.pid != 0 && ask.is_chosen(instance) {
            server(&ask, draft, &insist, instance, sized.page_size);
        }
    }
}

/// Name and value of each setting that is to change.
type Settings = Vec<(&'static str, String)>;

fn server(ask: &Ask<'_>, draft: &mut Draft<'_>, insist: &Insist<'_>, instance: &Instance, page: PageSize) {
    let wanted = settings(ask, draft, insist, instance, page);
    if wanted.is_empty() {
        return;
    }
    let title = instance.title();
    let shown: Vec<String> = wanted.iter().map(|(name, value)| format!("{name} = {value}")).collect();
    let shown = shown.join(", ");
    let why = match instance.asked {
        Asked::Try if wanted.contains(&("huge_pages", "on".into())) => {
            "with try it starts without huge pages when they don't reach, and says so at DEBUG1 only".to_owned()
        }
        Asked::Try | Asked::Must | Asked::Raises => format!("its pages are to be of {page}"),
        _ => "its settings don't ask for huge pages".to_owned(),
    };
    let id = format!("postgresql-{}", instance.name);
    let mut step = Drafted::from(Step::new(id, format!("{title}: {shown}"), Risk::Restart, why)).of(instance);
    let insists = wanted.contains(&("huge_pages", "on".into()));
    if insists {
        step.relies_on.push(pools_now::id(page));
    }
    let resized = wanted.iter().any(|(name, _)| *name == "huge_page_size");
    let setting = Remedy::SetSetting(instance.id());
    // Of one that tries, no less than that it insists is asked.
    if insists || (instance.asked != Asked::Try && wanted.iter().any(|(name, _)| *name != "huge_page_size")) {
        step.carry(setting.clone(), When::Now);
    }
    if let Some(left) = demand::page_size(ask.host, instance).filter(|_| resized) {
        // It asks the pool that it was short of for nothing more.
        let there = draft.pool(page).is_some_and(|goal| goal.is_there());
        let when = if there { When::Now } else { When::Reboot };
        step.carry_for(Remedy::SetPool(left), when, vec![instance.id()]);
    }
    let changes = match drop_in(ask, draft, instance, &wanted) {
        Some(change) => Ok(vec![change]),
        None => alter_system(ask, draft, instance, &wanted),
    };
    match changes {
        Ok(changes) => {
            step.changes = changes;
            draft.step(step);
            if resized {
                draft.resized.push(instance.id());
            }
        }
        Err(why) => {
            let mut lines = vec![format!("# {why}")];
            lines.extend(wanted.iter().map(|(name, value)| format!("# {name} = {value}")));
            if !matches!(instance.asked, Asked::Try | Asked::Must) {
                lines.extend(commands::restart(instance));
            }
            draft.instruct_for(setting, format!("{title}: {shown}"), &lines, Risk::Restart, Some(instance));
        }
    }
}

fn settings(
    ask: &Ask<'_>,
    draft: &mut Draft<'_>,
    insist: &Insist<'_>,
    instance: &Instance,
    page: PageSize,
) -> Settings {
    let mut wanted = Settings::new();
    let setting = Remedy::SetSetting(instance.id());
    let called_for = ask.calls_for(&setting) || ask.is_asked_for(instance);
    if instance.asked == Asked::Cannot && called_for {
        wanted.push(("shared_memory_type", "mmap".into()));
    }
    if instance.asked_page_size.get().is_some_and(|asked| asked != page) {
        if draft.pool(page).is_some_and(|pool| pool.crowds) {
            // It would leave pages that it has for such as the host is not to have.
            draft.warn(format!("{} keeps its page size: no pages of {page} are made for it", instance.title()));
            return Settings::new();
        }
        match may_insist(ask, draft, insist, instance) {
            Err(why) if instance.asked == Asked::Must => {
                draft.warn(format!("{} keeps its page size: {why}, and it insists on them", instance.title()));
                return Settings::new();
            }
            _ => wanted.push(("huge_page_size", size(page))),
        }
    }
    let insists = instance.asked == Asked::Must;
    let off = matches!(instance.asked, Asked::No | Asked::Cannot);
    let due = called_for && (off || instance.asked == Asked::Try);
    if !insists && due {
        match may_insist(ask, draft, insist, instance) {
            Ok(()) => wanted.push(("huge_pages", "on".into())),
            Err(why) => {
                draft.leave(setting, format!("{} is not set to insist on huge pages: {why}", instance.title()));
                let tries = instance.setting_value("huge_pages").is_some_and(|it| it.eq_ignore_ascii_case("try"));
                if off && !tries && pools_at_boot::may_ask(draft, instance, page) {
                    wanted.push(("huge_pages", "try".into()));
                }
            }
        }
    }
    wanted
}

fn size(page: PageSize) -> String {
    let bytes = page.bytes().get();
    match bytes {
        _ if bytes >= 1 << 30 => format!("{}GB", bytes >> 30),
        _ if bytes >= 1 << 20 => format!("{}MB", bytes >> 20),
        _ => format!("{}kB", bytes >> 10),
    }
}

/// Whether the server would read all these settings so, with these files.
fn holds(ask: &Ask<'_>, files: &Overlay<'_>, instance: &Instance, wanted: &Settings) -> bool {
    let found = hugewise_engines::find(ask.host, files);
    let Some(then) = found.instances.into_iter().find(|other| other.pid == instance.pid) else { return false };
    wanted.iter().all(|(name, value)| then.setting_value(name) == Some(value))
}

/// A drop-in in the folder that Debian's packages make for a cluster, where it is included and has the last word.
fn drop_in(
    ask: &Ask<'_>,
    draft: &mut Draft<'_>,
    instance: &Instance,
    wanted: &Settings,
) -> Option<crate::plan::Change> {
    // Anybody can start a server with the configuration of another.
    if instance.containered || !instance.is_known_to_the_host() {
        return None;
    }
    let config = config_file(instance)?;
    let budgets = Budgets::new(Limits::CONFIGURATION);
    let folders = included_folders(&budgets.of(ask.source, ask.host.process(instance.pid)?), &config);
    let own = config.strip_suffix("/postgresql.conf").map(|folder| format!("{folder}/conf.d"));
    let is_own = |folder: &&String| Some(*folder) == own.as_ref() && packages::postgresql_folder(folder);
    for folder in folders.iter().rev().filter(is_own).filter(|folder| ask.source.list(folder).is_known()) {
        let path = format!("{folder}/{}", ours::DROP_IN_CONF);
        let Ok(there) = ours::present(&draft.after, &path) else { continue };
        let replaced = |line: &str| wanted.iter().any(|(name, _)| line.split('=').next().map(str::trim) == Some(*name));
        let mut lines = ours::kept_lines(there.as_deref(), replaced);
        lines.extend(wanted.iter().map(|(name, value)| format!("{name} = {value}")));
        let text = ours::file(&lines);
        if holds(ask, &draft.after.with(&path, &text), instance, wanted) {
            return draft.write(&path, &text).map(Into::into);
        }
    }
    None
}

/// The server's main file, as one of its settings or its data directory tells.
pub(super) fn config_file(instance: &Instance) -> Option<String> {
    let named = instance.setting_value("config_file").filter(|path| path.starts_with('/')).map(str::to_owned);
    let places = instance.settings.values().filter_map(|setting| setting.place.as_ref());
    let mut of_settings = places.map(|place| place.file.clone()).filter(|file| file.ends_with("/postgresql.conf"));
    let in_data = || instance.data_directory.known().map(|data| format!("{data}/postgresql.conf"));
    named.or_else(|| of_settings.next()).or_else(in_data)
}

fn included_folders(source: &dyn Source, config: &str) -> Vec<String> {
    let Some(bytes) = source.read(config).into_known() else { return Vec::new() };
    let lines = conf::parse(&bytes).unwrap_or_default();
    let beside = config.rsplit_once('/').map_or("", |(folder, _)| folder);
    let folder = |line: conf::Line| match line.content {
        Content::IncludeFolder(path) if path.starts_with('/') => Some(path.trim_end_matches('/').to_owned()),
        Content::IncludeFolder(path) => {
            Some(format!("{beside}/{}", path.trim_start_matches("./").trim_end_matches('/')))
        }
        _ => None,
    };
    lines.into_iter().filter_map(folder).collect()
}

/// ALTER SYSTEM through the server's own socket, as its owner; postgresql.auto.conf is the server's file.
fn alter_system(
    ask: &Ask<'_>,
    draft: &mut Draft<'_>,
    instance: &Instance,
    wanted: &Settings,
) -> Result<Vec<crate::plan::Change>, String> {
    if instance.containered {
        return Err("it runs in a container: set it in there".into());
    }
    // apply runs psql as an account of the host's own files, and asks no directory for one.
    let accounts = accounts::read(&mut Door::new(ask.source)).users;
    if !accounts.is_empty() && accounts.values().all(|account| account.name != instance.owner) {
        return Err(format!("its owner {} is in no local account file", instance.owner));
    }
    let socket = instance.endpoints.iter().find_map(|endpoint| endpoint.split_once("/.s.PGSQL."));
    let (folder, port) = socket.ok_or("the socket of the server is not known")?;
    let data = instance.data_directory.known().ok_or("the data directory of the server is not known")?;
    let process = ask.host.process(instance.pid).ok_or("the server's process is not known")?;
    let file = format!("{data}/postgresql.auto.conf");
    let budgets = Budgets::new(Limits::CONFIGURATION);
    let there = budgets.of(ask.source, process).read(&as_reader_opens(ask.host, process, &file));
    let there = match there {
        hugewise_model::Observed::Known(bytes) => bytes,
        hugewise_model::Observed::Absent => Vec::new(),
        other => return Err(format!("{file}: {}", other.reason().unwrap_or_default())),
    };
    let mut text = String::from_utf8_lossy(&there).into_owned();
    for (name, value) in wanted {
        text.push_str(&format!("{name} = '{value}'\n"));
    }
    let trial = draft.after.with(&file, &text);
    if !holds(ask, &trial, instance, wanted) {
        return Err("its command line has the last word on these settings: change it there".into());
    }
    let before = conf::parse(&there).map_err(|error| format!("{file}: {error}"))?;
    let set_before = |name: &str| {
        before.iter().rev().find_map(|line| match &line.content {
            Content::Set { name: set, value } if set == name => Some(value.clone()),
            _ => None,
        })
    };
    let psql = find_program(ask.source, &["psql"]).unwrap_or_else(|| "/usr/bin/psql".into());
    let command = |sql: String| -> Vec<String> {
        let words = [psql.as_str(), "-X", "-h", folder, "-p", port, "-d", "postgres", "-c"];
        words.into_iter().map(str::to_owned).chain([sql]).collect()
    };
    let change = |(name, value): &(&'static str, String)| {
        let undo = match set_before(name) {
            Some(old) => format!("ALTER SYSTEM SET {name} = '{}'", old.replace('\'', "''")),
            None => format!("ALTER SYSTEM RESET {name}"),
        };
        CommandChange::new(command(format!("ALTER SYSTEM SET {name} = '{value}'")), "the server keeps its own settings")
            .undone_by(command(undo))
            .as_user(&instance.owner)
            .rewrites(&file)
            .unless(&file, format!("{name} = '{value}'"))
            .into()
    };
    draft.after = trial;
    Ok(wanted.iter().map(change).collect())
}
