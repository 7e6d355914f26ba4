//! The kernel's command line, through what the host has: GRUB's drop-ins, grubby; else by hand. No
//! line is edited in a file that somebody else owns.

use hugewise_diagnose::boot::{self, NewMenu};
use hugewise_diagnose::wording::boot_name;
use hugewise_host::config::cmdline::{self, HugePageWords};
use hugewise_model::configuration::{BootEntry, BootLoader, FileLocation};
use hugewise_model::observed::Lack;
use hugewise_model::{Observed, PageCount, PageSize};

use super::boot_files::uneven_node_pages;
use super::draft::{Draft, Drafted, PlanPart};
use super::pools_at_boot::{BootPoolChange, early_reserved_pages};
use super::{PlanRequest, image, owned_files};
use crate::plan::{Change, CommandChange, Risk, Step};

struct KernelReservation {
    page_size: PageSize,
    pages: PageCount,
    /// By node, where the kernel's even spread is not wanted.
    nodes: Vec<(u32, PageCount)>,
}

enum BootLoaderEdit {
    DropIn(Vec<String>),
    Grubby(String),
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum NotOurs {
    #[error("hugewise knows no boot loader on this host")]
    NoLoader,
    #[error("{0}")]
    EntryUnknown(Lack),
    #[error(transparent)]
    Taken(#[from] owned_files::OwnedFileError),
    #[error(
        "{place} already names {page} pages, and the kernel takes the first number: change it at \
             its source"
    )]
    Named { place: FileLocation, page: PageSize },
    #[error("{place} has words that make the kernel ignore those for {page} pages")]
    Ignored { place: FileLocation, page: PageSize },
    #[error(
        "{0} is not in the boot menu, but regenerating the menu for this plan would add it: \
             remove it, or regenerate the menu yourself, then make a new plan"
    )]
    Waiting(String),
    #[error(
        "{place} has {words} but /etc/default/grub does not, so regenerating the menu would lose \
             it: add it there, then make a new plan"
    )]
    Lost { place: FileLocation, words: String },
    #[error(
        "grubby keeps only one word of each name, so with several page sizes it would remove the \
             others"
    )]
    OneWord,
    #[error(
        "grub-mkconfig reads no drop-ins on this host: add them to GRUB_CMDLINE_LINUX in \
             /etc/default/grub, then {script} -o {menu}"
    )]
    NoDropIns { script: String, menu: String },
    #[error("update-grub, grub-mkconfig and grubby are all missing")]
    NoProgram,
    #[error("grubby is missing")]
    NoGrubby,
    #[error("{loader} takes its command line from {file}, which hugewise does not edit")]
    Loader { loader: BootLoader, file: String },
    #[error("{0} is read after {ours} and sets GRUB_CMDLINE_LINUX again", ours = owned_files::GRUB)]
    Later(String),
}

/// Returns the entry that the next boot then has.
pub(super) fn reserve_early(
    ask: &PlanRequest<'_>,
    draft: &mut Draft<'_>,
    changes: &[BootPoolChange],
) -> Option<BootEntry> {
    let is_early = |change: &&BootPoolChange| {
        let shrinks = change.goal.goal < change.goal.now;
        let needed = change.goal.needed > PageCount::ZERO;
        let surest_there = ask.host.is_gigantic(change.goal.page_size) && (needed || !shrinks);
        // The line has them: what is due is what comes after it.
        let is_there = early_reserved_pages(ask, None, change.goal.page_size) == change.pages
            && uneven_node_pages(&change.goal).is_empty();
        let is_left = boot::is_left_to_cma(ask.host, change.goal.page_size);
        let is_due = ask.options.early || surest_there;
        change.pages > PageCount::ZERO && !is_there && !is_left && is_due
    };
    let reserved = changes.iter().filter(is_early).map(|change| KernelReservation {
        page_size: change.goal.page_size,
        pages: change.pages,
        nodes: uneven_node_pages(&change.goal),
    });
    // A size that others name already is theirs to change, and keeps no other size back.
    let (theirs, free): (Vec<_>, Vec<_>) =
        reserved.partition(|reservation| is_named(ask, reservation.page_size));
    reserve_early_pools(ask, draft, &theirs);
    reserve_early_pools(ask, draft, &free)
}

fn reserve_early_pools(
    ask: &PlanRequest<'_>,
    draft: &mut Draft<'_>,
    wanted: &[KernelReservation],
) -> Option<BootEntry> {
    if wanted.is_empty() {
        return None;
    }
    match reserve_on_command_line(ask, draft, wanted) {
        Ok(entry) => Some(entry),
        Err(by_hand) => {
            let sizes: Vec<String> =
                wanted.iter().map(|reservation| reservation.page_size.to_string()).collect();
            let title =
                format!("reserve the {} pages on the kernel command line", sizes.join(" and "));
            draft.add_instruction(title, &by_hand, Risk::Reboot, None);
            None
        }
    }
}

