//! Many captures in one stream: a tar of captures, or captures one behind the other, each with its
//! name and its length.
//!
//! The second is for programs: 8 bytes `HWSTRM1\\n`, and for each capture the length of its name (4
//! bytes, big-endian), the name in UTF-8, the length of the capture (8 bytes, big-endian), and the
//! capture. A name and a capture of length 0 end it, so that a stream that was cut off is known.
//! Each capture is held by itself; how many there are takes no memory.

use std::fs::File;
use std::io::{self, Cursor, ErrorKind, Read, Seek, Write};

use hugewise_host::compressed;
use hugewise_host::source::tarred;
use hugewise_investigate::readers;

use crate::capture_failure::{CaptureFailure, LARGEST};

/// What a stream of lengths begins with.
const MAGIC: &[u8; 8] = b"HWSTRM1\n";
/// Longest name.
const LONGEST_NAME: u32 = 4096;
/// A capture up to this size is held in memory, a larger one in a file without a name.
const IN_MEMORY: u64 = 32 << 20;

/// Of a host's own files none is a capture.
const ONE_HOST: &str =
    "is a tar of a single host, not of captures: put it into a file and name that instead of -";

/// A capture of a bundle.
#[derive(Debug)]
pub(crate) struct BundleMember {
    pub(crate) name: String,
    pub(crate) content: CaptureContent,
}

/// The bytes of a capture that is in no file of its own.
#[derive(Debug)]
pub(crate) enum CaptureContent {
    Bytes(Vec<u8>),
    File(File),
}

/// Takes what comes: a capture, or the name of one that cannot be read, and why; and says whether
/// more is wanted.
pub(crate) type MemberHandler<'a> =
    dyn FnMut(Result<BundleMember, (String, CaptureFailure)>) -> bool + 'a;

/// Folders of a host, at the top of a capture or one below.
const OF_A_HOST: [&str; 6] = ["boot", "etc", "proc", "sys", "hugewise", "sos_commands"];

/// Whether a tar, whatever it is packed with, is one of captures: one of its first files is one
/// itself. A list or a note may come before it, but no file of a host, and none of a collector,
/// beside which packed logs lie.
pub(crate) fn is_one(stream: impl Read) -> bool {
    let Ok(plain) = compressed::open_decompressed(stream) else { return false };
    tarred::first_told(plain, &mut |name, head| {
        let is_capture =
            is_named(name) && (compressed::is_compressed(head) || tarred::is_tar(head));
        (is_capture || is_of_a_host(name) || readers::may_be_collector_file(head))
            .then_some(is_capture)
    })
    .unwrap_or(false)
}

/// Whether it is called as a capture is.
fn is_named(name: &str) -> bool {
    let last = name.rsplit('/').next().unwrap_or(name).to_ascii_lowercase();
    last.ends_with(".tar") || last.ends_with(".tgz") || last.contains(".tar.")
}

fn is_of_a_host(name: &str) -> bool {
    let mut folders = name.split('/').filter(|part| !matches!(*part, "" | ".")).take(2);
    folders.any(|part| OF_A_HOST.contains(&part))
}

/// Reads a bundle of either kind and hands on its captures.
///
/// # Errors
/// It is none, or ends too early. What came before was handed on all the same.
pub(crate) fn for_each_member(
    mut stream: impl Read,
    hand: &mut MemberHandler<'_>,
) -> Result<(), CaptureFailure> {
    let mut head = Vec::new();
    stream
        .by_ref()
        .take(8)
        .read_to_end(&mut head)
        .map_err(|error| CaptureFailure::from_io(&error))?;
    if head.as_slice() == MAGIC {
        return of_lengths(&mut stream, hand);
    }
    if head.is_empty() || MAGIC.starts_with(&head) {
        return Err(torn_bundle("before its first capture"));
    }
    let plain = compressed::open_decompressed(Cursor::new(head).chain(stream))
        .map_err(|error| CaptureFailure::from_io(&error))?;
    let mut wanted = true;
    let (mut some, mut of_host) = (false, false);
    let tarred = tarred::for_each_member(plain, &mut |name, size, content| {
        if !some {
            some = true;
            of_host = is_of_a_host(name) && !is_named(name);
        }
        if wanted && !of_host {
            wanted = hand(read_member(name.to_owned(), size, content));
        }
    });
    match tarred {
        Ok(_) if of_host => Err(CaptureFailure::new("not_a_capture", ONE_HOST.to_owned())),
        Ok(tarred) => tarred.torn.map_or(Ok(()), |how| Err(torn_bundle(&how))),
        Err(why) => Err(CaptureFailure::new("not_a_capture", why.to_string())),
    }
}

