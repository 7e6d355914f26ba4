//! The folder of tables, and how a batch of captures gets into it once and whole.
//!
//! The files of a batch are written under temporary names and synced. Then `_manifest/BATCH.begun`
//! names them and the captures in them: from there on the batch is in, and whoever comes next
//! finishes what a kill left: it gives the files their names, and the manifest its own. Temporary
//! files of which no manifest speaks are of a batch that is not in, and go.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, DirBuilder, File};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use hugewise_host::source::trust::check_trusted_file;
use hugewise_report::date;
use hugewise_report::parquet::{ParquetCell, ParquetColumn, ParquetWriter};
use rustix::fs::{FlockOperation, flock};
use sha2::{Digest, Sha256};

use crate::capture_id::{Id, to_hex};
use crate::rows::LakeRow;
use crate::schema::{self, LakeColumn, LakeTableId};

const MANIFEST: &str = "_manifest";
/// Where a day is not known, as Hive writes it.
const NO_DAY: &str = "__HIVE_DEFAULT_PARTITION__";
const BEGUN: &str = "begun";
const DONE: &str = "done";
const TEMPORARY: &str = "tmp";

/// Rows of one file, by where it is to be.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Partition {
    place: LakeTableId,
    day: String,
    bucket: u8,
}

impl Partition {
    /// Where rows of a host are that were read at so many seconds since the epoch.
    pub(crate) fn new(place: LakeTableId, at: Option<i64>, host: &str) -> Self {
        let day = at.and_then(date::format_utc_day).unwrap_or_else(|| NO_DAY.to_owned());
        let bucket = Sha256::digest(host).first().copied().unwrap_or_default() % schema::BUCKETS;
        Self { place, day, bucket }
    }

    fn partition_folder(&self) -> PathBuf {
        let Self { place, day, bucket } = self;
        [place.table().name, &format!("day={day}"), &format!("bucket={bucket:02}")].iter().collect()
    }
}

/// Which host a capture is of, and since when: seconds since the epoch. Both are unknown of what
/// could not be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CaptureOrigin {
    pub(crate) host: Option<String>,
    pub(crate) at: Option<i64>,
}

/// Captures that are not in the lake yet.
#[derive(Debug, Default)]
pub(crate) struct LakeBatch {
    pub(crate) ids: BTreeMap<Id, CaptureOrigin>,
    rows: BTreeMap<Partition, Vec<Vec<ParquetCell>>>,
    /// Bytes of memory that the rows take, about.
    pub(crate) size: usize,
}

/// Orders the moments of a host's captures by how well they tell when it was seen last: one after
/// `latest` is of a clock that was wrong, and tells more than none.
pub(crate) fn by_age(at: Option<i64>, latest: i64) -> (bool, Option<i64>) {
    (at.is_some_and(|at| at <= latest), at)
}

impl LakeBatch {
    pub(crate) fn add(&mut self, partition: Partition, (_, cells): LakeRow) {
        let texts = cells
            .iter()
            .map(|cell| if let ParquetCell::Text(text) = cell { text.len() } else { 0 });
        self.size += texts.sum::<usize>() + cells.len() * size_of::<ParquetCell>();
        self.rows.entry(partition).or_default().push(cells);
    }
}

/// A folder of tables that nobody else writes meanwhile.
#[derive(Debug)]
pub(crate) struct Lake {
    root: PathBuf,
    /// What is in it.
    ids: BTreeMap<Id, CaptureOrigin>,
    _lock: File,
}

