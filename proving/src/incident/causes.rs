//! What is done to the machine, one cause a run, and what it is to be called.

use super::scripts::{FRAGMENT, OUT_OF_MEMORY, SWAP, sessions};

/// Causes one after another in one machine, and in the same archives: they leave nothing behind for
/// one another.
pub(super) struct Play {
    pub(super) name: &'static str,
    /// Before the collectors start.
    pub(super) before: &'static str,
    /// Seconds of nothing with them, before the first begins.
    pub(super) quiet: u32,
    pub(super) causes: &'static [Cause],
    /// Whether disks matter in it: then idle time does not pass at once.
    pub(super) disks: bool,
    /// Nanoseconds of an instruction, as a power of two.
    pub(super) shift: u8,
    /// Requests a second of a disk of its own.
    pub(super) slow_disk: Option<u32>,
    /// Seconds for which the machine stands still after the quiet, and then starts anew; that is
    /// the cause.
    pub(super) hangs: Option<u32>,
}

impl Play {
    const PLAIN: Self = Self {
        name: "",
        before: "",
        quiet: QUIET,
        causes: &[],
        disks: false,
        shift: SHIFT,
        slow_disk: None,
        hangs: None,
    };
}

/// A processor of 125 million instructions a second: at half of that the collectors left it no
/// rest.
const SHIFT: u8 = 3;
/// One of 250 million, for what has to be many in a second.
const QUICK: u8 = 2;

/// With what follows, enough rows at the longest interval for what is usual.
const QUIET: u32 = 420;

/// One cause.
pub(super) struct Cause {
    pub(super) name: &'static str,
    /// The verdict that is right; `None` of a host that has no trouble.
    pub(super) verdict: Option<&'static str>,
    /// Verdicts that are true of it too: what the cause brings about, and all that some sources
    /// see.
    pub(super) also: &'static [&'static str],
    /// Begins it, lasts, and ends it; `$lasts` are its seconds.
    pub(super) does: &'static str,
    pub(super) lasts: u32,
}

impl Cause {
    /// Three rows and a part of one at the longest interval.
    const PLAIN: Self = Self { name: "", verdict: None, also: &[], does: "", lasts: 220 };
}

const PROCESSORS: &[Cause] = &[
    Cause {
        name: "user-cpu",
        verdict: Some("user-cpu"),
        also: &[],
        does: "stress-ng --quiet --cpu 30 --cpu-method int64 --timeout ${lasts}s\n",
        ..Cause::PLAIN
    },
    Cause {
        name: "batch",
        does: "stress-ng --quiet --cpu 3 --cpu-method int64 --timeout ${lasts}s\n",
        ..Cause::PLAIN
    },
    Cause {
        name: "system-calls",
        verdict: Some("kernel-cpu"),
        also: &[],
        does: "for one in 1 2 3 4; do
    dd if=/dev/urandom of=/dev/null bs=64k status=none & dds=\"$dds $!\"
done
sleep $lasts
kill $dds
",
        ..Cause::PLAIN
    },
];

const MEMORY: &[Cause] = &[
    Cause {
        name: "cgroup-limit",
        verdict: Some("cgroup-limit"),
        also: &[],
        does: "limits='--property=MemoryHigh=64M --property=MemorySwapMax=0'
systemd-run --quiet --wait $limits --property=RuntimeMaxSec=$lasts \\
    stress-ng --quiet --vm 2 --vm-bytes 240M --vm-keep --timeout ${lasts}s
",
        ..Cause::PLAIN
    },
    Cause {
        name: "build",
        does: "timeout $lasts sh -c 'yes | xargs -P 4 -I{} sh -c \"seq 3000 | sort -R | gzip | \
             sha256sum\"' >/dev/null
",
        ..Cause::PLAIN
    },
];

const SESSIONS: &[Cause] =
    &[Cause { name: "quiet", does: "sleep $lasts\n", lasts: 1500, ..Cause::PLAIN }];

