//! The kernel's command line, through what the host has: GRUB's drop-ins, grubby; else by hand. No line is edited in a
//! file that somebody else owns.

use hugewise_advice::boot::{self, NewMenu};
use hugewise_advice::words::boot_name;
use hugewise_host::Source;
use hugewise_host::config::cmdline::{self, HugePageWords};
use hugewise_model::configuration::{BootEntry, Loader, Place};
use hugewise_model::observed::Lack;
use hugewise_model::{Observed, PageCount, PageSize};

use super::draft::{Draft, Drafted, Part};
use super::{Ask, image, ours};
use crate::plan::{Change, CommandChange, Risk, Step};

/// Pages of one size that the kernel is to reserve as it boots.
pub(super) struct Reserved {
    pub(super) page_size: PageSize,
    pub(super) pages: PageCount,
    /// By node, where the kernel's even spread is not wanted.
    pub(super) nodes: Vec<(u32, PageCount)>,
}

/// How a host's command line is changed.
enum Way {
    /// A drop-in for grub-mkconfig, and the command that runs it.
    DropIn(Vec<String>),
    /// grubby, by its path.
    Grubby(String),
}

/// Why the kernel's command line is not hugewise's to change.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum NotOurs {
    #[error("hugewise knows no boot loader on this host")]
    NoLoader,
    #[error("{0}")]
    EntryUnknown(Lack),
    #[error(transparent)]
    Taken(#[from] ours::Taken),
    #[error("{place} already names {page} pages, and the kernel takes the first number: change it at its source")]
    Named { place: Place, page: PageSize },
    #[error("{place} has words that make the kernel ignore those for {page} pages")]
    Ignored { place: Place, page: PageSize },
    #[error(
        "{0} is not in the boot menu, but regenerating the menu for this plan would add it: remove it, or regenerate the menu yourself, then make a new plan"
    )]
    Waiting(String),
    #[error(
        "{place} has {words} but /etc/default/grub does not, so regenerating the menu would lose it: add it there, then make a new plan"
    )]
    Lost { place: Place, words: String },
    #[error("grubby keeps only one word of each name, so with several page sizes it would remove the others")]
    OneWord,
    #[error(
        "grub-mkconfig reads no drop-ins on this host: add them to GRUB_CMDLINE_LINUX in /etc/default/grub, then {script} -o {menu}"
    )]
    NoDropIns { script: String, menu: String },
    #[error("update-grub, grub-mkconfig and grubby are all missing")]
    NoProgram,
    #[error("grubby is missing")]
    NoGrubby,
    #[error("{loader} takes its command line from {file}, which hugewise does not edit")]
    Loader { loader: Loader, file: String },
    #[error("{0} is read after {ours} and sets GRUB_CMDLINE_LINUX again", ours = ours::GRUB)]
    Later(String),
}

/// Whether words of others name pages of a size on the next boot's command line.
pub(super) fn is_named(ask: &Ask<'_>, page: PageSize) -> bool {
    let (Some(entry), Ok(ours)) = (ask.host.configuration.boot.known(), our_words(ask)) else { return false };
    names(ask, &cmdline::huge_page_words(&without(&entry.command_line, &ours)), page)
}

/// What a menu of GRUB's that is made anew, by whomever, brings or drops of others' words.
pub(super) fn new_menu(ask: &Ask<'_>) -> Option<NewMenu> {
    let (Observed::Known(entry), Ok(ours)) = (&ask.host.configuration.boot, our_words(ask)) else { return None };
    boot::new_menu(ask.host, &without(&entry.command_line, &ours), ours::GRUB)
}

fn names(ask: &Ask<'_>, words: &cmdline::HugePageWords, page: PageSize) -> bool {
    let default = boot::default_size(ask.host);
    words.pools.iter().any(|pool| pool.page_size.or(default) == Some(page))
}

