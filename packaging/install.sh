#!/bin/sh
# Installs hugewise @VERSION@ from its archive: verifies it first, and says what it did.
#
#   sh install.sh                            from the archive beside it, or from where that was published
#   sh install.sh --from FOLDER              from another folder that holds the archive, without a network
#   sh install.sh --prefix "$HOME/.local"    somewhere else than below /usr/local
#   sh install.sh --remove                   takes the files away again
set -eu

version='@VERSION@'
releases='@RELEASES@'
# What the archives have to hash to, so that whoever trusts this file need not trust where they come from.
sums='@SUMS@'

prefix=/usr/local
from=
remove=no

fail() {
    printf 'install.sh: %s\n' "$*" >&2
    exit 1
}

while [ $# -gt 0 ]; do
    case $1 in
        --prefix | --from)
            [ $# -ge 2 ] || fail "$1 needs a folder"
            if [ "$1" = --prefix ]; then prefix=$2; else from=$2; fi
            shift 2
            ;;
        --remove)
            remove=yes
            shift
            ;;
        -h | --help)
            sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p;}' "$0"
            exit 0
            ;;
        *) fail "unknown option $1; sh install.sh --help lists them" ;;
    esac
done
case $prefix in
    /*) ;;
    *) fail "--prefix needs a path that begins with /, and got $prefix" ;;
esac

list=$prefix/share/hugewise/installed-files

# Whether a line of the list names a file that this script could have put there.
ours() {
    case $1 in
        *..*) return 1 ;;
        "$prefix"/bin/hugewise | "$prefix"/share/man/man1/hugewise*.1) return 0 ;;
        "$prefix"/share/bash-completion/completions/hugewise | "$prefix"/share/zsh/site-functions/_hugewise) return 0 ;;
        "$prefix"/share/fish/vendor_completions.d/hugewise.fish | "$prefix"/share/doc/hugewise/*) return 0 ;;
        *) return 1 ;;
    esac
}

if [ "$remove" = yes ]; then
    [ -f "$list" ] || fail "nothing to remove: $list is not there. If you installed it elsewhere, name that with --prefix"
    while IFS= read -r file; do
        ours "$file" || fail "$list names $file, which this script did not put there: nothing more is removed"
        rm -f -- "$file"
        printf 'removed %s\n' "$file"
    done <"$list"
    rm -f -- "$list"
    rmdir "$prefix/share/doc/hugewise" "$prefix/share/hugewise" 2>/dev/null || true
    if [ -d /var/lib/hugewise ]; then
        echo 'Changes that hugewise made to this host stay, and so do its journals in /var/lib/hugewise.'
    fi
    exit 0
fi

system=$(uname -s)
[ "$system" = Linux ] || fail "hugewise is for Linux, and this is $system"
case $(uname -m) in
    x86_64 | amd64) machine=x86_64 ;;
    aarch64 | arm64) machine=aarch64 ;;
    *) fail "there is no hugewise for $(uname -m); it is built for x86_64 and aarch64" ;;
esac
name=hugewise-$version-linux-$machine
archive=$name.tar.gz
wanted=$(printf '%s\n' "$sums" | sed -n "s/^\([0-9a-f]\{64\}\)  $archive\$/\1/p")
[ -n "$wanted" ] || fail "this release has no archive for $machine"

# Whoever has downloaded both has them in one folder.
if [ -z "$from" ] && [ -f "$(dirname "$0")/$archive" ]; then
    from=$(dirname "$0")
fi
folder=$(mktemp -d "${TMPDIR:-/tmp}/hugewise.XXXXXXXX")
trap 'rm -rf "$folder"' EXIT
trap 'exit 1' HUP INT TERM

if [ -n "$from" ]; then
    [ -f "$from/$archive" ] || fail "$from/$archive is not there"
    cp "$from/$archive" "$folder/$archive"
elif [ -n "$releases" ]; then
    url=$releases/$archive
    printf 'downloading %s\n' "$url"
    if command -v curl >/dev/null; then
        curl --proto '=https' --tlsv1.2 -fsSL -o "$folder/$archive" "$url" || fail "$url could not be downloaded"
    elif command -v wget >/dev/null; then
        wget -q -O "$folder/$archive" "$url" || fail "$url could not be downloaded"
    else
        fail "neither curl nor wget is here: download $url yourself, and run sh install.sh --from FOLDER"
    fi
else
    fail "this copy does not know where hugewise is published: sh install.sh --from FOLDER, with $archive in that folder"
fi

if command -v sha256sum >/dev/null; then
    found=$(sha256sum <"$folder/$archive")
elif command -v openssl >/dev/null; then
    found=$(openssl dgst -sha256 -r <"$folder/$archive")
else
    fail "neither sha256sum nor openssl is here: $archive cannot be verified, and nothing was installed"
fi
found=${found%% *}
[ "$found" = "$wanted" ] || fail "$archive is not what was released: its SHA-256 is $found and should be $wanted. Nothing was installed"
printf 'verified %s\n' "$archive"

(cd "$folder" && tar -xzf "$archive") || fail "$archive cannot be unpacked"
"$folder/$name/hugewise" --version >/dev/null || fail "the program does not run on this host. Nothing was installed"

# A file is written beside its place and renamed, so that a program that runs is not cut short.
put() {
    target=$prefix/$3
    mkdir -p "$(dirname "$target")"
    rm -f -- "$target.new"
    cp "$folder/$name/$2" "$target.new"
    chmod "$1" "$target.new"
    mv -f "$target.new" "$target"
    printf '%s\n' "$target" >>"$folder/files"
    printf 'installed %s\n' "$target"
}

mkdir -p "$prefix" || fail "$prefix cannot be written: run it as root, or name another folder with --prefix"
[ -w "$prefix" ] || fail "$prefix cannot be written: run it as root, or name another folder with --prefix"
put 755 hugewise bin/hugewise
for page in "$folder/$name"/man/*.1; do
    page=$(basename "$page")
    put 644 "man/$page" "share/man/man1/$page"
done
put 644 completions/hugewise.bash share/bash-completion/completions/hugewise
put 644 completions/_hugewise share/zsh/site-functions/_hugewise
put 644 completions/hugewise.fish share/fish/vendor_completions.d/hugewise.fish
for file in README.md CHANGELOG.md SECURITY.md LICENSE-APACHE LICENSE-MIT; do
    put 644 "$file" "share/doc/hugewise/$file"
done
mkdir -p "$(dirname "$list")"
cp "$folder/files" "$list"

printf '\n%s is installed. No service was installed or started. Next:\n\n    sudo %s check\n' \
    "$("$prefix/bin/hugewise" --version)" "$prefix/bin/hugewise"
case :$PATH: in
    *:"$prefix/bin":*) ;;
    *) printf '\n%s is not in your PATH.\n' "$prefix/bin" ;;
esac
