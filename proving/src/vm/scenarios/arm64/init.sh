#!/usr/bin/busybox sh
# The first process of an arm64 machine: starts PostgreSQL with no huge pages, with one too few and with enough, of each size that the
# kernel has, and says what the server, the kernel and hugewise make of each. `@@ WHERE WHAT TEXT` is for the scenario.
mkdir -p /proc /sys /dev /run/postgresql /tools
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/shm
mount -t tmpfs shm /dev/shm
/usr/bin/busybox --install -s /tools
export PATH=/usr/local/bin:/usr/lib/postgresql/17/bin:/usr/sbin:/usr/bin:/tools LANG=C.UTF-8 TZ=UTC NO_COLOR=1
printf 'root:x:0:0::/root:/bin/sh\npostgres:x:100:100::/var/lib/postgresql:/bin/sh\n' >/etc/passwd
printf 'root:x:0:\npostgres:x:100:\n' >/etc/group
echo '127.0.0.1 localhost' >/etc/hosts
rmdir /var/run
ln -s /run /var/run
chmod 1777 /tmp
hostname arm64
ifconfig lo 127.0.0.1 up

data=/var/lib/postgresql/17/main
hugepages=/sys/kernel/mm/hugepages
mkdir -p $data
chown -R postgres:postgres /var/lib/postgresql /run/postgresql

say() { printf '\n@@ %s\n' "$*"; }
owner() { su postgres -s /bin/sh -c "PATH=$PATH; $*"; }
query() { owner "psql -XAt -d postgres -c '$1'"; }
# WHERE WHAT COMMAND: its exit code, and its output on one line.
said() {
    where=$1 what=$2
    shift 2
    "$@" >/tmp/out 2>/tmp/err
    say "$where $what $? $(tr -d '\n' </tmp/out)"
    cat /tmp/err
}

# KiB of the server's shared mappings, by the page size that the kernel gives.
mapped() {
    awk '/^[0-9a-f]+-/ { shared = ($2 ~ /s$/) } shared && /^Size:/ { size = $2 }
        shared && /^KernelPageSize:/ { sum[$2] += size } END { for (page in sum) printf "%d:%d ", page, sum[page] }' \
        "/proc/$(head -n 1 $data/postmaster.pid)/smaps"
}

pools() {
    for folder in $hugepages/hugepages-*kB; do
        kib=${folder##*-}
        echo "${kib%kB}:$(cat "$folder/nr_hugepages"):$(cat "$folder/free_hugepages"):$(cat "$folder/resv_hugepages")"
    done
}

# WHERE PAGES: the server as it starts with so many.
look() {
    where=$1
    # The kernel stops setting pages aside when the writer gets a signal, as this shell does when any orphan ends.
    echo "$2" | tee "$pool" >/dev/null
    say "$where set $(cat "$pool")"
    owner "pg_ctl --wait --silent --pgdata $data --log /var/lib/postgresql/log start" || cat /var/lib/postgresql/log
    say "$where status $(query 'SHOW huge_pages_status')"
    say "$where mapped $(mapped)"
    say "$where pools $(pools | tr '\n' ' ')"
    say "$where tables $(cat /proc/[0-9]*/status | awk '/^Name:/ { ours = ($2 == "postgres") } ours && /^VmPTE:/ { sum += $2 } END { print sum }')"
    said "$where" check hugewise check --format json
    said "$where" size hugewise size --format json
    said "$where" verify hugewise verify --format json
    if [ "$VERBOSE" ]; then
        hugewise check
        hugewise size
        hugewise plan
        hugewise verify
    fi
    owner "pg_ctl --wait --silent --pgdata $data --mode fast stop"
}

# KIB [SETTING]: the server on pages of that size.
play() {
    kib=$1
    pool=$hugepages/hugepages-${kib}kB/nr_hugepages
    { cat /tmp/settings; echo "$2"; } >$data/postgresql.conf
    needs=$(owner "postgres -D $data -C shared_memory_size_in_huge_pages")
    say "$kib needs $needs"
    said "$kib" described hugewise size --only-described --engine postgresql --data-dir $data --format json
    look "$kib-none" 0
    if [ "$needs" -gt 1 ]; then look "$kib-short" $((needs - 1)); fi
    look "$kib-enough" "$needs"
    echo 0 >"$pool"
}

owner "initdb --no-sync --auth trust --no-locale --encoding UTF8 --pgdata $data" >/tmp/initdb || cat /tmp/initdb
cat $data/postgresql.conf >/tmp/settings
cat >>/tmp/settings <<'SETTINGS'
shared_buffers = 256MB
max_connections = 200
autovacuum = off
fsync = off
SETTINGS

kernel() { awk "/^$1:/ { print \$2; exit }" "$2"; }
say "host machine $(uname -m)"
say "host kernel $(uname -r)"
say "host processors $(nproc)"
say "host base $(kernel KernelPageSize /proc/self/smaps)"
say "host memory $(kernel MemTotal /proc/meminfo)"
default=$(kernel Hugepagesize /proc/meminfo)
say "host default $default"
say "host version $(postgres --version | awk '{ print $3 }')"

play "$default"
for folder in $hugepages/hugepages-*kB; do
    kib=${folder##*-}
    kib=${kib%kB}
    [ "$kib" = "$default" ] || play "$kib" "huge_page_size = ${kib}kB"
done
say "host done"
poweroff -f
