//! `hugewise capture`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use hugewise_engines::{Found, Kind, jvm};
use hugewise_host::capture::{self, Keeps, Servers};
use hugewise_host::config::systemd::service_of;
use hugewise_host::source::Recording;
use hugewise_model::{Host, Instance, Observed};
use hugewise_report::date;

use crate::outcome::{self, Failure, Outcome};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Where to write: an archive if the name ends in .tar.gz or .tgz, otherwise a new folder. Default:
    /// hugewise-HOST-DATE.tar.gz in the current folder.
    #[arg(short, long, value_name = "TARGET")]
    output: Option<PathBuf>,
    /// Send the capture there instead of writing it. https://HOST/PATH gets a PUT, and may be a presigned address; if it
    /// ends in `/`, the capture's name is added. s3://BUCKET/PREFIX puts it in a bucket. @FILE reads the address from a
    /// file: every user of the host can see arguments, and a presigned address is a key.
    #[cfg(feature = "store")]
    #[arg(long, value_name = "TARGET", conflicts_with = "output")]
    to: Option<String>,
    /// File with the keys for s3://, in the format of ~/.aws/credentials: the profile `default` with `aws_access_key_id`
    /// and `aws_secret_access_key`, and if needed `aws_session_token`, `region` and `endpoint_url`.
    #[cfg(feature = "store")]
    #[arg(long, value_name = "FILE", requires = "to")]
    credentials: Option<PathBuf>,
    /// Capture from an earlier capture instead of from this host.
    #[arg(long, value_name = "PATH")]
    root: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Outcome, Failure> {
    let source = outcome::open(arguments.root.as_deref())?;
    let recording = Recording::new(source.as_ref());
    let (host, found) = hugewise_engines::gather(&recording);

    #[cfg(feature = "store")]
    if let Some(to) = &arguments.to {
        let text = send(to, arguments.credentials.as_deref(), &recording, &host, &found)?;
        outcome::print_clean(&(text + &left_out(&host, &found)))?;
        return Ok(Outcome::Fine);
    }
    let target = arguments.output.clone().unwrap_or_else(|| usual_name(&host));
    let written = capture::write(&recording, &keeps(&host, &found), &target)
        .map_err(|error| Failure::new(format!("cannot write {error}; choose another place with --output")))?;

    let text = format!("{}: {} files, without secrets\n", written.target.display(), written.files);
    outcome::print_clean(&(text + &left_out(&host, &found)))?;
    Ok(Outcome::Fine)
}

/// Sends it, and says where to.
#[cfg(feature = "store")]
fn send(
    to: &str,
    credentials: Option<&std::path::Path>,
    recording: &Recording<'_>,
    host: &Host,
    found: &Found,
) -> Result<String, Failure> {
    use hugewise_fleet::store::{Keys, Target, put};
    let target = Target::given(to).map_err(|error| Failure::new(error.to_string()))?;
    let keys = credentials.map(Keys::read).transpose().map_err(|error| Failure::new(error.to_string()))?;
    let (capture, files) = capture::packed(recording, &keeps(host, found))
        .map_err(|error| Failure::new(format!("cannot pack the capture: {error}")))?;
    let name = usual_name(host);
    let sent = put(&capture, &name.to_string_lossy(), &target, keys.as_ref())
        .map_err(|error| Failure::new(format!("the capture was not sent: {error}")))?;
    Ok(format!("{}: {files} files, without secrets, {} bytes sent\n", sent.to, sent.bytes))
}

/// What is not in the capture.
fn left_out(host: &Host, found: &Found) -> String {
    let mut text = String::new();
    let denied = host.unread.iter().chain(&found.unread).filter(|fact| fact.why.is_denied()).count();
    if denied > 0 && host.read_as != Observed::Known(0) {
        text.push_str(&format!("{denied} files were denied; run as root to capture them\n"));
    }
    if let Some(why) = &host.hidden {
        text.push_str(&format!("there may be servers that were not captured: {why}\n"));
    }
    text
}

/// Everything that an engine reads of command lines and configuration files stays in, and of processes the servers alone.
fn keeps(host: &Host, found: &Found) -> Keeps {
    let kinds = hugewise_engines::kinds();
    Keeps {
        programs: kinds.iter().flat_map(|kind| kind.programs.iter().chain(kind.companions)).copied().collect(),
        mappings: kinds.iter().flat_map(|kind| kind.mappings).copied().collect(),
        options: kinds.iter().flat_map(|kind| kind.options).copied().collect(),
        settings: kinds.iter().flat_map(|kind| kind.settings).copied().collect(),
        forms: kinds.iter().map(|kind| &kind.forms).collect(),
        shape: Some(hugewise_engines::settings::shape),
        writers: writers(host),
        lines: found.lines.clone(),
        starts: starts(host),
        servers: servers(host, &found.instances),
        hidden: host.hidden.clone(),
    }
}