/// Makes the step, which carries these pools to the boot; gives the entry that the next boot has then.
///
/// # Errors
/// What is to be done by hand instead, and why, in lines of a shell.
pub(super) fn reserve(ask: &Ask<'_>, draft: &mut Draft<'_>, wanted: &[Reserved]) -> Result<BootEntry, Vec<String>> {
    let by_hand = |why: NotOurs| {
        let words: Vec<String> = wanted.iter().flat_map(|it| words(ask, it)).collect();
        vec![
            format!("# {why}"),
            format!("# add to the kernel's command line: {}", words.join(" ")),
            "# then reboot".into(),
        ]
    };
    if let Some(lines) = image::kernel_words(ask, &wanted.iter().flat_map(|it| words(ask, it)).collect::<Vec<_>>()) {
        return Err(lines);
    }
    let entry = match &ask.host.configuration.boot {
        Observed::Known(entry) => entry,
        Observed::Absent => return Err(by_hand(NotOurs::NoLoader)),
        other => return Err(by_hand(NotOurs::EntryUnknown(Lack::of("the boot loader's entry is not known", other)))),
    };
    let ours_before = our_words(ask).map_err(|taken| by_hand(taken.into()))?;
    let others = without(&entry.command_line, &ours_before);
    let theirs = cmdline::huge_page_words(&others);
    if let Some(it) = wanted.iter().find(|it| names(ask, &theirs, it.page_size)) {
        return Err(by_hand(NotOurs::Named { place: entry.place.clone(), page: it.page_size }));
    }
    let kept = put_in_place(ask, &ours_before, wanted);
    let all: Vec<String> = others.iter().chain(&kept).cloned().collect();
    let read = cmdline::huge_page_words(&all);
    if let Some(lost) = wanted.iter().find(|it| pages(&read, it.page_size) != it.pages) {
        return Err(by_hand(NotOurs::Ignored { place: entry.place.clone(), page: lost.page_size }));
    }
    if kept == ours_before && others.len() < entry.command_line.len() {
        return Ok(entry.clone());
    }
    let step = match way(ask, entry).map_err(by_hand)? {
        Way::DropIn(command) => {
            // The menu is made anew for our words, and nobody asked for what else comes and goes with it.
            match new_menu(ask) {
                Some(NewMenu::Brings(words)) => return Err(by_hand(NotOurs::Waiting(words))),
                Some(NewMenu::Drops(words)) => {
                    return Err(by_hand(NotOurs::Lost { place: entry.place.clone(), words }));
                }
                None => drop_in(ask, draft, entry, &kept, command).map_err(by_hand)?,
            }
        }
        Way::Grubby(program) if theirs.pools.is_empty() && ours_before.is_empty() && kept.len() == 2 => {
            grubby(ask, entry, &kept, &program)
        }
        Way::Grubby(_) => return Err(by_hand(NotOurs::OneWord)),
    };
    draft.step(Drafted::part(Part::PoolsAtBoot, step));
    let after = BootEntry { command_line: all, ..entry.clone() };
    draft.entry = Some(after.clone());
    Ok(after)
}

/// Words of ours with these pools: each in the place of an earlier one of its size, so that a second plan finds the line as the
/// first one left it, or at the end. What an earlier plan put there for other sizes stays.
fn put_in_place(ask: &Ask<'_>, before: &[String], wanted: &[Reserved]) -> Vec<String> {
    let there = cmdline::huge_page_words(before).pools;
    let is_of = |size: PageSize| wanted.iter().find(|it| it.page_size == size);
    let mut placed: Vec<String> = Vec::new();
    for pool in &there {
        let Some(size) = pool.page_size else { continue };
        let kept = Reserved { page_size: size, pages: pool.pages, nodes: Vec::new() };
        placed.extend(words(ask, is_of(size).unwrap_or(&kept)));
    }
    let new = wanted.iter().filter(|it| there.iter().all(|pool| pool.page_size != Some(it.page_size)));
    placed.extend(new.flat_map(|it| words(ask, it)));
    placed
}

fn words(ask: &Ask<'_>, wanted: &Reserved) -> Vec<String> {
    // By node since Linux 5.16.
    let by_node = ask.host.kernel.known().is_some_and(|kernel| kernel.at_least(5, 16));
    let pages = if by_node && !wanted.nodes.is_empty() {
        let parts: Vec<String> = wanted.nodes.iter().map(|(node, pages)| format!("{node}:{}", pages.get())).collect();
        parts.join(",")
    } else {
        wanted.pages.get().to_string()
    };
    vec![format!("hugepagesz={}", boot_name(wanted.page_size)), format!("hugepages={pages}")]
}

fn pages(words: &HugePageWords, page: PageSize) -> PageCount {
    words.pools.iter().filter(|pool| pool.page_size == Some(page)).map(|pool| pool.pages).sum()
}

/// The words that a drop-in of ours puts on the command line.
fn our_words(ask: &Ask<'_>) -> Result<Vec<String>, ours::Taken> {
    let there = ours::present(ask.source, ours::GRUB)?;
    let text = String::from_utf8_lossy(there.as_deref().unwrap_or_default()).into_owned();
    let line = text.lines().find_map(|line| line.strip_prefix(GRUB_ADDS)?.strip_suffix('"'));
    Ok(line.unwrap_or_default().split_whitespace().map(str::to_owned).collect())
}

const GRUB_ADDS: &str = "GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX ";

/// The words without a run of others among them.
fn without(words: &[String], run: &[String]) -> Vec<String> {
    let at = words.windows(run.len().max(1)).position(|window| window == run);
    let Some(at) = at.filter(|_| !run.is_empty()) else { return words.to_vec() };
    words
        .iter()
        .enumerate()
        .filter(|(place, _)| *place < at || *place >= at + run.len())
        .map(|(_, word)| word.clone())
        .collect()
}

