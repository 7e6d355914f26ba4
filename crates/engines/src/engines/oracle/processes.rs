//! The processes of an instance, by their titles and by what they map.

use std::sync::Arc;

use hugewise_model::{Host, Mapping, Process};

use crate::each_known;
use crate::shared::{options, segments, sysv};

/// The parts of `ora_pmon_PROD`. A SID may hold underscores, a task's name does not.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct OracleProcessTitle<'a> {
    pub(super) prefix: &'a str,
    pub(super) task: &'a str,
    pub(super) sid: &'a str,
}

impl<'a> OracleProcessTitle<'a> {
    pub(super) fn from_process(process: &'a Process) -> Option<Self> {
        Self::parse(process_title(process))
    }

    pub(super) fn parse(title: &'a str) -> Option<Self> {
        let (prefix, rest) = title.split_once('_')?;
        let (task, sid) = rest.split_once('_')?;
        let word = |text: &str, longest| {
            (2..=longest).contains(&text.len())
                && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
        };
        let plain = |character: char| {
            character.is_ascii_alphanumeric() || matches!(character, '_' | '$' | '#')
        };
        let bare = sid.strip_prefix(['+', '-']).unwrap_or(sid);
        let fits = word(prefix, 4) && word(task, 5) && !bare.is_empty() && bare.chars().all(plain);
        fits.then_some(Self { prefix, task, sid })
    }
}

pub(super) fn process_title(process: &Process) -> &str {
    let first = process.command.as_known().and_then(|command| command.first());
    first.map(|first| first.trim_end()).filter(|first| !first.is_empty()).unwrap_or(&process.name)
}

#[derive(Default)]
pub(super) struct OracleProcesses {
    pub(super) pids: Vec<u32>,
    pub(super) sessions: u64,
}

impl OracleProcesses {
    /// The processes that are named after the instance, or map what its monitor maps.
    pub(super) fn find(
        host: &Host,
        (pmon, of_user): (&Process, &[&Process]),
        monitor: &OracleProcessTitle<'_>,
        mapped: &[(u64, u64)],
    ) -> Self {
        let mut found = Self::default();
        let mut shared_servers = 0_u64;
        for process in of_user.iter().filter(|process| sysv::same_place(pmon, process)) {
            let text = process_title(process);
            let is_server = is_server_of(text, monitor.sid);
            let belongs = || {
                let title = OracleProcessTitle::parse(text);
                let same_sid = title.as_ref().is_some_and(|title| title.sid == monitor.sid);
                let title = title.as_ref();
                if same_sid && title.is_some_and(|title| title.prefix == monitor.prefix) {
                    return true;
                }
                let is_other_monitor = !same_sid && title.is_some_and(|title| title.task == "pmon");
                let maps_same = |pair: &(u64, u64)| mapped.binary_search(pair).is_ok();
                !is_other_monitor && shared_by(host, process).iter().any(maps_same)
            };
            if is_server || belongs() {
                found.pids.push(process.pid);
                found.sessions += u64::from(is_server);
                shared_servers += u64::from(is_shared_server(text, monitor));
            }
        }
        // One alone is always there. More cost as much as sessions, however many they serve.
        found.sessions += if shared_servers > 1 { shared_servers } else { 0 };
        found
    }
}

pub(super) fn runs_alone(host: &Host, pmon: &Process) -> bool {
    let is_monitor = |process: &&Arc<Process>| {
        process.uid == pmon.uid
            && OracleProcessTitle::from_process(process).is_some_and(|title| title.task == "pmon")
    };
    each_known(&host.processes).filter(is_monitor).count() == 1
}

/// Dedicated servers, `oraclePROD (LOCAL=NO)`, and of ASM's clients, `oracle+ASM_asmb_prod`.
pub(super) fn is_server_of(title: &str, sid: &str) -> bool {
    let Some(rest) = title.strip_prefix("oracle").and_then(|rest| rest.strip_prefix(sid)) else {
        return false;
    };
    rest.is_empty()
        || rest.starts_with([' ', '('])
        || (sid.starts_with('+') && rest.starts_with('_'))
}

pub(super) fn is_shared_server(title: &str, monitor: &OracleProcessTitle<'_>) -> bool {
    let number = OracleProcessTitle::parse(title)
        .filter(|own| own.sid == monitor.sid && own.prefix == monitor.prefix)
        .and_then(|own| own.task.strip_prefix('s'));
    number.is_some_and(|number| number.len() == 3 && options::is_number(number))
}

pub(super) fn is_sga(mapping: &Mapping) -> bool {
    mapping.shared && (mapping.name.starts_with("/SYSV") || is_amm(&mapping.name))
}

/// The granules of automatic memory management, and from 12.2 on the managed global area, which is
/// private memory that processes share.
pub(super) fn is_amm(name: &str) -> bool {
    name.starts_with("/dev/shm/ora_")
}

pub(super) fn shared_by(host: &Host, process: &Process) -> Vec<(u64, u64)> {
    let mappings = each_known(&process.mappings).filter(|mapping| is_sga(mapping));
    let mut identities: Vec<_> =
        mappings.map(|mapping| segments::mapping_identity(host, process, mapping)).collect();
    identities.sort_unstable();
    identities.dedup();
    identities
}
