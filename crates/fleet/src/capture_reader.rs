//! One capture, read and judged as `hugewise check --root` does.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use hugewise_diagnose::{Diagnosis, DiagnosisOptions};
use hugewise_host::Source;
use hugewise_host::compressed;
use hugewise_host::source::{self, OpenError, tarred};
use hugewise_investigate::readers;
use hugewise_report::json::Check;
use hugewise_report::{CheckReport, plain};
use sha2::{Digest, Sha256};

use crate::capture_failure::{CaptureFailure, LARGEST};
use crate::capture_id::{Id, to_hex};
use crate::capture_sources::{CaptureUnit, OpenedCapture};
use crate::checksums;
use crate::clusters::Clusters;
use crate::rows::{self, LakeRow, Whose};

/// What came of a capture.
#[derive(Debug)]
pub(crate) struct CollectedCapture {
    pub(crate) id: Id,
    pub(crate) whose: Whose,
    pub(crate) rows: Vec<LakeRow>,
    pub(crate) torn: Option<String>,
    /// Whether there are archives of collectors in it.
    pub(crate) archives: bool,
}

/// Reads a capture; none where `known` has it already.
pub(crate) fn read(
    unit: CaptureUnit,
    clusters: &Clusters,
    known: &dyn Fn(&Id) -> bool,
) -> Result<Option<CollectedCapture>, CaptureFailure> {
    let path = unit.path.clone();
    let opened = unit.open()?;
    let (id, check) = match opened {
        OpenedCapture::Folder(folder) => {
            let check = check_source(open_at(&folder.descriptor_path(), None)?.as_ref())?;
            // What the same folder says again is the same reading of it.
            let said = serde_json::to_vec(&check.0)
                .map_err(|error| CaptureFailure::from_io(&error.into()))?;
            let id = Sha256::digest(said).into();
            if known(&id) {
                return Ok(None);
            }
            (id, check)
        }
        OpenedCapture::Bytes(bytes) => {
            let id = Sha256::digest(&bytes).into();
            if known(&id) {
                return Ok(None);
            }
            let source = source::open_archive_bytes(&bytes, &path).map_err(|error| {
                let is_checksum = checksums::are_all(&bytes);
                CaptureFailure { is_checksum, ..not_a_host(&error, Some(id)) }
            })?;
            drop(bytes);
            (id, check_source(source.as_ref())?)
        }
        OpenedCapture::File(_, size) if size > LARGEST => {
            return Err(CaptureFailure::too_large(size));
        }
        OpenedCapture::File(file, size) => {
            let id = hash_file(&file).map_err(|error| CaptureFailure::from_io(&error))?;
            if known(&id) {
                return Ok(None);
            }
            // By its descriptor, so that it is the file that was hashed.
            let at = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
            let source = source::open_source(Some(&at)).map_err(|error| {
                // A host that is refused is told, whatever else is in it.
                let archive = error.other && may_hold_archives(&file);
                let is_checksum = size <= checksums::LARGEST && checksums::are_all_of(&file);
                CaptureFailure { archive, is_checksum, ..not_a_host(&error, Some(id)) }
            })?;
            (id, check_source(source.as_ref())?)
        }
    };
    Ok(Some(build_capture(id, &path, clusters, check)))
}

/// Whether a file begins as a collector's does, or is a tar, in which there may be some.
fn may_hold_archives(mut file: &File) -> bool {
    let mut head = Vec::new();
    let read = file.rewind().and_then(|()| {
        compressed::open_decompressed(file)?.take(readers::HEAD).read_to_end(&mut head)
    });
    // A torn file tells what it is all the same.
    (read.is_ok() || !head.is_empty())
        && (tarred::is_tar(&head) || readers::may_be_collector_file(&head))
}

type CheckedCapture = (Check, Option<i64>, Option<String>, bool);

/// Where collectors write.
const ARCHIVES: [&str; 5] = [
    "/var/log/sa",
    "/var/log/sysstat",
    "/var/log/atop",
    "/var/log/pcp/pmlogger",
    "/var/lib/hugewise/record",
];

fn open_at(path: &Path, id: Option<Id>) -> Result<Box<dyn Source>, CaptureFailure> {
    source::open_source(Some(path)).map_err(|error| not_a_host(&error, id))
}

fn check_source(source: &dyn Source) -> Result<CheckedCapture, CaptureFailure> {
    let diagnosis = Diagnosis::run(source, &DiagnosisOptions::default());
    let host = &diagnosis.host;
    let archives = ARCHIVES
        .iter()
        .any(|folder| source.list_folder(folder).as_known().is_some_and(|names| !names.is_empty()));
    let checked = CheckReport::from_diagnosis(&diagnosis, None);
    Ok((Check::from(&checked), host.read_at.get(), host.torn.clone(), archives))
}

fn not_a_host(error: &OpenError, id: Option<Id>) -> CaptureFailure {
    CaptureFailure { id, ..CaptureFailure::new("not_a_capture", error.what.clone()) }
}

fn build_capture(
    id: Id,
    path: &Path,
    clusters: &Clusters,
    (check, captured_at, torn, archives): CheckedCapture,
) -> CollectedCapture {
    let whose = Whose {
        capture: to_hex(&id),
        host: check.host.name.as_deref().map(|name| plain::escape_line(name).into_owned()),
        cluster: clusters.find_cluster(check.host.name.as_deref()).map(str::to_owned),
        captured_at: captured_at.and_then(rows::valid_moment),
    };
    let path = plain::escape_line(&path.to_string_lossy()).into_owned();
    let rows = rows::build_host_rows(&whose, &path, &check, torn.as_deref());
    CollectedCapture { id, whose, rows, torn, archives }
}

fn hash_file(mut file: &File) -> io::Result<Id> {
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
