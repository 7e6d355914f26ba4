//! MySQL's and MariaDB's option: a drop-in in a folder that their option files include.

use hugewise_engines::mysql::cnf::{self, Content};
use hugewise_engines::options;
use hugewise_host::Source;
use hugewise_host::source::owned::{Budgets, Limits};
use hugewise_model::{Asked, Engine, Instance, Remedy};

use super::draft::{Draft, Drafted};
use super::{Ask, commands, ours, pools_at_boot};
use crate::packages;
use crate::plan::{Risk, Step, When};

/// Option files that servers read without being told.
const FILES: [&str; 2] = ["/etc/my.cnf", "/etc/mysql/my.cnf"];
/// Includes in includes: the server's own limit.
const DEEPEST: usize = 10;

pub(super) fn plan(ask: &Ask<'_>, draft: &mut Draft<'_>) {
    let ask = *ask;
    for (instance, sized) in ask.sized() {
        let ours = matches!(instance.engine, Engine::MySql | Engine::MariaDb) && instance.pid != 0;
        let off = ours && ask.is_chosen(instance) && instance.asked == Asked::No;
        if off && pools_at_boot::may_ask(draft, instance, sized.page_size) {
            server(&ask, draft, instance);
        }
    }
}

fn server(ask: &Ask<'_>, draft: &mut Draft<'_>, instance: &Instance) {
    let title = instance.title();
    match drop_in(ask, draft, instance) {
        Ok(Some(change)) => {
            let why = "its settings don't ask for huge pages; it falls back without them where they don't reach";
            let id = format!("{}-{}", instance.engine, instance.name);
            let step = Step::new(id, format!("{title}: large_pages = ON"), Risk::Restart, why);
            let mut step = Drafted::from(step).of(instance);
            step.carry(Remedy::SetSetting(instance.id()), When::Now);
            draft.step(step.change(change));
        }
        Ok(None) => {}
        Err(why) => {
            // What it is to be asked says by itself that the command line beats all files.
            let on_command_line = instance.settings.get("large_pages").is_some_and(|it| it.is_on_command_line());
            let mut lines: Vec<String> = if on_command_line { Vec::new() } else { vec![format!("# {why}")] };
            lines.extend(commands::ask(instance, false));
            lines.extend(commands::restart(instance));
            let remedy = Remedy::SetSetting(instance.id());
            draft.instruct_for(remedy, format!("{title}: large_pages = ON"), &lines, Risk::Restart, Some(instance));
        }
    }
}

fn drop_in(
    ask: &Ask<'_>,
    draft: &mut Draft<'_>,
    instance: &Instance,
) -> Result<Option<crate::plan::FileChange>, String> {
    if instance.containered {
        return Err("it runs in a container: set it in there".into());
    }
    if !instance.is_known_to_the_host() {
        return Err("its option files may be another server's too: set it in the one that is its own".into());
    }
    let process = ask.host.process(instance.pid).ok_or("the server's process is not known")?;
    let arguments = process.command.known().ok_or("the server's command line is not known")?;
    if arguments.iter().any(|argument| argument == "--no-defaults") {
        return Err("it reads no option files (--no-defaults): add --large-pages to its command line".into());
    }
    let files: Vec<String> = match options::value(arguments, "defaults-file").filter(|path| !path.is_empty()) {
        Some(path) => vec![path.to_owned()],
        None => FILES.iter().map(|path| (*path).to_owned()).collect(),
    };
    let mut folders = Vec::new();
    let budgets = Budgets::new(Limits::CONFIGURATION);
    let own = budgets.of(ask.source, process);
    for file in &files {
        included_folders(&own, file, 0, &mut folders);
    }
    let text = ours::file(&["[mysqld]".into(), "large_pages = ON".into()]);
    let known = |folder: &&String| packages::mysql_folder(folder) && ask.source.list(folder).is_known();
    for folder in folders.iter().rev().filter(known) {
        let path = format!("{folder}/{}", ours::DROP_IN_CNF);
        if ours::present(&draft.after, &path).is_err() {
            continue;
        }
        let trial = draft.after.with(&path, &text);
        let found = hugewise_engines::find(ask.host, &trial);
        if found.instances.iter().any(|then| then.pid == instance.pid && then.asked == Asked::Try) {
            return Ok(draft.write(&path, &text));
        }
    }
    Err(format!("of the folders that are included from {} none has the last word on large_pages", files.join(" and ")))
}

fn included_folders(source: &dyn Source, file: &str, depth: usize, folders: &mut Vec<String>) {
    let Some(bytes) = source.read(file).into_known().filter(|_| depth <= DEEPEST) else { return };
    for line in cnf::parse(&bytes).unwrap_or_default() {
        match line.content {
            Content::Include(path) => included_folders(source, &path, depth + 1, folders),
            Content::IncludeFolder(folder) => {
                let folder = folder.trim_end_matches('/').to_owned();
                if folder.starts_with('/') && !folders.contains(&folder) {
                    folders.push(folder);
                }
            }
            Content::Option(..) => {}
        }
    }
}
