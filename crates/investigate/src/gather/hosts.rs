//! Which file is of which host, and by which clock.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use jiff::tz::TimeZone;

use super::clock;
use super::folders::{self, Nameless};
use super::printed_copies::mark_printed_copies;
use super::setup::Setup;
use super::unplaced;
use crate::series::Offset;
use crate::verdict::{ClockSkew, HostSetupFacts};
use crate::{Clock, Moment, Series, SourceFormat};

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TimeBounds {
    pub(crate) from: Option<Moment>,
    pub(crate) to: Option<Moment>,
}

const NOBODY: [&str; 4] = ["localhost", "localhost.localdomain", "(none)", ""];
/// Milliseconds around what a source with a known offset covers, in which that offset holds.
const NEAR: i64 = 36 * 3_600_000;
/// Changes of a host's offset from UTC: clocks change twice a year, and each row is compared with
/// those around it.
const MOST_OFFSETS: usize = 256;

#[derive(Debug)]
pub(crate) struct SeriesPiece {
    /// The job that read it, its entry in a tar, and its place among the file's series.
    pub(crate) key: (usize, String, usize),
    pub(crate) folders: Vec<String>,
    /// The folder among the paths given; none for files given by name.
    pub(crate) group: Option<usize>,
    /// The captured host around it.
    pub(crate) root: Option<String>,
    /// The series without rows.
    pub(crate) hull: Box<Series>,
    /// The first and the last moment, by its own clock.
    pub(crate) span: Option<(Moment, Moment)>,
    pub(crate) samples: usize,
    /// Bytes of its rows.
    pub(crate) weight: usize,
    /// With its rows, where there was room to keep them.
    pub(crate) kept: Option<Box<Series>>,
    /// The year of a log without years.
    pub(crate) year: Option<i16>,
}

#[derive(Debug)]
pub(crate) struct PlacedPiece {
    pub(crate) piece: SeriesPiece,
    /// How its wall clock is put on UTC.
    pub(crate) shift: Option<Vec<Offset>>,
    /// By the host's clock.
    pub(crate) span: Option<(Moment, Moment)>,
    /// The file that holds the same, better: this one is not looked at.
    pub(crate) copy_of: Option<String>,
}

impl PlacedPiece {
    pub(super) fn new(piece: SeriesPiece, shift: Option<Vec<Offset>>) -> Self {
        let to = |at| shift.as_ref().map_or(at, |offsets| clock::wall_to_utc(offsets, at, None));
        let span = piece.span.map(|(first, last)| (to(first), to(last)));
        Self { piece, shift, span, copy_of: None }
    }
}

#[derive(Debug, Default)]
pub(crate) struct GatheredHost {
    pub(crate) name: Option<String>,
    pub(crate) clock: Clock,
    pub(crate) pieces: Vec<PlacedPiece>,
    pub(crate) facts: Option<HostSetupFacts>,
    pub(crate) ahead: Option<ClockSkew>,
    pub(crate) notes: Vec<String>,
}

struct HostNames {
    all: BTreeSet<String>,
    /// By the captured host's root.
    of_captures: BTreeMap<String, String>,
}

impl HostNames {
    fn new(pieces: &[SeriesPiece], setups: &[(String, Setup)]) -> Self {
        let all = pieces
            .iter()
            .filter_map(|piece| own_name(&piece.hull.host))
            .chain(setups.iter().filter_map(|(_, setup)| own_name(&setup.host)))
            .collect();
        let mut names = Self { all, of_captures: BTreeMap::new() };
        names.of_captures = setups
            .iter()
            .filter_map(|(root, setup)| Some((root.clone(), names.canonical(&setup.host)?)))
            .collect();
        names
    }

    /// A host's own name, with its domain where exactly one is known.
    fn canonical(&self, said: &Option<String>) -> Option<String> {
        own_name(said).map(|name| canonical_host_name(&self.all, name))
    }

    fn of_piece(&self, piece: &SeriesPiece) -> Option<String> {
        let of_capture = || self.of_captures.get(piece.root.as_ref()?).cloned();
        self.canonical(&piece.hull.host).or_else(of_capture)
    }
}

fn own_name(said: &Option<String>) -> Option<String> {
    said.clone().filter(|name| is_own_name(name))
}

/// Whether a name is one host's; before it has one, each is called `localhost`.
pub(crate) fn is_own_name(name: &str) -> bool {
    !NOBODY.contains(&name)
}