/// Whether words of others name pages of a size on the next boot's command line.
fn is_named(ask: &PlanRequest<'_>, page: PageSize) -> bool {
    let (Some(entry), Ok(ours)) = (ask.host.configuration.boot.as_known(), read_our_words(ask))
    else {
        return false;
    };
    names_page_size(ask, &cmdline::huge_page_words(&remove_words(&entry.command_line, &ours)), page)
}

/// What regenerating GRUB's menu, by whomever, brings or drops of others' words.
pub(super) fn predict_new_menu(ask: &PlanRequest<'_>) -> Option<NewMenu> {
    let (Observed::Known(entry), Ok(ours)) = (&ask.host.configuration.boot, read_our_words(ask))
    else {
        return None;
    };
    boot::new_menu(ask.host, &remove_words(&entry.command_line, &ours), owned_files::GRUB)
}

fn names_page_size(ask: &PlanRequest<'_>, words: &cmdline::HugePageWords, page: PageSize) -> bool {
    let default = boot::default_size(ask.host);
    words.pools.iter().any(|pool| pool.page_size.or(default) == Some(page))
}

/// Adds the step, and returns the entry of the next boot. An error is what to do by hand, which
/// may put all words anew, also those that the kernel ignores.
fn reserve_on_command_line(
    ask: &PlanRequest<'_>,
    draft: &mut Draft<'_>,
    wanted: &[KernelReservation],
) -> Result<BootEntry, Vec<String>> {
    let words: Vec<String> =
        wanted.iter().flat_map(|reservation| reservation_words(ask, reservation)).collect();
    if let Some(lines) = image::kernel_word_lines(ask, &words) {
        return Err(lines);
    }
    change_command_line(ask, draft, wanted).map_err(|why| {
        let line = match replacing_words(ask, wanted, &words) {
            Some(line) => {
                draft.explained.extend(hugewise_diagnose::remedies_for_ignored_words(ask.host));
                line
            }
            None => format!("# add to the kernel's command line: {}", words.join(" ")),
        };
        vec![format!("# {why}"), line, "# then reboot".into()]
    })
}

/// Words at the end of a line count for nothing where the line names their size already, or has
/// counts out of place: then all words about huge pages are put anew.
fn replacing_words(
    ask: &PlanRequest<'_>,
    wanted: &[KernelReservation],
    words: &[String],
) -> Option<String> {
    let line = ask.host.configuration.boot.as_known().map(|entry| entry.command_line.as_slice());
    let line = line.unwrap_or_default();
    let read = cmdline::huge_page_words(&[line, words].concat());
    let is_taken = |reservation: &KernelReservation| {
        command_line_pages(&read, reservation.page_size) == reservation.pages
    };
    if wanted.iter().all(is_taken) {
        return None;
    }
    let now = cmdline::huge_page_words(line);
    let default = now.default_size.map(|size| format!("default_hugepagesz={}", boot_name(size)));
    let kept: Vec<String> = kept_words(ask, &now, wanted);
    let all: Vec<String> = default.into_iter().chain(kept).chain(words.iter().cloned()).collect();
    let source = boot::find_cmdline_source(ask.host).file;
    Some(format!("# in {source}, replace all words about huge pages by: {}", all.join(" ")))
}

/// What the line brings of sizes that are not to change, each count behind its size.
fn kept_words(
    ask: &PlanRequest<'_>,
    now: &HugePageWords,
    wanted: &[KernelReservation],
) -> Vec<String> {
    let default = boot::default_size(ask.host);
    let mut kept = Vec::<KernelReservation>::new();
    for pool in &now.pools {
        let Some(page_size) = pool.page_size.or(default) else { continue };
        if wanted.iter().any(|reservation| reservation.page_size == page_size) {
            continue;
        }
        let node = pool.node.map(|node| (node, pool.pages));
        match kept.iter_mut().find(|reservation| reservation.page_size == page_size) {
            Some(reservation) => reservation.nodes.extend(node),
            None => kept.push(KernelReservation {
                page_size,
                pages: pool.pages,
                nodes: node.into_iter().collect(),
            }),
        }
    }
    kept.iter().flat_map(|reservation| reservation_words(ask, reservation)).collect()
}