fn torn_bundle(how: &str) -> CaptureFailure {
    CaptureFailure::new("torn", format!("the stream ends too early: {how}"))
}

fn of_lengths(stream: &mut dyn Read, hand: &mut MemberHandler<'_>) -> Result<(), CaptureFailure> {
    for count in 0_u64.. {
        let cut = |error: io::Error| match error.kind() {
            ErrorKind::UnexpectedEof => torn_bundle(&format!("after {count} whole captures")),
            _ => CaptureFailure::from_io(&error),
        };
        let mut length = [0; 4];
        stream.read_exact(&mut length).map_err(cut)?;
        let length = u32::from_be_bytes(length);
        if length > LONGEST_NAME {
            let message = format!(
                "a name of {length} bytes after {count} captures: the stream is not framed as it \
                     should be"
            );
            return Err(CaptureFailure::new("unreadable", message));
        }
        let mut name = vec![0; usize::try_from(length).unwrap_or(0)];
        stream.read_exact(&mut name).map_err(cut)?;
        let name = String::from_utf8_lossy(&name).into_owned();
        let mut size = [0; 8];
        stream.read_exact(&mut size).map_err(cut)?;
        let size = u64::from_be_bytes(size);
        if name.is_empty() && size == 0 {
            return Ok(());
        }
        let mut content = stream.take(size);
        let member = read_member(name.clone(), size, &mut content);
        // Of one that was not wanted, or is too large, the rest is passed over.
        let mut left = content.limit();
        left -= io::copy(&mut content, &mut io::sink())
            .map_err(|error| CaptureFailure::from_io(&error))?
            .min(left);
        if left > 0 || member.as_ref().is_err_and(|(_, failed)| failed.class == "torn") {
            return Err(torn_bundle(&format!("within {name}, after {count} whole captures")));
        }
        if !hand(member) {
            return Ok(());
        }
    }
    Ok(())
}

/// Takes one in. What its header promises takes no memory: only what comes does.
pub(crate) fn read_member(
    name: String,
    size: u64,
    content: &mut dyn Read,
) -> Result<BundleMember, (String, CaptureFailure)> {
    if size > LARGEST {
        return Err((name, CaptureFailure::too_large(size)));
    }
    let mut bytes = Vec::new();
    let failed = |name: String, error: &io::Error| (name, CaptureFailure::from_io(error));
    let came = match content.take(IN_MEMORY).read_to_end(&mut bytes) {
        Ok(came) => u64::try_from(came).unwrap_or(u64::MAX),
        Err(error) => return Err(failed(name, &error)),
    };
    if came == size {
        return Ok(BundleMember { name, content: CaptureContent::Bytes(bytes) });
    }
    if came < IN_MEMORY {
        return Err((name, torn_bundle(&format!("{came} of {size} bytes came"))));
    }
    let mut filled = || -> io::Result<(File, u64)> {
        let mut file = tempfile::tempfile()?;
        file.write_all(&bytes)?;
        let more = io::copy(content, &mut file)?;
        file.rewind()?;
        Ok((file, came + more))
    };
    match filled() {
        Ok((file, came)) if came == size => {
            Ok(BundleMember { name, content: CaptureContent::File(file) })
        }
        Ok((_, came)) => Err((name, torn_bundle(&format!("{came} of {size} bytes came")))),
        Err(error) => Err(failed(name, &error)),
    }
}
