//! A stand-in for a server of many processes around shared memory, for tests and measurements.
//!
//! It starts processes that look like the server's, each attached to the same segments, prints
//! `ready` on standard output when all are, and ends with everything removed when its standard
//! input closes.

mod clients;
mod stack;

use std::ffi::OsString;
use std::io::{self, Write};
use std::num::NonZeroUsize;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use clients::TcpClients;
use hugewise_lab::fake_server;
use hugewise_lab::segment::{self, MappedSegment, SegmentPages, SegmentSource};
use hugewise_lab::session_process::{self, Sessions};
use hugewise_lab::touch::{Touch, TouchAccess, TouchOrder};
use hugewise_model::{Bytes, PageSize};

/// What a session is told instead of a share.
const SPARSE: &str = "sparse";

/// A stand-in for a server of many processes around shared memory.
#[derive(Parser)]
struct Arguments {
    /// What to look like: `oracle:SID`.
    #[arg(long = "as", value_name = "ENGINE:NAME", value_parser = parse_look)]
    look: String,
    /// Sizes of the shared segments.
    #[arg(long, value_delimiter = ',', value_parser = parse_size, required = true)]
    segments: Vec<Bytes>,
    /// Pages to ask for; `mixed` puts the first segment on 2 MiB pages and the others on base
    /// pages, `graded` the first on 1 GiB pages and the others on 2 MiB pages.
    #[arg(long, default_value = "base", value_parser = ["base", "2M", "1G", "mixed", "graded"])]
    pages: String,
    /// Take base pages where the kernel refuses huge ones, and say so on standard output.
    #[arg(long)]
    fall_back: bool,
    /// Share of every segment that each process touches.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u8).range(0..=100))]
    touch: u8,
    /// Client sessions, beside the server's background processes.
    #[arg(long, default_value_t = 4)]
    sessions: u32,
    /// The sessions serve clients over TCP, so many of them, which have the sessions in turn.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=250))]
    clients: u8,
    /// Start so many at a time, each lot but the first when a line comes on standard input.
    #[arg(long, value_name = "COUNT")]
    by: Option<NonZeroUsize>,
    /// The server touches all of its segments once, each other process a page of every 2 MiB: their
    /// page tables are as large as after touching everything, in a small part of the time.
    #[arg(long, conflicts_with_all = ["touch", "posix_shm"])]
    sparse: bool,
    /// Run as this user and group, without supplementary groups.
    #[arg(long, value_name = "UID:GID", value_parser = parse_user)]
    user: Option<(u32, u32)>,
    /// No background processes: the sessions alone are there.
    #[arg(long)]
    only_sessions: bool,
    /// Say `made` once the segments are there, start the processes when a line comes on standard
    /// input, say `ready`, end them at the next line, and so on.
    #[arg(long)]
    hold: bool,
    /// The segments are memory files that every process maps, not System V segments.
    #[arg(long, conflicts_with = "posix_shm")]
    memfd: bool,
    /// Automatic memory management: the segments are files below /dev/shm.
    #[arg(long)]
    posix_shm: bool,
    /// A managed global area of that size beside the segments: files below /dev/shm that every
    /// process maps.
    #[arg(long, value_parser = parse_size, conflicts_with = "posix_shm")]
    managed: Option<Bytes>,
}

/// What an argument has to be.
#[derive(Debug, thiserror::Error)]
enum ArgumentError {
    #[error("oracle:SID is what it can look like")]
    Look,
    #[error("a number with K, M or G")]
    Size,
    #[error("UID:GID")]
    User,
}

fn parse_look(text: &str) -> Result<String, ArgumentError> {
    match text.split_once(':') {
        Some(("oracle", sid))
            if !sid.is_empty() && sid.bytes().all(|byte| byte.is_ascii_alphanumeric()) =>
        {
            Ok(sid.to_owned())
        }
        _ => Err(ArgumentError::Look),
    }
}

fn parse_size(text: &str) -> Result<Bytes, ArgumentError> {
    let (number, unit): (&str, fn(u64) -> Bytes) =
        match text.split_at_checked(text.len().saturating_sub(1)) {
            Some((number, "K")) => (number, Bytes::from_kib),
            Some((number, "M")) => (number, Bytes::from_mib),
            Some((number, "G")) => (number, Bytes::from_gib),
            _ => (text, Bytes),
        };
    number.parse().map(unit).map_err(|_| ArgumentError::Size)
}

fn parse_user(text: &str) -> Result<(u32, u32), ArgumentError> {
    let (uid, gid) = text.split_once(':').ok_or(ArgumentError::User)?;
    Ok((
        uid.parse().map_err(|_| ArgumentError::User)?,
        gid.parse().map_err(|_| ArgumentError::User)?,
    ))
}

fn main() -> io::Result<ExitCode> {
    if let Some(code) = fake_server::if_wanted() {
        return Ok(code);
    }
    if stack::if_named()? {
        return Ok(ExitCode::SUCCESS);
    }
    match session_process::read_orders() {
        Some(orders) => be_a_session(&orders)?,
        None => be_the_server(&Arguments::parse())?,
    }
    Ok(ExitCode::SUCCESS)
}

