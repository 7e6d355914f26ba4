//! Output of other tools and systems, which is known by name and not read.

use super::iostat;
use hugewise_model::calendar::time_of_day;

/// Whether text is what iostat prints without a date, which is read if somebody says when it began.
pub(super) fn is_undated_iostat(head: &[u8]) -> bool {
    let text = String::from_utf8_lossy(head);
    let first = text.lines().map(str::trim).find(|line| !line.is_empty());
    first.is_some_and(iostat::is_iostat_heading)
}

pub(super) fn recognize_foreign_format(head: &[u8]) -> Option<&'static str> {
    let text = String::from_utf8_lossy(head);
    let first = text.lines().map(str::trim).find(|line| !line.is_empty())?;
    let any = |what: &str| text.lines().take(40).any(|line| line.contains(what));
    if first.starts_with("#<----")
        || first.starts_with("waiting for ") && (any("<----") || any("# CPU SUMMARY"))
    {
        Some("a table that collectl prints (its files are read: raw, and -P)")
    } else if first.starts_with("\"pcp-dstat") {
        Some("of pcp-dstat (PCP's archives are read, and what dstat writes with --output)")
    } else if any("----total-cpu-usage----") {
        Some("a table that dstat prints (what it writes with -t --output FILE is read)")
    } else if is_undated_iostat(head) {
        Some("what iostat prints")
    } else if text.lines().take(40).any(is_atopsar_heading) {
        Some("what atopsar prints, with processors added up (atop's own log is read)")
    } else if is_sar_of_another_system(&text, first) {
        Some("what sar prints on another system than Linux")
    } else if text.lines().take(40).any(is_vmstat_of_another_system) {
        Some("what vmstat prints on another system than Linux")
    } else {
        None
    }
}

/// sar of Solaris, AIX, HP-UX or macOS has `%wio`, or no column of processors before `%usr`.
fn is_sar_of_another_system(text: &str, first: &str) -> bool {
    let named =
        ["SunOS ", "AIX ", "HP-UX ", "Darwin "].iter().any(|system| first.starts_with(system));
    text.lines().take(40).any(|line| {
        let mut words = line.split_ascii_whitespace();
        let time = words.next().is_some_and(|word| time_of_day(word).is_some());
        let next = words.next();
        let foreign = |word: &str| {
            matches!(
                word,
                "%wio" | "%runocc" | "swpq-sz" | "pgscan/s" | "freemem" | "avserv" | "physc"
            )
        };
        time && (next == Some("%usr") || named || next.is_some_and(foreign) || words.any(foreign))
    })
}

/// `22:32:24  cpu  %usr %nice %sys ... %idle  _cpu_`: atopsar closes each heading with its report's
/// name.
fn is_atopsar_heading(line: &str) -> bool {
    let mut words = line.split_ascii_whitespace();
    let time = words.next().is_some_and(|word| time_of_day(word).is_some());
    let name = words.next_back().and_then(|word| word.strip_prefix('_')?.strip_suffix('_'));
    time && name.is_some_and(|name| {
        !name.is_empty() && name.bytes().all(|letter| letter.is_ascii_alphanumeric())
    })
}

/// vmstat of Solaris, AIX, HP-UX and the BSDs counts reclaimed pages.
fn is_vmstat_of_another_system(line: &str) -> bool {
    let words: Vec<&str> = line.split_ascii_whitespace().take(8).collect();
    let memory = words.iter().any(|word| matches!(*word, "avm" | "swap" | "fre"));
    matches!(words.as_slice(), ["r", "b", ..]) && memory && !words.contains(&"swpd")
}
