# Collectors around a story: sysstat and the flight recorder every two seconds, /proc/vmstat and /proc/meminfo
# too, and what servers and the kernel logged. An emulated processor has no time for a recorder that runs before all others.
export LANG=C TZ=UTC
kept=/var/log/kept

begin() {
    mkdir -p $kept
    systemd-run --quiet --unit=kept-sadc --property=OOMScoreAdjust=-1000 /usr/lib/sysstat/sadc -S DISK 2 $kept/sa
    systemd-run --quiet --unit=kept-record --property=OOMScoreAdjust=-1000 --property=RestrictRealtime=yes hugewise record --interval 2 --out /var/lib/kept --hours 1 --days 1
    cat >/run/kept-loop <<'end'
while :; do date; cat /proc/vmstat; sleep 2; done >>/var/log/kept/vmstat.log &
while :; do date; cat /proc/meminfo; sleep 2; done >>/var/log/kept/meminfo.log
end
    systemd-run --quiet --unit=kept-loop --property=OOMScoreAdjust=-1000 bash /run/kept-loop
}

# What hugewise captures of a moment, and what check finds then.
look() {
    hugewise capture --output $kept/$1.tar.gz >/dev/null
    # 1: it has findings.
    hugewise check --format json >$kept/$1.check.json || [ $? = 1 ]
}

# A step of the story, with its time.
note() {
    echo "$(date +%FT%T) $*" >>$kept/notes
}

end() {
    systemctl stop kept-sadc kept-loop kept-record
    cp /var/lib/kept/*.ring $kept/
    dmesg --time-format iso >$kept/dmesg.log
}
