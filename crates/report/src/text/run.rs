//! What `hugewise run` says of a program.

use std::io;
use std::time::Duration;

use hugewise_lab::run::compare::Verdict;
use hugewise_lab::run::launch::Watched;
use hugewise_lab::run::memory::Memory;
use hugewise_model::{Bytes, PageCount};

use super::counted;
use crate::chart::Unit;
use crate::palette::Role;
use crate::run::{Side, Started};
use crate::screen::{Screen, Spans};
use crate::table::{self, Cell, Column};
use crate::{Layout, RunReport};

impl Started<'_> {
    /// Writes it for whoever started the program.
    ///
    /// # Errors
    /// Where `out` cannot be written.
    pub fn write_text(&self, out: &mut dyn io::Write, layout: Layout) -> io::Result<()> {
        let screen = &mut Screen::new(out, layout);
        for (role, lines) in [(Role::Quiet, self.done), (Role::Warn, self.caveats)] {
            for line in lines {
                screen.flow(10, &Spans::new().add(role, "hugewise: ").add(Role::Text, line))?;
            }
        }
        Ok(())
    }
}

const COLUMNS: [Column; 3] = [
    Column { heading: "", short: "", right: false, least: None },
    Column { heading: "without", short: "without", right: true, least: None },
    Column { heading: "with huge pages", short: "with", right: true, least: None },
];

impl RunReport<'_> {
    /// Writes the report that people read.
    ///
    /// # Errors
    /// Where `out` cannot be written.
    pub fn write_text(&self, out: &mut dyn io::Write, layout: Layout) -> io::Result<()> {
        write(self, out, layout)
    }
}

fn write(report: &RunReport<'_>, out: &mut dyn io::Write, layout: Layout) -> io::Result<()> {
    let screen = &mut Screen::new(out, layout);
    let with = Side::new(report.with);
    let without = Side::new(report.without);
    let compared = !report.without.is_empty();
    let cell = |text: Option<String>| {
        text.map_or_else(|| Cell::new(Role::Quiet, "not seen"), |text| Cell::new(Role::Text, text))
    };
    let mut rows = Vec::new();
    let mut row = |name: &str, of: &dyn Fn(&Side) -> Option<String>| {
        let mut cells = vec![Cell::new(Role::Quiet, name)];
        if compared {
            cells.push(cell(of(&without)));
        }
        cells.push(cell(of(&with)));
        rows.push(cells);
    };
    row("time", &|side| Some(side.wall?.to_string()));
    row("in its own code", &|side| Some(Unit::Seconds.show(side.user?)));
    row("in the kernel", &|side| Some(Unit::Seconds.show(side.system?)));
    row("private memory at its peak", &|side| Some(Bytes(side.peak?.total()).to_string()));
    let part = |part: u64, peak: &Memory| {
        let percent = Bytes(part).part_of(Bytes(peak.total())).unwrap_or(0.0) * 100.0;
        format!("{} ({percent:.0} %)", Bytes(part))
    };
    // Where THP is `always`, nobody asks.
    let asks = |side: &Side| side.peak.is_some_and(|peak| peak.asked > 0 || peak.huge() == 0);
    if report.pages == "thp" && asks(&with) {
        row("of that asked for as huge", &|side| side.peak.map(|peak| part(peak.asked, &peak)));
    }
    row("of that on huge pages", &|side| {
        let peak = side.peak?;
        Some(part(peak.huge(), &peak))
    });
    row("faults", &|side| Some(PageCount(side.minor_faults?).to_string()));
    row("faults from disk", &|side| Some(PageCount(side.major_faults?).to_string()));
    let [name, bare, told] = COLUMNS;
    let columns = if compared { vec![name, bare, told] } else { vec![name, Column { heading: "", short: "", ..told }] };
    table::write(screen, &columns, &rows)?;
    if let Some(text) = report.with.iter().find_map(|one| one.text.as_ref()) {
        let mut line = Spans::new().add(Role::Quiet, "text  ");
        line.push(
            Role::Text,
            &match text.eligible {
                0 => "none is on huge pages: no file that it runs has 2 MiB of text where a huge page could lie".into(),
                eligible => format!("{} of {} that could be are on huge pages", Bytes(text.huge), Bytes(eligible)),
            },
        );
        if let Some(refused) = &text.refused {
            let needs = "files need a kernel with CONFIG_READ_ONLY_THP_FOR_FS";
            line.push(Role::Warn, &format!("; the kernel refused ({refused}): {needs}"));
        }
        screen.flow(6, &line)?;
    }
    if compared {
        screen.flow(0, &gain(report))?;
    }
    for line in report.noticed {
        screen.flow(6, &Spans::new().add(Role::Warn, "note  ").add(Role::Text, line))?;
    }
    Ok(())
}

