//! One capture, read and judged as `hugewise check --root` does.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use hugewise_host::Source;
use hugewise_host::compressed;
use hugewise_host::source::{self, OpenError, tarred};
use hugewise_incident::readers;
use hugewise_report::json::Check;
use hugewise_report::{Checked, plain};
use sha2::{Digest, Sha256};

use crate::checksums;
use crate::clusters::Clusters;
use crate::failed::{Failed, LARGEST};
use crate::id::{Id, hex};
use crate::rows::{self, Row, Whose};
use crate::sources::{Opened, Unit};

/// What came of a capture.
#[derive(Debug)]
pub(crate) struct Taken {
    pub(crate) id: Id,
    pub(crate) whose: Whose,
    pub(crate) rows: Vec<Row>,
    pub(crate) torn: Option<String>,
    /// Whether there are archives of collectors in it.
    pub(crate) archives: bool,
}

/// Reads a capture; none where `known` has it already.
pub(crate) fn read(unit: Unit, clusters: &Clusters, known: &dyn Fn(&Id) -> bool) -> Result<Option<Taken>, Failed> {
    let path = unit.path.clone();
    let opened = unit.open()?;
    let (id, check) = match opened {
        Opened::Folder(folder) => {
            let check = judged(open_at(&folder.path(), None)?.as_ref())?;
            // What the same folder says again is the same reading of it.
            let said = serde_json::to_vec(&check.0).map_err(|error| Failed::io(&error.into()))?;
            let id = Sha256::digest(said).into();
            if known(&id) {
                return Ok(None);
            }
            (id, check)
        }
        Opened::Bytes(bytes) => {
            let id = Sha256::digest(&bytes).into();
            if known(&id) {
                return Ok(None);
            }
            let source = source::unpacked(&bytes, &path).map_err(|error| {
                let is_checksum = checksums::are_all(&bytes);
                Failed { is_checksum, ..not_a_host(&error, Some(id)) }
            })?;
            drop(bytes);
            (id, judged(source.as_ref())?)
        }
        Opened::File(_, size) if size > LARGEST => return Err(Failed::too_large(size)),
        Opened::File(file, size) => {
            let id = hashed(&file).map_err(|error| Failed::io(&error))?;
            if known(&id) {
                return Ok(None);
            }
            // By its descriptor, so that it is the file that was hashed.
            let at = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
            let source = source::open(Some(&at)).map_err(|error| {
                // A host that is refused is told, whatever else is in it.
                let archive = error.other && promises(&file);
                let is_checksum = size <= checksums::LARGEST && checksums::are_all_of(&file);
                Failed { archive, is_checksum, ..not_a_host(&error, Some(id)) }
            })?;
            (id, judged(source.as_ref())?)
        }
    };
    Ok(Some(made(id, &path, clusters, check)))
}

/// Whether a file begins as a collector's does, or is a tar, in which there may be some.
fn promises(mut file: &File) -> bool {
    let mut head = Vec::new();
    let read = file.rewind().and_then(|()| compressed::open(file)?.take(readers::HEAD).read_to_end(&mut head));
    // A torn file tells what it is all the same.
    (read.is_ok() || !head.is_empty()) && (tarred::begins(&head) || readers::promises(&head))
}

type Judged = (Check, Option<i64>, Option<String>, bool);

/// Where collectors write.
const ARCHIVES: [&str; 5] =
    ["/var/log/sa", "/var/log/sysstat", "/var/log/atop", "/var/log/pcp/pmlogger", "/var/lib/hugewise/record"];

fn open_at(path: &Path, id: Option<Id>) -> Result<Box<dyn Source>, Failed> {
    source::open(Some(path)).map_err(|error| not_a_host(&error, id))
}

fn judged(source: &dyn Source) -> Result<Judged, Failed> {
    let (host, mut found) = hugewise_engines::gather(source);
    hugewise_engines::crowd::look(&host, source, &mut found.instances);
    let assessment = hugewise_advice::assess(&host, &found.instances);
    let mut unread = host.unread.clone();
    unread.append(&mut found.unread);
    unread.sort();
    unread.dedup();
    let checked =
        Checked { host: &host, instances: &found.instances, assessment: &assessment, unread: &unread, root: None };
    let archives = ARCHIVES.iter().any(|folder| source.list(folder).known().is_some_and(|names| !names.is_empty()));
    Ok((Check::from(&checked), host.read_at.get(), host.torn.clone(), archives))
}

fn not_a_host(error: &OpenError, id: Option<Id>) -> Failed {
    Failed { id, ..Failed::new("not_a_capture", error.what.clone()) }
}

fn made(id: Id, path: &Path, clusters: &Clusters, (check, captured_at, torn, archives): Judged) -> Taken {
    let whose = Whose {
        capture: hex(&id),
        host: check.host.name.as_deref().map(|name| plain::clean(name).into_owned()),
        cluster: clusters.of(check.host.name.as_deref()).map(str::to_owned),
        captured_at: captured_at.and_then(rows::moment),
    };
    let path = plain::clean(&path.to_string_lossy()).into_owned();
    let rows = rows::of(&whose, &path, &check, torn.as_deref());
    Taken { id, whose, rows, torn, archives }
}

fn hashed(mut file: &File) -> io::Result<Id> {
    let mut hash = Sha256::new();
    let mut piece = vec![0; 1 << 16];
    loop {
        let read = match file.read(&mut piece) {
            Ok(0) => return Ok(hash.finalize().into()),
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        hash.update(piece.get(..read).unwrap_or_default());
    }
}
