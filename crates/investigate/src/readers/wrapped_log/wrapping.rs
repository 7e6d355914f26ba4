//! What may stand before a server's own line.

use std::borrow::Cow;

use serde_json::Value;

use crate::Moment;
use crate::readers::line_timestamp::LineTimestamp;
use crate::readers::server_log::detect_line_engine;
use hugewise_model::calendar::time_of_day;

/// Wrappers around one another: a container's line in a build's log.
const MOST_WRAPPERS: usize = 5;
/// Of these, those that only what is behind them tells.
const MOST_AMBIGUOUS: usize = 2;
const LONGEST_NAME: usize = 128;
/// Letters that mark no line, and may begin a file.
const MARKS: [char; 2] = ['\u{feff}', '\u{200b}'];

/// The wrappers of a line, from the outermost on.
pub(super) type WrapperShape = Vec<Wrapper>;

/// One form of what stands before a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Wrapper {
    /// `db-1  | text` of docker compose, `db.1.76bikgr3bu48@node1    | text` of docker service.
    Compose,
    /// `[pod/db-0/postgres] text` of `kubectl logs --prefix`.
    Pod,
    /// `2026-11-21T22:47:35.123456789Z stderr F text` of containerd and CRI-O.
    Cri,
    /// `{"log":"text\n","stream":"stderr","time":"..."}` of Docker's files and its collectors.
    Json,
    /// `I1121 22:47:35.123456    8843 file.go:96] text` of Kubernetes' own programs.
    Klog,
    /// `@400000005e1f2a3b12345678 text` of multilog and svlogd.
    Tai,
    /// `job<TAB>step<TAB>text` of `gh run view --log`.
    JobStep,
    /// `2026-11-21T22:47:35.123456Z 00O text` of GitLab's jobs.
    GitlabJob,
    /// `> text`
    Quote,
    /// A time alone, of `docker logs -t`, GitHub's jobs and collectors.
    Time,
    /// `22:47:35 text`
    TimeOfDay,
    /// `mysqld[4711]: text`
    Tag,
    /// `db-0 postgres text` of stern.
    TwoNames,
}

/// Those that tell themselves.
const PLAIN: [Wrapper; 8] = [
    Wrapper::Json,
    Wrapper::Compose,
    Wrapper::Pod,
    Wrapper::Cri,
    Wrapper::Klog,
    Wrapper::Tai,
    Wrapper::JobStep,
    Wrapper::GitlabJob,
];
/// Those that a server's own line might have as well: what is behind them has to be one.
const AMBIGUOUS: [Wrapper; 5] =
    [Wrapper::Quote, Wrapper::Time, Wrapper::TimeOfDay, Wrapper::Tag, Wrapper::TwoNames];

/// A line without what stood before it.
pub(super) struct Peeled<'a> {
    /// Who wrote it; empty where nothing says.
    pub(super) sender: String,
    /// The outermost time.
    pub(super) stamp: Option<LineTimestamp>,
    pub(super) message: Cow<'a, str>,
}

impl<'a> Peeled<'a> {
    fn new(message: &'a str) -> Self {
        Self { sender: String::new(), stamp: None, message: Cow::Borrowed(message) }
    }
}

/// The wrappers of a line whose innermost part a server wrote, perhaps none; `None` where that part
/// is unknown.
pub(super) fn find_shape(line: &str) -> Option<WrapperShape> {
    let mut shape = Vec::new();
    search_shape(line.trim_start_matches(MARKS), &mut shape, 0).then_some(shape)
}

fn search_shape(line: &str, shape: &mut WrapperShape, ambiguous: usize) -> bool {
    if shape.len() > MOST_WRAPPERS {
        return false;
    }
    for wrapper in PLAIN {
        if let Some(inner) = peel(wrapper, line) {
            shape.push(wrapper);
            let found = search_shape(&inner.message, shape, ambiguous);
            if !found {
                shape.pop();
            }
            return found;
        }
    }
    if detect_line_engine(line).is_some() {
        return true;
    }
    if ambiguous >= MOST_AMBIGUOUS {
        return false;
    }
    AMBIGUOUS.into_iter().any(|wrapper| {
        let Some(inner) = peel(wrapper, line) else { return false };
        shape.push(wrapper);
        let found = search_shape(&inner.message, shape, ambiguous + 1);
        if !found {
            shape.pop();
        }
        found
    })
}

/// A line without the wrappers of its text; `None` where the outermost is missing.
pub(super) fn peel_by_shape<'a>(line: &'a str, shape: &[Wrapper]) -> Option<Peeled<'a>> {
    let mut all = Peeled::new(line.trim_start_matches(MARKS));
    for (depth, wrapper) in shape.iter().enumerate() {
        let inner = peel(*wrapper, &all.message).map(|inner| {
            let message = inner.message.into_owned();
            (inner.sender, inner.stamp, message)
        });
        // A quotation may have its mark at the first line alone.
        if inner.is_none() && depth == 0 && *wrapper != Wrapper::Quote {
            return None;
        }
        let Some((sender, stamp, message)) = inner else { continue };
        if !sender.is_empty() {
            let others = if all.sender.is_empty() { "" } else { "/" };
            all.sender = format!("{}{others}{sender}", all.sender);
        }
        all.stamp = all.stamp.or(stamp);
        all.message = Cow::Owned(message);
    }
    Some(all)
}

