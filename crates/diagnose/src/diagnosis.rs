//! One host, read and judged: what every command starts from, so that no two give two answers.

use std::time::{Duration, Instant};

use hugewise_engines::failover_peer::FailoverPeer;
use hugewise_engines::{EngineFileCache, FoundInstances, connect, session_activity};
use hugewise_host::PreviousReading;
use hugewise_host::process::PreviousProcesses;
use hugewise_host::source::MemoizedSource;
use hugewise_host::{Source, directory};
use hugewise_model::{Host, Instance, Level, Remedy, Unread};

use crate::case::{DiagnosedCase, group_into_cases};
use crate::left_out_accounts::explain_left_out_accounts;
use crate::{Assessment, assess_host, remedy};

/// How a host is diagnosed.
#[derive(Clone, Copy, Default)]
pub struct DiagnosisOptions<'a> {
    /// Also query the servers over their sockets.
    pub connect: bool,
    /// Other nodes, whose instances may be started on this host.
    pub peers: &'a [FailoverPeer],
    /// Ask the directory service for accounts that no file knows: a plan writes their names.
    pub ask_directory: bool,
    /// Leave out the servers that run here: only what is described counts.
    pub without_own_servers: bool,
    /// What was read before, for whoever reads one host again and again.
    pub earlier: Option<EarlierReading<'a>>,
}

/// What earlier readings leave to the next one.
#[derive(Clone, Copy)]
pub struct EarlierReading<'a> {
    /// What was made of files within the last minute.
    pub files: &'a EngineFileCache,
    /// The last host with its instances, where that is not too old.
    pub last: Option<(&'a Host, &'a [Instance])>,
    /// Whether processes that have not run since are taken from there.
    pub reuses_processes: bool,
}

/// One part of the work, with what it took.
#[derive(Clone, Copy, Debug)]
pub struct DiagnosisStage {
    /// `host`, `engines`, `rules`.
    pub name: &'static str,
    /// Time.
    pub took: Duration,
    /// Facts that it could not read, or verdicts that it could not give.
    pub errors: usize,
}

/// A host at one moment, and everything that is said of it.
#[derive(Clone, Debug)]
pub struct Diagnosis {
    /// The host.
    pub host: Host,
    /// Its instances, sorted by engine and name.
    pub instances: Vec<Instance>,
    /// Predictions, target, chains and findings.
    pub assessment: Assessment,
    /// Everything that is there and could not be read, sorted.
    pub unread: Vec<Unread>,
    /// What each part of the work took.
    pub stages: [DiagnosisStage; 3],
}

impl Diagnosis {
    /// Reads the host behind a source, finds its instances, and judges them.
    pub fn run(source: &dyn Source, options: &DiagnosisOptions<'_>) -> Self {
        let earlier = options.earlier;
        let files = earlier.map(|earlier| earlier.files);
        let memoized = MemoizedSource::new(source);
        let mut clock = StageClock(Instant::now());
        let before = earlier.map(|earlier| {
            let last = earlier.last.filter(|_| earlier.reuses_processes);
            let processes = last.map(|(host, _)| PreviousProcesses::from_host(host));
            PreviousReading {
                processes: processes.unwrap_or_default(),
                files: &earlier.files.host,
                kernel: &earlier.files.kernel,
            }
        });
        let mut host = hugewise_host::read_after(&memoized, before);
        let host_stage = clock.end_stage("host", host.unread.len());

        let mut found = FoundInstances::default();
        if !options.without_own_servers {
            found = hugewise_engines::find_after(&host, &memoized, files);
            if options.ask_directory && add_directory_accounts(&mut host, &found.instances) {
                found = hugewise_engines::find_after(&host, &memoized, files);
            }
        }
        let FoundInstances { mut instances, mut unread, .. } = found;
        if options.connect {
            unread.append(&mut connect::query_instances(&host, &mut instances));
        }
        for peer in options.peers {
            instances.extend(peer.instances_on(&host));
            unread.extend(peer.unread_notes());
        }
        instances.sort_by(|a, b| (a.engine, &a.name, a.pid).cmp(&(b.engine, &b.name, b.pid)));
        let before = earlier.map(|earlier| earlier.last.map_or(&[][..], |(_, last)| last));
        session_activity::measure_session_activity(&host, source, &mut instances, before);
        let engines_stage = clock.end_stage("engines", unread.len());

        if host.hidden.is_none() {
            let explain = |unread: &[Unread]| explain_left_out_accounts(&host, &instances, unread);
            host.hidden = explain(&host.unread).or_else(|| explain(&unread));
        }
        let assessment = assess_host(&host, &instances);
        let rules_stage = clock.end_stage("rules", assessment.unknown.len());
        unread.extend_from_slice(&host.unread);
        unread.sort();
        unread.dedup();
        let stages = [host_stage, engines_stage, rules_stage];
        Self { host, instances, assessment, unread, stages }
    }

    /// Judges again, after something has changed what is known of the instances.
    pub fn reassess(&mut self) {
        self.assessment = assess_host(&self.host, &self.instances);
    }

    /// The findings by their causes, worst first.
    pub fn cases(&self) -> Vec<DiagnosedCase<'_>> {
        group_into_cases(&self.host, &self.instances, &self.assessment)
    }

    /// What ends the findings of a level or worse, in the order in which it is done, in words.
    pub fn remedies(&self, least: Level) -> Vec<(Remedy, String)> {
        remedy::to_do(&self.host, &self.instances, &self.assessment, least)
    }
}

struct StageClock(Instant);

impl StageClock {
    fn end_stage(&mut self, name: &'static str, errors: usize) -> DiagnosisStage {
        let now = Instant::now();
        let took = now.duration_since(std::mem::replace(&mut self.0, now));
        DiagnosisStage { name, took, errors }
    }
}

/// Of the host's own servers alone: a container's accounts are not the host's.
fn add_directory_accounts(host: &mut Host, instances: &[Instance]) -> bool {
    let owners = instances.iter().filter(|instance| !instance.containered);
    let owners: Vec<u32> =
        owners.filter_map(|instance| Some(host.find_process(instance.pid)?.uid)).collect();
    directory::add(host, owners)
}
