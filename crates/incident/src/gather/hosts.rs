//! Which file is of which host, and by which clock.

use std::collections::{BTreeMap, BTreeSet};

use jiff::tz::TimeZone;

use super::clock;
use super::folders::{self, Nameless};
use super::setup::Setup;
use crate::series::Offset;
use crate::verdict::{Ahead, Facts};
use crate::{Clock, Format, Moment, Series};

/// What is looked at.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Bounds {
    pub(crate) from: Option<Moment>,
    pub(crate) to: Option<Moment>,
}

/// Names that are no host's own.
const NOBODY: [&str; 4] = ["localhost", "localhost.localdomain", "(none)", ""];
/// How far from what a source with a known offset covers that offset is taken to hold.
const NEAR: i64 = 36 * 3_600_000;
/// How much later or earlier the print of a file may begin or end than the file.
const ABOUT: i64 = 120_000;

/// One series of one file.
#[derive(Debug)]
pub(crate) struct Piece {
    /// The job that read it, its entry in a tar, and its place among the file's series.
    pub(crate) key: (usize, String, usize),
    /// The folders that its file lies in, from the outermost on.
    pub(crate) folders: Vec<String>,
    /// Of those that were given themselves, or of which folder.
    pub(crate) group: Option<usize>,
    /// The captured host that it lies in.
    pub(crate) root: Option<String>,
    /// The series without rows.
    pub(crate) hull: Series,
    /// The first and the last moment, by its own clock; none without samples.
    pub(crate) span: Option<(Moment, Moment)>,
    /// Rows.
    pub(crate) samples: usize,
    /// Memory of its rows.
    pub(crate) weight: usize,
    /// With its rows, where there was room to keep them.
    pub(crate) kept: Option<Series>,
    /// The year of a log that says none.
    pub(crate) year: Option<i16>,
}

/// A piece on its host's clock.
#[derive(Debug)]
pub(crate) struct Placed {
    pub(crate) piece: Piece,
    /// How its wall clock is put on UTC, where it is.
    pub(crate) shift: Option<Vec<Offset>>,
    /// By the host's clock.
    pub(crate) span: Option<(Moment, Moment)>,
    /// The file that holds the same, better: this one is not looked at.
    pub(crate) copy_of: Option<String>,
}

impl Placed {
    fn new(piece: Piece, shift: Option<Vec<Offset>>) -> Self {
        let to = |at| shift.as_ref().map_or(at, |offsets| clock::utc(offsets, at, None));
        let span = piece.span.map(|(first, last)| (to(first), to(last)));
        Self { piece, shift, span, copy_of: None }
    }
}

/// All pieces of one host that are of one clock.
#[derive(Debug, Default)]
pub(crate) struct Machine {
    pub(crate) name: Option<String>,
    pub(crate) clock: Clock,
    pub(crate) pieces: Vec<Placed>,
    pub(crate) facts: Option<Facts>,
    /// How far its clock was ahead.
    pub(crate) ahead: Option<Ahead>,
    /// What is to be said of how it was put together.
    pub(crate) notes: Vec<String>,
}

