# A Redis saves itself while clients write, on a host that has no room for what they write over: with and without transparent
# huge pages for the figures, and then with writes until memory is out.
arrange() {
    sysctl --quiet vm.overcommit_memory=1
    cat >>/etc/redis/redis.conf <<'end'
disable-thp no
enable-debug-command local
save ""
end
    note "a short save with THP never"
    start never
    save 300
    note "a short save with THP always"
    start always
    save 300
    start always
}

start() {
    echo $1 >/sys/kernel/mm/transparent_hugepage/enabled
    systemctl restart redis-server
    redis-cli debug populate 400000 key 800 >/dev/null
    memory >>$kept/notes
}

# What Redis and the kernel say of it.
memory() {
    redis-cli info all | tr -d '\r' | grep -E '^(used_memory_human|used_memory_rss_human|rdb_last_cow_size|rdb_last_bgsave_status|latest_fork_usec):'
    grep -E '^(AnonHugePages|MemFree|MemAvailable|AnonPages)' /proc/meminfo
}

# With that many lots of 40 writes.
save() {
    redis-cli bgsave >/dev/null
    (for lot in $(seq $1); do
        echo "eval \"for n = 1, 40 do redis.call('setrange', 'key:' .. math.random(0, 399999), 0, 'x') end\" 0"
    done | redis-cli >/dev/null 2>&1 &)
    for second in $(seq 60); do
        redis-cli info persistence 2>/dev/null | grep -q rdb_bgsave_in_progress:0 && break
        sleep 1
    done
    sleep 2
    memory >>$kept/notes 2>&1
}

happens() {
    sleep 45
    look quiet
    note "a save with many writes"
    save 20000
    look worst
    sleep 20
    cp /var/log/redis/redis-server.log $kept/
    dmesg | grep 'Killed process' >>$kept/notes || true
}
