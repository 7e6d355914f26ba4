//! The shell of causes, where it is more than a few lines or several causes begin with it.

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

pub(super) use sessions;

pub(super) const SWAP: &str = "fallocate -l 768M /swap
chmod 600 /swap
mkswap /swap >/dev/null
swapon /swap
";

/// Memory in pieces, and transparent huge pages wanted everywhere.
pub(super) const FRAGMENT: &str = concat!(
    "cat >/run/fragment <<'end'\n",
    include_str!("../vm/fragment.pl"),
    r#"end
ulimit -n 65536
choom -n -1000 -- perl /run/fragment &
until [ -e /run/fragmented ]; do sleep 1; done
echo always >/sys/kernel/mm/transparent_hugepage/enabled
echo always >/sys/kernel/mm/transparent_hugepage/defrag
"#
);

/// Three servers one after another take the host's memory, each more slowly the less there is, and
/// are killed for it.
///
/// Programs and libraries are locked in memory: a host whose page cache is its only reserve reads
/// them in again for longer than a play lasts before the kernel kills anything. Each server is a
/// unit of its own, as servers are.
pub(super) const OUT_OF_MEMORY: &str = r#"cat >/run/keep <<'end'
use strict;
my ($mmap, $mlock) = (9, 149);
my %files = map { $_ => 1 } @ARGV;
for my $maps (glob '/proc/[0-9]*/maps') {
    open(my $lines, '<', $maps) or next;
    while (<$lines>) { $files{$1} = 1 if m{ (/usr/.*)$} }
}
for my $name (sort keys %files) {
    open(my $file, '<', $name) or next;
    my $start = syscall($mmap, 0, -s $file, 1, 1, fileno($file), 0);
    syscall($mlock, $start, -s $file) == 0 or die "mlock $name: $!";
}
open(my $ready, '>', '/run/kept');
close $ready;
sleep;
end
cat >/run/grow <<'end'
use strict;
my ($mmap, $madvise) = (9, 28);
while () {
    open(my $meminfo, '<', '/proc/meminfo') or die "meminfo: $!";
    my ($available) = join('', <$meminfo>) =~ /MemAvailable:\s+(\d+)/;
    my $mib = int($available / 1024 / 12) || 1;
    my $start = syscall($mmap, 0, $mib << 20, 3, 0x22, -1, 0);
    syscall($madvise, $start, $mib << 20, 23) == 0 or die "populate: $!";
    sleep 1;
}
end
choom -n -1000 -- perl /run/keep $(type -P date dmesg grep perl sleep systemd-run) & keep=$!
until [ -e /run/kept ]; do sleep 1; done
for one in 1 2 3; do
    systemd-run --quiet --wait --property=OOMScoreAdjust=900 perl /run/grow || true
done
kill $keep
[ $(dmesg | grep -c 'Out of memory: Killed process') = 3 ] || { dmesg; exit 1; }
"#;
