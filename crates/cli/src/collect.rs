//! `hugewise collect`.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use hugewise_fleet::{Asked, Clusters, Progress, Summary};
use hugewise_host::source::files::{self, Given};

use crate::elsewhere;
use crate::format::Format;
use crate::outcome::{self, Failure, Outcome};
use crate::terminal;

/// How often is said how far it is.
const BETWEEN: Duration = Duration::from_millis(200);
/// A list of a million hosts is shorter.
const LONGEST_LIST: u64 = 64 << 20;

pub(crate) const AFTER_HELP: &str = "\
Exit codes: 0 nothing wrong; 1 a host has an error or a warning; 2 the tables cannot be written; \
3 a capture could not be read, or an expected host or a verdict is missing.";

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Captures, sosreports, tars of captures, folders of them, s3://BUCKET/PREFIX, gs://BUCKET/PREFIX or
    /// az://CONTAINER/PREFIX. `-` reads captures from standard input, as a tar or in the framing that docs/fleet.md describes.
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// File with the keys for s3:// or gs://, in the format of ~/.aws/credentials, as for `capture --to`; for az:// in that of
    /// ~/.azure/config.
    #[cfg(feature = "store")]
    #[arg(long, value_name = "FILE")]
    credentials: Option<PathBuf>,
    /// Folder to write the tables to. Captures that are already in it are not counted again.
    #[arg(short, long, value_name = "LAKE")]
    out: PathBuf,
    /// The cluster that these hosts belong to, as a column of every table.
    #[arg(long, value_name = "CLUSTER")]
    label: Option<String>,
    /// File with a host and its cluster per line, such as `db1.example.org orders`, if the hosts belong to several clusters. A
    /// name without a domain matches any host of that name. Hosts that are not in the file get `--label`.
    #[arg(long, value_name = "FILE")]
    clusters: Option<PathBuf>,
    /// File with the names of the hosts that should be in the tables, one per line; `#` starts a comment, and what follows the
    /// name is ignored. Hosts that are missing, or whose last capture is stale, are listed and become rows of the table
    /// `failures`.
    #[arg(long, value_name = "FILE")]
    expect: Option<PathBuf>,
    /// Days after which an expected host's last capture is stale.
    #[arg(long, value_name = "DAYS", default_value_t = 7, requires = "expect")]
    stale: u32,
    /// Text for people, JSON for programs.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Outcome, Failure> {
    let elsewhere = arguments.paths.iter().find_map(|path| elsewhere::not_read(path));
    if let Some(why) = elsewhere.or_else(|| elsewhere::not_written(&arguments.out)) {
        return Err(Failure::new(why));
    }
    if arguments.label.as_deref().is_some_and(|label| label.trim().is_empty()) {
        return Err(Failure::new("--label is empty: give the cluster's name, or leave it out".to_owned()));
    }
    #[cfg(feature = "store")]
    if arguments.credentials.is_none()
        && let Some(store) = arguments.paths.iter().find(|path| hugewise_fleet::is_stored(path))
    {
        let shown = elsewhere::without_key(store);
        return Err(Failure::new(format!("{shown} needs keys: name a file with --credentials")));
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).ok().and_then(|it| i64::try_from(it.as_secs()).ok());
    let asked = Asked {
        paths: arguments.paths.clone(),
        lake: arguments.out.clone(),
        clusters: clusters(arguments)?,
        #[cfg(feature = "store")]
        credentials: credentials(arguments)?,
        expected: arguments.expect.as_deref().map(expected).transpose()?.unwrap_or_default(),
        stale_days: arguments.stale,
        now: now.unwrap_or_default(),
        threads: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
    };
    let shown = std::cell::Cell::new(Instant::now());
    let begun = Instant::now();
    let collected = hugewise_fleet::collect(&asked, &mut std::io::stdin(), &mut |progress| {
        if shown.get().elapsed() >= BETWEEN {
            shown.set(Instant::now());
            terminal::progress(&words(progress, begun.elapsed()));
        }
    });
    terminal::done();
    let summary = collected.map_err(|error| Failure::new(not_written(&asked.lake, &error)))?.finished();
    match arguments.format {
        Format::Text => outcome::print_clean(&summary.in_words())?,
        Format::Json => {
            let text = summary.to_json();
            outcome::print(&text.map_err(|error| Failure::new(format!("the summary cannot be made: {error}")))?)?;
        }
    }
    if summary.read + summary.already == 0 && summary.failures.is_empty() && summary.incidents.is_empty() {
        let paths: Vec<_> = arguments.paths.iter().map(|path| place(path)).collect();
        return outcome::complain(&format!("there are no captures in {}", paths.join(", ")), verdict(&summary));
    }
    Ok(verdict(&summary))
}

