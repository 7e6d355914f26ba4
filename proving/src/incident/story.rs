//! What happens in the machine: a quiet host, sessions that log in by thirties until memory is
//! short, and their end; with sysstat's own collector and others beside it all the time.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use super::collectors::{START as COLLECT, STOP};
use crate::vm::machine::{Disk, Machine};
use hugewise_testkit::tools::Failure;

/// The server's segment, and the pages of 2 MiB that it takes.
const SEGMENT_MIB: u32 = 400;
const POOL_PAGES: u32 = SEGMENT_MIB / 2;
/// A file that is in the page cache when it begins.
const CACHE_MIB: u32 = 300;
/// Sessions that log in at a time, and those that are there before.
const LOT: u32 = 30;
/// Lots at the least and at the most.
const LEAST_LOTS: u32 = 8;
const MOST_LOTS: u32 = 12;
/// Seconds without anything, which are the archive's idea of normal.
const QUIET: u32 = 120;
/// Seconds from one lot to the next.
const PAUSE: u32 = 4;
/// Pages scanned in all from which on memory counts as short.
const SHORT: u32 = 5_000;
/// Seconds for which logins go on from then on.
const STORM: u32 = 60;
/// Seconds until memory is short at the latest.
const PATIENCE: u32 = 600;
/// Seconds afterwards.
const AFTER: u32 = 20;
/// How long all of it may take, on a machine that is short of everything.
const LIMIT: Duration = Duration::from_secs(3 * 3600);
/// How often it is asked how far it is.
const TICK: Duration = Duration::from_secs(5);

/// What the sessions are on.
#[derive(Clone, Copy)]
pub(super) enum Pages {
    Base,
    /// Of 2 MiB: as many lots as there were on base pages, for as long.
    Huge {
        lots: u32,
        seconds: u32,
    },
}

impl Pages {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Base => "base pages",
            Self::Huge { .. } => "2 MiB pages",
        }
    }

    /// The folder of its archives.
    pub(super) const fn folder(self) -> &'static str {
        match self {
            Self::Base => "base",
            Self::Huge { .. } => "huge",
        }
    }
}

/// What the machine says of a run.
pub(super) struct MachineReport {
    /// Lots that logged in, the first one among them.
    pub(super) lots: u32,
    /// From the first login to the end of all sessions, in seconds.
    pub(super) seconds: u32,
    /// When the first logged in and the last was gone, in seconds since 1970.
    pub(super) from: i64,
    pub(super) to: i64,
    /// Processes that the kernel killed for their memory.
    pub(super) killed: u32,
}

/// The file of a folder of archives that has the machine's words.
const KEPT: &str = "told";

impl MachineReport {
    /// Of a run that was kept; `None` where there is none.
    pub(super) fn read(folder: &Path) -> Option<Self> {
        Self::parse(&fs::read_to_string(folder.join(KEPT)).ok()?).ok()
    }

    fn parse(said: &str) -> Result<Self, Failure> {
        let words: Vec<&str> = said.split_ascii_whitespace().collect();
        let [lots, seconds, from, to, killed] = words.as_slice() else {
            return Err(format!("the machine says of the run: {said}").into());
        };
        Ok(Self {
            lots: lots.parse()?,
            seconds: seconds.parse()?,
            from: from.parse()?,
            to: to.parse()?,
            killed: killed.parse()?,
        })
    }

    pub(super) const fn sessions(&self) -> u32 {
        self.lots * LOT
    }
}

/// Lets it happen, and leaves what the collectors wrote in `folder`; `tell` gets how far it is.
pub(super) fn run(
    disk: &Disk,
    machine: &mut Machine,
    pages: Pages,
    folder: &Path,
    tell: &mut dyn FnMut(&str),
) -> Result<MachineReport, Failure> {
    machine.must_within(&before(pages), LIMIT)?;
    let start =
        format!("cat >/run/story <<'end of story'\n{}end of story\n{START}", happens(pages));
    machine.must_within(&start, LIMIT)?;
    let until = Instant::now() + LIMIT;
    let mut last = String::new();
    let told = loop {
        std::thread::sleep(TICK);
        let said = machine.must_within("tail -n 1 /run/said", LIMIT)?;
        if let Some(told) = said.strip_prefix("done ") {
            break told.to_owned();
        }
        if said != last {
            tell(said.trim_end());
        }
        if Instant::now() > until {
            return Err(format!("the run does not end; at last: {said}").into());
        }
        last = said;
    };
    machine.must_within("tar -cf /dev/vdc -C /var/log/collected .; sync", LIMIT)?;
    disk.unpack(folder)?;
    fs::write(folder.join(KEPT), &told)?;
    MachineReport::parse(&told)
}