fn gain(report: &RunReport<'_>) -> Spans {
    let rounds = report.with.len();
    let Some(gain) = report.gain() else { return Spans::from("nothing to compare") };
    let rounds = counted(rounds, "round", "rounds");
    let spread = format!("speed-up {:.2} ({:.2} to {:.2} in {rounds})", gain.median, gain.min, gain.max);
    match gain.verdict {
        Verdict::Faster => Spans::new().add(Role::Good, "gain  ").add(Role::Text, &spread),
        Verdict::Slower => Spans::new().add(Role::Warn, "loss  ").add(Role::Text, &format!("slower: {spread}")),
        Verdict::Unknown => Spans::new()
            .add(Role::Warn, "unknown  ")
            .add(Role::Text, &format!("fewer than three runs of each prove nothing: {spread}")),
        Verdict::None => {
            Spans::new().add(Role::Warn, "no gain  ").add(Role::Text, &format!("the two overlap: {spread}"))
        }
    }
}

impl std::fmt::Display for crate::run::Spread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let shown = Unit::Seconds.show(self.median);
        if self.count < 2 {
            return f.pad(&shown);
        }
        f.pad(&format!("{shown} ({} to {})", Unit::Seconds.show(self.min), Unit::Seconds.show(self.max)))
    }
}

/// One line for the end of a run whose memory was to come from a pool, where not all of it did.
pub fn fell_back(watched: &Watched) -> Option<String> {
    let peak = watched.peak?;
    // Stacks, libraries' data and the allocator's own books are no work of the allocator's pages.
    let beside = peak.total().saturating_sub(peak.huge());
    (beside > 64 << 20)
        .then(|| format!("{} of {} private memory were on base pages at the peak", Bytes(beside), Bytes(peak.total())))
}

/// For progress: `12 s`.
pub fn seconds(time: Duration) -> String {
    Unit::Seconds.show(time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    use hugewise_lab::run::compare;

    use super::*;

    fn watched(ms: u64, huge: u64) -> Watched {
        Watched {
            status: ExitStatus::from_raw(0),
            wall: Duration::from_millis(ms),
            user: Duration::from_millis(ms - 100),
            system: Duration::from_millis(100),
            minor_faults: 262_144,
            major_faults: 0,
            largest_resident: 1 << 30,
            peak: Some(Memory { processes: 1, anonymous: 1 << 30, transparent: huge, pooled: 0, asked: huge }),
            looks: 3,
            text: None,
        }
    }

    fn shown(without: &[Watched], with: &[Watched]) -> String {
        let mut out = Vec::new();
        let command = ["sort".to_owned(), "file".to_owned()];
        let noticed = compare::noticed(with, &[]);
        let report = RunReport {
            command: &command,
            pages: "thp",
            done: &[],
            caveats: &[],
            noticed: &noticed,
            set_aside: &[],
            with,
            without,
        };
        report.write_text(&mut out, Layout::plain(80)).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_comparison_says_what_was_gained() {
        let without = [watched(4000, 0), watched(4050, 0), watched(4100, 0)];
        insta::assert_snapshot!(shown(
            &without,
            &[watched(3000, 900 << 20), watched(3050, 900 << 20), watched(3100, 900 << 20)]
        ));
    }

    #[test]
    fn no_gain_is_said() {
        let without = [watched(4000, 0), watched(4050, 0), watched(4100, 0)];
        let text = shown(&without, &[watched(4050, 900 << 20), watched(3900, 900 << 20), watched(3950, 900 << 20)]);
        assert!(text.contains("no gain  the two overlap"), "{text}");
    }

    #[test]
    fn one_run_of_each_tells_nothing() {
        let text = shown(&[watched(4000, 0)], &[watched(3000, 900 << 20)]);
        assert!(text.contains("unknown  fewer than three runs of each prove nothing"), "{text}");
    }

    #[test]
    fn a_single_report_has_one_column() {
        let text = shown(&[], &[watched(4000, 512 << 20)]);
        assert!(text.contains("512.0 MiB (50 %)") && !text.contains("without"), "{text}");
        let ignored = shown(&[], &[watched(4000, 0)]);
        assert!(
            ignored.contains("asked for as huge   0 B (0 %)") && ignored.contains("note  the program"),
            "{ignored}"
        );
        assert!(fell_back(&watched(4000, 512 << 20)).is_some_and(|line| line.contains("512.0 MiB of 1.0 GiB")));
        assert_eq!(fell_back(&watched(4000, (1 << 30) - (1 << 20))), None);
    }
}