fn peel(wrapper: Wrapper, line: &str) -> Option<Peeled<'_>> {
    match wrapper {
        Wrapper::Compose => peel_compose(line),
        Wrapper::Pod => peel_pod(line),
        Wrapper::Cri => peel_cri(line),
        Wrapper::Json => peel_json(line),
        Wrapper::Klog => peel_klog(line),
        Wrapper::Tai => peel_tai(line),
        Wrapper::JobStep => peel_job_step(line),
        Wrapper::GitlabJob => peel_gitlab_job(line),
        Wrapper::Quote => peel_quote(line),
        Wrapper::Time => peel_time(line),
        Wrapper::TimeOfDay => peel_time_of_day(line),
        Wrapper::Tag => peel_tag(line),
        Wrapper::TwoNames => peel_two_names(line),
    }
}

fn named<'a>(sender: &str, message: &'a str) -> Peeled<'a> {
    Peeled { sender: sender.to_owned(), ..Peeled::new(message) }
}

fn timed(stamp: LineTimestamp, message: &str) -> Peeled<'_> {
    Peeled { stamp: Some(stamp), ..Peeled::new(message) }
}

fn is_name(text: &str) -> bool {
    (1..=LONGEST_NAME).contains(&text.len())
        && text.starts_with(|first: char| first.is_ascii_alphanumeric())
        && text.bytes().any(|letter| letter.is_ascii_alphabetic())
        && text.bytes().all(|letter| letter.is_ascii_alphanumeric() || b"_.-".contains(&letter))
}

fn peel_compose(line: &str) -> Option<Peeled<'_>> {
    let (name, message) = line.split_once(" |")?;
    let message = if message.is_empty() { message } else { message.strip_prefix(' ')? };
    let name = name.trim_end();
    // `docker service logs` says on which node.
    let (task, node) = name.split_once('@').unwrap_or((name, name));
    (is_name(task) && is_name(node)).then(|| named(name, message))
}

fn peel_pod(line: &str) -> Option<Peeled<'_>> {
    let (name, message) = line.strip_prefix("[pod/")?.split_once("] ")?;
    name.split('/').all(is_name).then(|| named(name, message))
}

fn peel_cri(line: &str) -> Option<Peeled<'_>> {
    let (time, rest) = line.split_once(' ')?;
    let rest = rest.strip_prefix("stdout ").or_else(|| rest.strip_prefix("stderr "))?;
    let message = rest.strip_prefix("F ").or_else(|| rest.strip_prefix("P "))?;
    Some(timed(parse_iso(time)?, message))
}

pub(super) fn peel_json(line: &str) -> Option<Peeled<'_>> {
    if !line.starts_with('{')
        || !["\"log\"", "\"textPayload\""].iter().any(|name| line.contains(name))
    {
        return None;
    }
    let members: serde_json::Map<String, Value> = serde_json::from_str(line).ok()?;
    let get = |name: &str| members.get(name)?.as_str();
    let message =
        get("log").or_else(|| get("textPayload"))?.trim_end_matches(['\n', '\r']).to_owned();
    let time = get("time").or_else(|| get("@timestamp")).or_else(|| get("timestamp"));
    let pod = members.get("kubernetes");
    let of_pod = |name: &str| pod?.get(name)?.as_str();
    let sender = [get("container_name"), of_pod("pod_name"), of_pod("container_name")];
    let sender: Vec<&str> = sender.into_iter().flatten().collect();
    let known = time.is_some() || members.contains_key("stream") || pod.is_some();
    known.then(|| Peeled {
        sender: sender.join("/"),
        stamp: time.and_then(LineTimestamp::parse),
        message: Cow::Owned(message),
    })
}

fn peel_klog(line: &str) -> Option<Peeled<'_>> {
    let rest = line.strip_prefix(['I', 'W', 'E', 'F'])?;
    let (date, rest) = rest.split_once(' ')?;
    let (time, rest) = rest.split_once(' ')?;
    let (_, rest) = rest.trim_start().split_once(' ')?;
    let (place, message) = rest.split_once("] ")?;
    let is_date = matches!(date.len(), 4 | 8) && date.bytes().all(|digit| digit.is_ascii_digit());
    let known = is_date
        && time.len() == 15
        && time.get(..8).and_then(time_of_day).is_some()
        && place.rsplit_once(':').is_some_and(|(file, _)| is_name(file));
    known.then(|| Peeled::new(message))
}

