//! What an instance leaves on its host: processes, parameter files, its alert log, and lines of
//! tables.

use std::fmt::Write as _;

use super::alert;
use super::database::{Database, ParameterStore};
use super::files::FixtureFiles;
use super::machine::{Distribution, FixtureMachine};
use super::process::{FixtureProcess, FixtureProcesses, Mapped};
use super::segments::FixtureSegment;

pub(crate) fn add(
    database: &Database,
    machine: &FixtureMachine,
    segments: &[FixtureSegment],
    files: &mut FixtureFiles,
    processes: &mut FixtureProcesses,
) {
    add_parameters(database, files);
    let log = alert::AlertLogStart { database, segments, machine };
    if database.logs {
        files.add_file(&alert::alert_log_path(database), log.render_alert_log());
    }
    if !database.running {
        return;
    }
    let background = database.background_processes();
    let mut from =
        database.clients.iter().flat_map(|(address, count)| (0..*count).map(move |_| *address));
    let of_session = || format!("oracle{} (LOCAL=NO)", database.sid);
    let sessions = (0..database.sessions).map(|_| (of_session(), true));
    for (at, (title, is_session)) in
        background.into_iter().map(|title| (title, false)).chain(sessions).enumerate()
    {
        let mapped = map_segments(
            segments,
            if is_session { database.touched } else { of_background(database, &title) },
        );
        let sockets = if is_session { from.next() } else { None };
        let uid = machine.uid_of(&database.owner);
        let sockets =
            sockets.map(|client| processes.add_connection(client, 1521, uid)).into_iter().collect();
        processes.push(FixtureProcess {
            name: if is_session {
                format!("oracle_{at}_{}", database.sid.to_lowercase())
            } else {
                title.clone()
            },
            command: vec![title],
            executable: format!("{}/bin/oracle", database.home()),
            directory: database.dbs_folder(),
            uid,
            groups: FixtureMachine::groups_of(&database.owner),
            memlock: database.memlock,
            cgroup: machine.cgroup_path(database.clustered),
            private: if is_session { database.private } else { 4096 },
            mapped,
            sockets,
            tells_pages: at == 0,
        });
    }
}

/// The database writer has touched all of it, the others what a session has.
fn of_background(database: &Database, title: &str) -> u64 {
    if title.contains("_dbw") { database.sga } else { database.touched }
}

fn add_parameters(database: &Database, files: &mut FixtureFiles) {
    let (home, dbs) = (database.home(), database.dbs_folder());
    // What the program is, is nobody's business here: that it is there is.
    files.add_file(&format!("{home}/bin/oracle"), "");
    // Whose base it is, since 11.2; Y for a read-only home (Installation Guide 18c, "About
    // orabasetab").
    if database.is_release(&[11, 2]) {
        let letter = if database.read_only_home { 'Y' } else { 'N' };
        files.add_file(
            &format!("{home}/install/orabasetab"),
            format!("{home}:{}:OraHome1:{letter}:\n", database.base()),
        );
    }
    // `orapwSID` is there with every layout, so that the folder is.
    files.add_file(&format!("{dbs}/orapw{}", database.sid), "");
    let text: String =
        database.parameters.iter().map(|(name, value)| format!("*.{name}={value}\n")).collect();
    match database.kept {
        ParameterStore::Pfile => files.add_file(&format!("{dbs}/init{}.ora", database.sid), text),
        ParameterStore::Spfile => {
            files.add_file(&format!("{dbs}/spfile{}.ora", database.sid), encode_spfile(&text))
        }
        ParameterStore::InAsm => {}
    }
}

/// A server parameter file: blocks of 512 bytes with a header of 20, a tail of 4, and the text
/// between them (Frits Hoogland, "Getting the database parameters from a spfile"; the sample of
/// RedHatInsights' insights-core).
fn encode_spfile(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for part in text.as_bytes().chunks(512 - 24) {
        let mut block = vec![0_u8; 20];
        block.splice(..2, *b"C\"");
        block.extend_from_slice(part);
        block.resize(512, 0);
        bytes.extend(block);
    }
    bytes.extend([0; 512]);
    bytes
}

/// What a process maps that has touched so many bytes: the first segments first.
fn map_segments(segments: &[FixtureSegment], touched: u64) -> Vec<Mapped> {
    let mut left = touched >> 10;
    let map = |segment: &FixtureSegment| {
        let share = left.min(segment.resident_kib());
        left -= share;
        let of_system_v = segment.file.is_none();
        Mapped {
            start: segment.start,
            bytes: segment.bytes,
            device: if of_system_v { "00:04" } else { "00:13" },
            inode: segment.id,
            name: segment
                .file
                .clone()
                .unwrap_or_else(|| format!("/SYSV{:08x} (deleted)", segment.key)),
            huge: segment.huge,
            touched: share,
        }
    };
    segments.iter().map(map).collect()
}

/// oratab, and limits and kernel parameters as Oracle's preinstallation sets them.
pub(crate) fn add_tables(databases: &[Database], clustered: bool, files: &mut FixtureFiles) {
    let mut text = "# written by dbca and root.sh: $ORACLE_SID:$ORACLE_HOME:<N|Y>:\n".to_owned();
    for database in databases {
        // Of a cluster's databases Clusterware decides, and the table says N.
        let letter = if database.starts_at_boot && !clustered { 'Y' } else { 'N' };
        let _ = writeln!(text, "{}:{}:{letter}", database.sid, database.home());
    }
    if !databases.is_empty() {
        files.add_file("/etc/oratab", text);
    }
}

/// Rows of /proc/sysvipc/shm; kernels before 2.6.33 know no rss and swap (ipc/shm.c).
pub(crate) fn system_v(
    machine: &FixtureMachine,
    databases: &[Database],
    layout: &[Vec<FixtureSegment>],
) -> String {
    let tells = machine.distribution != Distribution::RedHat5;
    let more = if tells { "                   rss                  swap" } else { "" };
    let mut text = format!(
        "       key      shmid perms                  size  cpid  lpid \
             nattch   uid   gid  cuid  cgid      atime      dtime      ctime{more}\n"
    );
    for (database, segments) in databases.iter().zip(layout) {
        let attached = database.background_processes().len()
            + usize::try_from(database.sessions).unwrap_or_default();
        for segment in segments.iter().filter(|segment| segment.file.is_none()) {
            let uid = machine.uid_of(&database.owner);
            let _ = write!(
                text,
                "{:>10} {:>10}  640 {:>21}  4100  4100 {attached:>6} {uid} 54321 {uid} 54321 \
                     1759900000 1759900000 1759890000",
                segment.key, segment.id, segment.bytes
            );
            if tells {
                let _ = write!(
                    text,
                    " {:>21} {:>21}",
                    segment.resident_kib() << 10,
                    segment.swapped << 10
                );
            }
            text.push('\n');
        }
    }
    text
}