fn way(ask: &Ask<'_>, entry: &BootEntry) -> Result<Way, NotOurs> {
    let program = |names: &[&str]| find_program(ask.source, names);
    match entry.loader {
        Loader::Grub => {
            let script = program(&["grub-mkconfig", "grub2-mkconfig"]);
            let reads_drop_ins = script.as_ref().is_some_and(|script| {
                let text = ask.source.read(script).into_known().unwrap_or_default();
                String::from_utf8_lossy(&text).contains("/default/grub.d")
            });
            match (script, program(&["update-grub"]), program(&["grubby"])) {
                (Some(_), Some(update), _) if reads_drop_ins => Ok(Way::DropIn(vec![update])),
                (Some(script), None, _) if reads_drop_ins => {
                    Ok(Way::DropIn(vec![script, "-o".into(), entry.place.file.clone()]))
                }
                (_, _, Some(grubby)) => Ok(Way::Grubby(grubby)),
                (Some(script), ..) => Err(NotOurs::NoDropIns { script, menu: entry.place.file.clone() }),
                (None, ..) => Err(NotOurs::NoProgram),
            }
        }
        Loader::Bls => program(&["grubby"]).map(Way::Grubby).ok_or(NotOurs::NoGrubby),
        loader @ (Loader::SystemdBoot | Loader::GrubLegacy) => {
            Err(NotOurs::Loader { loader, file: entry.place.file.clone() })
        }
    }
}

/// The path of a program of root's.
pub(super) fn find_program(source: &dyn Source, names: &[&str]) -> Option<String> {
    let there =
        |folder: &str, name: &str| source.list(folder).known().is_some_and(|all| all.iter().any(|it| it == name));
    let paths = names.iter().flat_map(|name| ["/usr/sbin", "/usr/bin", "/sbin", "/bin"].map(|folder| (folder, *name)));
    paths.into_iter().find(|(folder, name)| there(folder, name)).map(|(folder, name)| format!("{folder}/{name}"))
}

fn step(kept: &[String]) -> Step {
    let why = "the kernel is certain to find pages of that size only before memory is in use";
    Step::new("pools-command-line", format!("kernel command line: {}", kept.join(" ")), Risk::Reboot, why)
}

fn drop_in(
    ask: &Ask<'_>,
    draft: &mut Draft<'_>,
    entry: &BootEntry,
    kept: &[String],
    command: Vec<String>,
) -> Result<Step, NotOurs> {
    if let Some(later) = later_drop_in(ask) {
        return Err(NotOurs::Later(later));
    }
    let text = ours::file(&[format!("{GRUB_ADDS}{}\"", kept.join(" "))]);
    let change = draft.write(ours::GRUB, &text);
    let update = CommandChange::new(command, "regenerates GRUB's menu").undone_by_itself().rewrites(&entry.place.file);
    let mut step = step(kept);
    step.changes.extend(change.map(Change::from));
    Ok(step.change(update))
}

/// A file behind ours that does not keep what was said before it.
fn later_drop_in(ask: &Ask<'_>) -> Option<String> {
    let (folder, name) = ours::GRUB.rsplit_once('/')?;
    let names = ask.source.list(folder).into_known().unwrap_or_default();
    let files = names.into_iter().filter(|other| other.ends_with(".cfg") && other.as_str() > name);
    files.map(|file| format!("{folder}/{file}")).find(|path| {
        let text = ask.source.read(path).into_known().unwrap_or_default();
        let text = String::from_utf8_lossy(&text).into_owned();
        let mut sets = text.lines().filter_map(|line| line.trim().strip_prefix("GRUB_CMDLINE_LINUX="));
        sets.any(|value| !value.contains("$GRUB_CMDLINE_LINUX") && !value.contains("${GRUB_CMDLINE_LINUX"))
    })
}

fn grubby(ask: &Ask<'_>, entry: &BootEntry, kept: &[String], program: &str) -> Step {
    let words = kept.join(" ");
    let all = "--update-kernel=ALL".to_owned();
    let mut command = CommandChange::new(
        [program.to_owned(), all.clone(), format!("--args={words}")],
        "grubby keeps the command lines",
    )
    .undone_by([program.to_owned(), all, format!("--remove-args={words}")]);
    let mut files: Vec<String> = Vec::new();
    if entry.loader == Loader::Bls {
        let folder = entry.place.file.rsplit_once('/').map_or("/boot/loader/entries", |(folder, _)| folder);
        let names = ask.source.list(folder).into_known().unwrap_or_default();
        files.extend(names.iter().filter(|name| name.ends_with(".conf")).map(|name| format!("{folder}/{name}")));
    } else {
        files.push(entry.place.file.clone());
    }
    let more = ["/etc/default/grub", "/etc/kernel/cmdline", "/boot/grub2/grubenv"];
    files.extend(more.iter().filter(|path| !ask.source.read(path).is_absent()).map(|path| (*path).to_owned()));
    for file in files {
        command = command.rewrites(file);
    }
    step(kept).change(command)
}