impl Lake {
    /// Opens or makes a lake, and finishes what a kill left. Refused where another user could have
    /// put a link into the way, and root's tables would be written where that leads.
    pub(crate) fn open(root: &Path) -> io::Result<Self> {
        check_ancestors(root)?;
        let manifest = root.join(MANIFEST);
        // The tables tell of the hosts' configuration: who else may read them is for their owner to
        // say.
        DirBuilder::new().recursive(true).mode(0o700).create(&manifest)?;
        check_folder(&manifest)?;
        let lock =
            File::options().write(true).create(true).truncate(false).open(manifest.join("lock"))?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive).map_err(|error| match error {
            rustix::io::Errno::WOULDBLOCK => {
                io::Error::other("another hugewise collect writes to it")
            }
            error => error.into(),
        })?;
        let mut lake = Self { root: root.to_owned(), ids: BTreeMap::new(), _lock: lock };
        for name in list_names(&manifest)? {
            let path = manifest.join(&name);
            match path.extension().and_then(|name| name.to_str()) {
                Some(BEGUN) => lake.finish_batch(&path)?,
                Some(DONE) => {
                    let (ids, _) = read_manifest(&path)?;
                    lake.ids.extend(ids);
                }
                Some(TEMPORARY) => fs::remove_file(&path)?,
                _ => {}
            }
        }
        for table in schema::TABLES {
            let folder = root.join(table.name);
            if folder.symlink_metadata().is_ok() {
                check_folder(&folder)?;
            }
            remove_temporaries(&folder, 0)?;
        }
        Ok(lake)
    }

    /// Whether a capture is in it.
    pub(crate) fn has_capture(&self, id: &Id) -> bool {
        self.ids.contains_key(id)
    }

    /// What is in it.
    pub(crate) fn capture_ids(&self) -> BTreeSet<Id> {
        self.ids.keys().copied().collect()
    }

    /// Where it is, through all links.
    #[allow(clippy::disallowed_methods, reason = "a folder of our own, not the machine's")]
    pub(crate) fn real_path(&self) -> io::Result<PathBuf> {
        fs::canonicalize(&self.root)
    }

    /// When each host was captured last, by its name in small letters; `None` where no capture of
    /// it says. A moment after `latest` counts where there is no other.
    pub(crate) fn last_capture_by_host(&self, latest: i64) -> BTreeMap<String, Option<i64>> {
        let mut hosts = BTreeMap::new();
        for CaptureOrigin { host, at } in self.ids.values() {
            if let Some(host) = host {
                let last: &mut Option<i64> = hosts.entry(host.to_ascii_lowercase()).or_default();
                *last = std::cmp::max_by_key(*last, *at, |at| by_age(*at, latest));
            }
        }
        hosts
    }

    /// Puts a batch in, as a whole.
    pub(crate) fn write_batch(&mut self, batch: LakeBatch) -> io::Result<()> {
        if batch.ids.is_empty() {
            return Ok(());
        }
        let mut hash = Sha256::new();
        batch.ids.keys().for_each(|id| hash.update(id));
        let name = to_hex(hash.finalize().get(..16).unwrap_or_default());
        let mut manifest = format!("hugewise.lake/{}\n", schema::VERSION);
        for (id, capture_origin) in &batch.ids {
            let at = capture_origin.at.map_or_else(|| "-".to_owned(), |at| at.to_string());
            let host = capture_origin
                .host
                .as_deref()
                .map(|host| format!(" {at} {host}"))
                .unwrap_or_default();
            manifest.push_str(&format!("capture {}{host}\n", to_hex(id)));
        }
        for (partition, rows) in batch.rows {
            let file = partition.partition_folder().join(format!("part-{name}.parquet"));
            let temporary = self.root.join(&file).with_extension(TEMPORARY);
            if let Some(folder) = temporary.parent() {
                fs::create_dir_all(folder)?;
                check_folder(folder)?;
            }
            write_rows(&temporary, partition.place, &rows)?;
            manifest.push_str(&format!("file {}\n", file.display()));
        }
        let folder = self.root.join(MANIFEST);
        let begun = folder.join(&name).with_extension(BEGUN);
        let temporary = folder.join(&name).with_extension(TEMPORARY);
        let mut file = File::create(&temporary)?;
        file.write_all(manifest.as_bytes())?;
        file.sync_all()?;
        fs::rename(&temporary, &begun)?;
        sync_folder(&folder)?;
        self.finish_batch(&begun)
    }

    /// Gives the files of a batch their names.
    fn finish_batch(&mut self, begun: &Path) -> io::Result<()> {
        let (ids, files) = read_manifest(begun)?;
        for file in files {
            let file = self.root.join(file);
            match fs::rename(file.with_extension(TEMPORARY), &file) {
                // It has its name already.
                Err(error) if error.kind() == io::ErrorKind::NotFound && file.is_file() => {}
                other => other?,
            }
            // The folder, and those that were made for it.
            file.ancestors().skip(1).take(4).try_for_each(sync_folder)?;
        }
        fs::rename(begun, begun.with_extension(DONE))?;
        begun.parent().map_or(Ok(()), sync_folder)?;
        self.ids.extend(ids);
        Ok(())
    }
}