fn be_the_server(arguments: &Arguments) -> io::Result<()> {
    if let Some((uid, gid)) = arguments.user {
        segment::become_user(uid, gid)?;
    }
    let mut output = io::stdout();
    let mut segments = create_segments(arguments, &mut output)?;
    if arguments.sparse {
        for (_, segment) in &segments {
            segment.touch_percent(100);
        }
    }
    let names = segments.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(" ");

    let sid = &arguments.look;
    let mut titles = Vec::new();
    let mut clients = TcpClients::new(arguments.clients)?;
    if !arguments.only_sessions {
        titles.extend(["pmon", "dbw0", "lgwr", "smon"].map(|role| format!("ora_{role}_{sid}")));
    }
    titles.extend((0..arguments.sessions).map(|_| format!("oracle{sid} (LOCAL=NO)")));
    // PMON cleans up after dead processes. Here it removes the segments, should the server be
    // killed. Nothing comes where nobody asks for the next lot any more.
    let mut start = |first: &str, others: &str| -> io::Result<Option<Sessions>> {
        let mut sessions = Sessions::new()?;
        for (at, title) in titles.iter().enumerate() {
            let lot_is_full = at > 0 && arguments.by.is_some_and(|by| at % by == 0);
            if lot_is_full && io::stdin().read_line(&mut String::new())? == 0 {
                return Ok(None);
            }
            let does = if at == 0 { first } else { others };
            let touch =
                if arguments.sparse { SPARSE.to_owned() } else { arguments.touch.to_string() };
            // It is its own as long as the session lives.
            let _connection =
                if title.starts_with("oracle") { clients.connect_next_client()? } else { None };
            sessions.start_session(title, &format!("{does} {touch} {names}"))?;
        }
        sessions.wait_until_attached()?;
        Ok(Some(sessions))
    };

    if arguments.hold {
        // Whoever asked may be killed at any time: nobody has to remove anything or to wait then.
        session_process::die_with_parent()?;
        segments.iter_mut().for_each(|(_, segment)| segment.remove_at_last_detach());
        let mut told = |word: &str| {
            writeln!(output, "{word}")?;
            output.flush()?;
            io::stdin().read_line(&mut String::new())
        };
        while told("made")? > 0 {
            let Some(sessions) = start("hold", "hold")? else { break };
            if told("ready")? == 0 {
                break;
            }
            drop(sessions);
        }
        return Ok(());
    }

    let Some(_sessions) = start("adopt", "attach")? else { return Ok(()) };
    // The server itself is nobody's process: only the ones that it started shall be found.
    drop_mappings(segments);
    writeln!(output, "ready")?;
    output.flush()?;
    io::copy(&mut io::stdin().lock(), &mut io::sink())?;
    Ok(())
}

/// Detaches without removing: PMON has adopted the segments.
fn drop_mappings(segments: Vec<(String, MappedSegment)>) {
    for (_, mut segment) in segments {
        segment.release_ownership();
    }
}

/// Makes the segments, each with the name that a session attaches it by.
fn create_segments(
    arguments: &Arguments,
    output: &mut impl Write,
) -> io::Result<Vec<(String, MappedSegment)>> {
    if arguments.posix_shm {
        return create_files(arguments, &arguments.segments);
    }
    let mut segments = Vec::new();
    for (at, size) in arguments.segments.iter().enumerate() {
        let pages = match arguments.pages.as_str() {
            "2M" => SegmentPages::Huge(PageSize::MIB_2),
            "1G" => SegmentPages::Huge(PageSize::GIB_1),
            "mixed" if at == 0 => SegmentPages::Huge(PageSize::MIB_2),
            "graded" if at == 0 => SegmentPages::Huge(PageSize::GIB_1),
            "graded" => SegmentPages::Huge(PageSize::MIB_2),
            _ => SegmentPages::Base,
        };
        let kind = if arguments.memfd { SegmentSource::Memfd } else { SegmentSource::SystemV };
        let segment = match MappedSegment::create(kind, *size, pages) {
            Err(error) if arguments.fall_back && pages != SegmentPages::Base => {
                writeln!(output, "fell back: {error}")?;
                MappedSegment::create(kind, *size, SegmentPages::Base)?
            }
            made => made?,
        };
        let name = match segment.memory_file_path() {
            Some(path) => path.to_string_lossy().into_owned(),
            None => segment.shm_id().unwrap_or(-1).to_string(),
        };
        segments.push((name, segment));
    }
    segments.extend(create_files(arguments, arguments.managed.as_slice())?);
    Ok(segments)
}

/// One file a granule, as the real one makes them.
fn create_files(
    arguments: &Arguments,
    sizes: &[Bytes],
) -> io::Result<Vec<(String, MappedSegment)>> {
    const GRANULE: Bytes = Bytes::from_mib(16);
    let mut files = Vec::new();
    let id = std::process::id();
    for size in sizes {
        let mut left = *size;
        while left > Bytes::ZERO {
            let part = left.min(GRANULE);
            let path = format!("/dev/shm/ora_{}_{id}_{}", arguments.look, files.len());
            let segment = MappedSegment::create_file(Path::new(&path), part)?;
            files.push((path, segment));
            left = left.saturating_sub(part);
        }
    }
    Ok(files)
}

fn be_a_session(orders: &OsString) -> io::Result<()> {
    session_process::take_title();
    let orders = String::from_utf8_lossy(orders.as_bytes());
    let mut words = orders.split_ascii_whitespace();
    let does = words.next();
    if does == Some("hold") {
        session_process::die_with_parent()?;
    }
    let touch = words.next().unwrap_or_default();
    let mut segments = Vec::new();
    for name in words {
        let mut segment = match name.parse() {
            Ok(id) => MappedSegment::attach_by_id(id)?,
            Err(_) => MappedSegment::attach_file(&PathBuf::from(name))?,
        };
        if touch == SPARSE {
            let step = PageSize::MIB_2;
            segment.touch_pages(
                Touch {
                    step,
                    percent: 100,
                    order: TouchOrder::Sequential,
                    access: TouchAccess::Read,
                },
                || true,
            );
        } else {
            segment.touch_percent(touch.parse().unwrap_or(0));
        }
        if does == Some("adopt") {
            segment.take_ownership();
        }
        segments.push(segment);
    }
    session_process::stay_attached()
}