/// Sorts pieces to hosts, by name; those that nobody names come last.
pub(crate) fn sort(pieces: Vec<Piece>, setups: Vec<(String, Setup)>, zone: Option<&TimeZone>) -> Vec<Machine> {
    let own = |name: &Option<String>| name.clone().filter(|name| !NOBODY.contains(&name.as_str()));
    let all: BTreeSet<String> = pieces
        .iter()
        .filter_map(|piece| own(&piece.hull.host))
        .chain(setups.iter().filter_map(|(_, setup)| own(&setup.host)))
        .collect();
    let whole = |name: String| canonical(&all, name);
    let roots: BTreeMap<&str, String> =
        setups.iter().filter_map(|(root, setup)| Some((root.as_str(), whole(own(&setup.host)?)))).collect();
    let named = |piece: &Piece| {
        let of_root = || piece.root.as_ref().and_then(|root| roots.get(root.as_str()).cloned());
        own(&piece.hull.host).map(whole).or_else(of_root)
    };
    let mut beside: BTreeMap<Option<usize>, BTreeSet<String>> = BTreeMap::new();
    for piece in &pieces {
        if let Some(name) = named(piece) {
            beside.entry(piece.group).or_default().insert(name);
        }
    }

    let alone = |group: &Option<usize>| beside.get(group).filter(|names| names.len() == 1);
    let mut nameless = Vec::new();
    for (at, piece) in pieces.iter().enumerate() {
        if let Some(span) = piece.span.filter(|_| named(piece).is_none() && alone(&piece.group).is_none()) {
            nameless.push(Nameless { at, folders: &piece.folders, format: piece.hull.format, span });
        }
    }
    let by_folder = folders::names(&nameless);
    let in_folders = in_folders(&pieces, &by_folder, &named);

    type Key = (bool, Option<String>, Option<Option<usize>>);
    let mut hosts: BTreeMap<Key, (Vec<Piece>, Vec<String>)> = BTreeMap::new();
    for (at, piece) in pieces.into_iter().enumerate() {
        let name = named(&piece);
        let only = || alone(&piece.group)?.first().cloned();
        let of_folder = || in_folders.get(&at).cloned().map(whole);
        let key = match name.clone().or_else(of_folder).or_else(only) {
            Some(name) => (false, Some(name), None),
            None => (true, None, Some(piece.group)),
        };
        let (of_host, taken) = hosts.entry(key).or_default();
        if name.is_none() {
            taken.push(piece.hull.source.clone());
        }
        of_host.push(piece);
    }
    let mut setups: Vec<(Option<String>, Setup)> =
        setups.into_iter().map(|(_, setup)| (own(&setup.host).map(whole), setup)).collect();
    // Of several captures of one host the last one says how it is set up.
    setups.sort_by_key(|(_, setup)| setup.read_at);
    let mut sorted = Vec::new();
    for ((_, name, _), (pieces, taken)) in hosts {
        // A name that is nobody's own is still what its files say.
        let said: BTreeSet<&Option<String>> = pieces.iter().map(|piece| &piece.hull.host).collect();
        let said = if said.len() == 1 { said.first().and_then(|said| (*said).clone()) } else { None };
        let taken = if name.is_some() { taken } else { Vec::new() };
        let name = name.or(said.filter(|said| !said.is_empty()));
        let setup = match &name {
            Some(name) => setups.iter().rev().find(|(of, _)| of.as_ref() == Some(name)),
            None => None,
        };
        let mut notes = Vec::new();
        if let (Some(name), Some(first)) = (&name, taken.first()) {
            let more = if taken.len() > 1 { format!(" and {} more", taken.len() - 1) } else { String::new() };
            notes.push(format!("{first}{more}: names no host; assumed to be from {name}, because of where it is"));
        }
        let setup = setup.map(|(_, setup)| setup);
        let ahead = setup.and_then(|setup| setup.ahead.clone());
        let of_host = clocks(name, pieces, setup, zone, notes);
        sorted.extend(of_host.into_iter().map(|host| Machine { ahead: ahead.clone(), ..host }));
    }
    for (name, setup) in setups {
        if name.is_none() || !sorted.iter().any(|host: &Machine| host.name == name) {
            let facts = facts(&setup, true);
            let source = &facts.source;
            let notes = vec![format!(
                "{source}: holds no collector's archive; to see how the host was set up, run hugewise check --root {source}"
            )];
            let clock = Clock::Utc { offsets: Vec::new() };
            sorted.push(Machine { name, clock, facts: Some(facts), notes, ..Machine::default() });
        }
    }
    sorted
}

/// Names of hosts by the folders of their files, where no file names one: the only name that others have there, or else the
/// folder's own.
fn in_folders(
    pieces: &[Piece],
    by_folder: &BTreeMap<usize, (String, usize)>,
    named: &dyn Fn(&Piece) -> Option<String>,
) -> BTreeMap<usize, String> {
    let mut said: BTreeMap<&[String], BTreeSet<String>> = BTreeMap::new();
    for piece in pieces {
        if let Some(name) = named(piece) {
            said.entry(&piece.folders).or_default().insert(name);
        }
    }
    let name = |(at, (folder, depth)): (&usize, &(String, usize))| {
        let within = pieces.get(*at)?.folders.get(..*depth)?;
        Some((*at, folders::only_name(&said, within).unwrap_or_else(|| folder.clone())))
    };
    by_folder.iter().filter_map(name).collect()
}

/// The name with its domain, where exactly one is known.
fn canonical(all: &BTreeSet<String>, name: String) -> String {
    if name.contains('.') {
        return name;
    }
    let prefix = format!("{name}.");
    let mut longer = all.iter().filter(|other| other.starts_with(&prefix));
    match (longer.next(), longer.next()) {
        (Some(only), None) => only.clone(),
        _ => name,
    }
}

fn facts(setup: &Setup, utc: bool) -> Facts {
    let at = setup.read_at.filter(|_| utc).map(Moment::from_seconds);
    Facts { at, ..setup.facts.clone() }
}