fn change_command_line(
    ask: &PlanRequest<'_>,
    draft: &mut Draft<'_>,
    wanted: &[KernelReservation],
) -> Result<BootEntry, NotOurs> {
    let entry = match &ask.host.configuration.boot {
        Observed::Known(entry) => entry,
        Observed::Absent => return Err(NotOurs::NoLoader),
        other => {
            let lack = Lack::from_fact("the boot loader's entry is not known", other);
            return Err(NotOurs::EntryUnknown(lack));
        }
    };
    let place = || entry.place.clone();
    let ours_before = read_our_words(ask)?;
    let others = remove_words(&entry.command_line, &ours_before);
    let theirs = cmdline::huge_page_words(&others);
    let is_theirs = |page: &PageSize| names_page_size(ask, &theirs, *page);
    if let Some(page) = wanted.iter().map(|reservation| reservation.page_size).find(is_theirs) {
        return Err(NotOurs::Named { place: place(), page });
    }
    let kept = place_words(ask, &ours_before, wanted);
    let all: Vec<String> = others.iter().chain(&kept).cloned().collect();
    let read = cmdline::huge_page_words(&all);
    let is_lost = |reservation: &&KernelReservation| {
        command_line_pages(&read, reservation.page_size) != reservation.pages
    };
    if let Some(lost) = wanted.iter().find(is_lost) {
        return Err(NotOurs::Ignored { place: place(), page: lost.page_size });
    }
    if kept == ours_before && others.len() < entry.command_line.len() {
        return Ok(entry.clone());
    }
    let step = match choose_boot_loader_edit(ask, entry)? {
        // Nobody asked for what else comes and goes when the menu is regenerated.
        BootLoaderEdit::DropIn(command) => match predict_new_menu(ask) {
            Some(NewMenu::Brings(words)) => return Err(NotOurs::Waiting(words)),
            Some(NewMenu::Drops(words)) => return Err(NotOurs::Lost { place: place(), words }),
            None => build_drop_in_step(ask, draft, entry, &kept, command)?,
        },
        BootLoaderEdit::Grubby(program)
            if theirs.pools.is_empty() && ours_before.is_empty() && kept.len() == 2 =>
        {
            build_grubby_step(ask, entry, &kept, &program)
        }
        BootLoaderEdit::Grubby(_) => return Err(NotOurs::OneWord),
    };
    draft.add_step(Drafted::for_part(PlanPart::PoolsAtBoot, step));
    let after = BootEntry { command_line: all, ..entry.clone() };
    draft.entry = Some(after.clone());
    Ok(after)
}

/// Each pool takes the place of an earlier one of its size, so that a second plan finds the line as
/// the first one left it. What an earlier plan put there for other sizes stays.
fn place_words(
    ask: &PlanRequest<'_>,
    before: &[String],
    wanted: &[KernelReservation],
) -> Vec<String> {
    let there = cmdline::huge_page_words(before).pools;
    let find = |size: PageSize| wanted.iter().find(|reservation| reservation.page_size == size);
    let mut placed: Vec<String> = Vec::new();
    for pool in &there {
        let Some(size) = pool.page_size else { continue };
        let kept = KernelReservation { page_size: size, pages: pool.pages, nodes: Vec::new() };
        placed.extend(reservation_words(ask, find(size).unwrap_or(&kept)));
    }
    let new = wanted.iter().filter(|reservation| {
        there.iter().all(|pool| pool.page_size != Some(reservation.page_size))
    });
    placed.extend(new.flat_map(|reservation| reservation_words(ask, reservation)));
    placed
}

fn reservation_words(ask: &PlanRequest<'_>, wanted: &KernelReservation) -> Vec<String> {
    // By node since Linux 5.16.
    let by_node = ask.host.kernel.as_known().is_some_and(|kernel| kernel.at_least(5, 16));
    let pages = if by_node && !wanted.nodes.is_empty() {
        let parts: Vec<String> =
            wanted.nodes.iter().map(|(node, pages)| format!("{node}:{}", pages.get())).collect();
        parts.join(",")
    } else {
        wanted.pages.get().to_string()
    };
    vec![format!("hugepagesz={}", boot_name(wanted.page_size)), format!("hugepages={pages}")]
}

fn command_line_pages(words: &HugePageWords, page: PageSize) -> PageCount {
    words.pools.iter().filter(|pool| pool.page_size == Some(page)).map(|pool| pool.pages).sum()
}

fn read_our_words(ask: &PlanRequest<'_>) -> Result<Vec<String>, owned_files::OwnedFileError> {
    let there = owned_files::read_owned_file(ask.source, owned_files::GRUB)?;
    let text = String::from_utf8_lossy(there.as_deref().unwrap_or_default()).into_owned();
    let line = text.lines().find_map(|line| line.strip_prefix(GRUB_ADDS)?.strip_suffix('"'));
    Ok(line.unwrap_or_default().split_whitespace().map(str::to_owned).collect())
}

const GRUB_ADDS: &str = "GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX ";

fn remove_words(words: &[String], run: &[String]) -> Vec<String> {
    let at = words.windows(run.len().max(1)).position(|window| window == run);
    let Some(at) = at.filter(|_| !run.is_empty()) else { return words.to_vec() };
    let behind = words.iter().skip(at + run.len());
    words.iter().take(at).chain(behind).cloned().collect()
}