pub(super) const PLAYS: &[Play] = &[
    Play { name: "processors", causes: PROCESSORS, ..Play::PLAIN },
    Play {
        name: "forks",
        shift: QUICK,
        causes: &[Cause {
            name: "fork-storm",
            verdict: Some("fork-storm"),
            also: &["kernel-cpu"],
            // A small program forks quickly even where each instruction is emulated.
            does: "for one in 1 2 3; do
    timeout ${lasts}s sh -c 'while :; do ( : ); done' & loops=\"$loops $!\"
done
wait $loops || true
",
            ..Cause::PLAIN
        }],
        ..Play::PLAIN
    },
    Play { name: "memory", causes: MEMORY, ..Play::PLAIN },
    Play {
        name: "oom",
        disks: true,
        causes: &[Cause {
            name: "oom-kill",
            verdict: Some("out-of-memory"),
            also: &["reclaim-storm"],
            does: OUT_OF_MEMORY,
            ..Cause::PLAIN
        }],
        ..Play::PLAIN
    },
    Play {
        name: "sessions",
        before: sessions!("16M", "310", "10"),
        causes: &[Cause {
            name: "login-storm",
            verdict: Some("login-storm"),
            also: &["kernel-cpu"],
            does: "for lot in $(seq 30); do echo >&3; done
sleep $lasts
kill $server
for second in $(seq 100); do pgrep -f '^oracleSTORM' >/dev/null || break; sleep 1; done
",
            ..Cause::PLAIN
        }],
        ..Play::PLAIN
    },
    Play {
        name: "disks",
        disks: true,
        slow_disk: Some(12),
        causes: &[
            Cause {
                name: "disk-wait",
                verdict: Some("disk-stall"),
                also: &[],
                does: "for one in $(seq 30); do
    dd if=/dev/vdd of=/dev/null bs=4k iflag=direct skip=$((one * 2000)) status=none & dds=\"$dds \
                     $!\"
done
sleep $lasts
kill $dds; wait $dds || true
",
                ..Cause::PLAIN
            },
            Cause {
                name: "backup",
                does: "timeout $lasts sh -c 'while :; do dd if=/dev/vda bs=1M status=none | gzip \
                     -1 >/dev/null; done'
",
                ..Cause::PLAIN
            },
        ],
        ..Play::PLAIN
    },
    Play {
        name: "compaction",
        before: FRAGMENT,
        causes: &[Cause {
            name: "compaction",
            verdict: Some("compaction-stall"),
            also: &["kernel-cpu"],
            // stress-ng's own memory got no huge pages on Linux 6.1, whatever it was told.
            does: r"cat >/run/huge <<'end'
use strict;
my ($mmap, $munmap, $madvise) = (9, 11, 28);
my $size = 60 << 20;
fork();
fork();
while (1) {
    my $start = syscall($mmap, 0, $size, 3, 0x22, -1, 0);
    my $aligned = ($start + 0x1fffff) & ~0x1fffff;
    syscall($madvise, $aligned, $size - 0x200000, 14) == 0 or die 'madvise: ' . $!;
    syscall($madvise, $start, $size, 23) == 0 or die 'populate: ' . $!;
    syscall($munmap, $start, $size);
}
end
timeout $lasts choom -n 900 -- perl /run/huge || true
pkill -f /run/huge || true
grep -E '^(thp_fault|compact_stall)' /proc/vmstat
",
            ..Cause::PLAIN
        }],
        ..Play::PLAIN
    },
    Play {
        name: "swap",
        before: SWAP,
        disks: true,
        causes: &[Cause {
            name: "swap-storm",
            verdict: Some("swap-storm"),
            also: &[],
            // stress-ng touches too little of its memory where each instruction is emulated.
            does: r#"cat >/run/more <<'end'
my @mib = map { "x" x (1 << 20) } 1 .. 900;
substr($mib[rand @mib], 4096 * int(rand 256), 1) = "y" while 1;
end
timeout $lasts choom -n 900 -- perl /run/more || true
"#,
            ..Cause::PLAIN
        }],
        ..Play::PLAIN
    },
    Play {
        name: "reclaim",
        before: "fallocate -l 700M /big
choom -n 900 -- stress-ng --quiet --vm 1 --vm-bytes 560M --vm-keep --vm-hang 0 --vm-populate &
hog=$!
sleep 20
",
        disks: true,
        causes: &[Cause {
            name: "reclaim-storm",
            verdict: Some("reclaim-storm"),
            also: &["kernel-cpu"],
            // More of a file than fits is mapped and populated, again and again, by more than
            // kswapd keeps up with.
            does: r#"cat >/run/readers <<'end'
use strict;
my ($mmap, $madvise) = (9, 28);
my $size = 400 << 20;
open(my $file, '<', '/big') or die "open: $!";
fork();
fork();
my $start = syscall($mmap, 0, $size, 1, 1, fileno($file), (1 + $$ % 4) * (64 << 20));
syscall($madvise, $start, $size, 22) while 1;
end
timeout $lasts choom -n 900 -- perl /run/readers || true
pkill -f /run/readers || true
"#,
            ..Cause::PLAIN
        }],
        ..Play::PLAIN
    },
    Play {
        name: "hang",
        hangs: Some(2400),
        causes: &[Cause { name: "hang", verdict: Some("hang"), also: &[], does: "", ..Cause::PLAIN }],
        ..Play::PLAIN
    },
    Play {
        name: "page-tables",
        before: concat!(
            "fallocate -l 768M /swap; chmod 600 /swap; mkswap /swap >/dev/null; swapon /swap
sysctl -q vm.swappiness=10 vm.min_free_kbytes=2048 vm.watermark_scale_factor=1
fallocate -l 300M /cache; cat /cache >/dev/null
",
            sessions!("400M", "600", "30")
        ),
        disks: true,
        causes: &[Cause {
            name: "page-tables-reclaim",
            verdict: Some("reclaim-by-page-tables"),
            also: &["reclaim-storm", "swap-storm", "kernel-cpu", "out-of-memory", "page-tables-growing", "login-storm"],
            does: "scans() { awk '/^pgscan_(kswapd|direct) / { sum += $2 } END { print sum }' /proc/vmstat; }
before=$(scans)
until=$((SECONDS + 300))
for lot in $(seq 2 20); do
    echo >&3; sleep 4
    [ $(($(scans) - before)) -gt 5000 ] && break
done
# Log-ins go on while memory is short.
until2=$((SECONDS + lasts))
while [ $SECONDS -lt $until2 ]; do sleep 20; echo >&3; done
kill $server
for second in $(seq 100); do pgrep -f '^oracleSTORM' >/dev/null || break; sleep 1; done
",
            lasts: 200,
        }],
        ..Play::PLAIN
    },
    Play {
        name: "growing",
        before: sessions!("300M", "150", "6"),
        causes: &[Cause {
            name: "page-tables-growing",
            verdict: Some("page-tables-growing"),
            also: &["login-storm"],
            does: "for lot in $(seq 24); do echo >&3; sleep 40; done
sleep 300
",
            ..Cause::PLAIN
        }],
        ..Play::PLAIN
    },
    Play {
        name: "standing",
        before: sessions!("300M", "150", "150"),
        quiet: 0,
        causes: &[Cause {
            name: "page-tables-standing",
            verdict: Some("page-tables-standing"),
            also: &[],
            does: "sleep $lasts\n",
            lasts: 1500,
        }],
        ..Play::PLAIN
    },
    Play {
        name: "pool",
        before: "sysctl -q vm.nr_hugepages=150\n",
        quiet: 0,
        causes: &[Cause {
            name: "unused-pool",
            verdict: Some("pool-unused"),
            also: &[],
            does: "sleep $lasts\n",
            lasts: 2400,
        }],
        ..Play::PLAIN
    },
    Play { name: "quiet", quiet: 0, causes: SESSIONS, ..Play::PLAIN },
];

/// Every cause.
pub(super) fn all() -> impl Iterator<Item = &'static Cause> {
    PLAYS.iter().flat_map(|play| play.causes)
}
