//! The thread that looks up the database servers: with another program, once a minute, and not
//! while memory is short.

use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::process_table::NOBODY;
use super::{Shared, thread_cpu_ns};
use crate::notes::{BoundedName, MOST_INSTANCES, RecordedInstance};

const INTERVAL: Duration = Duration::from_secs(60);
const PATIENCE: Duration = Duration::from_secs(30);
/// Most bytes of its output: thousands of processes.
const LONGEST: usize = 128 << 10;
const MOST_OWNED: usize = 8192;

#[derive(Clone, Debug)]
pub(crate) struct InstanceDiscovery {
    instances: Vec<DiscoveredInstance>,
    /// Place of the instance, by process.
    owners: Vec<(u32, u16)>,
}

#[derive(Clone, Copy, Debug)]
struct DiscoveredInstance {
    instance: RecordedInstance,
    by_process: bool,
}

impl Default for InstanceDiscovery {
    fn default() -> Self {
        Self {
            instances: Vec::with_capacity(MOST_INSTANCES),
            owners: Vec::with_capacity(MOST_OWNED),
        }
    }
}

impl InstanceDiscovery {
    /// Lines with tabs between: name, sessions or `-`, `processes` or `threads`, pids.
    pub(crate) fn parse(text: &str) -> Self {
        let mut look = Self::default();
        for line in text.lines().take(MOST_INSTANCES) {
            let mut parts = line.split('\t');
            let (Some(name), Some(sessions), Some(model), Some(pids)) =
                (parts.next(), parts.next(), parts.next(), parts.next())
            else {
                continue;
            };
            let Ok(place) = u16::try_from(look.instances.len()) else { break };
            let mut processes = 0;
            for pid in pids.split(' ').filter_map(|pid| pid.parse().ok()) {
                processes += 1;
                if look.owners.len() < MOST_OWNED {
                    look.owners.push((pid, place));
                }
            }
            let instance = RecordedInstance {
                name: BoundedName::new(name.as_bytes()),
                processes,
                sessions: sessions.parse().ok(),
                page_tables_kib: 0,
            };
            look.instances.push(DiscoveredInstance { instance, by_process: model == "processes" });
        }
        look.owners.sort_unstable();
        look
    }

    pub(crate) fn instances(&self) -> impl Iterator<Item = &RecordedInstance> {
        self.instances.iter().map(|found| &found.instance)
    }

    pub(crate) fn owner_index(&self, pid: u32) -> u16 {
        let found = self.owners.binary_search_by_key(&pid, |(pid, _)| *pid);
        found.ok().and_then(|place| self.owners.get(place)).map_or(NOBODY, |(_, owner)| *owner)
    }

    /// Adjusts the sessions by the processes that came and went since.
    pub(crate) fn count_sessions(&self, now: &mut [RecordedInstance]) {
        for (found, now) in self.instances.iter().zip(now) {
            if let Some(sessions) = found.instance.sessions.filter(|_| found.by_process) {
                now.sessions =
                    Some((sessions + now.processes).saturating_sub(found.instance.processes));
            }
        }
    }
}

pub(crate) struct Looker {
    shared: Arc<Shared>,
    program: Vec<String>,
}

impl Looker {
    /// `program` lists the servers; with its arguments.
    pub(crate) const fn new(shared: Arc<Shared>, program: Vec<String>) -> Self {
        Self { shared, program }
    }

    pub(crate) fn run(self) {
        // It and its program are to be in nobody's way.
        let _ = rustix::process::setpriority_process(None, 10);
        let mut due = Instant::now() + Duration::from_secs(2);
        let mut complained = false;
        while !self.shared.is_over() {
            std::thread::sleep(Duration::from_millis(500));
            if Instant::now() < due || self.shared.is_tight.load(Ordering::Relaxed) {
                continue;
            }
            due = Instant::now() + INTERVAL;
            match self.run_program() {
                Ok(text) => self.shared.look.leave_value(&InstanceDiscovery::parse(&text)),
                Err(why) if !complained => {
                    complained = true;
                    self.shared
                        .leave_message(&format!("could not determine the database servers: {why}"));
                }
                Err(_) => {}
            }
            self.shared.used[2].store(thread_cpu_ns(), Ordering::Relaxed);
        }
    }

