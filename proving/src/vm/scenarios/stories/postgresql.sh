# A pool that was set by hand and nowhere else: PostgreSQL is on it until the reboot, and goes on without afterwards.
arrange() {
    cat >/etc/postgresql/15/main/conf.d/vm.conf <<'end'
shared_buffers = 400MB
huge_pages = try
max_connections = 250
autovacuum = off
fsync = off
jit = off
max_parallel_workers_per_gather = 0
end
    sysctl --quiet vm.nr_hugepages=220
    systemctl enable --quiet postgresql
    systemctl start postgresql@15-main
    # A row fills a page: a session that counts them maps all of it.
    su postgres -c "psql -q" <<'end'
create table orders (n int, word char(7000));
alter table orders alter word set storage plain;
insert into orders select n, 'x' from generate_series(1, 45000) n;
create extension pg_prewarm;
checkpoint;
end
    pages >>$kept/notes
}

# Where its shared memory lies, as the kernel says of the server's own process.
pages() {
    awk '/^[0-9a-f]+-/ { shared = ($2 ~ /s$/) } shared && /^Size:/ { size = $2 }
        shared && /^KernelPageSize:/ { if ($2 == 4) base += size; else huge += size }
        END { print "shared memory of the postmaster: huge", huge + 0, "kB, base", base + 0, "kB" }' \
        /proc/$(head -1 /var/lib/postgresql/15/main/postmaster.pid)/smaps
    grep -E '^(HugePages_|PageTables|MemFree|MemAvailable)' /proc/meminfo
}

happens() {
    su postgres -c "psql -qc \"select pg_prewarm('orders')\"" >/dev/null
    sleep 45
    echo 'select count(*) from orders; \sleep 20 s' >/run/count.sql
    for lot in $(seq 5); do
        note "lot $lot of 25 sessions"
        su postgres -c "pgbench -n -c 25 -j 1 -T 900 -f /run/count.sql" >/dev/null 2>&1 &
        sleep 12
    done
    sleep 20
    note "at the end"
    pages >>$kept/notes
    look worst
    pkill pgbench
    sleep 20
    cp /var/log/postgresql/postgresql-15-main.log $kept/
}
