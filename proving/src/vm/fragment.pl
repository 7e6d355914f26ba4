# Takes nearly all free memory in base pages and gives back all but four pages of each 2 MiB. These are held by pipes, and
# such pages the kernel cannot move.
use strict;
my ($mmap, $munmap, $madvise, $vmsplice) = (9, 11, 28, 278);
my ($available) = `cat /proc/meminfo` =~ /MemAvailable:\s+(\d+)/;
my $size = ($available - 120_000) * 1024 & ~0x1fffff;
my $start = syscall($mmap, 0, $size, 3, 0x22, -1, 0);
die "mmap: $!" if $start == -1;
my $aligned = ($start + 0x1fffff) & ~0x1fffff;
# No THP; then every page is touched (MADV_POPULATE_WRITE).
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