    fn run_program(&self) -> Result<String, String> {
        let (program, arguments) = self.program.split_first().ok_or("no program")?;
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().map_err(|error| error.to_string())?;
        let said = self.read_output(&mut child);
        // Whether it has ended or not.
        let _ = child.kill();
        let status = child.wait().map_err(|error| error.to_string())?;
        match said {
            Ok(_) if !status.success() => Err(format!("{program} ended with {status}")),
            said => said,
        }
    }

    fn read_output(&self, child: &mut Child) -> Result<String, String> {
        let output = child.stdout.take().ok_or("no output")?;
        let until = Instant::now() + PATIENCE;
        let mut said = vec![0; LONGEST];
        let mut length = 0;
        loop {
            if Instant::now() > until || self.shared.is_over() {
                return Err(format!("it took longer than {} s", PATIENCE.as_secs()));
            }
            let mut asked = [PollFd::new(&output, PollFlags::IN)];
            let half = Timespec { tv_sec: 0, tv_nsec: 500_000_000 };
            if poll(&mut asked, Some(&half)) == Ok(0) {
                continue;
            }
            let room = said.get_mut(length..).filter(|room| !room.is_empty());
            let room = room.ok_or_else(|| format!("it printed more than {LONGEST} bytes"))?;
            match rustix::io::read(&output, room) {
                Ok(0) => break,
                Ok(read) => length += read,
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(std::io::Error::from(error).to_string()),
            }
        }
        while Instant::now() < until && matches!(child.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(20));
        }
        said.truncate(length);
        Ok(String::from_utf8_lossy(&said).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_and_their_processes() {
        let look = InstanceDiscovery::parse(
            "oracle DB1\t300\tprocesses\t10 30 20\nmysql\t7\tthreads\t40\nodd\nredis \
                 6379\t-\tthreads\t50\n",
        );
        assert_eq!(
            look.instances().map(|one| one.name.to_text()).collect::<Vec<_>>(),
            ["oracle DB1", "mysql", "redis 6379"]
        );
        assert_eq!(
            [10, 20, 30, 40, 50, 60].map(|pid| look.owner_index(pid)),
            [0, 0, 0, 1, 2, NOBODY]
        );
        let mut now: Vec<RecordedInstance> = look.instances().copied().collect();
        now[0].processes = 13;
        now[1].processes = 2;
        look.count_sessions(&mut now);
        assert_eq!(
            now.iter().map(|one| one.sessions).collect::<Vec<_>>(),
            [Some(310), Some(7), None]
        );
        now[0].processes = 0;
        look.count_sessions(&mut now);
        assert_eq!(now[0].sessions, Some(297));
    }

    fn new_shared() -> Arc<Shared> {
        let ends = Arc::new(std::sync::atomic::AtomicBool::new(false));
        Arc::new(Shared::new([super::super::Backlog::new(1), super::super::Backlog::new(1)], ends))
    }

    #[test]
    fn what_it_says_is_heard_and_its_failure_told() {
        let ask = |script: &str| {
            Looker::new(new_shared(), ["/bin/sh", "-c", script].map(str::to_owned).to_vec())
                .run_program()
        };
        assert_eq!(ask("echo a; sleep 0.1; echo b").unwrap(), "a\nb\n");
        assert!(ask("exit 3").unwrap_err().contains("exit status: 3"));
        // It is ended then.
        assert!(
            ask("head -c 300000 /dev/zero; sleep 100").unwrap_err().contains("printed more than")
        );
    }
}
