# Two servers and one pool: while MariaDB is down for its maintenance, PostgreSQL takes pages that it needs.
arrange() {
    cat >/etc/mysql/mariadb.conf.d/99-vm.cnf <<'end'
[mariadbd]
large-pages
innodb_buffer_pool_size = 384M
innodb_flush_log_at_trx_commit = 0
log_error = /var/log/mysql/error.log
end
    printf 'shared_buffers = 128MB\nhuge_pages = on\nmax_connections = 50\n' >/etc/postgresql/15/main/conf.d/vm.conf
    echo 'vm.nr_hugepages = 340' >/etc/sysctl.d/50-vm.conf
    install -d -o mysql -g adm /var/log/mysql
    sysctl --quiet --system
    systemctl enable --quiet mariadb
    systemctl start mariadb
    pages >>$kept/notes
}

# Where MariaDB's memory lies, as the kernel says.
pages() {
    awk '/^Size:/ { size = $2 } /^KernelPageSize:/ { if ($2 == 2048) huge += size }
        END { print "MariaDB: huge", huge + 0, "kB" }' /proc/$(pidof mariadbd)/smaps
    grep -E '^(HugePages_|MemFree|MemAvailable)' /proc/meminfo
}

happens() {
    sleep 45
    note "MariaDB stops, PostgreSQL starts"
    systemctl stop mariadb
    systemctl start postgresql@15-main
    sleep 5
    look down
    note "MariaDB starts"
    systemctl start mariadb
    sleep 5
    pages >>$kept/notes
    look worst
    sleep 45
    cp /var/log/mysql/error.log $kept/mariadb.log
    cp /var/log/postgresql/postgresql-15-main.log $kept/
}