/// The pieces of one host on one clock, or, where they cannot be, on two.
fn clocks(
    name: Option<String>,
    pieces: Vec<Piece>,
    setup: Option<&Setup>,
    asked: Option<&TimeZone>,
    mut notes: Vec<String>,
) -> Vec<Machine> {
    let pieces = years(pieces, setup);
    let known = known_offsets(&pieces);
    let utc_spans =
        || pieces.iter().filter(|piece| matches!(piece.hull.clock, Clock::Utc { .. })).filter_map(|piece| piece.span);
    let reach = utc_spans().map(|(from, _)| from).min().zip(utc_spans().map(|(_, to)| to).max());
    let has_utc = reach.is_some();
    let of_setup = setup.and_then(|setup| clock::zone(setup.zone.as_deref()?).ok());
    let mut placed = Vec::new();
    let mut wall = Vec::new();
    let mut by_known = Vec::new();
    let mut offsets = known.clone();
    for piece in pieces {
        let Clock::Wall { zone } = &piece.hull.clock else {
            placed.push(Placed::new(piece, None));
            continue;
        };
        let (first, last) = piece.span.unwrap_or_default();
        let near = |(from, to): (Moment, Moment)| {
            let reach = from.0.saturating_sub(NEAR)..=to.0.saturating_add(NEAR);
            reach.contains(&first.0) && reach.contains(&last.0)
        };
        let fixed = zone.as_deref().and_then(clock::certain).map(|seconds| vec![Offset { from: first, seconds }]);
        let over = |zone: &TimeZone| clock::offsets(zone, first, last);
        let shift = fixed.or_else(|| asked.map(over)).or_else(|| {
            let known = (!known.is_empty() && reach.is_some_and(near)).then(|| known.clone());
            if known.is_some() {
                by_known.push(piece.hull.format);
            }
            known.or_else(|| of_setup.as_ref().map(over))
        });
        match shift.filter(|offsets| !offsets.is_empty()) {
            Some(shift) => {
                if known.is_empty() {
                    offsets.extend(shift.iter().copied());
                }
                placed.push(Placed::new(piece, Some(shift)));
            }
            None => wall.push(piece),
        }
    }
    if known.is_empty()
        && let Some(zone) = asked.or(of_setup.as_ref())
    {
        let spans = || placed.iter().filter_map(|placed| placed.span);
        if let Some((from, to)) = spans().map(|span| span.0).min().zip(spans().map(|span| span.1).max()) {
            offsets = clock::offsets(zone, from, to);
        }
    }
    if !by_known.is_empty() {
        by_known.sort_unstable();
        by_known.dedup();
        notes.push(format!(
            "times in {} have no time zone; they are assumed to be in the other sources' zone",
            by_known.iter().map(|format| format.as_str()).collect::<Vec<_>>().join(", ")
        ));
    }
    let mut hosts = Vec::new();
    if !placed.is_empty() {
        if offsets.is_empty() {
            notes.push("times are in UTC: no source gives the host's own offset (set it with --timezone ZONE)".into());
        }
        let clock = Clock::Utc { offsets: tidy(offsets) };
        copies(&mut placed);
        let facts = setup.map(|setup| facts(setup, true));
        hosts.push(Machine {
            name: name.clone(),
            clock,
            pieces: placed,
            facts,
            notes: std::mem::take(&mut notes),
            ahead: None,
        });
    }
    if !wall.is_empty() {
        if has_utc || !hosts.is_empty() {
            let names: BTreeSet<Format> = wall.iter().map(|piece| piece.hull.format).collect();
            let names: Vec<&str> = names.into_iter().map(Format::as_str).collect();
            notes.push(format!(
                "times in {} are wall-clock times with an unknown offset, so they are judged apart from this host's other sources; --timezone ZONE joins them",
                names.join(", ")
            ));
        } else {
            notes.push(
                "times are the host's wall clock: no source gives its offset (set it with --timezone ZONE)".into(),
            );
        }
        let zones: BTreeSet<&Option<String>> = wall
            .iter()
            .filter_map(|piece| match &piece.hull.clock {
                Clock::Wall { zone } => Some(zone),
                Clock::Utc { .. } => None,
            })
            .collect();
        let zone = if zones.len() == 1 { zones.first().and_then(|zone| (*zone).clone()) } else { None };
        let mut pieces: Vec<Placed> = wall.into_iter().map(|piece| Placed::new(piece, None)).collect();
        copies(&mut pieces);
        let facts = if hosts.is_empty() { setup.map(|setup| facts(setup, false)) } else { None };
        hosts.push(Machine { name, clock: Clock::Wall { zone }, pieces, facts, notes, ahead: None });
    }
    hosts
}

