# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_hugewise_global_optspecs
    string join \n root= format= fail-on= instance= also= host-namespaces connect v/verbose color= h/help V/version
end

function __fish_hugewise_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_hugewise_global_optspecs) -- $cmd 2>/dev/null
    or return
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_hugewise_using_subcommand
    set -l cmd (__fish_hugewise_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c hugewise -n "__fish_hugewise_needs_command" -l root -d 'Check a captured host instead of this one: a folder, .tar, .tar.gz, .tar.xz or sosreport' -r -F
complete -c hugewise -n "__fish_hugewise_needs_command" -l format -d 'Text for people, JSON for programs, or a single HTML page that you can mail' -r -f -a "text\t'For people'
json\t'For programs'
html\t'A single HTML page'"
complete -c hugewise -n "__fish_hugewise_needs_command" -l fail-on -d 'Exit with 1 if there are findings of this level or worse' -r -f -a "error\t'It hurts now, or will at the next start'
warn\t'It will hurt under load'
info\t'Worth knowing'
never\t'Never exit with 1'"
complete -c hugewise -n "__fish_hugewise_needs_command" -l instance -d 'Show only this instance and the host: PROD, 15/main, or "oracle PROD"' -r
complete -c hugewise -n "__fish_hugewise_needs_command" -l also -d 'Also make room for the instances of another cluster node, in case they fail over to this host. Give that node\'s capture; may be repeated' -r -F
complete -c hugewise -n "__fish_hugewise_needs_command" -l color -d 'When to colour text' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c hugewise -n "__fish_hugewise_needs_command" -l host-namespaces -d 'In a container with the host\'s pid namespace: enter the host\'s other namespaces, except its network, first'
complete -c hugewise -n "__fish_hugewise_needs_command" -l connect -d 'Also query the servers over their sockets. Without this option, hugewise connects to nothing'
complete -c hugewise -n "__fish_hugewise_needs_command" -s v -l verbose -d 'Show all evidence for every finding. JSON always includes it'
complete -c hugewise -n "__fish_hugewise_needs_command" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c hugewise -n "__fish_hugewise_needs_command" -s V -l version -d 'Print version'
complete -c hugewise -n "__fish_hugewise_needs_command" -f -a "check" -d 'Show what is wrong on this host, and why (the default)'
complete -c hugewise -n "__fish_hugewise_needs_command" -f -a "capture" -d 'Save what check reads, without secrets, so that you can check this host elsewhere'
complete -c hugewise -n "__fish_hugewise_needs_command" -f -a "collect" -d 'Read captures from many hosts into tables, and summarise them'
complete -c hugewise -n "__fish_hugewise_needs_command" -f -a "size" -d 'Calculate how many huge pages your servers need, running or described'
complete -c hugewise -n "__fish_hugewise_needs_command" -f -a "plan" -d 'Show the changes that would fix this host, as a diff, without making them'
complete -c hugewise -n "__fish_hugewise_needs_command" -f -a "apply" -d 'Apply a plan, keeping a journal so that it can be undone'
complete -c hugewise -n "__fish_hugewise_needs_command" -f -a "undo" -d 'Undo an apply and restore every byte and every value'
complete -c hugewise -n "__fish_hugewise_needs_command" -f -a "verify" -d 'Prove that each instance has all of its memory on huge pages, or show what keeps it off'
complete -c hugewise -n "__fish_hugewise_needs_command" -f -a "investigate" -d 'Explain a past freeze from sar, atop, PCP, OSWatcher, iostat, collectl, dstat, nmon, pidstat, vmstat or sosreports'
complete -c hugewise -n "__fish_hugewise_needs_command" -f -a "report" -d 'Write one page that you can mail: what is wrong, the plan, the sizing, past incidents'
complete -c hugewise -n "__fish_hugewise_needs_command" -f -a "record" -d 'Record this host every second, so that a freeze can be explained afterwards'
complete -c hugewise -n "__fish_hugewise_needs_command" -f -a "lab" -d 'Measure what page size does to page tables, logins, sorts and access on this host'
complete -c hugewise -n "__fish_hugewise_needs_command" -f -a "pod" -d 'Say what becomes of a Kubernetes manifest\'s huge pages, and correct it'
complete -c hugewise -n "__fish_hugewise_needs_command" -f -a "run" -d 'Start a program with its private memory on huge pages'
complete -c hugewise -n "__fish_hugewise_needs_command" -f -a "serve" -d 'Serve Prometheus metrics, a live dashboard and a JSON API'
complete -c hugewise -n "__fish_hugewise_needs_command" -f -a "watch" -d 'Watch pools, instances, page tables and findings in the terminal, live or recorded'
complete -c hugewise -n "__fish_hugewise_needs_command" -f -a "rules" -d 'List the rules, or explain one'
complete -c hugewise -n "__fish_hugewise_needs_command" -f -a "completions" -d 'Print shell completions'
complete -c hugewise -n "__fish_hugewise_using_subcommand check" -l root -d 'Check a captured host instead of this one: a folder, .tar, .tar.gz, .tar.xz or sosreport' -r -F
complete -c hugewise -n "__fish_hugewise_using_subcommand check" -l format -d 'Text for people, JSON for programs, or a single HTML page that you can mail' -r -f -a "text\t'For people'
json\t'For programs'
html\t'A single HTML page'"
complete -c hugewise -n "__fish_hugewise_using_subcommand check" -l fail-on -d 'Exit with 1 if there are findings of this level or worse' -r -f -a "error\t'It hurts now, or will at the next start'
warn\t'It will hurt under load'
info\t'Worth knowing'
never\t'Never exit with 1'"
complete -c hugewise -n "__fish_hugewise_using_subcommand check" -l instance -d 'Show only this instance and the host: PROD, 15/main, or "oracle PROD"' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand check" -l also -d 'Also make room for the instances of another cluster node, in case they fail over to this host. Give that node\'s capture; may be repeated' -r -F
complete -c hugewise -n "__fish_hugewise_using_subcommand check" -l color -d 'When to colour text' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c hugewise -n "__fish_hugewise_using_subcommand check" -l host-namespaces -d 'In a container with the host\'s pid namespace: enter the host\'s other namespaces, except its network, first'
complete -c hugewise -n "__fish_hugewise_using_subcommand check" -l connect -d 'Also query the servers over their sockets. Without this option, hugewise connects to nothing'
complete -c hugewise -n "__fish_hugewise_using_subcommand check" -s v -l verbose -d 'Show all evidence for every finding. JSON always includes it'
complete -c hugewise -n "__fish_hugewise_using_subcommand check" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c hugewise -n "__fish_hugewise_using_subcommand capture" -s o -l output -d 'Where to write: an archive if the name ends in .tar.gz or .tgz, otherwise a new folder. Default: hugewise-HOST-DATE.tar.gz in the current folder' -r -F
complete -c hugewise -n "__fish_hugewise_using_subcommand capture" -l to -d 'Send the capture there instead of writing it. https://HOST/PATH gets a PUT, and may be a presigned address; if it ends in `/`, the capture\'s name is added. s3://BUCKET/PREFIX puts it in a bucket. @FILE reads the address from a file: every user of the host can see arguments, and a presigned address is a key' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand capture" -l credentials -d 'File with the keys for s3://, in the format of ~/.aws/credentials: the profile `default` with `aws_access_key_id` and `aws_secret_access_key`, and if needed `aws_session_token`, `region` and `endpoint_url`' -r -F
complete -c hugewise -n "__fish_hugewise_using_subcommand capture" -l root -d 'Capture from an earlier capture instead of from this host' -r -F
complete -c hugewise -n "__fish_hugewise_using_subcommand capture" -s h -l help -d 'Print help'
complete -c hugewise -n "__fish_hugewise_using_subcommand collect" -l credentials -d 'File with the keys for s3:// or gs://, in the format of ~/.aws/credentials, as for `capture --to`; for az:// in that of ~/.azure/config' -r -F
complete -c hugewise -n "__fish_hugewise_using_subcommand collect" -s o -l out -d 'Folder to write the tables to. Captures that are already in it are not counted again' -r -F
complete -c hugewise -n "__fish_hugewise_using_subcommand collect" -l label -d 'The cluster that these hosts belong to, as a column of every table' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand collect" -l clusters -d 'File with a host and its cluster per line, such as `db1.example.org orders`, if the hosts belong to several clusters. A name without a domain matches any host of that name. Hosts that are not in the file get `--label`' -r -F
complete -c hugewise -n "__fish_hugewise_using_subcommand collect" -l expect -d 'File with the names of the hosts that should be in the tables, one per line; `#` starts a comment, and what follows the name is ignored. Hosts that are missing, or whose last capture is stale, are listed and become rows of the table `failures`' -r -F
complete -c hugewise -n "__fish_hugewise_using_subcommand collect" -l stale -d 'Days after which an expected host\'s last capture is stale' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand collect" -l format -d 'Text for people, JSON for programs' -r -f -a "text\t'For people'
json\t'For programs'"
complete -c hugewise -n "__fish_hugewise_using_subcommand collect" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c hugewise -n "__fish_hugewise_using_subcommand size" -l root -d 'Size a captured host instead of this one: a folder, .tar, .tar.gz, .tar.xz or sosreport' -r -F
complete -c hugewise -n "__fish_hugewise_using_subcommand size" -l format -d 'Text for people, JSON for programs, or a single HTML page that you can mail' -r -f -a "text\t'For people'
json\t'For programs'
html\t'A single HTML page'"
complete -c hugewise -n "__fish_hugewise_using_subcommand size" -l sessions -d 'Plan for this many sessions on the host' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand size" -l memory -d 'Plan for a host with this much memory, instead of this host' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand size" -l page-size -d 'Page size: 2M, 1G, or auto, which is what each server\'s settings ask for' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand size" -l headroom -d 'Add this many percent of spare pages, at most 100' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand size" -l instance -d 'Size only this instance, running or described: PROD, 15/main, or "oracle PROD". The others keep what they hold' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand size" -l also -d 'Also make room for the instances of another cluster node, in case they fail over to this host. Give that node\'s capture; may be repeated' -r -F
complete -c hugewise -n "__fish_hugewise_using_subcommand size" -l color -d 'When to colour text' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c hugewise -n "__fish_hugewise_using_subcommand size" -l engine -d 'Describe a server. The options below belong to the --engine before them; may be repeated' -r -f -a "oracle\t'Described by --sga, or by --config with a parameter file'
postgresql\t'Described by --data-dir, --config or both'
mysql\t'Described by --config'
mariadb\t'Described by --config'
jvm\t'Described by its command after --, or by --command'
qemu\t'Described by its command after --, or by --command'"
complete -c hugewise -n "__fish_hugewise_using_subcommand size" -l data-dir -d 'PostgreSQL\'s data directory' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand size" -l config -d 'The server\'s configuration: postgresql.conf, init.ora, my.cnf' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand size" -l server-binary -d 'PostgreSQL\'s `postgres` program, if it is not in a usual place' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand size" -l command -d 'A JVM\'s or QEMU\'s command as one argument, to describe several: \'java -Xmx8g -jar a.jar\'' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand size" -l segment -d 'A System V segment of this size; needs no --engine, may be repeated' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand size" -l sga -d 'Oracle\'s SGA_TARGET: 34G' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand size" -l sga-max -d 'Oracle\'s SGA_MAX_SIZE, if it is larger' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand size" -l processes -d 'Oracle\'s PROCESSES' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand size" -l asm -d 'Also an ASM instance, with this SGA (1G if no size is given)' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand size" -l management-database -d 'Also the management database (-MGMTDB), with this SGA (1G if no size is given)' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand size" -l only-described -d 'Leave out the servers that run here'
complete -c hugewise -n "__fish_hugewise_using_subcommand size" -l connect -d 'Also query the servers over their sockets. Without this option, hugewise connects to nothing'
complete -c hugewise -n "__fish_hugewise_using_subcommand size" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c hugewise -n "__fish_hugewise_using_subcommand plan" -l root -d 'Plan for a captured host instead of this one: a folder, .tar, .tar.gz, .tar.xz or sosreport' -r -F
complete -c hugewise -n "__fish_hugewise_using_subcommand plan" -l instance -d 'Plan only for this instance: PROD, 15/main, or "oracle PROD"; may be repeated' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand plan" -l restart -d 'Restart this instance so that it gets its huge pages now; may be repeated' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand plan" -l page-size -d 'Page size: 2M, 1G, or auto, which is what each server\'s settings ask for' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand plan" -l headroom -d 'Add this many percent of spare pages, at most 100' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand plan" -l sessions -d 'Plan for this many sessions on the host' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand plan" -l only -d 'Only what takes effect now, or only what takes effect at the next boot' -r -f -a "now\t'What takes effect now'
boot\t'What takes effect at the next boot'"
complete -c hugewise -n "__fish_hugewise_using_subcommand plan" -l overcommit -d 'Let a pool grow on demand by this many pages: 2M=100; may be repeated' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand plan" -l also -d 'Also make room for the instances of another cluster node, in case they fail over to this host. Give that node\'s capture; may be repeated' -r -F
complete -c hugewise -n "__fish_hugewise_using_subcommand plan" -l out -d 'Save the plan to this new file, for hugewise apply' -r -F
complete -c hugewise -n "__fish_hugewise_using_subcommand plan" -l format -d 'Text for people, JSON for programs, or the same changes as a shell script, an Ansible playbook or cloud-init data' -r -f -a "text\t'For people: each change as a unified diff'
json\t'For programs, and for hugewise apply'
shell\t'A script for any POSIX shell'
ansible\t'An Ansible playbook'
cloud-init\t'User data for new hosts'"
complete -c hugewise -n "__fish_hugewise_using_subcommand plan" -l color -d 'When to colour text' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c hugewise -n "__fish_hugewise_using_subcommand plan" -l early -d 'Reserve the pools on the kernel command line, before memory can fragment'
complete -c hugewise -n "__fish_hugewise_using_subcommand plan" -l shrink -d 'Give back pages that nobody uses or asks for, even if the host can spare the memory'
complete -c hugewise -n "__fish_hugewise_using_subcommand plan" -l connect -d 'Also query the servers over their sockets. Without this option, hugewise connects to nothing'
complete -c hugewise -n "__fish_hugewise_using_subcommand plan" -l force -d 'Plan pools even if they leave the host too little memory, and allow writing them as a script, playbook or cloud-config'
complete -c hugewise -n "__fish_hugewise_using_subcommand plan" -l keep-partial -d 'Assume that pools with fewer pages than planned are kept, so that no server is set to refuse to start without them'
complete -c hugewise -n "__fish_hugewise_using_subcommand plan" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c hugewise -n "__fish_hugewise_using_subcommand apply" -l instance -d 'Plan only for this instance: PROD, 15/main, or "oracle PROD"; may be repeated' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand apply" -l restart -d 'Restart this instance so that it gets its huge pages now; may be repeated' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand apply" -l page-size -d 'Page size: 2M, 1G, or auto, which is what each server\'s settings ask for' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand apply" -l headroom -d 'Add this many percent of spare pages, at most 100' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand apply" -l sessions -d 'Plan for this many sessions on the host' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand apply" -l only -d 'Only what takes effect now, or only what takes effect at the next boot' -r -f -a "now\t'What takes effect now'
boot\t'What takes effect at the next boot'"
complete -c hugewise -n "__fish_hugewise_using_subcommand apply" -l overcommit -d 'Let a pool grow on demand by this many pages: 2M=100; may be repeated' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand apply" -l also -d 'Also make room for the instances of another cluster node, in case they fail over to this host. Give that node\'s capture; may be repeated' -r -F
complete -c hugewise -n "__fish_hugewise_using_subcommand apply" -l format -d 'Text for people, or JSON for programs' -r -f -a "text\t'For people'
json\t'For programs'"
complete -c hugewise -n "__fish_hugewise_using_subcommand apply" -l color -d 'When to colour text' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c hugewise -n "__fish_hugewise_using_subcommand apply" -l early -d 'Reserve the pools on the kernel command line, before memory can fragment'
complete -c hugewise -n "__fish_hugewise_using_subcommand apply" -l shrink -d 'Give back pages that nobody uses or asks for, even if the host can spare the memory'
complete -c hugewise -n "__fish_hugewise_using_subcommand apply" -l connect -d 'Also query the servers over their sockets. Without this option, hugewise connects to nothing'
complete -c hugewise -n "__fish_hugewise_using_subcommand apply" -s y -l yes -d 'Don\'t ask'
complete -c hugewise -n "__fish_hugewise_using_subcommand apply" -l force -d 'Apply the plan even if it leaves the host too little memory'
complete -c hugewise -n "__fish_hugewise_using_subcommand apply" -l keep-partial -d 'If a pool gets fewer pages than planned, keep those it got'
complete -c hugewise -n "__fish_hugewise_using_subcommand apply" -l keep-going -d 'If a step fails, roll back only that step and go on with the others'
complete -c hugewise -n "__fish_hugewise_using_subcommand apply" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c hugewise -n "__fish_hugewise_using_subcommand undo" -l format -d 'Text for people, or JSON for programs' -r -f -a "text\t'For people'
json\t'For programs'"
complete -c hugewise -n "__fish_hugewise_using_subcommand undo" -l color -d 'When to colour text' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c hugewise -n "__fish_hugewise_using_subcommand undo" -l list -d 'List past applies and change nothing'
complete -c hugewise -n "__fish_hugewise_using_subcommand undo" -l force -d 'Restore even what somebody has changed since, and take back pages that a running server may still need'
complete -c hugewise -n "__fish_hugewise_using_subcommand undo" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c hugewise -n "__fish_hugewise_using_subcommand verify" -l log -d 'Also read this server log: Oracle\'s alert log, or a log of PostgreSQL, MariaDB, MySQL, a JVM or QEMU; may be repeated' -r -F
complete -c hugewise -n "__fish_hugewise_using_subcommand verify" -l wait -d 'Wait up to this many seconds for a starting server to map its memory' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand verify" -l root -d 'Verify a captured host instead of this one: a folder, .tar, .tar.gz, .tar.xz or sosreport' -r -F
complete -c hugewise -n "__fish_hugewise_using_subcommand verify" -l format -d 'Text for people, JSON for programs, a single HTML page that you can mail, or a line for a monitoring system' -r -f -a "text\t'For people'
json\t'For programs'
html\t'A single HTML page'
nagios\t'One line, with a monitoring plugin\'s exit codes'"
complete -c hugewise -n "__fish_hugewise_using_subcommand verify" -l color -d 'When to colour text' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c hugewise -n "__fish_hugewise_using_subcommand verify" -l host-namespaces -d 'In a container with the host\'s pid namespace: enter the host\'s other namespaces, except its network, first'
complete -c hugewise -n "__fish_hugewise_using_subcommand verify" -l connect -d 'Also query the servers over their sockets. Without this option, hugewise connects to nothing'
complete -c hugewise -n "__fish_hugewise_using_subcommand verify" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c hugewise -n "__fish_hugewise_using_subcommand investigate" -l from -d 'Start here: 2026-11-21T08:00:00+01:00, "2026-11-21 08:00", or 08:00 on the last day' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand investigate" -l to -d 'End here; same formats as --from' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand investigate" -l interval -d 'Interval between lines of pasted text that has no times: 3s. --from says when they begin' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand investigate" -l timezone -d 'Time zone of times that have none: Europe/Berlin, or +02:00' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand investigate" -l offset -d 'How far a host\'s clock was ahead (db2=+3s) or behind (db2=-3s), for comparing several hosts; may be repeated' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand investigate" -l host -d 'Report only on this host, by name; may be repeated. Without it, many hosts are listed in a table first' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand investigate" -l series -d 'Also write the decoded series: FILE.csv or FILE.parquet' -r -F
complete -c hugewise -n "__fish_hugewise_using_subcommand investigate" -l format -d 'Text for people, JSON for programs, or a page with charts' -r -f -a "text\t'For people'
json\t'For programs'
html\t'A single HTML page'"
complete -c hugewise -n "__fish_hugewise_using_subcommand investigate" -l color -d 'When to colour text' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c hugewise -n "__fish_hugewise_using_subcommand investigate" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c hugewise -n "__fish_hugewise_using_subcommand report" -l root -d 'Report on a captured host instead of this one: a folder, .tar, .tar.gz, .tar.xz or sosreport' -r -F
complete -c hugewise -n "__fish_hugewise_using_subcommand report" -l format -d 'A single HTML page, text for people, or JSON for programs' -r -f -a "text\t'For people'
json\t'For programs'
html\t'A single HTML page'"
complete -c hugewise -n "__fish_hugewise_using_subcommand report" -s o -l output -d 'Write to this file instead of standard output. A file of that name is replaced once the report is complete' -r -F
complete -c hugewise -n "__fish_hugewise_using_subcommand report" -l fail-on -d 'Exit with 1 if there are findings of this level or worse' -r -f -a "error\t'It hurts now, or will at the next start'
warn\t'It will hurt under load'
info\t'Worth knowing'
never\t'Never exit with 1'"
complete -c hugewise -n "__fish_hugewise_using_subcommand report" -l also -d 'Also make room for the instances of another cluster node, in case they fail over to this host. Give that node\'s capture; may be repeated' -r -F
complete -c hugewise -n "__fish_hugewise_using_subcommand report" -l color -d 'When to colour text' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c hugewise -n "__fish_hugewise_using_subcommand report" -l connect -d 'Also query the servers over their sockets. Without this option, hugewise connects to nothing'
complete -c hugewise -n "__fish_hugewise_using_subcommand report" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c hugewise -n "__fish_hugewise_using_subcommand record; and not __fish_seen_subcommand_from status export look" -l out -d 'Folder to record to; only root may be able to write to it' -r -F
complete -c hugewise -n "__fish_hugewise_using_subcommand record; and not __fish_seen_subcommand_from status export look" -l interval -d 'Seconds between samples' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand record; and not __fish_seen_subcommand_from status export look" -l hours -d 'Hours to keep every sample' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand record; and not __fish_seen_subcommand_from status export look" -l days -d 'Days to keep one sample a minute' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand record; and not __fish_seen_subcommand_from status export look" -s h -l help -d 'Print help'
complete -c hugewise -n "__fish_hugewise_using_subcommand record; and not __fish_seen_subcommand_from status export look" -f -a "status" -d 'Show whether the recorder is running, since when, what data is missing, and what it costs'
complete -c hugewise -n "__fish_hugewise_using_subcommand record; and not __fish_seen_subcommand_from status export look" -f -a "export" -d 'Export a recording for other tools: OSWatcher\'s layout, CSV, Parquet or JSON lines'
complete -c hugewise -n "__fish_hugewise_using_subcommand record; and not __fish_seen_subcommand_from status export look" -f -a "look" -d 'Name the database servers and their processes, for the recorder'
complete -c hugewise -n "__fish_hugewise_using_subcommand record; and __fish_seen_subcommand_from status" -l format -d 'Output format: text or JSON' -r -f -a "text\t'For people'
json\t'For programs'"
complete -c hugewise -n "__fish_hugewise_using_subcommand record; and __fish_seen_subcommand_from status" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c hugewise -n "__fish_hugewise_using_subcommand record; and __fish_seen_subcommand_from export" -l from -d 'Leave out everything before this time: 2026-11-21T08:00:00+01:00, "2026-11-21 08:00", or 08:00 on the last day, by the host\'s clock' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand record; and __fish_seen_subcommand_from export" -l to -d 'Leave out everything after this time; same formats as --from' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand record; and __fish_seen_subcommand_from export" -l format -d 'Output format' -r -f -a "oswatcher\t'Oracle\'s OSWatcher: a folder with oswmeminfo and oswvmstat, one file per hour'
csv\t'One table, one row per sample'
parquet\t'The same table as Parquet'
json\t'Everything, one JSON object per line: samples, processes, servers and kernel messages'"
complete -c hugewise -n "__fish_hugewise_using_subcommand record; and __fish_seen_subcommand_from export" -l out -d 'File to write; for oswatcher, the folder to create' -r -F
complete -c hugewise -n "__fish_hugewise_using_subcommand record; and __fish_seen_subcommand_from export" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c hugewise -n "__fish_hugewise_using_subcommand record; and __fish_seen_subcommand_from look" -s h -l help -d 'Print help'
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and not __fish_seen_subcommand_from page-tables logins sort access pool workload" -s h -l help -d 'Print help'
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and not __fish_seen_subcommand_from page-tables logins sort access pool workload" -f -a "page-tables" -d 'Page tables as sessions are added, in total and per session, next to the forecast that size makes'
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and not __fish_seen_subcommand_from page-tables logins sort access pool workload" -f -a "logins" -d 'A login storm: how long each login takes, all at once and one by one'
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and not __fish_seen_subcommand_from page-tables logins sort access pool workload" -f -a "sort" -d 'Sort rows in private memory, by page size and extent'
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and not __fish_seen_subcommand_from page-tables logins sort access pool workload" -f -a "access" -d 'First touch, filling with all cores, random access and fork of private memory'
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and not __fish_seen_subcommand_from page-tables logins sort access pool workload" -f -a "pool" -d 'How fast a pool can be filled from fresh and from fragmented memory, and how many surplus pages it can get'
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and not __fish_seen_subcommand_from page-tables logins sort access pool workload" -f -a "workload" -d 'A read-only workload on a PostgreSQL started for it: transactions, latency, page tables'
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from page-tables" -l engine -d 'What the sessions connect to' -r -f -a "standin\t'Stand-in processes that share memory'
postgresql\t'A PostgreSQL started for this, whose sessions scan a table of the size of --segment'"
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from page-tables" -l sessions -d 'Number of sessions to reach' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from page-tables" -l segment -d 'Size of the shared segment' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from page-tables" -l touch -d 'Percentage of the segment that each session touches when it logs in' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from page-tables" -l kind -d 'Kind of segment' -r -f -a "system-v\t'System V shared memory (shmget), as Oracle uses it'
mmap\t'A shared mapping without a file, as PostgreSQL uses it'
memfd\t'A memory file'"
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from page-tables" -l policy -d 'On pages of a pool: what the server does if the pool is too small. The values are those of Oracle\'s `use_large_pages`' -r -f -a "auto\t'Grow the pool first, and restore it afterwards'
only\t'Use the pool as it is. If the whole segment doesn\'t fit, the server doesn\'t start'
true\t'Use the pool as it is, and base pages for the rest'
false\t'Use base pages, whatever --pages says'"
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from page-tables" -l pre-touch -d 'Who touches the segment before any work starts. Default: the server, and in lab logins with --touch 100 every session too' -r -f -a "none\t'Nobody'
creator\t'The server once, when it makes the segment'
session\t'The server, and every session as it logs in: each touches all of it, like `pre_page_sga` in Oracle 11.2'"
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from page-tables" -l pages -d 'Page sizes to compare; the first is the baseline: 4k, thp, thp-64k, 2m, 1g' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from page-tables" -l runs -d 'Rounds; each measures every page size once' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from page-tables" -l warm-ups -d 'Warm-up rounds, which are not counted' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from page-tables" -l seed -d 'Seed for the order of page sizes within a round' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from page-tables" -l keep-free -d 'Keep at least this much memory free, if that is more than hugewise keeps free anyway' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from page-tables" -l format -d 'Text for people, JSON for programs, or a page with plots' -r -f -a "text\t'For people'
json\t'For programs'
html\t'A single HTML page'"
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from page-tables" -l out -d 'Write the results to this file instead of standard output' -r -F
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from page-tables" -l keep -d 'Also write the results to this folder: NAME.json, NAME.html, and the plots as NAME-1.svg and so on' -r -F
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from page-tables" -l color -d 'When to colour text' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from page-tables" -l random -d 'Sessions touch pages spread over the segment instead of from its start'
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from page-tables" -l write -d 'Sessions write to what they touch'
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from page-tables" -l interleave -d 'Spread the segment over all NUMA nodes'
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from page-tables" -l plan -d 'Only show what the experiment would do and need'
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from page-tables" -s y -l yes -d 'Don\'t ask before changing pools or switches'
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from page-tables" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from logins" -l sessions -d 'Sessions that log in at once' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from logins" -l paced -d 'Sessions that log in one by one; 0 for none' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from logins" -l interval -d 'Milliseconds between two of these logins' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from logins" -l segment -d 'Size of the shared segment' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from logins" -l touch -d 'Percentage of the segment that each session touches when it logs in' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from logins" -l kind -d 'Kind of segment' -r -f -a "system-v\t'System V shared memory (shmget), as Oracle uses it'
mmap\t'A shared mapping without a file, as PostgreSQL uses it'
memfd\t'A memory file'"
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from logins" -l policy -d 'On pages of a pool: what the server does if the pool is too small. The values are those of Oracle\'s `use_large_pages`' -r -f -a "auto\t'Grow the pool first, and restore it afterwards'
only\t'Use the pool as it is. If the whole segment doesn\'t fit, the server doesn\'t start'
true\t'Use the pool as it is, and base pages for the rest'
false\t'Use base pages, whatever --pages says'"
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from logins" -l pre-touch -d 'Who touches the segment before any work starts. Default: the server, and in lab logins with --touch 100 every session too' -r -f -a "none\t'Nobody'
creator\t'The server once, when it makes the segment'
session\t'The server, and every session as it logs in: each touches all of it, like `pre_page_sga` in Oracle 11.2'"
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from logins" -l pages -d 'Page sizes to compare; the first is the baseline: 4k, thp, thp-64k, 2m, 1g' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from logins" -l runs -d 'Rounds; each measures every page size once' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from logins" -l warm-ups -d 'Warm-up rounds, which are not counted' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from logins" -l seed -d 'Seed for the order of page sizes within a round' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from logins" -l keep-free -d 'Keep at least this much memory free, if that is more than hugewise keeps free anyway' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from logins" -l format -d 'Text for people, JSON for programs, or a page with plots' -r -f -a "text\t'For people'
json\t'For programs'
html\t'A single HTML page'"
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from logins" -l out -d 'Write the results to this file instead of standard output' -r -F
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from logins" -l keep -d 'Also write the results to this folder: NAME.json, NAME.html, and the plots as NAME-1.svg and so on' -r -F
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from logins" -l color -d 'When to colour text' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from logins" -l random -d 'Sessions touch pages spread over the segment instead of from its start'
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from logins" -l write -d 'Sessions write to what they touch'
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from logins" -l interleave -d 'Spread the segment over all NUMA nodes'
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from logins" -l plan -d 'Only show what the experiment would do and need'
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from logins" -s y -l yes -d 'Don\'t ask before changing pools or switches'
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from logins" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from sort" -l rows -d 'Rows to sort' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from sort" -l row-bytes -d 'Bytes per row' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from sort" -l extents -d 'Sizes of the extents in which memory is allocated; powers of two' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from sort" -l pages -d 'Page sizes to compare; the first is the baseline: 4k, thp, thp-64k, 2m, 1g' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from sort" -l runs -d 'Rounds; each measures every page size once' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from sort" -l warm-ups -d 'Warm-up rounds, which are not counted' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from sort" -l seed -d 'Seed for the order of page sizes within a round' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from sort" -l keep-free -d 'Keep at least this much memory free, if that is more than hugewise keeps free anyway' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from sort" -l format -d 'Text for people, JSON for programs, or a page with plots' -r -f -a "text\t'For people'
json\t'For programs'
html\t'A single HTML page'"
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from sort" -l out -d 'Write the results to this file instead of standard output' -r -F
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from sort" -l keep -d 'Also write the results to this folder: NAME.json, NAME.html, and the plots as NAME-1.svg and so on' -r -F
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from sort" -l color -d 'When to colour text' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from sort" -l plan -d 'Only show what the experiment would do and need'
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from sort" -s y -l yes -d 'Don\'t ask before changing pools or switches'
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from sort" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from access" -l segment -d 'Memory to touch. Default: what the host can easily spare, at most 8 GiB' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from access" -l pages -d 'Page sizes to compare; the first is the baseline: 4k, thp, thp-64k, 2m, 1g' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from access" -l runs -d 'Rounds; each measures every page size once' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from access" -l warm-ups -d 'Warm-up rounds, which are not counted' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from access" -l seed -d 'Seed for the order of page sizes within a round' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from access" -l keep-free -d 'Keep at least this much memory free, if that is more than hugewise keeps free anyway' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from access" -l format -d 'Text for people, JSON for programs, or a page with plots' -r -f -a "text\t'For people'
json\t'For programs'
html\t'A single HTML page'"
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from access" -l out -d 'Write the results to this file instead of standard output' -r -F
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from access" -l keep -d 'Also write the results to this folder: NAME.json, NAME.html, and the plots as NAME-1.svg and so on' -r -F
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from access" -l color -d 'When to colour text' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from access" -l plan -d 'Only show what the experiment would do and need'
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from access" -s y -l yes -d 'Don\'t ask before changing pools or switches'
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from access" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from pool" -l size -d 'Size of the pool. Default: a quarter of what the host can spare, at most 4 GiB' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from pool" -l pages -d 'Page sizes to compare; the first is the baseline: 4k, thp, thp-64k, 2m, 1g' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from pool" -l runs -d 'Rounds; each measures every page size once' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from pool" -l warm-ups -d 'Warm-up rounds, which are not counted' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from pool" -l seed -d 'Seed for the order of page sizes within a round' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from pool" -l keep-free -d 'Keep at least this much memory free, if that is more than hugewise keeps free anyway' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from pool" -l format -d 'Text for people, JSON for programs, or a page with plots' -r -f -a "text\t'For people'
json\t'For programs'
html\t'A single HTML page'"
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from pool" -l out -d 'Write the results to this file instead of standard output' -r -F
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from pool" -l keep -d 'Also write the results to this folder: NAME.json, NAME.html, and the plots as NAME-1.svg and so on' -r -F
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from pool" -l color -d 'When to colour text' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from pool" -l no-fragments -d 'Skip the part that fragments free memory on purpose'
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from pool" -l plan -d 'Only show what the experiment would do and need'
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from pool" -s y -l yes -d 'Don\'t ask before changing pools or switches'
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from pool" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from workload" -l sessions -d 'Concurrent sessions' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from workload" -l segment -d 'Size of shared_buffers; the tables fill three quarters of it' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from workload" -l seconds -d 'Seconds for each measurement' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from workload" -l pages -d 'Page sizes to compare; the first is the baseline: 4k, thp, thp-64k, 2m, 1g' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from workload" -l runs -d 'Rounds; each measures every page size once' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from workload" -l warm-ups -d 'Warm-up rounds, which are not counted' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from workload" -l seed -d 'Seed for the order of page sizes within a round' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from workload" -l keep-free -d 'Keep at least this much memory free, if that is more than hugewise keeps free anyway' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from workload" -l format -d 'Text for people, JSON for programs, or a page with plots' -r -f -a "text\t'For people'
json\t'For programs'
html\t'A single HTML page'"
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from workload" -l out -d 'Write the results to this file instead of standard output' -r -F
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from workload" -l keep -d 'Also write the results to this folder: NAME.json, NAME.html, and the plots as NAME-1.svg and so on' -r -F
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from workload" -l color -d 'When to colour text' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from workload" -l plan -d 'Only show what the experiment would do and need'
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from workload" -s y -l yes -d 'Don\'t ask before changing pools or switches'
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from workload" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c hugewise -n "__fish_hugewise_using_subcommand pod" -l node -d 'Judge for this node: a capture of it, or a folder like its root' -r -F
complete -c hugewise -n "__fish_hugewise_using_subcommand pod" -l for -d 'Print what a node needs for these pods, to copy: for OpenShift, GKE, AKS, EKS, Bottlerocket, Talos or Kubespray' -r -f -a "openshift\t''
gke\t''
aks\t''
eks\t''
bottlerocket\t''
talos\t''
kubespray\t''"
complete -c hugewise -n "__fish_hugewise_using_subcommand pod" -l format -d 'Text for people with the correction as a diff, or JSON for programs' -r -f -a "text\t'For people'
json\t'For programs'"
complete -c hugewise -n "__fish_hugewise_using_subcommand pod" -l color -d 'When to colour text' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c hugewise -n "__fish_hugewise_using_subcommand pod" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c hugewise -n "__fish_hugewise_using_subcommand run" -l pages -d 'Transparent huge pages (thp), or the pool of 2M or 1G pages' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand run" -l need -d 'Don\'t start the program unless this much fits in the pool' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand run" -l runs -d 'With --compare: runs of each kind, after a warm-up run' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand run" -l format -d 'Format of --report and --compare: text for people, or JSON for programs' -r -f -a "text\t'For people'
json\t'For programs'"
complete -c hugewise -n "__fish_hugewise_using_subcommand run" -l out -d 'Write the report to this file instead' -r -F
complete -c hugewise -n "__fish_hugewise_using_subcommand run" -l color -d 'When to colour the report of --compare' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c hugewise -n "__fish_hugewise_using_subcommand run" -l hugetext -d 'Also put its code (text) on huge pages, as far as kernel and program allow'
complete -c hugewise -n "__fish_hugewise_using_subcommand run" -l report -d 'At the end, report on standard error what it used: time, memory, how much of it on huge pages, page faults'
complete -c hugewise -n "__fish_hugewise_using_subcommand run" -l compare -d 'Run it alternately without and with huge pages, discard its output, and report the gain'
complete -c hugewise -n "__fish_hugewise_using_subcommand run" -s q -l quiet -d 'Don\'t print how the program gets its huge pages'
complete -c hugewise -n "__fish_hugewise_using_subcommand run" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c hugewise -n "__fish_hugewise_using_subcommand serve" -l listen -d 'Address and port to listen on; port 0 picks a free one' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand serve" -l web-config -d 'TLS and passwords, in the exporter-toolkit\'s format (web.yml)' -r -F
complete -c hugewise -n "__fish_hugewise_using_subcommand serve" -l interval -d 'Seconds between readings when no client asks' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand serve" -l recorder -d 'The flight recorder\'s folder. If the recorder runs, its last minute is exported' -r -F
complete -c hugewise -n "__fish_hugewise_using_subcommand serve" -l textfile -d 'Don\'t listen; write the metrics to this file at each interval, for node_exporter\'s textfile collector' -r -F
complete -c hugewise -n "__fish_hugewise_using_subcommand serve" -l insecure-bind -d 'Listen to other hosts without TLS or a credential: anyone who can reach the port can read everything'
complete -c hugewise -n "__fish_hugewise_using_subcommand serve" -l host-namespaces -d 'In a container with the host\'s pid namespace: enter the host\'s other namespaces, except its network, first'
complete -c hugewise -n "__fish_hugewise_using_subcommand serve" -l once -d 'Write the file once and exit'
complete -c hugewise -n "__fish_hugewise_using_subcommand serve" -s h -l help -d 'Print help'
complete -c hugewise -n "__fish_hugewise_using_subcommand watch" -l interval -d 'Seconds between readings' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand watch" -l replay -d 'Replay a recording instead of watching this host: captures, or any archive that investigate reads' -r -F
complete -c hugewise -n "__fish_hugewise_using_subcommand watch" -l host -d 'The host to show, if the recording has several' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand watch" -l from -d 'Start the replay here: 2026-11-21T08:00:00+01:00, "2026-11-21 08:00", or 08:00 on the last day' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand watch" -l to -d 'End the replay here; same formats as --from' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand watch" -l timezone -d 'Time zone of recorded times that have none: Europe/Berlin, or +02:00' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand watch" -l speed -d 'Frames to replay per second' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand watch" -l filter -d 'Show only rows that contain this text, such as an instance or a finding; Esc clears it' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand watch" -l color -d 'When to use colour' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c hugewise -n "__fish_hugewise_using_subcommand watch" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c hugewise -n "__fish_hugewise_using_subcommand rules" -l format -d 'Text for people, or JSON for programs' -r -f -a "text\t'For people'
json\t'For programs'"
complete -c hugewise -n "__fish_hugewise_using_subcommand rules" -l color -d 'When to colour text' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c hugewise -n "__fish_hugewise_using_subcommand rules" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c hugewise -n "__fish_hugewise_using_subcommand completions" -s h -l help -d 'Print help'
