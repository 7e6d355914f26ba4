//! `hugewise run` for a terminal.

use std::io;

use hugewise_lab::run::compare::SpeedVerdict;
use hugewise_lab::run::launch::Watched;
use hugewise_lab::run::program_memory::{ProgramMemory, TextPlacement};
use hugewise_model::{Bytes, group_thousands};

use super::counted_noun;
use crate::chart::ChartUnit;
use crate::palette::Role;
use crate::run::{RunMedians, RunPreamble};
use crate::screen::{Screen, Spans};
use crate::table::{self, TableCell, TableColumn};
use crate::{RunReport, TextLayout};

impl RunPreamble<'_> {
    /// Writes it for whoever started the program.
    pub fn write_text(&self, out: &mut dyn io::Write, layout: TextLayout) -> io::Result<()> {
        let screen = &mut Screen::new(out, layout);
        for (role, lines) in [(Role::Quiet, self.done), (Role::Warn, self.caveats)] {
            for line in lines {
                screen.write_labeled(10, role, "hugewise: ", line)?;
            }
        }
        Ok(())
    }
}

const COLUMNS: [TableColumn; 3] = [
    TableColumn::left(""),
    TableColumn::right("without"),
    TableColumn::right("with huge pages").short("with"),
];

pub(crate) fn write(screen: &mut Screen<'_>, report: &RunReport<'_>) -> io::Result<()> {
    let with = RunMedians::new(report.with);
    let without = RunMedians::new(report.without);
    let compared = !report.without.is_empty();
    let cell = |text: Option<String>| TableCell::text_or(text, "not seen");
    let mut rows = Vec::new();
    let mut row = |name: &str, option_of: &dyn Fn(&RunMedians) -> Option<String>| {
        let mut cells = vec![TableCell::new(Role::Quiet, name)];
        if compared {
            cells.push(cell(option_of(&without)));
        }
        cells.push(cell(option_of(&with)));
        rows.push(cells);
    };
    row("time", &|side| Some(side.wall?.to_string()));
    row("in its own code", &|side| Some(ChartUnit::Seconds.format_value(side.user?)));
    row("in the kernel", &|side| Some(ChartUnit::Seconds.format_value(side.system?)));
    row("private memory at its peak", &|side| Some(Bytes(side.peak?.total()).to_string()));
    let part = |part: u64, peak: &ProgramMemory| {
        let percent = Bytes(part).part_of(Bytes(peak.total())).unwrap_or(0.0) * 100.0;
        format!("{} ({percent:.0} %)", Bytes(part))
    };
    // Where THP is `always`, nobody asks.
    let asks =
        |side: &RunMedians| side.peak.is_some_and(|peak| peak.asked > 0 || peak.huge_bytes() == 0);
    if report.pages == "thp" && asks(&with) {
        row("of that asked for as huge", &|side| side.peak.map(|peak| part(peak.asked, &peak)));
    }
    row("of that on huge pages", &|side| side.peak.map(|peak| part(peak.huge_bytes(), &peak)));
    row("faults", &|side| Some(group_thousands(side.minor_faults?)));
    row("faults from disk", &|side| Some(group_thousands(side.major_faults?)));
    let [name, bare, told] = COLUMNS;
    let columns = if compared {
        vec![name, bare, told]
    } else {
        vec![name, TableColumn { heading: "", short: "", ..told }]
    };
    table::write(screen, &columns, &rows)?;
    if let Some(text) = report.with.iter().find_map(|one| one.text.as_ref()) {
        screen.write_paragraph(6, &describe_text_placement(text))?;
    }
    if compared {
        screen.write_paragraph(0, &describe_gain(report))?;
    }
    for line in report.noticed {
        screen.write_labeled(6, Role::Warn, "note  ", line)?;
    }
    Ok(())
}