/// Puts logs that say no year in the year that brings them nearest to what else there is of the host; none lies ahead of the
/// capture that they are in, nor of today.
fn years(mut pieces: Vec<Piece>, setup: Option<&Setup>) -> Vec<Piece> {
    let told = || pieces.iter().filter(|piece| !piece.hull.without_year).filter_map(|piece| piece.span);
    let from = told().map(|(from, _)| from).min();
    let to = told().map(|(_, to)| to).max();
    let captured = setup.and_then(|setup| setup.read_at).map(Moment::from_seconds);
    let latest = captured.unwrap_or_else(|| Moment(jiff::Timestamp::now().as_millisecond()));
    let (from, to) = from.zip(to).unwrap_or((latest, latest));
    for piece in pieces.iter_mut().filter(|piece| piece.hull.without_year) {
        let Some((first, last)) = piece.span else { continue };
        let distance = |year: i16| {
            let (first, last) = (clock::in_year(first, year), clock::in_year(last, year));
            (first.0.saturating_sub(to.0)).max(from.0.saturating_sub(last.0)).max(0)
        };
        let newest = clock::year(latest);
        let possible = (newest.saturating_sub(20)..=newest)
            .filter(|year| clock::in_year(last, *year).0 <= latest.0.saturating_add(NEAR));
        piece.year = possible.rev().min_by_key(|year| distance(*year));
        piece.span = piece.year.map(|year| (clock::in_year(first, year), clock::in_year(last, year)));
    }
    pieces
}

/// The host's offsets as the collector says them that says them for the most samples.
fn known_offsets(pieces: &[Piece]) -> Vec<Offset> {
    let mut by_format: BTreeMap<Format, (usize, Vec<Offset>)> = BTreeMap::new();
    for piece in pieces {
        if let Clock::Utc { offsets } = &piece.hull.clock
            && !offsets.is_empty()
        {
            let (samples, all) = by_format.entry(piece.hull.format).or_default();
            *samples += piece.samples;
            all.extend(offsets.iter().copied());
        }
    }
    let most = by_format.into_values().max_by_key(|(samples, _)| *samples);
    tidy(most.map(|(_, offsets)| offsets).unwrap_or_default())
}

/// In order, each only where it changes.
fn tidy(mut offsets: Vec<Offset>) -> Vec<Offset> {
    offsets.sort_by_key(|offset| offset.from);
    offsets.dedup_by_key(|offset| offset.seconds);
    offsets
}