fn choose_boot_loader_edit(
    ask: &PlanRequest<'_>,
    entry: &BootEntry,
) -> Result<BootLoaderEdit, NotOurs> {
    let program = |names: &[&str]| ask.find_program(names);
    match entry.loader {
        BootLoader::Grub => {
            let script = program(&["grub-mkconfig", "grub2-mkconfig"]);
            let reads_drop_ins = script.as_ref().is_some_and(|script| {
                let text = ask.source.read(script).into_known().unwrap_or_default();
                String::from_utf8_lossy(&text).contains("/default/grub.d")
            });
            match (script, program(&["update-grub"]), program(&["grubby"])) {
                (Some(_), Some(update), _) if reads_drop_ins => {
                    Ok(BootLoaderEdit::DropIn(vec![update]))
                }
                (Some(script), None, _) if reads_drop_ins => {
                    Ok(BootLoaderEdit::DropIn(vec![script, "-o".into(), entry.place.file.clone()]))
                }
                (_, _, Some(grubby)) => Ok(BootLoaderEdit::Grubby(grubby)),
                (Some(script), ..) => {
                    Err(NotOurs::NoDropIns { script, menu: entry.place.file.clone() })
                }
                (None, ..) => Err(NotOurs::NoProgram),
            }
        }
        BootLoader::Bls => {
            program(&["grubby"]).map(BootLoaderEdit::Grubby).ok_or(NotOurs::NoGrubby)
        }
        loader @ (BootLoader::SystemdBoot | BootLoader::GrubLegacy) => {
            Err(NotOurs::Loader { loader, file: entry.place.file.clone() })
        }
    }
}

fn build_command_line_step(kept: &[String]) -> Step {
    let why = "the kernel is certain to find pages of that size only before memory is in use";
    let title = format!("kernel command line: {}", kept.join(" "));
    Step::new("pools-command-line", title, Risk::Reboot, why)
}

fn build_drop_in_step(
    ask: &PlanRequest<'_>,
    draft: &mut Draft<'_>,
    entry: &BootEntry,
    kept: &[String],
    command: Vec<String>,
) -> Result<Step, NotOurs> {
    if let Some(later) = find_later_drop_in(ask) {
        return Err(NotOurs::Later(later));
    }
    let text = owned_files::render_owned_file(&[format!("{GRUB_ADDS}{}\"", kept.join(" "))]);
    let change = draft.write(owned_files::GRUB, &text);
    let update = CommandChange::new(command, "regenerates GRUB's menu")
        .undone_by_itself()
        .with_rewritten_file(&entry.place.file);
    let mut step = build_command_line_step(kept);
    step.changes.extend(change.map(Change::from));
    Ok(step.with_change(update))
}

/// A file behind ours that drops what was said before it.
fn find_later_drop_in(ask: &PlanRequest<'_>) -> Option<String> {
    let (folder, name) = owned_files::GRUB.rsplit_once('/')?;
    let names = ask.source.list_folder(folder).into_known().unwrap_or_default();
    let files = names.into_iter().filter(|other| other.ends_with(".cfg") && other.as_str() > name);
    files.map(|file| format!("{folder}/{file}")).find(|path| {
        let text = ask.source.read(path).into_known().unwrap_or_default();
        let text = String::from_utf8_lossy(&text).into_owned();
        let mut sets =
            text.lines().filter_map(|line| line.trim().strip_prefix("GRUB_CMDLINE_LINUX="));
        sets.any(|value| {
            !value.contains("$GRUB_CMDLINE_LINUX") && !value.contains("${GRUB_CMDLINE_LINUX")
        })
    })
}

fn build_grubby_step(
    ask: &PlanRequest<'_>,
    entry: &BootEntry,
    kept: &[String],
    program: &str,
) -> Step {
    let words = kept.join(" ");
    let line = |option: &str| {
        [program.to_owned(), "--update-kernel=ALL".to_owned(), format!("--{option}={words}")]
    };
    let mut command = CommandChange::new(line("args"), "grubby keeps the command lines")
        .undone_by(line("remove-args"));
    if entry.loader == BootLoader::Bls {
        let folder =
            entry.place.file.rsplit_once('/').map_or("/boot/loader/entries", |(folder, _)| folder);
        let names = ask.source.list_folder(folder).into_known().unwrap_or_default();
        let entries = names.iter().filter(|name| name.ends_with(".conf"));
        command.files.extend(entries.map(|name| format!("{folder}/{name}")));
    } else {
        command.files.push(entry.place.file.clone());
    }
    let more = ["/etc/default/grub", "/etc/kernel/cmdline", "/boot/grub2/grubenv"];
    let there = more.into_iter().filter(|path| !ask.source.read(path).is_absent());
    command.files.extend(there.map(str::to_owned));
    build_command_line_step(kept).with_change(command)
}
