//! `hugewise capture`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use hugewise_engines::{EngineKind, FoundInstances, jvm};
use hugewise_host::capture::{self, CapturedServers, Keeps};
use hugewise_host::config::systemd::service_of;
use hugewise_host::source::RecordingSource;
use hugewise_model::{Host, Instance, Observed};
use hugewise_report::date;

use crate::outcome::{self, CommandFailure, CommandOutcome};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Where to write: an archive if the name ends in .tar.gz or .tgz, otherwise a new folder.
    /// Default: hugewise-HOST-DATE.tar.gz in the current folder.
    #[arg(short, long, value_name = "TARGET")]
    output: Option<PathBuf>,
    /// Send the capture there instead of writing it. https://HOST/PATH gets a PUT, and may be a
    /// presigned address; if it ends in `/`, the capture's name is added. s3://BUCKET/PREFIX puts
    /// it in a bucket. @FILE reads the address from a file: every user of the host can see
    /// arguments, and a presigned address is a key.
    #[cfg(feature = "store")]
    #[arg(long, value_name = "TARGET", conflicts_with = "output")]
    to: Option<String>,
    /// File with the keys for s3://, in the format of ~/.aws/credentials: the profile `default`
    /// with `aws_access_key_id` and `aws_secret_access_key`, and if needed `aws_session_token`,
    /// `region` and `endpoint_url`.
    #[cfg(feature = "store")]
    #[arg(long, value_name = "FILE", requires = "to")]
    credentials: Option<PathBuf>,
    /// Capture from an earlier capture instead of from this host.
    #[arg(long, value_name = "PATH")]
    root: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<CommandOutcome, CommandFailure> {
    let source = outcome::open_source(arguments.root.as_deref())?;
    let recording = RecordingSource::new(source.as_ref());
    let (host, found) = hugewise_engines::read_host_and_instances(&recording);

    #[cfg(feature = "store")]
    if let Some(to) = &arguments.to {
        let text = send_capture(to, arguments.credentials.as_deref(), &recording, &host, &found)?;
        outcome::print_clean(&(text + &left_out(&host, &found)))?;
        return Ok(CommandOutcome::Fine);
    }
    let target = arguments.output.clone().unwrap_or_else(|| usual_name(&host));
    let written = capture::write(&recording, &select_kept_facts(&host, &found), &target).map_err(
        |error| {
            CommandFailure::new(format!("cannot write {error}; choose another place with --output"))
        },
    )?;

    let text = format!("{}: {} files, without secrets\n", written.target.display(), written.files);
    outcome::print_clean(&(text + &left_out(&host, &found)))?;
    Ok(CommandOutcome::Fine)
}

#[cfg(feature = "store")]
fn send_capture(
    to: &str,
    credentials: Option<&std::path::Path>,
    recording: &RecordingSource<'_>,
    host: &Host,
    found: &FoundInstances,
) -> Result<String, CommandFailure> {
    use hugewise_fleet::store::{Keys, UploadTarget, put_capture};
    let target = UploadTarget::from_argument(to).map_err(CommandFailure::new)?;
    let keys = credentials.map(Keys::read).transpose().map_err(CommandFailure::new)?;
    let (capture, files) = capture::pack_tar_gz(recording, &select_kept_facts(host, found))
        .map_err(|error| CommandFailure::new(format!("cannot pack the capture: {error}")))?;
    let name = usual_name(host);
    let sent = put_capture(&capture, &name.to_string_lossy(), &target, keys.as_ref())
        .map_err(|error| CommandFailure::new(format!("the capture was not sent: {error}")))?;
    Ok(format!("{}: {files} files, without secrets, {} bytes sent\n", sent.to, sent.bytes))
}

fn left_out(host: &Host, found: &FoundInstances) -> String {
    let mut text = String::new();
    let denied =
        host.unread.iter().chain(&found.unread).filter(|fact| fact.why.is_denied()).count();
    if denied > 0 && host.read_as != Observed::Known(0) {
        text.push_str(&format!("{denied} files were denied; run as root to capture them\n"));
    }
    if let Some(why) = &host.hidden {
        text.push_str(&format!("there may be servers that were not captured: {why}\n"));
    }
    text
}

/// Keeps what engines read of command lines and configuration, and of processes only the servers.
fn select_kept_facts(host: &Host, found: &FoundInstances) -> Keeps {
    let kinds = hugewise_engines::all_kinds();
    Keeps {
        programs: kinds
            .iter()
            .flat_map(|kind| kind.recognition.programs.iter().chain(kind.recognition.companions))
            .copied()
            .collect(),
        mappings: kinds.iter().flat_map(|kind| kind.capture.mappings).copied().collect(),
        options: kinds.iter().flat_map(|kind| kind.capture.options).copied().collect(),
        settings: kinds.iter().flat_map(|kind| kind.capture.settings).copied().collect(),
        forms: kinds.iter().map(|kind| &kind.capture.forms).collect(),
        shape: Some(hugewise_engines::settings::value_shape),
        writers: pool_writer_files(host),
        lines: found.lines.clone(),
        starts: unit_start_commands(host),
        servers: captured_servers(host, &found.instances),
        hidden: host.hidden.clone(),
    }
}