/// As a unit of its own, which is not killed for memory, and goes on when the kernel kills a
/// process in it.
const START: &str = "systemd-run --quiet --unit=story --property=OOMScoreAdjust=-1000 \
     --property=OOMPolicy=continue --property=StandardOutput=file:/run/said bash /run/story
until [ -s /run/said ]; do sleep 0.1; done
";

/// Swap, the pool where one is wanted, the server with its first sessions.
fn before(pages: Pages) -> String {
    let (pool, size) = match pages {
        Pages::Base => (0, "base"),
        Pages::Huge { .. } => (POOL_PAGES, "2M"),
    };
    format!(
        "set -e
fallocate -l 768M /swap
chmod 600 /swap
mkswap /swap >/dev/null
swapon /swap
# Little is kept in reserve: a burst of logins has to free memory itself.
sysctl -q vm.swappiness=10 vm.min_free_kbytes=2048 vm.watermark_scale_factor=1 \
             vm.nr_hugepages={pool}
[ $(cat /proc/sys/vm/nr_hugepages) = {pool} ]
mkdir /run/server
# What is easily taken back, as a host that has run for a while has it.
fallocate -l {CACHE_MIB}M /cache
cat /cache >/dev/null
mkfifo /run/server/lots
# Should memory run out in spite of all, sessions are the first to go.
choom -n 900 -- standin --as oracle:STORM --segments {SEGMENT_MIB}M --pages {size} \
             --only-sessions --sparse \\
    --sessions $(({MOST_LOTS} * {LOT})) --by {LOT} <>/run/server/lots >/run/server/said 2>&1 &
echo $! >/run/server/pid
for second in $(seq 300); do [ $(pgrep -cf '^oracleSTORM') -ge {LOT} ] && break; sleep 1; done
[ $(pgrep -cf '^oracleSTORM') = {LOT} ] || {{ cat /run/server/said >&2; exit 1; }}
sleep 10
"
    )
}

/// Says how many lots there were, for how long, from when to when, and how many processes the
/// kernel killed.
fn happens(pages: Pages) -> String {
    let (lots, seconds) = match pages {
        Pages::Base => (MOST_LOTS, 0),
        Pages::Huge { lots, seconds } => (lots, seconds),
    };
    format!(
        r#"export LANG=C TZ=UTC intervals=1 atops=none
{COLLECT}atop -w atop-10 10 &
collectors="$collectors $!"
exec 3>/run/server/lots
echo quiet
sleep {QUIET}

# Without a process of its own, which a host that is short of memory may be slow to give.
look() {{
    scans=0
    while read -r name value; do
        case $name in pgscan_kswapd | pgscan_direct) scans=$((scans + value)) ;; esac
    done </proc/vmstat
}}
look
before=$scans lots=1 short= begun=$SECONDS from=$(date +%s)
while :; do
    if ((lots < {lots})); then
        echo >&3
        lots=$((lots + 1))
    fi
    sleep {PAUSE}
    look
    gone=$((SECONDS - begun))
    echo $lots lots after $gone s, $((scans - before)) pages scanned
    if (({seconds} > 0)); then
        ((gone >= {seconds})) && break
        continue
    fi
    [ -z "$short" ] && ((lots >= {LEAST_LOTS} && scans - before > {SHORT})) && short=$gone
    [ -n "$short" ] && ((gone - short >= {STORM})) && break
    ((gone >= {PATIENCE})) && break
done
kill $(cat /run/server/pid)
for second in $(seq 120); do
    pgrep -f '^oracleSTORM' >/dev/null || break
    sleep 1
done
gone=$((SECONDS - begun)) to=$(date +%s)
sleep {AFTER}
{STOP}echo done $lots $gone $from $to $(dmesg | grep -c 'Killed process')
"#
    )
}