/// Seconds since 1970 by TAI, ten more than by UTC as these tools count, and nanoseconds.
fn peel_tai(line: &str) -> Option<Peeled<'_>> {
    let (label, message) = line.strip_prefix('@')?.split_once(' ')?;
    let (seconds, nanoseconds) = label.split_at_checked(16).filter(|_| label.len() == 24)?;
    let seconds = u64::from_str_radix(seconds, 16).ok()?.checked_sub((1 << 62) + 10)?;
    let nanoseconds = i64::from_str_radix(nanoseconds, 16).ok()?;
    let seconds = i64::try_from(seconds).ok().filter(|seconds| *seconds < 1 << 33)?;
    let at = Moment(Moment::from_seconds(seconds).0.saturating_add(nanoseconds / 1_000_000));
    Some(timed(LineTimestamp { at, offset: Some(0), zone: None }, message))
}

fn peel_job_step(line: &str) -> Option<Peeled<'_>> {
    let mut parts = line.splitn(3, '\t');
    let (job, step, message) = (parts.next()?, parts.next()?, parts.next()?);
    let short = |name: &str| (1..=LONGEST_NAME).contains(&name.len());
    let (time, _) = message.trim_start_matches(MARKS).split_once(' ')?;
    let known = short(job) && short(step) && parse_iso(time).is_some();
    known.then(|| Peeled::new(message.trim_start_matches(MARKS)))
}

fn peel_gitlab_job(line: &str) -> Option<Peeled<'_>> {
    let (time, rest) = line.split_once(' ')?;
    let (stream, message) = rest.split_at_checked(3)?;
    let known = stream.ends_with(['O', 'E'])
        && stream.bytes().take(2).all(|digit| digit.is_ascii_hexdigit());
    let message = message.strip_prefix([' ', '+']).filter(|_| known)?;
    Some(timed(parse_iso(time)?, message))
}

fn peel_quote(line: &str) -> Option<Peeled<'_>> {
    let message = line.trim_start().strip_prefix('>')?;
    Some(Peeled::new(message.strip_prefix(' ').unwrap_or(message)))
}

/// `2026-11-21T22:47:35.123Z text`, in brackets too; `2026-11-21 22:47:35 text`, with a colon behind
/// it too; `2026-11-21_22:47:35.12345 text`; seconds or milliseconds since 1970.
fn peel_time(line: &str) -> Option<Peeled<'_>> {
    if let Some((inside, message)) = line.strip_prefix('[').and_then(|rest| rest.split_once("] ")) {
        return Some(timed(parse_iso(inside)?, message));
    }
    let (first, rest) = line.split_once(' ')?;
    if let Some(stamp) = parse_iso(first).or_else(|| parse_underscored(first)) {
        return Some(timed(stamp, rest));
    }
    if first.len() == 13 && first.bytes().all(|digit| digit.is_ascii_digit()) {
        let at = Moment(first.parse().ok()?);
        return Some(timed(LineTimestamp { at, offset: Some(0), zone: None }, rest));
    }
    if first.len() != 10 || !first.contains('-') {
        return None;
    }
    let end = rest.get(8..)?.find([' ', ':']).map(|end| end + 8)?;
    let (time, behind) = rest.split_at_checked(end)?;
    let stamp = LineTimestamp::parse_plain(&format!("{first} {time}"))?;
    Some(timed(stamp, behind.get(1..)?.trim_start()))
}

fn peel_time_of_day(line: &str) -> Option<Peeled<'_>> {
    let (time, message) = line.split_once(' ')?;
    time_of_day(time).filter(|_| time.len() == 8)?;
    Some(Peeled::new(message))
}

fn peel_tag(line: &str) -> Option<Peeled<'_>> {
    let (tag, message) = line.split_once(": ")?;
    let name = match tag.strip_suffix(']').and_then(|tag| tag.split_once('[')) {
        Some((name, inside))
            if is_name(inside) || inside.bytes().all(|digit| digit.is_ascii_digit()) =>
        {
            name
        }
        Some(_) => return None,
        None => tag,
    };
    is_name(name).then(|| named(name, message))
}

fn peel_two_names(line: &str) -> Option<Peeled<'_>> {
    let (pod, rest) = line.split_once(' ')?;
    let (container, message) = rest.split_once(' ')?;
    let known = is_name(pod) && is_name(container) && pod.contains('-');
    known.then(|| named(&format!("{pod}/{container}"), message))
}

/// A time with a day, in one word.
fn parse_iso(word: &str) -> Option<LineTimestamp> {
    let is_one = (19..=40).contains(&word.len()) && word.as_bytes().get(10) == Some(&b'T');
    LineTimestamp::parse_plain(word).filter(|_| is_one)
}

/// `2026-11-21_22:47:35.12345` of `svlogd -tt`, in UTC.
fn parse_underscored(word: &str) -> Option<LineTimestamp> {
    let (date, time) = word.split_once('_')?;
    parse_iso(&format!("{date}T{time}Z"))
}