/// By the line that names them.
fn unit_start_commands(host: &Host) -> BTreeMap<(String, u64), Vec<Vec<String>>> {
    let mut starts = BTreeMap::<(String, u64), Vec<Vec<String>>>::new();
    for start in host.configuration.units.iter().map(|unit| &unit.start) {
        for command in &start.commands {
            let words = jvm::with_variables(&command.words, &start.environment);
            let place = &command.place;
            let all = starts.entry((place.file.clone(), place.line)).or_default();
            all.push(words.unwrap_or_else(|| command.words.clone()));
        }
    }
    starts
}

/// Files with the lines that write a pool or switch THP at boot.
fn pool_writer_files(host: &Host) -> BTreeSet<String> {
    let pools = host
        .configuration
        .pool_writers
        .iter()
        .map(|pool_writer| (&pool_writer.place, &pool_writer.by));
    let thp =
        host.configuration.thp_writers.iter().map(|thp_writer| (&thp_writer.place, &thp_writer.by));
    pools
        .chain(thp)
        .flat_map(|(place, by)| std::iter::once(place).chain(by))
        .map(|place| place.file.clone())
        .collect()
}

/// The servers, and everything that their memory depends on.
fn captured_servers(host: &Host, instances: &[Instance]) -> CapturedServers {
    let mut servers = CapturedServers::default();
    for instance in instances {
        servers.processes.extend(&instance.pids);
        for process in instance.pids.iter().filter_map(|pid| host.find_process(*pid)) {
            if hugewise_engines::reads_folder_of(instance.engine, process) {
                servers.folders.insert(process.pid);
            }
            if EngineKind::for_engine(instance.engine).capture.reads_home {
                servers.homes.insert(process.uid);
            }
            servers.users.insert(process.uid);
            servers.groups.extend(process.groups.iter().chain([&process.gid]));
            let paths = process.cgroups.as_known().into_iter().flat_map(|all| all.iter());
            servers.cgroups.extend(paths.map(|membership| membership.path.clone()));
            let read = |name: &str| {
                EngineKind::for_engine(instance.engine)
                    .capture
                    .mapped_files
                    .iter()
                    .any(|part| name.contains(part))
            };
            let mapped = process.mappings.as_known().into_iter().flatten();
            let told = mapped.filter(|mapping| mapping.shared && read(&mapping.name));
            servers.files.extend(told.map(|mapping| mapping.name.clone()));
        }
    }
    let all = || host.processes.as_known().into_iter().flatten();
    let services: BTreeSet<&str> = all()
        .filter(|process| servers.processes.contains(&process.pid))
        .filter_map(|process| service_of(process))
        .collect();
    let neighbours = all()
        .filter(|process| service_of(process).is_some_and(|service| services.contains(service)));
    servers.neighbours = neighbours.map(|process| process.pid).collect();
    let companions: BTreeSet<&str> = instances
        .iter()
        .flat_map(|instance| EngineKind::for_engine(instance.engine).recognition.companions)
        .copied()
        .collect();
    let starters = all().filter(|process| companions.contains(process.name.as_str()));
    servers.starters = starters.map(|process| process.pid).collect();
    servers
        .users
        .extend(host.sysv_segments.as_known().into_iter().flatten().map(|segment| segment.uid));
    let known = |uid: &u32| host.accounts.users.get(uid);
    servers.names.extend(servers.users.iter().filter_map(known).map(|user| user.name.clone()));
    for uid in servers.users.clone() {
        servers.groups.extend(host.accounts.groups_of(uid));
    }
    servers.groups.extend(host.kernel_settings.hugetlb_shm_group.get());
    let groups = servers.groups.iter().filter_map(|gid| host.accounts.groups.get(gid));
    servers.names.extend(groups.flat_map(|group| group.all_names().cloned()).collect::<Vec<_>>());
    let mounts = host.hugetlbfs_mounts.as_known().into_iter().flatten();
    servers.hugetlbfs.extend(mounts.map(|mount| mount.path.trim_end_matches('/').to_owned()));
    servers
}

/// `hugewise-db7-2026-03-01.tar.gz`, in characters that are safe in every shell.
fn usual_name(host: &Host) -> PathBuf {
    let safe = |letter: char| {
        if letter.is_ascii_alphanumeric() || "._-".contains(letter) { letter } else { '_' }
    };
    let name: String =
        host.name.as_known().map_or("host", String::as_str).chars().map(safe).collect();
    let day = host.read_at.get().and_then(date::format_utc_day);
    match day {
        Some(day) => format!("hugewise-{name}-{day}.tar.gz").into(),
        None => format!("hugewise-{name}.tar.gz").into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_name_is_safe_whatever_the_host_is_called() {
        let host = |name: &str, read_at| Host {
            name: Observed::Known(name.into()),
            read_at,
            ..Host::default()
        };
        let day = Observed::Known(1_700_000_000);
        assert_eq!(
            usual_name(&host("db7.example.org", day)),
            PathBuf::from("hugewise-db7.example.org-2023-11-14.tar.gz")
        );
        assert_eq!(
            usual_name(&host("../a b;c", Observed::Absent)),
            PathBuf::from("hugewise-.._a_b_c.tar.gz")
        );
    }
}
