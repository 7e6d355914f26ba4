//! Transparent huge pages of the next boot.

use hugewise_host::config::cmdline;
use hugewise_host::config::kernel_value::{sysfs_count, sysfs_word};
use hugewise_model::Host;

use super::feeds::on_command_line;
use super::writes::{Targets, hits};
use super::{Step, command_line, present};
use crate::Missing;

/// Where the switches are.
const FOLDER: &str = "/sys/kernel/mm/transparent_hugepage";

/// The steps that set THP's `enabled`: command line, tmpfiles, tuned. tuned leaves THP alone where the
/// booted command line names it.
///
/// # Errors
/// A file that counts could not be read.
pub fn thp(host: &Host) -> Result<Vec<Step<String>>, Missing> {
    thp_switch(host, "enabled")
}

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
    if let (Ok((words, _)), Some(word)) = (&line, word) {
        let named = cmdline::assignments_of(words, |name| name == word);
        let last = named.iter().rev().find_map(|(_, value, _)| taken(file, value));
        steps.extend(last.map(|value| {
            let place = on_command_line(&format!("{word}={value}"));
            Step { value, place }
        }));
    }
    let targets = Targets::new(vec![(format!("{FOLDER}/{file}"), ())]);
    let written = hits(host, &targets)?;
    let before = steps.len();
    steps
        .extend(written.into_iter().filter_map(|hit| Some(Step { value: taken(file, &hit.value)?, place: hit.place })));
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