pub(crate) fn sort_into_hosts(
    pieces: Vec<SeriesPiece>,
    setups: Vec<(String, Setup)>,
    zone: Option<&TimeZone>,
) -> Vec<GatheredHost> {
    let names = HostNames::new(&pieces, &setups);
    let mut setups: Vec<(Option<String>, Setup)> =
        setups.into_iter().map(|(_, setup)| (names.canonical(&setup.host), setup)).collect();
    // Of several captures of one host the last one counts.
    setups.sort_by_key(|(_, setup)| setup.read_at);
    let last: BTreeMap<&Option<String>, &Setup> =
        setups.iter().map(|(name, setup)| (name, setup)).collect();
    let mut sorted = Vec::new();
    for HostPieces { name, pieces, assumed } in group_pieces(pieces, &names) {
        // A name such as localhost is still what its files say.
        let said: BTreeSet<&Option<String>> = pieces.iter().map(|piece| &piece.hull.host).collect();
        let only = said.first().filter(|_| said.len() == 1).and_then(|said| (*said).clone());
        let notes = name
            .as_ref()
            .and_then(|name| describe_assumed_host(name, &assumed))
            .into_iter()
            .collect();
        let name = name.or(only.filter(|said| !said.is_empty()));
        let setup = last.get(&name).filter(|_| name.is_some()).copied();
        let ahead = setup.and_then(|setup| setup.ahead.clone());
        let of_host = place_on_clocks(name, pieces, setup, zone, notes);
        sorted
            .extend(of_host.into_iter().map(|host| GatheredHost { ahead: ahead.clone(), ..host }));
    }
    let mut known: BTreeSet<Option<String>> = sorted.iter().map(|host| host.name.clone()).collect();
    for (name, setup) in &setups {
        if name.is_none() || known.insert(name.clone()) {
            sorted.push(host_without_archive(name.clone(), setup));
        }
    }
    sorted
}

#[derive(Default)]
struct HostPieces {
    name: Option<String>,
    pieces: Vec<SeriesPiece>,
    /// Files that do not name it themselves.
    assumed: Vec<String>,
}

/// Pieces by host: the one that they name, that their folder is of, or that all files beside them
/// name; those without any, a host for each path given.
fn group_pieces(pieces: Vec<SeriesPiece>, names: &HostNames) -> Vec<HostPieces> {
    let mut beside: BTreeMap<Option<usize>, BTreeSet<String>> = BTreeMap::new();
    for piece in &pieces {
        if let Some(name) = names.of_piece(piece) {
            beside.entry(piece.group).or_default().insert(name);
        }
    }
    let only_beside = |piece: &SeriesPiece| {
        beside.get(&piece.group).filter(|names| names.len() == 1)?.first().cloned()
    };
    let nameless: Vec<Nameless<'_>> = pieces
        .iter()
        .enumerate()
        .filter(|(_, piece)| names.of_piece(piece).is_none() && only_beside(piece).is_none())
        .filter_map(|(at, piece)| {
            let (folders, format) = (piece.folders.as_slice(), piece.hull.format);
            Some(Nameless { at, folders, format, span: piece.span? })
        })
        .collect();
    let in_folders = name_by_folder(&pieces, &folders::name_hosts_by_folder(&nameless), names);
    let mut hosts: BTreeMap<(bool, Option<String>, Option<usize>), HostPieces> = BTreeMap::new();
    for (at, piece) in pieces.into_iter().enumerate() {
        let named = names.of_piece(&piece);
        let of_folder = || Some(canonical_host_name(&names.all, in_folders.get(&at)?.clone()));
        let name = named.clone().or_else(of_folder).or_else(|| only_beside(&piece));
        let group = piece.group.filter(|_| name.is_none());
        let host = hosts.entry((name.is_none(), name.clone(), group)).or_default();
        host.name = name;
        if named.is_none() {
            host.assumed.push(piece.hull.source.clone());
        }
        host.pieces.push(piece);
    }
    hosts.into_values().collect()
}

fn describe_assumed_host(name: &str, assumed: &[String]) -> Option<String> {
    let (first, others) = assumed.split_first()?;
    let more =
        if others.is_empty() { String::new() } else { format!(" and {} more", others.len()) };
    Some(format!("{first}{more}: names no host; assumed to be from {name}, because of where it is"))
}

fn host_without_archive(name: Option<String>, setup: &Setup) -> GatheredHost {
    let facts = setup_facts(setup, true);
    let source = &facts.source;
    let notes = vec![format!(
        "{source}: holds no collector's archive; to see how the host was set up, run hugewise \
         check --root {source}"
    )];
    let clock = Clock::Utc { offsets: Vec::new() };
    GatheredHost { name, clock, facts: Some(facts), notes, ..GatheredHost::default() }
}