/// What sar and sadf printed of a file that is here too is not looked at twice.
fn copies(pieces: &mut [Placed]) {
    let originals: Vec<(u8, (Moment, Moment), usize, String)> = pieces
        .iter()
        .filter_map(|placed| {
            let piece = &placed.piece;
            Some((piece.hull.format.sysstat_rank()?, placed.span?, piece.samples, piece.hull.source.clone()))
        })
        .collect();
    for placed in pieces {
        let (Some(own), Some((first, last))) = (placed.piece.hull.format.sysstat_rank(), placed.span) else { continue };
        let same = originals.iter().find(|(rank, (from, to), samples, _)| {
            *rank < own
                && from.0.saturating_sub(ABOUT) <= first.0
                && last.0 <= to.0.saturating_add(ABOUT)
                && *samples >= placed.piece.samples
        });
        placed.copy_of = same.map(|(.., source)| source.clone());
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// 2026-11-21T07:00:00Z.
    const SEVEN: i64 = 1_795_244_400_000;

    fn piece(source: &str, format: Format, host: Option<&str>, clock: Clock, from: i64, rows: i64) -> Piece {
        let mut series = Series::new(source, format);
        series.host = host.map(str::to_owned);
        series.clock = clock;
        Piece {
            key: (0, String::new(), 0),
            folders: Vec::new(),
            group: None,
            root: None,
            hull: series,
            span: (rows > 0).then(|| (Moment(from), Moment(from + (rows - 1) * 600_000))),
            year: None,
            samples: usize::try_from(rows).unwrap(),
            weight: 0,
            kept: None,
        }
    }

    fn utc(seconds: &[i32]) -> Clock {
        Clock::Utc {
            offsets: seconds.iter().map(|seconds| Offset { from: Moment(SEVEN), seconds: *seconds }).collect(),
        }
    }

    fn wall(zone: Option<&str>) -> Clock {
        Clock::Wall { zone: zone.map(str::to_owned) }
    }

    #[test]
    fn short_and_long_names_are_one_host_where_only_one_can_be_meant() {
        let of = |hosts: &[Option<&str>]| {
            let pieces = hosts.iter().map(|host| piece("f", Format::Sysstat, *host, utc(&[0]), SEVEN, 2)).collect();
            sort(pieces, Vec::new(), None).into_iter().map(|host| host.name).collect::<Vec<_>>()
        };
        let some = |name: &str| Some(name.to_owned());
        assert_eq!(of(&[Some("db1"), Some("db1.example.com")]), [some("db1.example.com")]);
        assert_eq!(of(&[Some("db1"), Some("db1.a"), Some("db1.b")]), [some("db1"), some("db1.a"), some("db1.b")]);
        assert_eq!(of(&[Some("db2"), Some("db1"), None]), [some("db1"), some("db2"), None]);
        assert_eq!(of(&[Some("localhost"), Some("db1")]), [some("db1")]);
        assert_eq!(of(&[Some("localhost"), None]), [None]);
        assert_eq!(of(&[Some("localhost"), Some("localhost")]), [some("localhost")]);
    }

    #[test]
    fn wall_clocks_are_put_on_utc_by_what_is_known() {
        let sar = |clock| piece("sar21", Format::Sar, Some("db1"), clock, SEVEN + 3_600_000, 20);
        let sa = || piece("sa21", Format::Sysstat, Some("db1"), utc(&[3600]), SEVEN, 10);
        // By the other source's offset.
        let hosts = sort(vec![sa(), sar(wall(None))], Vec::new(), None);
        assert_eq!(hosts.len(), 1);
        let spans: Vec<i64> = hosts[0].pieces.iter().map(|placed| placed.span.unwrap().0.0).collect();
        assert_eq!(spans, [SEVEN, SEVEN]);
        assert!(hosts[0].notes[0].contains("times in sar"), "{:?}", hosts[0].notes);
        // By its own word.
        let hosts = sort(vec![sar(wall(Some("UTC")))], Vec::new(), None);
        assert_eq!(hosts[0].clock.offset_at(Moment(SEVEN)), Some(0));
        // By whoever asks.
        let berlin = clock::zone("Europe/Berlin").unwrap();
        let hosts = sort(vec![sar(wall(Some("CET")))], Vec::new(), Some(&berlin));
        assert_eq!(hosts[0].pieces[0].span.unwrap().0, Moment(SEVEN));
        assert_eq!(hosts[0].clock.offset_at(Moment(SEVEN)), Some(3600));
        // By the sosreport.
        let setup = Setup {
            host: Some("db1".into()),
            zone: Some("Europe/Berlin".into()),
            read_at: Some(SEVEN / 1000),
            ..Setup::default()
        };
        let hosts = sort(vec![sar(wall(None))], vec![("sos".into(), setup.clone())], None);
        assert_eq!(hosts[0].pieces[0].span.unwrap().0, Moment(SEVEN));
        assert_eq!(hosts[0].facts.as_ref().unwrap().at, Some(Moment(SEVEN)));
        // By nobody: apart, and said.
        let hosts =
            sort(vec![piece("p", Format::Pcp, Some("db1"), utc(&[]), SEVEN, 9), sar(wall(None))], Vec::new(), None);
        assert_eq!(hosts.len(), 2);
        assert!(hosts[1].notes[0].contains("--timezone"), "{:?}", hosts[1].notes);
        let hosts = sort(vec![sar(wall(None))], Vec::new(), None);
        assert_eq!((hosts.len(), &hosts[0].clock), (1, &wall(None)));
        // A capture without an archive is told all the same.
        let hosts = sort(Vec::new(), vec![("sos".into(), setup)], None);
        assert!(hosts[0].notes[0].contains("no collector"), "{:?}", hosts[0].notes);
    }

    #[test]
    fn what_was_printed_of_a_file_is_not_looked_at_twice() {
        let sa = piece("sa21", Format::Sysstat, Some("db1"), utc(&[0]), SEVEN, 10);
        let same = piece("sar21", Format::Sar, Some("db1"), wall(None), SEVEN, 10);
        let longer = piece("sar22", Format::Sar, Some("db1"), wall(None), SEVEN, 12);
        let hosts = sort(vec![sa, same, longer], Vec::new(), None);
        let copies: Vec<_> = hosts[0].pieces.iter().map(|placed| placed.copy_of.as_deref()).collect();
        assert_eq!(copies, [None, Some("sa21"), None]);
    }
}