/// What units start, by the line that says so.
fn starts(host: &Host) -> BTreeMap<(String, u64), Vec<Vec<String>>> {
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

/// The files that lines which write a pool or switch THP at boot are known from.
fn writers(host: &Host) -> BTreeSet<String> {
    let pools = host.configuration.pool_writers.iter().map(|it| (&it.place, &it.by));
    let thp = host.configuration.thp_writers.iter().map(|it| (&it.place, &it.by));
    pools.chain(thp).flat_map(|(place, by)| std::iter::once(place).chain(by)).map(|place| place.file.clone()).collect()
}

/// The servers, and whoever has to do with their memory.
fn servers(host: &Host, instances: &[Instance]) -> Servers {
    let mut servers = Servers::default();
    for instance in instances {
        servers.processes.extend(&instance.pids);
        for process in instance.pids.iter().filter_map(|pid| host.process(*pid)) {
            if hugewise_engines::reads_folder_of(instance.engine, process) {
                servers.folders.insert(process.pid);
            }
            if Kind::of(instance.engine).reads_home {
                servers.homes.insert(process.uid);
            }
            servers.users.insert(process.uid);
            servers.groups.extend(process.groups.iter().chain([&process.gid]));
            let paths = process.cgroups.known().into_iter().flat_map(|all| all.iter());
            servers.cgroups.extend(paths.map(|membership| membership.path.clone()));
            let read = |name: &str| Kind::of(instance.engine).mapped_files.iter().any(|part| name.contains(part));
            let mapped = process.mappings.known().into_iter().flatten();
            let told = mapped.filter(|mapping| mapping.shared && read(&mapping.name));
            servers.files.extend(told.map(|mapping| mapping.name.clone()));
        }
    }
    let all = || host.processes.known().into_iter().flatten();
    let services: BTreeSet<&str> = all()
        .filter(|process| servers.processes.contains(&process.pid))
        .filter_map(|process| service_of(process))
        .collect();
    let neighbours = all().filter(|process| service_of(process).is_some_and(|service| services.contains(service)));
    servers.neighbours = neighbours.map(|process| process.pid).collect();
    let companions: BTreeSet<&str> =
        instances.iter().flat_map(|instance| Kind::of(instance.engine).companions).copied().collect();
    let starters = all().filter(|process| companions.contains(process.name.as_str()));
    servers.starters = starters.map(|process| process.pid).collect();
    servers.users.extend(host.sysv_segments.known().into_iter().flatten().map(|segment| segment.uid));
    let known = |uid: &u32| host.accounts.users.get(uid);
    servers.names.extend(servers.users.iter().filter_map(known).map(|user| user.name.clone()));
    for uid in servers.users.clone() {
        servers.groups.extend(host.accounts.groups_of(uid));
    }
    servers.groups.extend(host.kernel_settings.hugetlb_shm_group.get());
    let groups = servers.groups.iter().filter_map(|gid| host.accounts.groups.get(gid));
    servers.names.extend(groups.flat_map(|group| group.names().cloned()).collect::<Vec<_>>());
    let mounts = host.hugetlbfs_mounts.known().into_iter().flatten();
    servers.hugetlbfs.extend(mounts.map(|mount| mount.path.trim_end_matches('/').to_owned()));
    servers
}

/// `hugewise-db7-2026-03-01.tar.gz`, of letters that are safe in every shell.
fn usual_name(host: &Host) -> PathBuf {
    let safe = |letter: char| if letter.is_ascii_alphanumeric() || "._-".contains(letter) { letter } else { '_' };
    let name: String = host.name.known().map_or("host", String::as_str).chars().map(safe).collect();
    let day = host.read_at.get().and_then(date::day);
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
        let host = |name: &str, read_at| Host { name: Observed::Known(name.into()), read_at, ..Host::default() };
        let day = Observed::Known(1_700_000_000);
        assert_eq!(
            usual_name(&host("db7.example.org", day)),
            PathBuf::from("hugewise-db7.example.org-2023-11-14.tar.gz")
        );
        assert_eq!(usual_name(&host("../a b;c", Observed::Absent)), PathBuf::from("hugewise-.._a_b_c.tar.gz"));
    }
}