/// Names for files without one: the only name of others in their folder, or the folder's own.
fn name_by_folder(
    pieces: &[SeriesPiece],
    by_folder: &BTreeMap<usize, (String, usize)>,
    names: &HostNames,
) -> BTreeMap<usize, String> {
    let mut said: BTreeMap<&[String], BTreeSet<String>> = BTreeMap::new();
    for piece in pieces {
        if let Some(name) = names.of_piece(piece) {
            said.entry(&piece.folders).or_default().insert(name);
        }
    }
    // Each folder is looked through once, however many files it has.
    let mut only: BTreeMap<&[String], Option<String>> = BTreeMap::new();
    let name = |(at, (folder, depth)): (&usize, &(String, usize))| {
        let within = pieces.get(*at)?.folders.get(..*depth)?;
        let only =
            only.entry(within).or_insert_with(|| folders::find_only_name(&said, within)).clone();
        Some((*at, only.unwrap_or_else(|| folder.clone())))
    };
    by_folder.iter().filter_map(name).collect()
}

fn canonical_host_name(all: &BTreeSet<String>, name: String) -> String {
    if name.contains('.') {
        return name;
    }
    let prefix = format!("{name}.");
    // Of very many hosts, too, only those that begin like it are compared.
    let mut longer = all
        .range::<String, _>((Bound::Included(&prefix), Bound::Unbounded))
        .take_while(|other| other.starts_with(&prefix));
    match (longer.next(), longer.next()) {
        (Some(only), None) => only.clone(),
        _ => name,
    }
}

fn setup_facts(setup: &Setup, utc: bool) -> HostSetupFacts {
    let at = setup.read_at.filter(|_| utc).map(Moment::from_seconds);
    HostSetupFacts { at, ..setup.facts.clone() }
}

struct PiecesByClock {
    placed: Vec<PlacedPiece>,
    /// Those of a wall clock whose offset nothing tells.
    wall: Vec<SeriesPiece>,
    /// Formats that are put on UTC because the other sources' offset is assumed.
    assumed: BTreeSet<SourceFormat>,
    offsets: Vec<Offset>,
}

impl PiecesByClock {
    fn new(pieces: Vec<SeriesPiece>, setup: Option<&Setup>, asked: Option<&TimeZone>) -> Self {
        let known = known_offsets(&pieces);
        let reach = utc_reach(&pieces);
        let of_setup = setup.and_then(|setup| clock::parse_time_zone(setup.zone.as_deref()?).ok());
        let mut sorted = Self {
            placed: Vec::new(),
            wall: Vec::new(),
            assumed: BTreeSet::new(),
            offsets: known.clone(),
        };
        for piece in pieces {
            let Clock::Wall { zone } = &piece.hull.clock else {
                sorted.placed.push(PlacedPiece::new(piece, None));
                continue;
            };
            let (first, last) = piece.span.unwrap_or_default();
            let is_near = reach.is_some_and(|(from, to)| {
                let reach = from.0.saturating_sub(NEAR)..=to.0.saturating_add(NEAR);
                reach.contains(&first.0) && reach.contains(&last.0)
            });
            let over = |zone: &TimeZone| clock::offsets_between(zone, first, last);
            let fixed = zone
                .as_deref()
                .and_then(clock::offset_of_abbreviation)
                .map(|seconds| vec![Offset { from: first, seconds }]);
            let shift = match fixed.or_else(|| asked.map(over)) {
                None if is_near && !known.is_empty() => {
                    sorted.assumed.insert(piece.hull.format);
                    Some(known.clone())
                }
                None => of_setup.as_ref().map(over),
                said => said,
            };
            match shift.filter(|offsets| !offsets.is_empty()) {
                Some(shift) => {
                    if known.is_empty() {
                        sorted.offsets.extend(shift.iter().copied());
                    }
                    sorted.placed.push(PlacedPiece::new(piece, Some(shift)));
                }
                None => sorted.wall.push(piece),
            }
        }
        if known.is_empty()
            && let Some(zone) = asked.or(of_setup.as_ref())
            && let Some((from, to)) =
                enclose_spans(sorted.placed.iter().filter_map(|placed| placed.span))
        {
            sorted.offsets = clock::offsets_between(zone, from, to);
        }
        sorted
    }
}

