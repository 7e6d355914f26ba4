//! Oracle's alert log, as text and as `log.xml`.

use super::{Meaning, Reader};
use crate::event::EventKind;
use crate::readers::stamp::Stamp;

/// How a message begins in `log.xml`, behind which stands its time.
pub(super) const MESSAGE: &str = "<msg time='";

const ORACLE: &[Meaning] = &[
    ("Instance terminated by", "", EventKind::ServerFailed, "the instance ended"),
    ("ORA-27102", "", EventKind::ServerFailed, "ORA-27102: the kernel refused Oracle memory"),
    (
        "ORA-27106",
        "",
        EventKind::ServerFailed,
        "ORA-27106: huge pages were missing, and the instance did not start without them",
    ),
    ("ORA-27125", "", EventKind::ServerFailed, "ORA-27125: Oracle was refused a shared memory segment"),
    (
        "ORA-27137",
        "",
        EventKind::ServerFailed,
        "ORA-27137: huge pages were missing, and the instance did not start without them",
    ),
    ("ORA-00845", "", EventKind::ServerFailed, "ORA-00845: /dev/shm was too small for MEMORY_TARGET"),
    ("ORA-04030", "", EventKind::ServerTrouble, "ORA-04030: a process was refused private memory"),
    ("ORA-04031", "", EventKind::ServerTrouble, "ORA-04031: a pool of the SGA was exhausted"),
    ("ORA-04036", "", EventKind::ServerTrouble, "ORA-04036: the PGA reached its limit"),
    ("ORA-00020", "", EventKind::ServerTrouble, "ORA-00020: PROCESSES was reached"),
    ("ORA-00018", "", EventKind::ServerTrouble, "ORA-00018: SESSIONS was reached"),
    ("ORA-00445", "", EventKind::ServerTrouble, "ORA-00445: a background process did not start within two minutes"),
    (
        "WARNING: inbound connection timed out",
        "",
        EventKind::ServerTrouble,
        "ORA-03136: a login took longer than SQLNET.INBOUND_CONNECT_TIMEOUT",
    ),
    ("WARNING: Heavy swapping detected", "", EventKind::ServerTrouble, "Oracle saw the host swap heavily"),
    (
        "Time drift detected",
        "",
        EventKind::ServerTrouble,
        "Oracle's clock stood still for seconds: its process did not get to run",
    ),
    (
        "Checkpoint not complete",
        "",
        EventKind::ServerTrouble,
        "Oracle waited for a checkpoint before it could switch logs",
    ),
];

impl Reader {
    /// A line of the alert log. As XML a message has its time among its attributes, and its text in an element of its own.
    pub(super) fn oracle(&mut self, line: &str) {
        if let Some((time, _)) = line.strip_prefix(MESSAGE).and_then(|rest| rest.split_once('\'')) {
            self.in_text = Some(false);
            if let Some(stamp) = Stamp::parse(time) {
                self.stamp(&stamp);
            }
            return;
        }
        let line = match self.in_text {
            None => return self.oracles_text(line),
            Some(true) => line,
            Some(false) => match line.trim_start().strip_prefix("<txt>") {
                Some(line) => line,
                None => return,
            },
        };
        let end = line.split_once("</txt>");
        self.in_text = Some(end.is_none());
        let text = end.map_or(line, |(text, _)| text);
        self.oracles_text(&["&lt;<", "&gt;>", "&quot;\"", "&apos;'", "&amp;&"].iter().fold(
            text.to_owned(),
            |text, pair| {
                let (name, letter) = pair.split_once(';').unwrap_or_default();
                text.replace(&format!("{name};"), letter)
            },
        ));
    }

    /// The alert log as text: a stamp has a line of its own, and what follows is of it.
    fn oracles_text(&mut self, line: &str) {
        if let Some(stamp) = Stamp::parse(line) {
            return self.stamp(&stamp);
        }
        let text = line.trim();
        if text.starts_with("Starting ORACLE instance") {
            self.in_table = false;
            return self.event(EventKind::ServerStarted, "Oracle started an instance".to_owned());
        }
        if text.starts_with("PAGESIZE") && text.contains("ALLOCATED_PAGES") {
            self.in_table = true;
        } else if self.in_table {
            match Row::of(text) {
                Some(row) => {
                    if let Some(what) = row.words() {
                        self.event(row.kind(), what);
                    }
                }
                None => self.in_table = text.is_empty(),
            }
        } else if let Some(rest) = text.strip_prefix("Total Shared Global Region in Large Pages = ") {
            // 11.2 says no more of an instance that got none.
            let none = rest.starts_with("0 ") || rest.contains("(0%)");
            let kind = if none { EventKind::WithoutHugePages } else { EventKind::ServerStarted };
            self.event(kind, format!("{} of Oracle's SGA went to huge pages", short(rest)));
        }
        // `PMON (ospid: 4711): terminating the instance due to error 471`
        let ends = text.split_once(" (ospid: ").is_some_and(|(_, rest)| rest.contains("): terminating the instance"));
        if ends && !text.starts_with(|first: char| first.is_ascii_lowercase()) {
            self.event(EventKind::ServerFailed, "Oracle ended the instance".to_owned());
        }
        self.meant(text, ORACLE);
    }
}

/// `40 GB (100%)` without what else a line may hold.
fn short(text: &str) -> String {
    let end = text.find(')').map_or(text.len(), |end| end + 1);
    text.get(..end).unwrap_or(text).chars().filter(|letter| !letter.is_control()).take(40).collect()
}

/// A row of Oracle's table: `2048K 0 2049 0 NONE`.
struct Row {
    kib: u64,
    expected: u64,
    allocated: u64,
}

impl Row {
    fn of(text: &str) -> Option<Self> {
        let mut words = text.split_ascii_whitespace();
        let kib = words.next()?.strip_suffix('K')?.parse().ok()?;
        let (_, expected, allocated) = (words.next()?, words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        Some(Self { kib, expected, allocated })
    }

    /// An instance that wanted some and got none goes without.
    const fn kind(&self) -> EventKind {
        if self.expected > 0 && self.allocated == 0 { EventKind::WithoutHugePages } else { EventKind::ServerStarted }
    }

    /// Of a huge page; base pages are what is left.
    fn words(&self) -> Option<String> {
        let page = hugewise_model::PageSize::from_kib(self.kib).filter(|_| self.kib > 64)?;
        Some(format!("Oracle got {} of {} huge pages of {page}", self.allocated, self.expected))
    }
}
