fail() {
  printf 'hugewise: %s\n' "$*" >&2
  exit 1
}

# for_host MACHINE_ID NAME: this is the host of the plan, by its name where the plan knows no machine-id.
for_host() {
  [ "${HUGEWISE_ANY_HOST:-}" != yes ] || return 0
  anyway="to apply it all the same: HUGEWISE_ANY_HOST=yes"
  here=$(cat /etc/machine-id 2>/dev/null || :)
  called=$(cat /proc/sys/kernel/hostname)
  if [ -n "$1" ]; then
    [ "$here" = "$1" ] || fail "the plan is for the host with machine-id $1, and this is $called (${here:-it has none}); $anyway"
  elif [ -n "$2" ]; then
    [ "$called" = "$2" ] || fail "the plan is for $2, and this is $called; $anyway"
  else
    fail "the plan does not say which host it is for; $anyway"
  fi
}

# fits REST_KB DEFAULT_PAGES [SIZE_KB PAGES]...: this host has the memory for pools of so many pages, now or at the next
# boot, those of its default size among them, and for what has to stay beside them.
fits() {
  total=$(sed -n 's/^MemTotal: *\([0-9]*\) kB$/\1/p' /proc/meminfo)
  size=$(sed -n 's/^Hugepagesize: *\([0-9]*\) kB$/\1/p' /proc/meminfo)
  rest=$1
  pages=$2
  shift 2
  pools=0
  while [ $# -gt 1 ]; do
    if [ "$1" != "$size" ]; then
      pools=$((pools + $1 * $2))
    elif [ "$2" -gt "$pages" ]; then
      pages=$2
    fi
    shift 2
  done
  pools=$((pools + pages * ${size:-0}))
  [ "$pools" -gt 0 ] || return 0
  [ -n "$total" ] || fail "the memory of this host is not known"
  [ $((pools + rest)) -le "$total" ] ||
    fail "pools of $pools kB do not fit: this host has $total kB, and $rest kB must stay free beside them"
}

# no_links PATH...
no_links() {
  for path; do
    [ ! -L "$path" ] || fail "$path is a symbolic link"
  done
}

# Something was changed: the commands after it, from number $next on, have to be run again.
changed() {
  later=$next
  while [ -e "$kept/done-$later" ]; do
    rm -f -- "$kept/done-$later"
    later=$((later + 1))
  done
  printf 'changed: %s\n' "$*"
}

keep_folder() {
  mkdir -p -m 0700 -- "$kept" || fail "$kept cannot be made"
}

# The chosen word of `always [madvise] never`; else the first line.
value_of() {
  sed -n 's/.*\[\([^]]*\)\].*/\1/;1p' "$1"
}

# set_value FILE WANTED
set_value() {
  [ -f "$1" ] || fail "$1: not here"
  now=$(value_of "$1")
  if [ "$now" = "$2" ]; then
    echo "ok: $1 is $2"
    return 0
  fi
  keep_folder
  printf '%s\t%s\n' "$1" "$now" >>"$kept/values"
  printf '%s\n' "$2" >"$1" || fail "$1: $2 was not taken"
  [ "$(value_of "$1")" = "$2" ] || fail "$1: is $(value_of "$1") after $2 was written"
  changed "$1: $now, now $2"
}

# Pages of a pool without surplus ones.
pages_of() {
  surplus=0
  [ ! -f "${1%/*}/surplus_hugepages" ] || surplus=$(cat "${1%/*}/surplus_hugepages")
  echo $(($(cat "$1") - surplus))
}

# set_pool FILE PAGES: the kernel gives what it can without a word, so the pages are read back; where they are too
# few, the pool goes back to what it was.
set_pool() {
  [ -f "$1" ] || fail "$1: not here"
  now=$(pages_of "$1")
  if [ "$now" = "$2" ]; then
    echo "ok: $1 is $2"
    return 0
  fi
  page=${1##*hugepages-}
  page=${page%%kB*}
  free=$(sed -n 's/^MemAvailable: *\([0-9]*\) kB$/\1/p' /proc/meminfo)
  grows=$((($2 - now) * page))
  if [ "$grows" -gt 0 ] && [ "$floor" -gt 0 ] && [ -n "$free" ] && [ $((grows + floor)) -gt "$free" ]; then
    fail "$1: $2 pages take $grows kB more, of $free kB available, and $floor kB must stay free"
  fi
  keep_folder
  printf '%s\t%s\n' "$1" "$now" >>"$kept/values"
  for again in 1 2 3 4 5; do
    printf '%s\n' "$2" >"$1" || fail "$1: $2 was not taken"
    [ "$(pages_of "$1")" != "$2" ] || break
    # Memory may be fragmented.
    echo 1 2>/dev/null >/proc/sys/vm/compact_memory || :
    sleep 1
  done
  got=$(pages_of "$1")
  if [ "$got" != "$2" ]; then
    printf '%s\n' "$now" >"$1" || :
    fail "$1: $got of $2 pages to be had; back to $now. Reserve them at boot"
  fi
  changed "$1: $now, now $2"
}

# Keeps the first state of a file that was there.
keep_file() {
  keep_folder
  [ ! -f "$1" ] || [ -e "$kept/files$1" ] || {
    mkdir -p -- "$kept/files${1%/*}" && cp -p -- "$1" "$kept/files$1"
  } || fail "$1 cannot be kept in $kept"
}

# put_file PATH MODE UID GID <CONTENT
put_file() {
  [ ! -L "$1" ] || fail "$1 is a symbolic link"
  [ ! -e "$1" ] || [ -f "$1" ] || fail "$1 is no file"
  mkdir -p -- "${1%/*}" || fail "${1%/*} cannot be made"
  new=$(mktemp "${1%/*}/.hugewise.XXXXXX") || fail "$1 cannot be written"
  cat >"$new" && chown "$3:$4" "$new" && chmod "$2" "$new" || {
    rm -f -- "$new"
    fail "$1 cannot be written"
  }
  if [ -f "$1" ] && cmp -s "$new" "$1" && [ "$(stat -c %a:%u:%g "$new")" = "$(stat -c %a:%u:%g "$1")" ]; then
    rm -f -- "$new"
    echo "ok: $1"
    return 0
  fi
  keep_file "$1"
  if [ -f "$1" ]; then
    chcon --reference="$1" "$new" 2>/dev/null || :
  fi
  sync "$new" 2>/dev/null || sync
  mv -f -- "$new" "$1" || {
    rm -f -- "$new"
    fail "$1 cannot be written"
  }
  ! command -v restorecon >/dev/null 2>&1 || restorecon "$1" || :
  changed "$1"
}

# put_text PATH MODE UID GID CONTENT
put_text() {
  printf %s "$5" | put_file "$1" "$2" "$3" "$4"
}

# put_base64 PATH MODE UID GID BASE64
put_base64() {
  printf %s "$5" | base64 -d | put_file "$1" "$2" "$3" "$4"
}

# drop_file PATH
drop_file() {
  if [ ! -e "$1" ] && [ ! -L "$1" ]; then
    echo "ok: no $1"
    return 0
  fi
  [ -f "$1" ] && [ ! -L "$1" ] || fail "$1 is no file"
  keep_file "$1"
  rm -f -- "$1" || fail "$1 cannot be removed"
  changed "no $1"
}

# run_once COMMAND...: as number $next; not again until something before it was changed.
run_once() {
  if [ -e "$kept/done-$next" ]; then
    echo "ok: $*"
  else
    run_again "$@"
  fi
}

# run_again COMMAND...: whether it has run or not.
run_again() {
  "$@" || fail "$* ended with $?"
  changed "$*"
  keep_folder
  : >"$kept/done-$next"
}

# run_unless FILE LINE COMMAND...: not where the file has the line.
run_unless() {
  file=$1
  line=$2
  shift 2
  if [ -f "$file" ] && sed 's/^[[:blank:]]*//;s/[[:blank:]]*$//' "$file" | grep -Fxq -e "$line"; then
    echo "ok: $*"
    return 0
  fi
  "$@" || fail "$* ended with $?"
  changed "$*"
}
