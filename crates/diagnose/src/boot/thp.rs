//! Transparent huge pages of the next boot.

use hugewise_host::config::kernel_value::{sysfs_count, sysfs_word};
use hugewise_host::config::{cmdline, kernel_default};
use hugewise_model::configuration::{BootOrder, ThpWriter};
use hugewise_model::{Bytes, Host, Lack, Observed, Reason};

use super::kernel_file_writes::{Targets, collect_writes};
use super::{BootPlace, BootStep, command_line, require_readable};
use crate::Missing;

/// With less memory the kernel begins with `never` (`hugepage_init()` of mm/huge_memory.c).
const LEAST_MEMORY: Bytes = Bytes::from_mib(512);

/// The steps that set THP's `enabled`: how the kernel was built, command line, tmpfiles, tuned (but
/// where the booted command line names it), and what else writes it. None: nothing tells.
///
/// # Errors
/// A file that counts could not be read; or commands in no known order say another word.
pub fn predict_thp(host: &Host) -> Result<Vec<BootStep<String>>, Missing> {
    let mut steps = thp_switch(host, "enabled")?;
    let of_files = of_written(host, "enabled")?;
    let tuned = of_tuned(host)?.filter(|step| steps.iter().any(|boot_step| boot_step == step));
    let writers = || host.configuration.thp_writers.iter();
    // What surely runs counts where tmpfiles.d and TuneD write nothing, whichever is first.
    let surely = [BootOrder::First, BootOrder::Beside];
    let first = writers().rfind(|writer| surely.contains(&writer.order));
    if let Some(first) = first.filter(|_| of_files.is_empty() && tuned.is_none()) {
        steps.push(step_of(first)?);
    }
    // rc.local and its like come after tmpfiles.d; in which order, and when TuneD, nothing tells.
    let late = || writers().filter(|writer| writer.order == BootOrder::Last);
    if let Some(last) = late().next_back() {
        let step = step_of(last)?;
        let agrees = |thp_writer: &ThpWriter| thp_writer.value.as_ref() == Some(&step.value);
        if !late().all(agrees) || tuned.is_some_and(|tuned| tuned.value != step.value) {
            return Err(report_thp_writer(last));
        }
        steps.push(step);
    }
    let word = steps.last().map(|step| step.value.clone());
    let other = writers().find(|thp_writer| {
        matches!(thp_writer.order, BootOrder::Beside | BootOrder::Untold)
            && (thp_writer.value.is_none() || thp_writer.value != word)
    });
    other.map_or(Ok(steps), |writer| Err(report_thp_writer(writer)))
}

fn step_of(writer: &ThpWriter) -> Result<BootStep<String>, Missing> {
    let value = writer.value.clone().ok_or_else(|| report_thp_writer(writer))?;
    Ok(BootStep { value, place: BootPlace::Command(writer.to_string()) })
}

fn report_thp_writer(writer: &ThpWriter) -> Missing {
    let why = Reason::from_text(format!("{writer} also sets it during boot"));
    Missing::Host(Lack::new("THP at the next boot", why))
}

/// The command that last switches THP to another word than this at each boot, and to which.
pub(crate) fn thp_is_undone_by(host: &Host, word: &str) -> Option<(String, String)> {
    let all =
        host.configuration.thp_writers.iter().filter(|writer| writer.order != BootOrder::First);
    let mut others = all.filter_map(|writer| Some((writer.to_string(), writer.value.clone()?)));
    others.rfind(|(_, value)| value != word)
}

/// The line of a TuneD that does not run, and at each boot sets THP last to another word than this.
pub(crate) fn thp_is_tuneds(host: &Host, word: &str) -> Option<BootStep<String>> {
    if host.processes.as_known().into_iter().flatten().any(|process| process.name == "tuned") {
        return None;
    }
    let step = of_tuned(host).ok()??;
    (step.value != word && predict_thp(host).ok()?.last() == Some(&step)).then_some(step)
}

/// The kernel's own default: by how the running one was built, else by its distribution.
fn of_kernel(host: &Host) -> Option<BootStep<String>> {
    let (value, place) = match &host.configuration.thp_of_kernel {
        Observed::Known((word, place)) => {
            let place = format!("the kernel's own default ({place})");
            (word.clone(), BootPlace::KernelDefault(place))
        }
        Observed::Absent => of_distribution(host)?,
        Observed::Denied | Observed::Malformed(_) => return None,
    };
    let is_small = super::predict_memory(host).is_ok_and(|memory| memory < LEAST_MEMORY);
    let small = || {
        let place = format!("the kernel's default with less than {LEAST_MEMORY} of memory");
        ("never".to_owned(), BootPlace::KernelDefault(place))
    };
    let (value, place) = if is_small { small() } else { (value, place) };
    Some(BootStep { value, place })
}

fn of_distribution(host: &Host) -> Option<(String, BootPlace)> {
    let (word, whose) =
        kernel_default::default_thp_mode(host.kernel.as_known()?, host.architecture.as_known()?)?;
    Some((word.to_owned(), BootPlace::DistributionDefault(whose.to_string())))
}

/// Of a file below /sys/kernel/mm/transparent_hugepage: `defrag`, `hugepages-64kB/enabled`.
pub(crate) fn thp_switch(host: &Host, file: &str) -> Result<Vec<BootStep<String>>, Missing> {
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
        let last = named.iter().rev().find_map(|(_, value, _)| parse_thp_value(file, value));
        steps.extend(last.map(|value| {
            let place = BootPlace::KernelWord(format!("{word}={value}"));
            BootStep { value, place }
        }));
    }
    let before = steps.len();
    steps.extend(of_written(host, file)?);
    let tuned = if file == "enabled" { of_tuned(host)? } else { None };
    match (line, tuned) {
        (Ok((words, _)), Some(step))
            if !words.iter().any(|word| word.contains("transparent_hugepage=")) =>
        {
            steps.push(step);
        }
        (Ok(_), _) => {}
        // A file comes after the command line, and tuned goes by it.
        (Err(missing), tuned) if word.is_some() && (steps.len() == before || tuned.is_some()) => {
            return Err(missing);
        }
        (Err(_), _) => {}
    }
    Ok(steps)
}

fn of_written(host: &Host, file: &str) -> Result<Vec<BootStep<String>>, Missing> {
    let targets = Targets::new(vec![(host.thp.switch_path(file), ())]);
    let written = collect_writes(host, &targets)?.into_iter();
    Ok(written
        .filter_map(|hit| {
            Some(BootStep { value: parse_thp_value(file, &hit.value)?, place: hit.place })
        })
        .collect())
}

fn of_tuned(host: &Host) -> Result<Option<BootStep<String>>, Missing> {
    let Some(tuned) = require_readable(&host.configuration.tuned, "tuned's active profile")? else {
        return Ok(None);
    };
    let set =
        require_readable(&tuned.transparent_hugepages, "what tuned's active profile does to THP")?;
    Ok(set.map(|(value, place)| BootStep { value: value.clone(), place: place.clone().into() }))
}

/// What the kernel takes a text for (mm/huge_memory.c, mm/khugepaged.c, mm/shmem.c).
fn parse_thp_value(file: &str, text: &str) -> Option<String> {
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