fn utc_reach(pieces: &[SeriesPiece]) -> Option<(Moment, Moment)> {
    enclose_spans(
        pieces
            .iter()
            .filter(|piece| matches!(piece.hull.clock, Clock::Utc { .. }))
            .filter_map(|piece| piece.span),
    )
}

fn enclose_spans(spans: impl Iterator<Item = (Moment, Moment)>) -> Option<(Moment, Moment)> {
    spans.reduce(|(from, to), (first, last)| (from.min(first), to.max(last)))
}

fn place_on_clocks(
    name: Option<String>,
    pieces: Vec<SeriesPiece>,
    setup: Option<&Setup>,
    asked: Option<&TimeZone>,
    mut notes: Vec<String>,
) -> Vec<GatheredHost> {
    let (unplaced, pieces): (Vec<_>, Vec<_>) =
        pieces.into_iter().partition(|piece| piece.hull.unplaced.is_some());
    let pieces = assign_log_years(pieces, setup);
    let has_utc = utc_reach(&pieces).is_some();
    let PiecesByClock { mut placed, wall, assumed, offsets } =
        PiecesByClock::new(pieces, setup, asked);
    let booted = setup.and_then(|setup| setup.booted);
    let mut alone = Vec::new();
    for piece in unplaced {
        match unplaced::offset_since_boot(&piece, booted) {
            Some(shift) => placed.push(PlacedPiece::new(piece, Some(shift))),
            None => alone.push(piece),
        }
    }
    if !assumed.is_empty() {
        notes.push(format!(
            "times in {} have no time zone; they are assumed to be in the other sources' zone",
            list_formats(assumed)
        ));
    }
    let mut hosts = Vec::new();
    if !placed.is_empty() {
        if offsets.is_empty() {
            notes.push(
                "times are in UTC: no source gives the host's own offset (set it with \
                 --timezone ZONE)"
                    .into(),
            );
        }
        mark_printed_copies(&mut placed);
        hosts.push(GatheredHost {
            name: name.clone(),
            clock: Clock::Utc { offsets: normalize_offsets(offsets) },
            pieces: placed,
            facts: setup.map(|setup| setup_facts(setup, true)),
            notes: std::mem::take(&mut notes),
            ahead: None,
        });
    }
    if !wall.is_empty() {
        notes.push(if has_utc || !hosts.is_empty() {
            format!(
                "times in {} are wall-clock times with an unknown offset, so they are judged apart \
                 from this host's other sources; --timezone ZONE joins them",
                list_formats(wall.iter().map(|piece| piece.hull.format).collect())
            )
        } else {
            "times are the host's wall clock: no source gives its offset (set it with --timezone \
             ZONE)"
                .into()
        });
        let facts = setup.filter(|_| hosts.is_empty()).map(|setup| setup_facts(setup, false));
        hosts.push(wall_clock_host(name.clone(), wall, facts, std::mem::take(&mut notes)));
    }
    let bare = hosts.is_empty();
    hosts.extend(alone.into_iter().map(|piece| unplaced::host_of_unplaced(name.clone(), piece)));
    if let Some(first) = hosts.first_mut().filter(|_| bare) {
        first.facts = setup.map(|setup| setup_facts(setup, false));
        first.notes.append(&mut notes);
    }
    hosts
}

fn list_formats(formats: BTreeSet<SourceFormat>) -> String {
    formats.into_iter().map(SourceFormat::as_str).collect::<Vec<_>>().join(", ")
}

fn wall_clock_host(
    name: Option<String>,
    wall: Vec<SeriesPiece>,
    facts: Option<HostSetupFacts>,
    notes: Vec<String>,
) -> GatheredHost {
    let zones: BTreeSet<Option<String>> = wall
        .iter()
        .filter_map(|piece| match &piece.hull.clock {
            Clock::Wall { zone } => Some(zone.clone()),
            Clock::Utc { .. } => None,
        })
        .collect();
    let only = if zones.len() == 1 { zones.into_iter().next().flatten() } else { None };
    let mut pieces: Vec<PlacedPiece> =
        wall.into_iter().map(|piece| PlacedPiece::new(piece, None)).collect();
    mark_printed_copies(&mut pieces);
    GatheredHost { name, clock: Clock::Wall { zone: only }, pieces, facts, notes, ahead: None }
}

