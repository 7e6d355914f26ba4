//! `hugewise collect`.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use hugewise_fleet::{Clusters, CollectProgress, CollectRequest, CollectSummary};
use hugewise_host::source::files::{self, OpenedPath};

use crate::format::OutputFormat;
use crate::hints::remote_url;
use crate::outcome::{self, CommandFailure, CommandOutcome};
use crate::terminal;

const BETWEEN: Duration = Duration::from_millis(200);
/// Enough for a million hosts.
const LONGEST_LIST: u64 = 64 << 20;

pub(crate) const AFTER_HELP: &str = "\
Exit codes: 0 nothing wrong; 1 a host has an error or a warning; 2 the tables cannot be written; \
3 a capture could not be read, or an expected host or a verdict is missing.";

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Captures, sosreports, tars of captures, folders of them, s3://BUCKET/PREFIX,
    /// gs://BUCKET/PREFIX or az://CONTAINER/PREFIX. `-` reads captures from standard input, as a
    /// tar or in the framing that docs/fleet.md describes.
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// File with the keys for s3:// or gs://, in the format of ~/.aws/credentials, as for `capture
    /// --to`; for az:// in that of ~/.azure/config.
    #[cfg(feature = "store")]
    #[arg(long, value_name = "FILE")]
    credentials: Option<PathBuf>,
    /// Folder to write the tables to. Captures that are already in it are not counted again.
    #[arg(short, long, value_name = "LAKE")]
    out: PathBuf,
    /// The cluster that these hosts belong to, as a column of every table.
    #[arg(long, value_name = "CLUSTER")]
    label: Option<String>,
    /// File with a host and its cluster per line, such as `db1.example.org orders`, if the hosts
    /// belong to several clusters. A name without a domain matches any host of that name. Hosts
    /// that are not in the file get `--label`.
    #[arg(long, value_name = "FILE")]
    clusters: Option<PathBuf>,
    /// File with the names of the hosts that should be in the tables, one per line; `#` starts a
    /// comment, and what follows the name is ignored. Hosts that are missing, or whose last capture
    /// is stale, are listed and become rows of the table `failures`.
    #[arg(long, value_name = "FILE")]
    expect: Option<PathBuf>,
    /// Days after which an expected host's last capture is stale.
    #[arg(long, value_name = "DAYS", default_value_t = 7, requires = "expect")]
    stale: u32,
    /// Text for people, JSON for programs.
    #[arg(long, value_enum, default_value_t = OutputFormat::Text)]
    format: OutputFormat,
}

pub(crate) fn run(arguments: &Arguments) -> Result<CommandOutcome, CommandFailure> {
    let elsewhere = arguments.paths.iter().find_map(|path| remote_url::not_read(path));
    if let Some(why) = elsewhere.or_else(|| remote_url::not_written(&arguments.out)) {
        return Err(CommandFailure::new(why));
    }
    if arguments.label.as_deref().is_some_and(|label| label.trim().is_empty()) {
        return Err(CommandFailure::new(
            "--label is empty: give the cluster's name, or leave it out".to_owned(),
        ));
    }
    #[cfg(feature = "store")]
    if arguments.credentials.is_none()
        && let Some(store) = arguments.paths.iter().find(|path| hugewise_fleet::is_stored(path))
    {
        let shown = remote_url::without_key(store);
        return Err(CommandFailure::new(format!(
            "{shown} needs keys: name a file with --credentials"
        )));
    }
    let request = collect_request(arguments)?;
    let shown = std::cell::Cell::new(Instant::now());
    let begun = Instant::now();
    let collected =
        hugewise_fleet::collect_captures(&request, &mut std::io::stdin(), &mut |progress| {
            if shown.get().elapsed() >= BETWEEN {
                shown.set(Instant::now());
                terminal::show_progress(&render_progress(progress, begun.elapsed()));
            }
        });
    terminal::clear_progress();
    let summary = collected
        .map_err(|error| CommandFailure::new(not_written(&request.lake, &error)))?
        .into_ordered();
    match arguments.format {
        OutputFormat::Text => outcome::print_clean(&summary.in_words())?,
        OutputFormat::Json => {
            let text = summary.to_json();
            outcome::print_output(&text.map_err(|error| {
                CommandFailure::new(format!("the summary cannot be made: {error}"))
            })?)?;
        }
    }
    if summary.read + summary.already == 0
        && summary.failures.is_empty()
        && summary.incidents.is_empty()
    {
        let paths: Vec<_> = arguments.paths.iter().map(|path| describe_path(path)).collect();
        return outcome::print_complaint(
            &format!("there are no captures in {}", paths.join(", ")),
            collect_outcome(&summary),
        );
    }
    Ok(collect_outcome(&summary))
}

