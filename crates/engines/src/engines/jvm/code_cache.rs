//! The code cache on huge pages: how large it is, and the tables of its parts
//! (`CodeCache::initialize`, `CompilerConfig::set_compilation_policy_flags`).

use hugewise_model::{Bytes, PageSize};

use super::ergonomics::JvmParameters;
use super::flags::{self, Flags};

const MIB: u64 = 1 << 20;
/// From this size on the cache of a machine with two compilers is in three parts.
const IN_PARTS: u64 = 240 * MIB;
/// A cache that may grow is on pages of which it holds at least so many.
const FEWEST_PAGES: u64 = 8;
/// A table of the cache has a byte for so many of its bytes (`CodeCacheSegmentSize`).
const SEGMENT: u64 = 128;

/// How a release fits the three parts to whole pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PartRounding {
    /// The part without methods up, that of profiled ones down; the third has the rest.
    Rest,
    /// Both down (JDK-8311248, release 23).
    Down,
    /// As [`Self::Rest`], but all three up where nobody set the whole (25.0.3).
    Up,
}

impl PartRounding {
    fn of_version(version: Option<(u32, u32)>) -> Self {
        match version {
            Some((..=22, _)) | None => Self::Rest,
            Some((23 | 24, _) | (25, ..=2)) => Self::Down,
            Some(_) => Self::Up,
        }
    }
}

/// Whether a cache that is no whole number of large pages is on base pages: before JDK-8304954.
fn must_be_whole(version: Option<(u32, u32)>) -> bool {
    matches!(version, Some((..=16 | 18..=20, _) | (17, ..=9) | (21, 0)))
}

/// Pages that the code cache asks for in turn: its own, and the whole ones of each part's table.
/// `page` is the largest size but gibibytes, which no cache of at most 2 GiB has eight of.
pub(super) fn stretches(machine: &JvmParameters<'_>, page: PageSize) -> Vec<u64> {
    let flags = machine.flags;
    let page = page.bytes().get();
    let version = machine.version_numbers();
    let size = reserved_size(flags);
    let whole = size.next_multiple_of(page);
    let grows = flags.size_value("InitialCodeCacheSize").is_none_or(|first| first.get() < size);
    let fewest =
        if grows || version.is_none_or(|(release, _)| release < 23) { FEWEST_PAGES } else { 1 };
    let is_refused = must_be_whole(version) && size != whole;
    if flags.uses_system_v(machine.release()) || size < page.saturating_mul(fewest) || is_refused {
        return Vec::new();
    }
    let table = |part: u64| part / SEGMENT / page;
    if !is_in_parts(flags, size) {
        return vec![whole / page, table(whole)];
    }
    let parts = split_into_parts(machine, PartRounding::of_version(version), size, page);
    let mut stretches = vec![parts.iter().sum::<u64>() / page];
    stretches.extend(parts.map(table));
    stretches
}

/// Bytes without methods, of profiled methods, and of the others.
fn split_into_parts(
    machine: &JvmParameters<'_>,
    rounding: PartRounding,
    size: u64,
    page: u64,
) -> [u64; 3] {
    let whole = size.next_multiple_of(page);
    let is_set = machine.flags.size_value("ReservedCodeCacheSize").is_some();
    let first = size_without_methods(machine);
    let (up, down) = (|part: u64| part.next_multiple_of(page), |part: u64| part - part % page);
    let halved = if rounding == PartRounding::Rest { size } else { whole };
    let half = halved.saturating_sub(first) / 2;
    let first = match rounding {
        PartRounding::Down => down(first),
        PartRounding::Rest | PartRounding::Up => up(first),
    };
    if rounding == PartRounding::Up && !is_set {
        return [first, up(half), up(half)];
    }
    [first, down(half), whole.saturating_sub(first).saturating_sub(down(half))]
}

/// `NonNMethodCodeHeapSize`: 5 MiB, and the buffers of the compilers' threads.
fn size_without_methods(machine: &JvmParameters<'_>) -> u64 {
    /// `Compiler::code_buffer_size` and `C2Compiler::initial_code_buffer_size`.
    const BUFFERS: (u64, u64) = (576_716, 6_592);
    let threads = compiler_threads(machine);
    let first = (threads / 3).max(1);
    let second = threads.saturating_sub(first).max(1);
    first
        .saturating_mul(BUFFERS.0)
        .saturating_add(second.saturating_mul(BUFFERS.1))
        .saturating_add(5 * MIB)
}

/// `CICompilerCount` of both compilers (`CompilationPolicy::initialize`).
pub(super) fn compiler_threads(machine: &JvmParameters<'_>) -> u64 {
    /// More than any machine has.
    const MOST: u64 = 1 << 16;
    if let Some(told) = machine.flags.size_value("CICompilerCount") {
        return told.get().min(MOST);
    }
    let log = machine.active_processors().unwrap_or(2).max(1).ilog2();
    let log_of_log = log.max(1).ilog2();
    u64::from(log * log_of_log * 3 / 2).max(2)
}

/// Whether code is compiled in two tiers; with one of them its cache is smaller.
fn is_tiered(flags: &Flags) -> bool {
    let one_mode = matches!(flags.get(flags::MODE.0), Some("quick-only" | "high-only"));
    let stops = flags
        .get("TieredStopAtLevel")
        .and_then(flags::parse_size)
        .is_some_and(|level| level.get() < 4);
    !one_mode
        && !stops
        && !flags.is_on("NeverActAsServerClassMachine")
        && flags.get("TieredCompilation") != Some("false")
        && !flags.is_on(flags::INTERPRETED)
}

/// `ReservedCodeCacheSize`: 240 MiB with tiered compilation.
fn reserved_size(flags: &Flags) -> u64 {
    let default = match () {
        // What the client's machine had.
        () if flags.is_on("NeverActAsServerClassMachine") => 32 * MIB,
        () if is_tiered(flags) => 240 * MIB,
        () => 48 * MIB,
    };
    // HotSpot refuses to start with more than 2 GiB.
    flags.size_value("ReservedCodeCacheSize").map_or(default, Bytes::get).min(1 << 40)
}

/// `SegmentedCodeCache`, which a smaller cache has where it is asked for.
fn is_in_parts(flags: &Flags, size: u64) -> bool {
    let told = flags.get("SegmentedCodeCache");
    is_tiered(flags) && (told == Some("true") || (told.is_none() && size >= IN_PARTS))
}