/// Puts logs without years in the year nearest to the host's other sources, none ahead of the
/// capture that they are in, nor of today.
fn assign_log_years(mut pieces: Vec<SeriesPiece>, setup: Option<&Setup>) -> Vec<SeriesPiece> {
    let told =
        || pieces.iter().filter(|piece| !piece.hull.without_year).filter_map(|piece| piece.span);
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
        let newest = clock::year_of_moment(latest);
        let possible = (newest.saturating_sub(20)..=newest)
            .filter(|year| clock::in_year(last, *year).0 <= latest.0.saturating_add(NEAR));
        let lacks_day =
            |year: i16| ![first, last].iter().all(|at| clock::has_day_in_year(*at, year));
        piece.year = possible.rev().min_by_key(|year| (lacks_day(*year), distance(*year)));
        piece.span =
            piece.year.map(|year| (clock::in_year(first, year), clock::in_year(last, year)));
    }
    pieces
}

/// The host's offsets, of the collector that has them for the most samples.
fn known_offsets(pieces: &[SeriesPiece]) -> Vec<Offset> {
    let mut by_format: BTreeMap<SourceFormat, (usize, Vec<Offset>)> = BTreeMap::new();
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
    normalize_offsets(most.map(|(_, offsets)| offsets).unwrap_or_default())
}

