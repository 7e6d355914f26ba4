//! What the kernel says of a server's memory.

use std::fs;

/// How much of a server's memory is on huge pages, or that it refused to start. In the order from
/// worst to best.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum State {
    DoesNotStart,
    None,
    Partly,
    All,
}

impl State {
    /// As check has it in JSON.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::DoesNotStart => "does_not_start",
            Self::None => "none",
            Self::Partly => "partly",
            Self::All => "all",
        }
    }
}

/// One mapping of /proc/PID/smaps.
#[derive(Clone, Debug)]
pub(super) struct Mapping {
    pub(super) permissions: String,
    pub(super) name: String,
    pub(super) size: u64,
    pub(super) page: u64,
}

/// All mappings of a process.
pub(super) fn of(pid: u32) -> Vec<Mapping> {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps")).unwrap_or_default();
    let mut found: Vec<Mapping> = Vec::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let kib = || words.get(1).and_then(|word| word.parse::<u64>().ok()).unwrap_or(0) << 10;
        match (words.first().copied(), found.last_mut()) {
            (Some("Size:"), Some(mapping)) => mapping.size = kib(),
            (Some("KernelPageSize:"), Some(mapping)) => mapping.page = kib(),
            (Some(range), _) if range.contains('-') && !range.ends_with(':') => {
                found.push(Mapping {
                    permissions: words.get(1).copied().unwrap_or_default().to_owned(),
                    name: words.get(5..).unwrap_or_default().join(" "),
                    size: 0,
                    page: 0,
                })
            }
            _ => {}
        }
    }
    found
}

/// The state that these mappings make, and the figures behind it: all on huge pages, or some, or
/// none.
pub(super) fn state<'a>(mappings: impl Iterator<Item = &'a Mapping>) -> (State, String) {
    let (mut huge, mut base) = (0, 0);
    for mapping in mappings {
        *(if mapping.page > 4096 { &mut huge } else { &mut base }) += mapping.size;
    }
    let state = match (huge, base) {
        (0, _) => State::None,
        (_, 0) => State::All,
        _ => State::Partly,
    };
    (state, format!("{} MiB on huge pages, {} MiB on base pages", huge >> 20, base >> 20))
}