fn describe_text_placement(text: &TextPlacement) -> Spans {
    let placed = match text.eligible {
        0 => "none is on huge pages: no file that it runs has 2 MiB of text where a huge page \
              could lie"
            .into(),
        eligible => {
            let (huge, eligible) = (Bytes(text.huge), Bytes(eligible));
            format!("{huge} of {eligible} that could be are on huge pages")
        }
    };
    let mut line = Spans::new().add(Role::Quiet, "text  ").add(Role::Text, &placed);
    if let Some(refused) = &text.refused {
        let needs = "files need a kernel with CONFIG_READ_ONLY_THP_FOR_FS";
        line.push(Role::Warn, &format!("; the kernel refused ({refused}): {needs}"));
    }
    line
}

fn describe_gain(report: &RunReport<'_>) -> Spans {
    let rounds = report.with.len();
    let Some(gain) = report.gain() else { return Spans::from("nothing to compare") };
    let rounds = counted_noun(rounds, "round", "rounds");
    let spread =
        format!("speed-up {:.2} ({:.2} to {:.2} in {rounds})", gain.median, gain.min, gain.max);
    match gain.verdict {
        SpeedVerdict::Faster => Spans::new().add(Role::Good, "gain  ").add(Role::Text, &spread),
        SpeedVerdict::Slower => {
            Spans::new().add(Role::Warn, "loss  ").add(Role::Text, &format!("slower: {spread}"))
        }
        SpeedVerdict::Unknown => Spans::new()
            .add(Role::Warn, "unknown  ")
            .add(Role::Text, &format!("fewer than three runs of each prove nothing: {spread}")),
        SpeedVerdict::None => Spans::new()
            .add(Role::Warn, "no gain  ")
            .add(Role::Text, &format!("the two overlap: {spread}")),
    }
}

impl std::fmt::Display for crate::run::TimeSpread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let shown = ChartUnit::Seconds.format_value(self.median);
        if self.count < 2 {
            return f.pad(&shown);
        }
        f.pad(&format!(
            "{shown} ({} to {})",
            ChartUnit::Seconds.format_value(self.min),
            ChartUnit::Seconds.format_value(self.max)
        ))
    }
}

/// A line for a program whose memory was to come from a pool, if some of it did not.
pub fn fell_back(watched: &Watched) -> Option<String> {
    let peak = watched.peak?;
    // Stacks, libraries' data and the allocator's own books never come from the pool.
    let beside = peak.total().saturating_sub(peak.huge_bytes());
    (beside > 64 << 20).then(|| {
        format!(
            "{} of {} private memory were on base pages at the peak",
            Bytes(beside),
            Bytes(peak.total())
        )
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    use hugewise_lab::run::compare;

    use super::*;
    use crate::Report;

    fn watched(ms: u64, huge: u64) -> Watched {
        Watched {
            status: ExitStatus::from_raw(0),
            wall: Duration::from_millis(ms),
            user: Duration::from_millis(ms - 100),
            system: Duration::from_millis(100),
            minor_faults: 262_144,
            major_faults: 0,
            largest_resident: 1 << 30,
            peak: Some(ProgramMemory {
                processes: 1,
                anonymous: 1 << 30,
                transparent: huge,
                pooled: 0,
                asked: huge,
            }),
            looks: 3,
            text: None,
        }
    }

    fn shown(without: &[Watched], with: &[Watched]) -> String {
        let mut out = Vec::new();
        let command = ["sort".to_owned(), "file".to_owned()];
        let noticed = compare::describe_ignored_settings(with, &[]);
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
        report.write_text(&mut out, TextLayout::plain_text(80)).unwrap();
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
        let text = shown(
            &without,
            &[watched(4050, 900 << 20), watched(3900, 900 << 20), watched(3950, 900 << 20)],
        );
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
            ignored.contains("asked for as huge   0 B (0 %)")
                && ignored.contains("note  the program"),
            "{ignored}"
        );
        assert!(
            fell_back(&watched(4000, 512 << 20))
                .is_some_and(|line| line.contains("512.0 MiB of 1.0 GiB"))
        );
        assert_eq!(fell_back(&watched(4000, (1 << 30) - (1 << 20))), None);
    }
}
