//! The collectors that run beside each other in the machine, each at all intervals at once, and the
//! archives that they leave.

use std::path::{Path, PathBuf};

/// Seconds between two samples.
pub(super) const INTERVALS: [u32; 3] = [1, 10, 60];

/// Who collects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Collector {
    Sar,
    Vmstat,
    Atop,
    Pcp,
    Recorder,
}

impl Collector {
    pub(super) const ALL: [Self; 5] =
        [Self::Sar, Self::Vmstat, Self::Atop, Self::Pcp, Self::Recorder];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Sar => "sar",
            Self::Vmstat => "vmstat",
            Self::Atop => "atop",
            Self::Pcp => "PCP",
            Self::Recorder => "recorder",
        }
    }

    /// Whether it runs at that interval beside the others. atop at 1 s does not: it took 75 % of a
    /// processor of 62 million instructions a second at a priority (nice -20) at which it goes
    /// before the others, and its samples came 3 s apart.
    pub(super) const fn samples_at(self, interval: u32) -> bool {
        !matches!((self, interval), (Self::Atop, 1))
    }

    /// What it wrote at an interval, in the folder of a run.
    pub(super) fn archive(self, folder: &Path, interval: u32) -> PathBuf {
        let name = match self {
            Self::Sar => format!("sar-{interval}"),
            Self::Vmstat => format!("vmstat-{interval}.log"),
            Self::Atop => format!("atop-{interval}"),
            Self::Pcp => format!("pcp-{interval}"),
            Self::Recorder => format!("record-{interval}/seconds.ring"),
        };
        folder.join(name)
    }
}

/// What OSWatcher's loop wrote.
pub(super) const OSWATCHER: &str = "vm_vmstat.dat";

/// Starts all of them, as jobs of the shell, at all intervals or at `$intervals`, atop at `$atops`
/// of these. What pmlogger records is of the groups that its usual configuration has; it takes them
/// itself, as pmcd with its scripts takes minutes to start where a processor is emulated.
pub(super) const START: &str = r#"mkdir -p /var/log/collected
cd /var/log/collected
cat >/run/pmlogger.conf <<'end'
log mandatory on default {
    hinv.ncpu
    hinv.physmem
    hinv.pagesize
    hinv.hugepagesize
    kernel.uname
    kernel.all.cpu
    kernel.all.load
    kernel.all.intr
    kernel.all.pswitch
    kernel.all.sysfork
    kernel.all.running
    kernel.all.blocked
    kernel.all.nprocs
    kernel.all.pressure
    mem.physmem
    mem.util
    mem.vmstat
    swap
    disk.all
    network.tcp
}
end
boot=$(ls -d pcp-1/*.index 2>/dev/null | wc -l)
for every in ${intervals:-1 10 60}; do
    /usr/lib/sysstat/sadc -S DISK $every sar-$every &
    vmstat -t $every >>vmstat-$every.log &
    case " ${atops:-$every} " in *" $every "*) atop -w atop-$every $every & ;; esac
    mkdir -p pcp-$every
    pmlogger -o -c /run/pmlogger.conf -t $every -l /run/pmlogger-$every.log pcp-$every/pcp$boot &
    mkdir -p -m 700 record-$every
    hugewise record --interval $every --hours 4 --days 1 --out record-$every &
done >/run/collectors 2>&1
# OSWatcher's own loop: vmstat started anew every few seconds.
{
    echo "Linux OSWbb v8.0.1 vm"
    while :; do echo "zzz ***$(date)"; vmstat 1 3; sleep 3; done
} >>vm_vmstat.dat 2>&1 &
collectors=$(jobs -p)
"#;

/// Ends them.
pub(super) const STOP: &str = "kill $collectors 2>/dev/null
wait $collectors 2>/dev/null || true
";
