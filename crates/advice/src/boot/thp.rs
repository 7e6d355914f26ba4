//! Transparent huge pages of the next boot.

use hugewise_host::config::kernel_value::{sysfs_count, sysfs_word};
use hugewise_host::config::{cmdline, kernel_default};
use hugewise_model::configuration::{BootOrder, ThpWriter};
use hugewise_model::{Bytes, Host, Lack, Observed, Reason};

use super::feeds::on_command_line;
use super::writes::{Targets, hits};
use super::{Step, command_line, present};
use crate::Missing;

/// With less memory than this the kernel begins with `never` (`hugepage_init()` of mm/huge_memory.c).
const LEAST_MEMORY: Bytes = Bytes::from_mib(512);

/// The steps that set THP's `enabled`: how the kernel was built, command line, tmpfiles, tuned, and what else writes it at
/// boot. tuned leaves THP alone where the booted command line names it. None where nothing is known to set it: then it is the
/// kernel's own default, which nothing here tells.
///
/// # Errors
/// A file that counts could not be read; or commands write it that come in no order that files tell, and say another word.
pub fn thp(host: &Host) -> Result<Vec<Step<String>>, Missing> {
    let mut steps = thp_switch(host, "enabled")?;
    let of_files = of_written(host, "enabled")?;
    let tuned = of_tuned(host)?.filter(|step| steps.iter().any(|it| it == step));
    let writers = || host.configuration.thp_writers.iter();
    // What comes before tmpfiles.d counts where nothing is written after it.
    let first = writers().rfind(|writer| writer.order == BootOrder::First);
    if let Some(first) = first.filter(|_| of_files.is_empty() && tuned.is_none()) {
        steps.push(step_of(first)?);
    }
    // rc.local and its like come when tmpfiles.d has been carried out; which of several comes last nothing tells, nor whether
    // before TuneD or after it.
    let late = || writers().filter(|writer| writer.order == BootOrder::Last);
    if let Some(last) = late().next_back() {
        let step = step_of(last)?;
        let agrees = |it: &ThpWriter| it.value.as_ref() == Some(&step.value);
        if !late().all(agrees) || tuned.is_some_and(|tuned| tuned.value != step.value) {
            return Err(untold(last));
        }
        steps.push(step);
    }
    let word = steps.last().map(|step| step.value.clone());
    let other = writers().find(|it| it.order == BootOrder::Untold && (it.value.is_none() || it.value != word));
    other.map_or(Ok(steps), |writer| Err(untold(writer)))
}

fn step_of(writer: &ThpWriter) -> Result<Step<String>, Missing> {
    let value = writer.value.clone().ok_or_else(|| untold(writer))?;
    Ok(Step { value, place: writer.to_string() })
}

fn untold(writer: &ThpWriter) -> Missing {
    let why = Reason::untold(format!("{writer} also sets it during boot"));
    Missing::Host(Lack::new("THP at the next boot", why))
}

/// The command that switches THP last at each boot, and to what, where that is another word than this.
pub fn thp_is_undone_by(host: &Host, word: &str) -> Option<(String, String)> {
    let all = host.configuration.thp_writers.iter().filter(|writer| writer.order != BootOrder::First);
    let mut others = all.filter_map(|writer| Some((writer.to_string(), writer.value.clone()?)));
    others.rfind(|(_, value)| value != word)
}

/// The line of TuneD's active profile that sets THP last at each boot, and to what, where that is another word than this and no
/// TuneD runs that could be given another profile.
pub fn thp_is_tuneds(host: &Host, word: &str) -> Option<(String, String)> {
    if host.processes.known().into_iter().flatten().any(|process| process.name == "tuned") {
        return None;
    }
    let step = of_tuned(host).ok()??;
    (step.value != word && thp(host).ok()?.last() == Some(&step)).then_some((step.place, step.value))
}

