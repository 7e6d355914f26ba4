# Runs in a fresh root file system; each line has to hold.
export DEBIAN_FRONTEND=noninteractive

fails() {
    if "$@" >/tmp/said 2>&1; then
        echo "did not fail: $*" >&2
        exit 1
    fi
}

# No program of that name is found any more, however often it was before.
gone() {
    hash -r
    fails command -v hugewise
}

# What a new user types, on a host on which hugewise is installed. Nothing of this needs a network, and there is no Rust.
used() {
    hugewise --version | grep -Fx "hugewise $1"
    # A captured PostgreSQL without a pool is something to be found: 1.
    code=0; hugewise check --root /db >/tmp/check || code=$?
    test "$code" = 1
    grep -q HW201 /tmp/check
    hugewise plan --root /db | grep -q 'vm.nr_hugepages = 537'
    hugewise size --root /db | grep -q '537'
    # This root itself has the kernel's pools and switches of whatever machine this is: it is answered, however.
    code=0; hugewise check >/tmp/check || code=$?
    test "$code" = 0 -o "$code" = 1 -o "$code" = 3
    hugewise undo --list | grep -q .
    # A root without an init of its own is no host to change.
    fails hugewise apply --yes
    hugewise rules HW201 | grep -q no-pool
    code=0; hugewise report --root /db -o /tmp/report.html || code=$?
    test "$code" = 1
    grep -q 'hugewise' /tmp/report.html
    rm -f /tmp/report.html
}

echo '-- the checksums'
(cd /dist && sha256sum --check --strict --quiet SHA256SUMS)

echo '-- the Debian package'
dpkg -i /dist/hugewise_@VERSION@-1_@DEBIAN@.deb
used @VERSION@
test -z "$(dpkg -s hugewise | grep '^Depends: .')"
for unit in hugewise-serve.service hugewise-record.service hugewise-capture.timer; do
    test -f /usr/lib/systemd/system/$unit -o -f /lib/systemd/system/$unit
    fails systemctl is-enabled --quiet $unit
done
getent passwd hugewise | grep -q nologin
test "$(stat -c '%a %U' /var/lib/hugewise)" = '700 root'
test -f /usr/share/man/man1/hugewise.1.gz -o ! -d /usr/share/man/man1
echo kept >/var/lib/hugewise/1.journal

echo '-- its upgrade'
dpkg -i /dist/hugewise_@NEWER@_@DEBIAN@.deb
hugewise --version
test -f /var/lib/hugewise/1.journal

echo '-- its removal'
dpkg -r hugewise | tee /tmp/said
grep -q 'install it again to undo' /tmp/said
gone
test -f /var/lib/hugewise/1.journal
dpkg -P hugewise
fails test -e /var/lib/hugewise
fails test -e /usr/lib/sysusers.d/hugewise.conf

echo '-- install.sh'
hash -r
sh /dist/install.sh --from /dist | tee /tmp/said
grep -q '^verified ' /tmp/said
used @VERSION@
sh /dist/install.sh --remove >/tmp/said
gone
fails test -e /usr/local/share/doc/hugewise
sh /dist/install.sh --from /dist --prefix /opt/hugewise >/tmp/said
/opt/hugewise/bin/hugewise --version
sh /dist/install.sh --remove --prefix /opt/hugewise >/tmp/said
test -z "$(find /opt/hugewise -type f)"

echo '-- an archive that somebody changed'
mkdir /tmp/bad
cp /dist/hugewise-@VERSION@-linux-@MACHINE@.tar.gz /tmp/bad
printf x >>/tmp/bad/hugewise-@VERSION@-linux-@MACHINE@.tar.gz
fails sh /dist/install.sh --from /tmp/bad
grep -q 'Nothing was installed' /tmp/said
gone
# Without an archive beside it, where it does not know of any other place.
cp /dist/install.sh /tmp/install.sh
fails sh /tmp/install.sh
grep -q -- '--from FOLDER' /tmp/said
sh /dist/install.sh >/tmp/said
sh /dist/install.sh --remove >/tmp/said

echo '-- the RPM'
# Its scripts need /bin/sh, which no database of packages of this root knows.
rpm --install --nodeps /dist/hugewise-@VERSION@-1.@MACHINE@.rpm
used @VERSION@
rpm --verify --nodeps hugewise
test -z "$(rpm --query --requires hugewise | grep -v '^rpmlib\|^/bin/sh')"
echo kept >/var/lib/hugewise/1.journal
rpm --upgrade --force --nodeps /dist/hugewise-@VERSION@-1.@MACHINE@.rpm
rpm --erase hugewise
gone
test -f /var/lib/hugewise/1.journal

echo '-- the container image'
mkdir -p /tmp/image/root
tar -C /tmp/image -xf /dist/hugewise-@VERSION@-image-@MACHINE@.tar
for blob in /tmp/image/blobs/sha256/*; do
    test "$(sha256sum <"$blob" | cut -d' ' -f1)" = "${blob##*/}"
    # The layer is the one that is packed.
    if gzip -tq "$blob" 2>/tmp/said; then tar -C /tmp/image/root -xzf "$blob"; fi
done
cp -a /db /tmp/image/root/db
chroot /tmp/image/root /usr/bin/hugewise --version | grep -Fx 'hugewise @VERSION@'
code=0; chroot /tmp/image/root /usr/bin/hugewise check --root /db >/tmp/check || code=$?
test "$code" = 1
grep -q HW201 /tmp/check

echo 'all held'