/// What was given, for people.
fn place(path: &Path) -> String {
    if path.as_os_str() == "-" {
        "standard input".to_owned()
    } else if hugewise_fleet::is_stored(path) {
        elsewhere::without_key(path)
    } else {
        path.to_string_lossy().into_owned()
    }
}

fn not_written(lake: &Path, error: &std::io::Error) -> String {
    use std::io::ErrorKind::{QuotaExceeded, StorageFull};
    let is_full = matches!(error.kind(), StorageFull | QuotaExceeded);
    let next =
        if is_full { "; make room and run it again: what is complete is kept, and nothing counts twice" } else { "" };
    format!("the tables in {} cannot be written: {error}{next}", lake.display())
}

fn words(Progress { done, found, failed }: Progress, since: Duration) -> String {
    let each_second = done as f64 / since.as_secs_f64().max(0.001);
    let failed = if failed > 0 { format!(", {failed} failed") } else { String::new() };
    format!("\r{done} of {found} captures read, {each_second:.0} a second{failed} \x1b[K")
}

/// The keys to the stores that are given, all from one file.
#[cfg(feature = "store")]
fn credentials(arguments: &Arguments) -> Result<hugewise_fleet::store::Credentials, Failure> {
    use hugewise_fleet::store::{Account, Credentials, Keys};
    let Some(file) = arguments.credentials.as_deref() else { return Ok(Credentials::default()) };
    let is_azure = |path: &PathBuf| path.as_os_str().as_encoded_bytes().starts_with(b"az://");
    let unread = |error: hugewise_fleet::store::Unsafe| Failure::new(error.to_string());
    let given = |wanted: &dyn Fn(&PathBuf) -> bool| arguments.paths.iter().any(wanted);
    Ok(Credentials {
        account: given(&is_azure).then(|| Account::read(file).map_err(unread)).transpose()?,
        keys: given(&|path| hugewise_fleet::is_stored(path) && !is_azure(path))
            .then(|| Keys::read(file).map_err(unread))
            .transpose()?,
    })
}

/// Which cluster each host is of.
fn clusters(arguments: &Arguments) -> Result<Clusters, Failure> {
    let label = arguments.label.clone();
    let Some(path) = arguments.clusters.as_deref() else { return Ok(Clusters::one(label)) };
    let wrong = |why: String| wrong_list(path, &why, "--clusters takes a file with a host and its cluster per line");
    Clusters::listed(&list(path).map_err(wrong)?, label).map_err(|error| wrong(error.to_string()))
}

/// The names of a list of hosts.
fn expected(path: &Path) -> Result<Vec<String>, Failure> {
    let text = list(path).map_err(|why| wrong_list(path, &why, "--expect takes a file with one host per line"))?;
    Ok(hugewise_fleet::entries(&text).map(|(_, entry)| entry.host.to_owned()).collect())
}

fn wrong_list(path: &Path, why: &str, what_to_do: &str) -> Failure {
    Failure::new(format!("{}: {why}; {what_to_do}", path.display()))
}

/// The text of a list of hosts, or why there is none.
fn list(path: &Path) -> Result<String, String> {
    let Given::File(file, _) = files::open(path).map_err(|error| error.to_string())? else {
        return Err("is a folder".to_owned());
    };
    let mut text = String::new();
    let read = file.take(LONGEST_LIST + 1).read_to_string(&mut text).map_err(|error| error.to_string())?;
    if u64::try_from(read).is_ok_and(|read| read > LONGEST_LIST) {
        return Err(format!("has more than {} MiB", LONGEST_LIST >> 20));
    }
    Ok(text)
}

fn verdict(summary: &Summary) -> Outcome {
    if summary.has(&["error", "warn"]) {
        Outcome::Found
    } else if summary.is_whole() {
        Outcome::Fine
    } else {
        Outcome::Incomplete
    }
}