fn normalize_offsets(mut offsets: Vec<Offset>) -> Vec<Offset> {
    offsets.sort_by_key(|offset| offset.from);
    offsets.dedup_by_key(|offset| offset.seconds);
    offsets.truncate(MOST_OFFSETS);
    offsets
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-21T07:00:00Z.
    const SEVEN: i64 = 1_795_244_400_000;

    fn sample_piece(
        source: &str,
        format: SourceFormat,
        host: Option<&str>,
        clock: Clock,
        from: i64,
        rows: i64,
    ) -> SeriesPiece {
        let mut series = Series::new(source, format);
        series.host = host.map(str::to_owned);
        series.clock = clock;
        SeriesPiece {
            key: (0, String::new(), 0),
            folders: Vec::new(),
            group: None,
            root: None,
            hull: Box::new(series),
            span: (rows > 0).then(|| (Moment(from), Moment(from + (rows - 1) * 600_000))),
            year: None,
            samples: usize::try_from(rows).unwrap(),
            weight: 0,
            kept: None,
        }
    }

    fn utc_clock(seconds: &[i32]) -> Clock {
        Clock::Utc {
            offsets: seconds
                .iter()
                .map(|seconds| Offset { from: Moment(SEVEN), seconds: *seconds })
                .collect(),
        }
    }

    fn wall_clock(zone: Option<&str>) -> Clock {
        Clock::Wall { zone: zone.map(str::to_owned) }
    }

    #[test]
    fn short_and_long_names_are_one_host_where_only_one_can_be_meant() {
        let texts_of = |hosts: &[Option<&str>]| {
            let pieces = hosts
                .iter()
                .map(|host| {
                    sample_piece("f", SourceFormat::SYSSTAT, *host, utc_clock(&[0]), SEVEN, 2)
                })
                .collect();
            sort_into_hosts(pieces, Vec::new(), None)
                .into_iter()
                .map(|host| host.name)
                .collect::<Vec<_>>()
        };
        let some = |name: &str| Some(name.to_owned());
        assert_eq!(texts_of(&[Some("db1"), Some("db1.example.com")]), [some("db1.example.com")]);
        assert_eq!(
            texts_of(&[Some("db1"), Some("db1.a"), Some("db1.b")]),
            [some("db1"), some("db1.a"), some("db1.b")]
        );
        assert_eq!(texts_of(&[Some("db2"), Some("db1"), None]), [some("db1"), some("db2"), None]);
        assert_eq!(texts_of(&[Some("localhost"), Some("db1")]), [some("db1")]);
        assert_eq!(texts_of(&[Some("localhost"), None]), [None]);
        assert_eq!(texts_of(&[Some("localhost"), Some("localhost")]), [some("localhost")]);
    }

    #[test]
    fn wall_clocks_are_put_on_utc_by_what_is_known() {
        let sar = |clock| {
            sample_piece("sar21", SourceFormat::SAR, Some("db1"), clock, SEVEN + 3_600_000, 20)
        };
        let sa = || {
            sample_piece("sa21", SourceFormat::SYSSTAT, Some("db1"), utc_clock(&[3600]), SEVEN, 10)
        };
        // By the other source's offset.
        let hosts = sort_into_hosts(vec![sa(), sar(wall_clock(None))], Vec::new(), None);
        assert_eq!(hosts.len(), 1);
        let spans: Vec<i64> =
            hosts[0].pieces.iter().map(|placed| placed.span.unwrap().0.0).collect();
        assert_eq!(spans, [SEVEN, SEVEN]);
        assert!(hosts[0].notes[0].contains("times in sar"), "{:?}", hosts[0].notes);
        // By its own word.
        let hosts = sort_into_hosts(vec![sar(wall_clock(Some("UTC")))], Vec::new(), None);
        assert_eq!(hosts[0].clock.offset_at(Moment(SEVEN)), Some(0));
        // By whoever asks.
        let berlin = clock::parse_time_zone("Europe/Berlin").unwrap();
        let hosts = sort_into_hosts(vec![sar(wall_clock(Some("CET")))], Vec::new(), Some(&berlin));
        assert_eq!(hosts[0].pieces[0].span.unwrap().0, Moment(SEVEN));
        assert_eq!(hosts[0].clock.offset_at(Moment(SEVEN)), Some(3600));
        // By the sosreport.
        let setup = Setup {
            host: Some("db1".into()),
            zone: Some("Europe/Berlin".into()),
            read_at: Some(SEVEN / 1000),
            ..Setup::default()
        };
        let hosts =
            sort_into_hosts(vec![sar(wall_clock(None))], vec![("sos".into(), setup.clone())], None);
        assert_eq!(hosts[0].pieces[0].span.unwrap().0, Moment(SEVEN));
        assert_eq!(hosts[0].facts.as_ref().unwrap().at, Some(Moment(SEVEN)));
        // By nobody: apart, and said.
        let hosts = sort_into_hosts(
            vec![
                sample_piece(
                    "p",
                    SourceFormat::Collector("pcp"),
                    Some("db1"),
                    utc_clock(&[]),
                    SEVEN,
                    9,
                ),
                sar(wall_clock(None)),
            ],
            Vec::new(),
            None,
        );
        assert_eq!(hosts.len(), 2);
        assert!(hosts[1].notes[0].contains("--timezone"), "{:?}", hosts[1].notes);
        let hosts = sort_into_hosts(vec![sar(wall_clock(None))], Vec::new(), None);
        assert_eq!((hosts.len(), &hosts[0].clock), (1, &wall_clock(None)));
        // A capture without an archive is told all the same.
        let hosts = sort_into_hosts(Vec::new(), vec![("sos".into(), setup)], None);
        assert!(hosts[0].notes[0].contains("no collector"), "{:?}", hosts[0].notes);
    }

    #[test]
    fn what_was_printed_of_a_file_is_not_looked_at_twice() {
        let sa =
            sample_piece("sa21", SourceFormat::SYSSTAT, Some("db1"), utc_clock(&[0]), SEVEN, 10);
        let same =
            sample_piece("sar21", SourceFormat::SAR, Some("db1"), wall_clock(None), SEVEN, 10);
        let longer =
            sample_piece("sar22", SourceFormat::SAR, Some("db1"), wall_clock(None), SEVEN, 12);
        let hosts = sort_into_hosts(vec![sa, same, longer], Vec::new(), None);
        let copies: Vec<_> =
            hosts[0].pieces.iter().map(|placed| placed.copy_of.as_deref()).collect();
        assert_eq!(copies, [None, Some("sa21"), None]);
    }

    proptest::proptest! {
        /// As by comparing each with each.
        #[test]
        fn a_print_is_found_wherever_its_file_is(
            files in proptest::collection::vec((0..3_usize, 0..9_i64, 1..5_i64), 0..12),
        ) {
            let formats = [SourceFormat::SYSSTAT, SourceFormat::SADF, SourceFormat::SAR];
            let pieces = files.iter().enumerate().map(|(at, (rank, from, rows))| {
                let from = SEVEN + from * 600_000;
                let name = format!("{at}");
                sample_piece(&name, formats[*rank], Some("db1"), wall_clock(None), from, *rows)
            });
            let hosts = sort_into_hosts(pieces.collect(), Vec::new(), None);
            for placed in hosts.iter().flat_map(|host| &host.pieces) {
                let at: usize = placed.piece.hull.source.parse().unwrap();
                let (rank, from, rows) = files[at];
                let holds = |(lower, begin, count): &(usize, i64, i64)| {
                    *lower < rank && *begin <= from && from + rows <= begin + count
                };
                proptest::prop_assert_eq!(placed.copy_of.is_some(), files.iter().any(holds));
                if let Some(original) = &placed.copy_of {
                    proptest::prop_assert!(holds(&files[original.parse::<usize>().unwrap()]));
                }
            }
        }
    }
}