/// Refuses a lake's folder where its path, as far as it exists, leads through what another user
/// owns or may write to.
fn check_ancestors(root: &Path) -> io::Result<()> {
    let root = std::path::absolute(root)?;
    let existing = root.ancestors().find(|path| path.symlink_metadata().is_ok());
    existing.map_or(Ok(()), check_trusted)
}

/// The same for a folder of the lake, which is no link either.
fn check_folder(folder: &Path) -> io::Result<()> {
    if folder.is_symlink() {
        let why = format!("{}: is a link, which hugewise does not follow", folder.display());
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    }
    check_trusted(folder)
}

fn check_trusted(folder: &Path) -> io::Result<()> {
    let refused = |why| io::Error::new(io::ErrorKind::PermissionDenied, why);
    check_trusted_file(folder).map(drop).map_err(refused)
}

fn write_rows(path: &Path, place: LakeTableId, rows: &[Vec<ParquetCell>]) -> io::Result<()> {
    let column =
        |column: &LakeColumn| ParquetColumn::new(column.name, column.kind, column.optional);
    let columns = place.table().columns().map(column).collect();
    let mut writer =
        ParquetWriter::new(BufWriter::new(File::create(path)?), place.table().name, columns)?;
    rows.iter().try_for_each(|row| writer.write_row(row))?;
    writer.finish(true)?.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()
}

/// Captures and files.
type Manifest = (Vec<(Id, CaptureOrigin)>, Vec<PathBuf>);

/// What a manifest says. What is not one of ours is refused: rows would be counted twice.
fn read_manifest(path: &Path) -> io::Result<Manifest> {
    let wrong = || {
        io::Error::new(
            io::ErrorKind::InvalidData,
            format!("{} is not a manifest of this version", path.display()),
        )
    };
    let text = read_text(path)?;
    let mut lines = text.lines();
    if lines.next() != Some(format!("hugewise.lake/{}", schema::VERSION).as_str()) {
        return Err(wrong());
    }
    let (mut ids, mut files) = (Vec::new(), Vec::new());
    for line in lines {
        match line.split_once(' ') {
            Some(("capture", rest)) => {
                let (hex, text) = rest.split_once(' ').unwrap_or((rest, ""));
                let capture_origin = text.split_once(' ').map(|(at, host)| CaptureOrigin {
                    host: Some(host.to_owned()),
                    at: at.parse().ok(),
                });
                ids.push((parse_id(hex).ok_or_else(wrong)?, capture_origin.unwrap_or_default()));
            }
            Some(("file", file)) if is_within(Path::new(file)) => files.push(file.into()),
            _ => return Err(wrong()),
        }
    }
    Ok((ids, files))
}

fn is_within(path: &Path) -> bool {
    path.components().all(|part| matches!(part, std::path::Component::Normal(_)))
}

fn parse_id(hex: &str) -> Option<Id> {
    let mut id = Id::default();
    if hex.len() != 2 * id.len() {
        return None;
    }
    for (at, byte) in id.iter_mut().enumerate() {
        *byte = u8::from_str_radix(hex.get(2 * at..2 * at + 2)?, 16).ok()?;
    }
    Some(id)
}

#[allow(clippy::disallowed_methods, reason = "a file of our own, not the machine's")]
fn read_text(path: &Path) -> io::Result<String> {
    fs::read_to_string(path)
}

#[allow(clippy::disallowed_methods, reason = "a folder of our own, not the machine's")]
fn list_names(folder: &Path) -> io::Result<Vec<std::ffi::OsString>> {
    let mut names = fs::read_dir(folder)?
        .map(|entry| Ok(entry?.file_name()))
        .collect::<io::Result<Vec<_>>>()?;
    names.sort();
    Ok(names)
}

/// Removes temporary files, which are below two levels of partitions.
fn remove_temporaries(folder: &Path, depth: usize) -> io::Result<()> {
    if !folder.is_dir() || folder.is_symlink() {
        return Ok(());
    }
    for name in list_names(folder)? {
        let path = folder.join(name);
        if depth < 2 {
            remove_temporaries(&path, depth + 1)?;
        } else if path.extension().is_some_and(|name| name == TEMPORARY) {
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}

#[allow(clippy::disallowed_methods, reason = "a folder of our own, not the machine's")]
fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}