/// How the kernel begins where no word tells it otherwise: by how the one that runs was built, or where no file tells that, by what
/// its distribution builds.
fn of_kernel(host: &Host) -> Option<Step<String>> {
    let (value, place) = match &host.configuration.thp_of_kernel {
        Observed::Known((word, place)) => (word.clone(), format!("the kernel's own default ({place})")),
        Observed::Absent => of_distribution(host)?,
        Observed::Denied | Observed::Malformed(_) => return None,
    };
    let is_small = super::memory(host).is_ok_and(|memory| memory < LEAST_MEMORY);
    let small = || ("never".to_owned(), format!("the kernel's default with less than {LEAST_MEMORY} of memory"));
    let (value, place) = if is_small { small() } else { (value, place) };
    Some(Step { value, place })
}

fn of_distribution(host: &Host) -> Option<(String, String)> {
    let (word, whose) = kernel_default::of(host.kernel.known()?, host.architecture.known()?)?;
    Some((word.to_owned(), format!("{THE_DISTRIBUTIONS} ({whose})")))
}

/// Whether what a step sets is what the distribution builds its kernel with, and no file of this host says so.
pub fn is_distributions(step: &Step<String>) -> bool {
    step.place.starts_with(THE_DISTRIBUTIONS)
}

const THE_DISTRIBUTIONS: &str = "the distribution's default";

/// The steps that set a file below /sys/kernel/mm/transparent_hugepage: `defrag`, `hugepages-64kB/enabled`. What the
/// kernel refuses is no step.
///
/// # Errors
/// A file that counts could not be read.
pub fn thp_switch(host: &Host, file: &str) -> Result<Vec<Step<String>>, Missing> {
    let mut steps = Vec::new();
    let line = command_line(host);
    let word = match file {
        "enabled" => Some("transparent_hugepage"),
        "shmem_enabled" => Some("transparent_hugepage_shmem"),
        _ => None,
    };
    if file == "enabled" {
        steps.extend(of_kernel(host));
    }
    if let (Ok((words, _)), Some(word)) = (&line, word) {
        let named = cmdline::assignments_of(words, |name| name == word);
        let last = named.iter().rev().find_map(|(_, value, _)| taken(file, value));
        steps.extend(last.map(|value| {
            let place = on_command_line(&format!("{word}={value}"));
            Step { value, place }
        }));
    }
    let before = steps.len();
    steps.extend(of_written(host, file)?);
    let tuned = if file == "enabled" { of_tuned(host)? } else { None };
    match (line, tuned) {
        (Ok((words, _)), Some(step)) if !words.iter().any(|word| word.contains("transparent_hugepage=")) => {
            steps.push(step);
        }
        (Ok(_), _) => {}
        // A file comes after the command line, and tuned goes by it.
        (Err(missing), tuned) if word.is_some() && (steps.len() == before || tuned.is_some()) => return Err(missing),
        (Err(_), _) => {}
    }
    Ok(steps)
}

/// What tmpfiles.d writes to it.
fn of_written(host: &Host, file: &str) -> Result<Vec<Step<String>>, Missing> {
    let targets = Targets::new(vec![(host.thp.file(file), ())]);
    let written = hits(host, &targets)?.into_iter();
    Ok(written.filter_map(|hit| Some(Step { value: taken(file, &hit.value)?, place: hit.place })).collect())
}

fn of_tuned(host: &Host) -> Result<Option<Step<String>>, Missing> {
    let Some(tuned) = present(&host.configuration.tuned, "tuned's active profile")? else { return Ok(None) };
    let set = present(&tuned.transparent_hugepages, "what tuned's active profile does to THP")?;
    Ok(set.map(|(value, place)| Step { value: value.clone(), place: place.to_string() }))
}

/// What the kernel takes a text for (mm/huge_memory.c, mm/khugepaged.c, mm/shmem.c).
fn taken(file: &str, text: &str) -> Option<String> {
    let (folder, name) = file.rsplit_once('/').unwrap_or(("", file));
    let words: &[&str] = match (folder, name) {
        ("", "enabled") => &["always", "madvise", "never"],
        ("", "defrag") => &["always", "defer", "defer+madvise", "madvise", "never"],
        ("", "shmem_enabled") => &["always", "within_size", "advise", "never", "deny", "force"],
        (_, "enabled") => &["always", "inherit", "madvise", "never"],
        (_, "shmem_enabled") => &["always", "inherit", "within_size", "advise", "never"],
        _ => return sysfs_count(text).map(|count| count.to_string()),
    };
    sysfs_word(text, words).map(str::to_owned)
}
