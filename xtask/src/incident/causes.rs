//! What is done to the machine, one cause a run, and what it is to be called.

/// One cause.
pub(super) struct Cause {
    pub(super) name: &'static str,
    /// The verdict that is right; `None` of a host that has no trouble.
    pub(super) verdict: Option<&'static str>,
    /// Verdicts that are true of it too: what the cause brings about, and all that some sources see.
    pub(super) also: &'static [&'static str],
    /// Before the collectors start.
    pub(super) before: &'static str,
    /// Seconds of nothing with them, before it begins.
    pub(super) quiet: u32,
    /// Begins it, lasts, and ends it; `$lasts` are its seconds.
    pub(super) does: &'static str,
    pub(super) lasts: u32,
    /// Whether disks matter in it: then idle time does not pass at once.
    pub(super) disks: bool,
    /// Requests a second of a disk of its own.
    pub(super) slow_disk: Option<u32>,
    /// Seconds for which the machine stands still, and then starts anew.
    pub(super) hangs: Option<u32>,
}

impl Cause {
    const PLAIN: Self = Self {
        name: "",
        verdict: None,
        also: &[],
        before: "",
        quiet: 900,
        does: "",
        lasts: 300,
        disks: false,
        slow_disk: None,
        hangs: None,
    };
}

/// Sessions of a stand-in that log in by lots, a line each.
macro_rules! sessions {
    ($segment:literal, $sessions:literal, $by:literal) => {
        concat!(
            "mkfifo /run/lots
choom -n 900 -- standin --as oracle:STORM --segments ",
            $segment,
            " --only-sessions --sparse --sessions ",
            $sessions,
            " --by ",
            $by,
            " <>/run/lots >/run/server 2>&1 &
server=$!
until [ $(pgrep -cf '^oracleSTORM') -ge ",
            $by,
            " ]; do sleep 1; done
exec 3>/run/lots
sleep 5
"
        )
    };
}

const SWAP: &str = "fallocate -l 768M /swap
chmod 600 /swap
mkswap /swap >/dev/null
swapon /swap
";

/// Takes nearly all free memory in base pages and gives back all but four pages of each 2 MiB. These are held by pipes, and
/// such pages the kernel cannot move.
const FRAGMENT: &str = r#"cat >/run/fragment <<'end'
use strict;
my ($mmap, $munmap, $madvise, $vmsplice) = (9, 11, 28, 278);
my ($available) = `cat /proc/meminfo` =~ /MemAvailable:\s+(\d+)/;
my $size = ($available - 120_000) * 1024 & ~0x1fffff;
my $start = syscall($mmap, 0, $size, 3, 0x22, -1, 0);
my $aligned = ($start + 0x1fffff) & ~0x1fffff;
syscall($madvise, $start, $size, 15) == 0 or die "madvise: $!";
syscall($madvise, $start, $size, 23) == 0 or die "populate: $!";
my @pipes;
my $room = 0;
for (my $at = $aligned; $at < $start + $size; $at += 0x80000) {
    if (!$room) { pipe(my $out, my $in) or die "pipe: $!"; push @pipes, [$out, $in]; $room = 16; }
    my $piece = pack('QQ', $at, 4096);
    syscall($vmsplice, fileno($pipes[-1][1]), $piece, 1, 0) == 4096 or die "vmsplice: $!";
    $room--;
}
syscall($munmap, $start, $size) == 0 or die "munmap: $!";
open(my $ready, '>', '/run/fragmented');
close $ready;
sleep;
end
ulimit -n 65536
choom -n -1000 -- perl /run/fragment &
until [ -e /run/fragmented ]; do sleep 1; done
echo always >/sys/kernel/mm/transparent_hugepage/enabled
echo always >/sys/kernel/mm/transparent_hugepage/defrag
"#;

pub(super) const ALL: &[Cause] = &[
    Cause {
        name: "page-tables-reclaim",
        verdict: Some("reclaim-by-page-tables"),
        also: &["reclaim-storm", "swap-storm", "kernel-cpu", "out-of-memory"],
        before: concat!(
            "fallocate -l 768M /swap; chmod 600 /swap; mkswap /swap >/dev/null; swapon /swap
sysctl -q vm.swappiness=10 vm.min_free_kbytes=2048 vm.watermark_scale_factor=1
fallocate -l 300M /cache; cat /cache >/dev/null
",
            sessions!("400M", "600", "30")
        ),
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
kill $server; for second in $(seq 100); do pgrep -f '^oracleSTORM' >/dev/null || break; sleep 1; done
",
        lasts: 200,
        disks: true,
        ..Cause::PLAIN
    },
    Cause {
        name: "reclaim-storm",
        verdict: Some("reclaim-storm"),
        also: &["kernel-cpu"],
        before: "fallocate -l 700M /big
choom -n 900 -- stress-ng --quiet --vm 1 --vm-bytes 560M --vm-keep --vm-hang 0 --vm-populate &
hog=$!
sleep 20
",
        does: "for reader in $(seq 12); do while :; do cat /big; done >/dev/null & readers=\"$readers $!\"; done
sleep $lasts
kill $readers; pkill -x cat
",
        disks: true,
        ..Cause::PLAIN
    },
    Cause {
        name: "swap-storm",
        verdict: Some("swap-storm"),
        also: &[],
        before: SWAP,
        does: "choom -n 900 -- stress-ng --quiet --vm 2 --vm-bytes 1200M --vm-method walk-1d --timeout ${lasts}s || true\n",
        disks: true,
        ..Cause::PLAIN
    },
    Cause {
        name: "oom-kill",
        verdict: Some("out-of-memory"),
        also: &["reclaim-storm"],
        does: "choom -n 900 -- stress-ng --quiet --vm 1 --vm-bytes 1500M --vm-keep --vm-method zero-one --timeout ${lasts}s || true\n",
        ..Cause::PLAIN
    },
    Cause {
        name: "cgroup-limit",
        verdict: Some("cgroup-limit"),
        also: &[],
        does: "systemd-run --quiet --wait --property=MemoryHigh=64M --property=MemorySwapMax=0 --property=RuntimeMaxSec=$lasts \
stress-ng --quiet --vm 2 --vm-bytes 240M --vm-keep --timeout ${lasts}s || true\n",
        ..Cause::PLAIN
    },
    Cause {
        name: "compaction",
        verdict: Some("compaction-stall"),
        also: &["kernel-cpu"],
        before: FRAGMENT,
        does: "choom -n 900 -- stress-ng --quiet --vm 4 --vm-bytes 240M --vm-method zero-one --vm-madvise hugepage --timeout ${lasts}s || true\n",
        ..Cause::PLAIN
    },
    Cause {
        name: "login-storm",
        verdict: Some("login-storm"),
        also: &["kernel-cpu"],
        before: sessions!("16M", "310", "10"),
        does: "for lot in $(seq 30); do echo >&3; done
sleep $lasts
kill $server; for second in $(seq 100); do pgrep -f '^oracleSTORM' >/dev/null || break; sleep 1; done
",
        ..Cause::PLAIN
    },
    Cause {
        name: "fork-storm",
        verdict: Some("fork-storm"),
        also: &["kernel-cpu"],
        does: "stress-ng --quiet --fork 4 --timeout ${lasts}s\n",
        ..Cause::PLAIN
    },
    Cause {
        name: "user-cpu",
        verdict: Some("user-cpu"),
        also: &[],
        does: "stress-ng --quiet --cpu 30 --cpu-method int64 --timeout ${lasts}s\n",
        ..Cause::PLAIN
    },
    Cause {
        name: "system-calls",
        verdict: Some("kernel-cpu"),
        also: &[],
        does: "for one in 1 2 3 4; do dd if=/dev/urandom of=/dev/null bs=64k status=none & dds=\"$dds $!\"; done
sleep $lasts
kill $dds
",
        ..Cause::PLAIN
    },
    Cause {
        name: "disk-wait",
        verdict: Some("disk-stall"),
        also: &[],
        does: "for one in $(seq 30); do dd if=/dev/vdd of=/dev/null bs=4k iflag=direct skip=$((one * 2000)) status=none & dds=\"$dds $!\"; done
sleep $lasts
kill $dds; wait $dds || true
",
        disks: true,
        slow_disk: Some(12),
        ..Cause::PLAIN
    },
    Cause {
        name: "hang",
        verdict: Some("hang"),
        also: &[],
        does: "",
        hangs: Some(2400),
        ..Cause::PLAIN
    },
    Cause {
        name: "page-tables-growing",
        verdict: Some("page-tables-growing"),
        also: &["login-storm"],
        before: sessions!("300M", "150", "6"),
        does: "for lot in $(seq 24); do echo >&3; sleep 40; done
sleep 300
",
        ..Cause::PLAIN
    },
    Cause {
        name: "page-tables-standing",
        verdict: Some("page-tables-standing"),
        also: &[],
        before: sessions!("300M", "150", "150"),
        quiet: 0,
        does: "sleep $lasts\n",
        lasts: 1500,
        ..Cause::PLAIN
    },
    Cause {
        name: "unused-pool",
        verdict: Some("pool-unused"),
        also: &[],
        before: "sysctl -q vm.nr_hugepages=150\n",
        quiet: 0,
        does: "sleep $lasts\n",
        lasts: 2400,
        ..Cause::PLAIN
    },
    Cause { name: "quiet", does: "sleep $lasts\n", lasts: 1500, quiet: 0, ..Cause::PLAIN },
    Cause {
        name: "backup",
        does: "end=$((SECONDS + lasts)); while [ $SECONDS -lt $end ]; do dd if=/dev/vda bs=1M status=none | gzip -1 >/dev/null & wait $!; done\n",
        disks: true,
        ..Cause::PLAIN
    },
    Cause {
        name: "build",
        does: "timeout $lasts sh -c 'yes | xargs -P 4 -I{} sh -c \"seq 3000 | sort -R | gzip | sha256sum\"' >/dev/null || true\n",
        ..Cause::PLAIN
    },
    Cause {
        name: "batch",
        does: "stress-ng --quiet --cpu 3 --cpu-method int64 --timeout ${lasts}s\n",
        ..Cause::PLAIN
    },
];