fn collect_request(arguments: &Arguments) -> Result<CollectRequest, CommandFailure> {
    Ok(CollectRequest {
        paths: arguments.paths.clone(),
        lake: arguments.out.clone(),
        clusters: read_clusters(arguments)?,
        #[cfg(feature = "store")]
        credentials: read_credentials(arguments)?,
        expected: arguments
            .expect
            .as_deref()
            .map(read_expected_hosts)
            .transpose()?
            .unwrap_or_default(),
        stale_days: arguments.stale,
        now: crate::unix_now(),
        threads: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
    })
}

fn describe_path(path: &Path) -> String {
    if path.as_os_str() == "-" {
        "standard input".to_owned()
    } else if hugewise_fleet::is_stored(path) {
        remote_url::without_key(path)
    } else {
        path.to_string_lossy().into_owned()
    }
}

fn not_written(lake: &Path, error: &std::io::Error) -> String {
    use std::io::ErrorKind::{QuotaExceeded, StorageFull};
    let is_full = matches!(error.kind(), StorageFull | QuotaExceeded);
    let next = if is_full {
        "; make room and run it again: what is complete is kept, and nothing counts twice"
    } else {
        ""
    };
    format!("the tables in {} cannot be written: {error}{next}", lake.display())
}

fn render_progress(
    CollectProgress { done, found, failed }: CollectProgress,
    since: Duration,
) -> String {
    let each_second = done as f64 / since.as_secs_f64().max(0.001);
    let failed = if failed > 0 { format!(", {failed} failed") } else { String::new() };
    format!("\r{done} of {found} captures read, {each_second:.0} a second{failed} \x1b[K")
}

#[cfg(feature = "store")]
fn read_credentials(
    arguments: &Arguments,
) -> Result<hugewise_fleet::store::StoreCredentials, CommandFailure> {
    use hugewise_fleet::store::{AzureAccount, Keys, StoreCredentials};
    let Some(file) = arguments.credentials.as_deref() else {
        return Ok(StoreCredentials::default());
    };
    let is_azure = |path: &PathBuf| path.as_os_str().as_encoded_bytes().starts_with(b"az://");
    let unread = |error: hugewise_fleet::store::Unsafe| CommandFailure::new(error);
    let given = |wanted: &dyn Fn(&PathBuf) -> bool| arguments.paths.iter().any(wanted);
    Ok(StoreCredentials {
        account: given(&is_azure).then(|| AzureAccount::read(file).map_err(unread)).transpose()?,
        keys: given(&|path| hugewise_fleet::is_stored(path) && !is_azure(path))
            .then(|| Keys::read(file).map_err(unread))
            .transpose()?,
    })
}

fn read_clusters(arguments: &Arguments) -> Result<Clusters, CommandFailure> {
    let label = arguments.label.clone();
    let Some(path) = arguments.clusters.as_deref() else {
        return Ok(Clusters::for_all_hosts(label));
    };
    let wrong = |why: String| {
        wrong_list(path, &why, "--clusters takes a file with a host and its cluster per line")
    };
    Clusters::from_list(&read_host_list(path).map_err(wrong)?, label)
        .map_err(|error| wrong(error.to_string()))
}

fn read_expected_hosts(path: &Path) -> Result<Vec<String>, CommandFailure> {
    let text = read_host_list(path)
        .map_err(|why| wrong_list(path, &why, "--expect takes a file with one host per line"))?;
    Ok(hugewise_fleet::parse_host_list(&text).map(|(_, entry)| entry.host.to_owned()).collect())
}

fn wrong_list(path: &Path, why: &str, what_to_do: &str) -> CommandFailure {
    CommandFailure::new(format!("{}: {why}; {what_to_do}", path.display()))
}

fn read_host_list(path: &Path) -> Result<String, String> {
    let OpenedPath::File(file, _) = files::open_path(path).map_err(|error| error.to_string())?
    else {
        return Err("is a folder".to_owned());
    };
    let mut text = String::new();
    let read =
        file.take(LONGEST_LIST + 1).read_to_string(&mut text).map_err(|error| error.to_string())?;
    if u64::try_from(read).is_ok_and(|read| read > LONGEST_LIST) {
        return Err(format!("has more than {} MiB", LONGEST_LIST >> 20));
    }
    Ok(text)
}

fn collect_outcome(summary: &CollectSummary) -> CommandOutcome {
    if summary.has_any_level(&["error", "warn"]) {
        CommandOutcome::Found
    } else if summary.is_whole() {
        CommandOutcome::Fine
    } else {
        CommandOutcome::Incomplete
    }
}
