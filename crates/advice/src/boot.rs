//! What the next boot brings: pools and THP, from the files that decide.

use hugewise_model::{Host, Observed, PageSize};

use crate::words::{parse_size, pool_file};
use crate::{Missing, need};

/// One step of the boot that sets a value; a later step wins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step<T> {
    /// The value.
    pub value: T,
    /// Where it stands.
    pub place: String,
}

/// The steps that set the pool of one page size, in boot order: command line, tuned, sysctl.d (which
/// tuned applies again after its own), tmpfiles. The last one wins; none means that nothing sets it.
pub fn pool(host: &Host, page: PageSize) -> Result<Vec<Step<u64>>, Missing> {
    let configuration = &host.configuration;
    let mut steps = Vec::new();
    let line = command_line(host);
    if let Ok((words, place)) = &line
        && let Some(value) = pages_on_command_line(words, page, host.default_huge_page.get())
    {
        steps.push(Step { value, place: place.clone() });
    }
    if host.default_huge_page.get() == Some(page) {
        let tuned = present(&configuration.tuned, "tuned's active profile")?;
        let of_tuned = tuned.map(|tuned| tuned.sysctl.as_slice()).unwrap_or_default();
        let of_files = present(&configuration.sysctl, "sysctl.d")?.map(Vec::as_slice).unwrap_or_default();
        for assignment in of_tuned.iter().chain(of_files).filter(|one| one.key == "vm.nr_hugepages") {
            if let Ok(value) = assignment.value.trim().parse() {
                steps.push(Step { value, place: assignment.place.to_string() });
            }
        }
    }
    let own_file = pool_file(page, "nr_hugepages");
    for write in present(&configuration.tmpfiles, "tmpfiles.d")?.into_iter().flatten() {
        let default_file = host.default_huge_page.get() == Some(page) && write.path == "/proc/sys/vm/nr_hugepages";
        if (write.path == own_file || default_file)
            && let Ok(value) = write.value.trim().parse()
        {
            steps.push(Step { value, place: write.place.to_string() });
        }
    }
    // Whatever the command line says, a file wins over it.
    if steps.is_empty() {
        line?;
    }
    Ok(steps)
}

/// The steps that set THP's `enabled`: command line, tmpfiles, tuned. tuned leaves THP alone where the
/// booted command line names it.
pub fn thp(host: &Host) -> Result<Vec<Step<String>>, Missing> {
    const SWITCH: &str = "/sys/kernel/mm/transparent_hugepage/enabled";
    let mut steps = Vec::new();
    let (words, place) = command_line(host)?;
    let on_line = words.iter().rev().find_map(|word| word.strip_prefix("transparent_hugepage="));
    if let Some(value) = on_line {
        steps.push(Step { value: value.to_owned(), place });
    }
    for write in present(&host.configuration.tmpfiles, "tmpfiles.d")?.into_iter().flatten() {
        if write.path == SWITCH {
            steps.push(Step { value: write.value.trim().to_owned(), place: write.place.to_string() });
        }
    }
    let tuned = present(&host.configuration.tuned, "tuned's active profile")?;
    if on_line.is_none()
        && let Some(tuned) = tuned
        && let Some((value, place)) = present(&tuned.transparent_hugepages, "what tuned's active profile does to THP")?
    {
        steps.push(Step { value: value.clone(), place: place.to_string() });
    }
    Ok(steps)
}

/// The command line of the next boot, or the running one where no boot loader's entry is known.
pub fn command_line(host: &Host) -> Result<(&[String], String), Missing> {
    if let Some(entry) = present(&host.configuration.boot, "the boot loader's entry")? {
        return Ok((&entry.command_line, entry.place.to_string()));
    }
    Ok((need(&host.command_line, "/proc/cmdline")?, "/proc/cmdline".into()))
}

/// A fact of files that a host may do without: absent is fine, unreadable is not.
fn present<'a, T>(fact: &'a Observed<T>, what: &str) -> Result<Option<&'a T>, Missing> {
    if fact.is_absent() { Ok(None) } else { need(fact, what).map(Some) }
}

/// Pages of `page` that a command line asks for. `hugepages=` counts for the `hugepagesz=` before it,
/// or for the default size; the form `0:512,1:512` is a sum over nodes.
pub fn pages_on_command_line(words: &[String], page: PageSize, default: Option<PageSize>) -> Option<u64> {
    let named = words.iter().rev().find_map(|word| word.strip_prefix("default_hugepagesz="));
    let mut current = named.and_then(parse_size).or(default);
    let mut pages = None;
    for word in words {
        if let Some(size) = word.strip_prefix("hugepagesz=") {
            current = parse_size(size);
        } else if let Some(count) = word.strip_prefix("hugepages=")
            && current == Some(page)
            && let Some(count) = count_of(count)
        {
            pages = Some(count);
        }
    }
    pages
}

fn count_of(text: &str) -> Option<u64> {
    if !text.contains(':') {
        return text.parse().ok();
    }
    let mut counts = text.split(',').map(|part| part.split_once(':')?.1.parse::<u64>().ok());
    counts.try_fold(0_u64, |sum, count| Some(sum.saturating_add(count?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn the_command_line_counts_by_size() {
        let line = words("hugepages=8 hugepagesz=1G hugepages=0:2,1:3 hugepagesz=2M hugepages=512 quiet");
        let pages = |page| pages_on_command_line(&line, page, Some(PageSize::MIB_2));
        assert_eq!(pages(PageSize::MIB_2), Some(512));
        assert_eq!(pages(PageSize::GIB_1), Some(5));
        let line = words("default_hugepagesz=1G hugepages=4");
        assert_eq!(pages_on_command_line(&line, PageSize::GIB_1, Some(PageSize::MIB_2)), Some(4));
        assert_eq!(pages_on_command_line(&line, PageSize::MIB_2, Some(PageSize::MIB_2)), None);
        assert_eq!(pages_on_command_line(&words("hugepages=x"), PageSize::MIB_2, Some(PageSize::MIB_2)), None);
    }

    #[test]
    fn sums_do_not_overflow() {
        let line = words(&format!("hugepages=0:{0},1:{0}", u64::MAX));
        assert_eq!(pages_on_command_line(&line, PageSize::MIB_2, Some(PageSize::MIB_2)), Some(u64::MAX));
    }
}
