# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_hugewise_global_optspecs
    string join \n root= format= fail-on= instance= also= connect v/verbose color= h/help V/version
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

complete -c hugewise -n "__fish_hugewise_needs_command" -l root -d 'Check what was captured instead of this host: a folder, .tar, .tar.gz or .tar.xz; a sosreport will do' -r -F
complete -c hugewise -n "__fish_hugewise_needs_command" -l format -d 'Text for people, JSON for programs, or one page in one file that can be mailed' -r -f -a "text\t'For people'
json\t'For programs'
html\t'One page in one file'"
complete -c hugewise -n "__fish_hugewise_needs_command" -l fail-on -d 'Exit with 1 for findings of this level or worse' -r -f -a "error\t'It hurts now, or will at the next start'
warn\t'It will hurt under load'
info\t'Worth knowing'
never\t'Findings never fail'"
complete -c hugewise -n "__fish_hugewise_needs_command" -l instance -d 'Only what concerns this instance and the host: PROD, 15/main, or "oracle PROD"' -r
complete -c hugewise -n "__fish_hugewise_needs_command" -l also -d 'Make room for the instances of another node too, as a failover starts them here: its capture, as --root takes it; may be repeated' -r -F
complete -c hugewise -n "__fish_hugewise_needs_command" -l color -d 'Colour in text' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c hugewise -n "__fish_hugewise_needs_command" -l connect -d 'Also ask the servers over their sockets; without it nothing is connected to'
complete -c hugewise -n "__fish_hugewise_needs_command" -s v -l verbose -d 'All evidence of every finding in text; JSON always has it'
complete -c hugewise -n "__fish_hugewise_needs_command" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c hugewise -n "__fish_hugewise_needs_command" -s V -l version -d 'Print version'
complete -c hugewise -n "__fish_hugewise_needs_command" -f -a "check" -d 'Say what is wrong here, and why (the default)'
complete -c hugewise -n "__fish_hugewise_needs_command" -f -a "capture" -d 'Save what check reads, without secrets, so that check --root can read it elsewhere'
complete -c hugewise -n "__fish_hugewise_needs_command" -f -a "size" -d 'Calculate how many huge pages your servers need, running or described'
complete -c hugewise -n "__fish_hugewise_needs_command" -f -a "plan" -d 'Show the changes that would set this host up, as a diff, and change nothing'
complete -c hugewise -n "__fish_hugewise_needs_command" -f -a "apply" -d 'Apply a plan, with a journal by which it can be undone'
complete -c hugewise -n "__fish_hugewise_needs_command" -f -a "undo" -d 'Undo what was applied: every byte and every value as before'
complete -c hugewise -n "__fish_hugewise_needs_command" -f -a "verify" -d 'Tell whether each instance is wholly on huge pages, and if not, which link is broken'
complete -c hugewise -n "__fish_hugewise_needs_command" -f -a "investigate" -d 'Read what collectors left behind (sar, OSWatcher, vmstat, atop, PCP, nmon, sosreports), and find the incident'
complete -c hugewise -n "__fish_hugewise_needs_command" -f -a "record" -d 'Record this host every second, so that a freeze can be explained afterwards'
complete -c hugewise -n "__fish_hugewise_needs_command" -f -a "lab" -d 'Measure page tables, log-ins, sorts, access and more by page size, here'
complete -c hugewise -n "__fish_hugewise_needs_command" -f -a "run" -d 'Start a program with its private memory on huge pages'
complete -c hugewise -n "__fish_hugewise_needs_command" -f -a "serve" -d 'Metrics for Prometheus, a dashboard and a JSON API, live'
complete -c hugewise -n "__fish_hugewise_needs_command" -f -a "watch" -d 'Pools, instances, page tables and findings in the terminal, live or from a recording'
complete -c hugewise -n "__fish_hugewise_needs_command" -f -a "rules" -d 'List the rules, or print the page of one'
complete -c hugewise -n "__fish_hugewise_needs_command" -f -a "completions" -d 'Print completions for a shell'
complete -c hugewise -n "__fish_hugewise_using_subcommand check" -l root -d 'Check what was captured instead of this host: a folder, .tar, .tar.gz or .tar.xz; a sosreport will do' -r -F
complete -c hugewise -n "__fish_hugewise_using_subcommand check" -l format -d 'Text for people, JSON for programs, or one page in one file that can be mailed' -r -f -a "text\t'For people'
json\t'For programs'
html\t'One page in one file'"
complete -c hugewise -n "__fish_hugewise_using_subcommand check" -l fail-on -d 'Exit with 1 for findings of this level or worse' -r -f -a "error\t'It hurts now, or will at the next start'
warn\t'It will hurt under load'
info\t'Worth knowing'
never\t'Findings never fail'"
complete -c hugewise -n "__fish_hugewise_using_subcommand check" -l instance -d 'Only what concerns this instance and the host: PROD, 15/main, or "oracle PROD"' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand check" -l also -d 'Make room for the instances of another node too, as a failover starts them here: its capture, as --root takes it; may be repeated' -r -F
complete -c hugewise -n "__fish_hugewise_using_subcommand check" -l color -d 'Colour in text' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c hugewise -n "__fish_hugewise_using_subcommand check" -l connect -d 'Also ask the servers over their sockets; without it nothing is connected to'
complete -c hugewise -n "__fish_hugewise_using_subcommand check" -s v -l verbose -d 'All evidence of every finding in text; JSON always has it'
complete -c hugewise -n "__fish_hugewise_using_subcommand check" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c hugewise -n "__fish_hugewise_using_subcommand capture" -s o -l output -d 'Where to: a name that ends in .tar.gz or .tgz becomes an archive, any other a new folder. Without it an archive hugewise-HOST-DATE.tar.gz in the current folder' -r -F
complete -c hugewise -n "__fish_hugewise_using_subcommand capture" -l root -d 'Capture from what was captured before, instead of from this host' -r -F
complete -c hugewise -n "__fish_hugewise_using_subcommand capture" -s h -l help -d 'Print help'
complete -c hugewise -n "__fish_hugewise_using_subcommand size" -l root -d 'Size what was captured instead of this host: a folder, .tar, .tar.gz or .tar.xz; a sosreport will do' -r -F
complete -c hugewise -n "__fish_hugewise_using_subcommand size" -l format -d 'Text for people, JSON for programs, or one page in one file that can be mailed' -r -f -a "text\t'For people'
json\t'For programs'
html\t'One page in one file'"
complete -c hugewise -n "__fish_hugewise_using_subcommand size" -l sessions -d 'Sessions on the host that the plan has to carry' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand size" -l memory -d 'Plan for a host with so much memory, instead of this one' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand size" -l page-size -d 'Page size: 2M, 1G, or auto: what each server\'s settings ask for' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand size" -l headroom -d 'Pages beyond the demand, in percent of it, at most 100' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand size" -l instance -d 'Only this running or described instance: PROD, 15/main, or "oracle PROD". What others hold stays theirs' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand size" -l also -d 'Make room for the instances of another node too, as a failover starts them here: its capture, as --root takes it; may be repeated' -r -F
complete -c hugewise -n "__fish_hugewise_using_subcommand size" -l color -d 'Colour in text' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c hugewise -n "__fish_hugewise_using_subcommand size" -l engine -d 'Describe a server; the options below it belong to the --engine before them, which may be repeated' -r -f -a "oracle\t'By --sga, or by --config with a parameter file'
postgresql\t'By --data-dir, --config or both'
mysql\t'By --config'
mariadb\t'By --config'
jvm\t'By its command behind --, or in --command'
qemu\t'By its command behind --, or in --command'"
complete -c hugewise -n "__fish_hugewise_using_subcommand size" -l data-dir -d 'PostgreSQL\'s data directory' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand size" -l config -d 'The server\'s configuration: postgresql.conf, init.ora, my.cnf' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand size" -l server-binary -d 'PostgreSQL\'s program `postgres`, where it is at no usual place' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand size" -l command -d 'The JVM\'s or QEMU\'s command in one word, where several are described: \'java -Xmx8g -jar a.jar\'' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand size" -l segment -d 'A System V segment of this size; may be repeated, and needs no --engine' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand size" -l sga -d 'Oracle\'s SGA_TARGET: 34G' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand size" -l sga-max -d 'Oracle\'s SGA_MAX_SIZE, where it is larger' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand size" -l processes -d 'Oracle\'s PROCESSES' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand size" -l asm -d 'An ASM instance beside it, with this SGA (=1G where no size is given)' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand size" -l management-database -d 'The management database (-MGMTDB) beside it, with this SGA (=1G where no size is given)' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand size" -l only-described -d 'Leave out what runs here'
complete -c hugewise -n "__fish_hugewise_using_subcommand size" -l connect -d 'Also ask the servers over their sockets; without it nothing is connected to'
complete -c hugewise -n "__fish_hugewise_using_subcommand size" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c hugewise -n "__fish_hugewise_using_subcommand plan" -l root -d 'Plan for what was captured instead of this host: a folder, .tar, .tar.gz or .tar.xz; a sosreport will do' -r -F
complete -c hugewise -n "__fish_hugewise_using_subcommand plan" -l instance -d 'Only for this instance: PROD, 15/main, or "oracle PROD"; may be repeated' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand plan" -l restart -d 'Restart this instance, so that it takes its huge pages at once; may be repeated' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand plan" -l page-size -d 'Page size: 2M, 1G, or auto: what each server\'s settings ask for' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand plan" -l headroom -d 'Pages beyond the demand, in percent of it, at most 100' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand plan" -l sessions -d 'Sessions on the host to plan for' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand plan" -l only -d 'Only what works at once, or only what the next boot finds' -r -f -a "now\t'What works at once'
boot\t'What the next boot finds'"
complete -c hugewise -n "__fish_hugewise_using_subcommand plan" -l overcommit -d 'Let the pool of a page size grow on demand by so many pages: 2M=100; may be repeated' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand plan" -l also -d 'Make room for the instances of another node too, as a failover starts them here: its capture, as --root takes it; may be repeated' -r -F
complete -c hugewise -n "__fish_hugewise_using_subcommand plan" -l out -d 'Keep the plan in this new file, for hugewise apply' -r -F
complete -c hugewise -n "__fish_hugewise_using_subcommand plan" -l format -d 'Text for people, JSON for programs, or the same changes as a script, a playbook or user data' -r -f -a "text\t'For people: every change as a unified diff'
json\t'For programs, and for hugewise apply'
shell\t'A script for any POSIX shell'
ansible\t'A playbook'
cloud-init\t'User data for hosts that are about to be made'"
complete -c hugewise -n "__fish_hugewise_using_subcommand plan" -l color -d 'Colour in text' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c hugewise -n "__fish_hugewise_using_subcommand plan" -l early -d 'Reserve the pools on the kernel\'s command line, before memory can be fragmented'
complete -c hugewise -n "__fish_hugewise_using_subcommand plan" -l shrink -d 'Give back pages that nobody uses or asks for, even if the host has memory to spare'
complete -c hugewise -n "__fish_hugewise_using_subcommand plan" -l connect -d 'Also ask the servers over their sockets; without it nothing is connected to'
complete -c hugewise -n "__fish_hugewise_using_subcommand plan" -l force -d 'Plan pools even where they leave the host too little memory, and write them as a script, playbook or cloud-config'
complete -c hugewise -n "__fish_hugewise_using_subcommand plan" -l keep-partial -d 'Pools that get fewer pages than planned are to be kept: then no server is set to insist on huge pages'
complete -c hugewise -n "__fish_hugewise_using_subcommand plan" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c hugewise -n "__fish_hugewise_using_subcommand apply" -l instance -d 'Only for this instance: PROD, 15/main, or "oracle PROD"; may be repeated' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand apply" -l restart -d 'Restart this instance, so that it takes its huge pages at once; may be repeated' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand apply" -l page-size -d 'Page size: 2M, 1G, or auto: what each server\'s settings ask for' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand apply" -l headroom -d 'Pages beyond the demand, in percent of it, at most 100' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand apply" -l sessions -d 'Sessions on the host to plan for' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand apply" -l only -d 'Only what works at once, or only what the next boot finds' -r -f -a "now\t'What works at once'
boot\t'What the next boot finds'"
complete -c hugewise -n "__fish_hugewise_using_subcommand apply" -l overcommit -d 'Let the pool of a page size grow on demand by so many pages: 2M=100; may be repeated' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand apply" -l also -d 'Make room for the instances of another node too, as a failover starts them here: its capture, as --root takes it; may be repeated' -r -F
complete -c hugewise -n "__fish_hugewise_using_subcommand apply" -l format -d 'Text for people or JSON for programs' -r -f -a "text\t'For people'
json\t'For programs'"
complete -c hugewise -n "__fish_hugewise_using_subcommand apply" -l color -d 'Colour in text' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c hugewise -n "__fish_hugewise_using_subcommand apply" -l early -d 'Reserve the pools on the kernel\'s command line, before memory can be fragmented'
complete -c hugewise -n "__fish_hugewise_using_subcommand apply" -l shrink -d 'Give back pages that nobody uses or asks for, even if the host has memory to spare'
complete -c hugewise -n "__fish_hugewise_using_subcommand apply" -l connect -d 'Also ask the servers over their sockets; without it nothing is connected to'
complete -c hugewise -n "__fish_hugewise_using_subcommand apply" -s y -l yes -d 'Do not ask'
complete -c hugewise -n "__fish_hugewise_using_subcommand apply" -l force -d 'Apply even a plan that leaves the host too little memory'
complete -c hugewise -n "__fish_hugewise_using_subcommand apply" -l keep-partial -d 'A pool that gets fewer pages than planned keeps them'
complete -c hugewise -n "__fish_hugewise_using_subcommand apply" -l keep-going -d 'A step that fails is taken back alone, and the others go on'
complete -c hugewise -n "__fish_hugewise_using_subcommand apply" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c hugewise -n "__fish_hugewise_using_subcommand undo" -l format -d 'Text for people or JSON for programs' -r -f -a "text\t'For people'
json\t'For programs'"
complete -c hugewise -n "__fish_hugewise_using_subcommand undo" -l color -d 'Colour in text' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c hugewise -n "__fish_hugewise_using_subcommand undo" -l list -d 'List what was applied here, and change nothing'
complete -c hugewise -n "__fish_hugewise_using_subcommand undo" -l force -d 'Take back even what somebody has changed since'
complete -c hugewise -n "__fish_hugewise_using_subcommand undo" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c hugewise -n "__fish_hugewise_using_subcommand verify" -l log -d 'A server\'s own log: Oracle\'s alert log, PostgreSQL\'s, MariaDB\'s or MySQL\'s, a JVM\'s, QEMU\'s; may be repeated' -r -F
complete -c hugewise -n "__fish_hugewise_using_subcommand verify" -l wait -d 'Wait up to so many seconds until a starting server has mapped its memory' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand verify" -l root -d 'Look at what was captured instead of this host: a folder, .tar, .tar.gz or .tar.xz; a sosreport will do' -r -F
complete -c hugewise -n "__fish_hugewise_using_subcommand verify" -l format -d 'Text for people, JSON for programs, a page that can be mailed, or a line for a monitoring system' -r -f -a "text\t'For people'
json\t'For programs'
html\t'One page in one file'
nagios\t'One line and the exit codes of a monitoring plugin'"
complete -c hugewise -n "__fish_hugewise_using_subcommand verify" -l color -d 'Colour in text' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c hugewise -n "__fish_hugewise_using_subcommand verify" -l connect -d 'Also ask the servers over their sockets; without it nothing is connected to'
complete -c hugewise -n "__fish_hugewise_using_subcommand verify" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c hugewise -n "__fish_hugewise_using_subcommand investigate" -l from -d 'Leave out what is before this: 2026-11-21T08:00:00+01:00, "2026-11-21 08:00", or 08:00 of the last day' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand investigate" -l to -d 'Leave out what is after this; as --from' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand investigate" -l interval -d 'How far apart the lines of pasted text are that have no times, 3s; --from says when they began' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand investigate" -l timezone -d 'The zone of times that come without one: Europe/Berlin, or +02:00' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand investigate" -l host -d 'Tell of this host only, by its name; may be given again. With many hosts a table of all comes without it' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand investigate" -l series -d 'Also write the decoded series: FILE.csv or FILE.parquet' -r -F
complete -c hugewise -n "__fish_hugewise_using_subcommand investigate" -l format -d 'Text for people, JSON for programs, or a page with charts' -r -f -a "text\t'For people'
json\t'For programs'
html\t'One page in one file'"
complete -c hugewise -n "__fish_hugewise_using_subcommand investigate" -l color -d 'Colour in text' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c hugewise -n "__fish_hugewise_using_subcommand investigate" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c hugewise -n "__fish_hugewise_using_subcommand record; and not __fish_seen_subcommand_from status export look" -l out -d 'Folder to record to; only root may be able to write to it' -r -F
complete -c hugewise -n "__fish_hugewise_using_subcommand record; and not __fish_seen_subcommand_from status export look" -l interval -d 'Seconds between samples' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand record; and not __fish_seen_subcommand_from status export look" -l hours -d 'Hours to keep every sample' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand record; and not __fish_seen_subcommand_from status export look" -l days -d 'Days to keep one sample a minute' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand record; and not __fish_seen_subcommand_from status export look" -s h -l help -d 'Print help'
complete -c hugewise -n "__fish_hugewise_using_subcommand record; and not __fish_seen_subcommand_from status export look" -f -a "status" -d 'Show whether recording is running, since when, what data is missing and its overhead'
complete -c hugewise -n "__fish_hugewise_using_subcommand record; and not __fish_seen_subcommand_from status export look" -f -a "export" -d 'Export a recording for other tools: OSWatcher\'s layout, CSV, Parquet or JSON lines'
complete -c hugewise -n "__fish_hugewise_using_subcommand record; and not __fish_seen_subcommand_from status export look" -f -a "look" -d 'Name the database servers and their processes, for the recorder'
complete -c hugewise -n "__fish_hugewise_using_subcommand record; and __fish_seen_subcommand_from status" -l format -d 'Output format: text or JSON' -r -f -a "text\t'For people'
json\t'For programs'"
complete -c hugewise -n "__fish_hugewise_using_subcommand record; and __fish_seen_subcommand_from status" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c hugewise -n "__fish_hugewise_using_subcommand record; and __fish_seen_subcommand_from export" -l from -d 'Leave out what is before this: 2026-11-21T08:00:00+01:00, "2026-11-21 08:00", or 08:00 of the last day, by the host\'s clock' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand record; and __fish_seen_subcommand_from export" -l to -d 'Leave out what is after this; as --from' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand record; and __fish_seen_subcommand_from export" -l format -d 'Output format' -r -f -a "oswatcher\t'Oracle\'s OSWatcher: a folder with oswmeminfo and oswvmstat, one file an hour'
csv\t'One table, a row for each sample'
parquet\t'The same table as Parquet'
json\t'Everything, one JSON object a line: samples, processes, servers and kernel messages'"
complete -c hugewise -n "__fish_hugewise_using_subcommand record; and __fish_seen_subcommand_from export" -l out -d 'File to write; for oswatcher, the folder to create' -r -F
complete -c hugewise -n "__fish_hugewise_using_subcommand record; and __fish_seen_subcommand_from export" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c hugewise -n "__fish_hugewise_using_subcommand record; and __fish_seen_subcommand_from look" -s h -l help -d 'Print help'
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and not __fish_seen_subcommand_from page-tables logins sort access pool workload" -s h -l help -d 'Print help'
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and not __fish_seen_subcommand_from page-tables logins sort access pool workload" -f -a "page-tables" -d 'Page tables as sessions grow, in all and of each, beside the forecast of size'
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and not __fish_seen_subcommand_from page-tables logins sort access pool workload" -f -a "logins" -d 'A storm of log-ins: how long each takes, all at once and one by one'
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and not __fish_seen_subcommand_from page-tables logins sort access pool workload" -f -a "sort" -d 'Sort rows in private memory, by page size and extent'
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and not __fish_seen_subcommand_from page-tables logins sort access pool workload" -f -a "access" -d 'First touch, filling with all cores, random access and fork of private memory'
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and not __fish_seen_subcommand_from page-tables logins sort access pool workload" -f -a "pool" -d 'How fast a pool can be had now, from fresh and from fragmented memory, and how far surplus pages get'
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and not __fish_seen_subcommand_from page-tables logins sort access pool workload" -f -a "workload" -d 'A read-only workload on a PostgreSQL server of its own: transactions, latency, page tables'
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from page-tables" -l engine -d 'What the sessions belong to' -r -f -a "standin\t'Processes around shared memory that are started for it'
postgresql\t'A PostgreSQL server of its own whose sessions scan a table as large as --segment'"
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from page-tables" -l sessions -d 'Sessions at the end' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from page-tables" -l segment -d 'Size of the shared segment' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from page-tables" -l touch -d 'Part of the segment that each session touches as it logs in' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from page-tables" -l kind -d 'What the segment is' -r -f -a "system-v\t'shmget, as Oracle takes it'
mmap\t'A shared mapping without a file, as PostgreSQL takes it'
memfd\t'A memory file'"
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from page-tables" -l policy -d 'On pages of a pool: what becomes of the segment where the pool is short, in the words of Oracle\'s `use_large_pages`' -r -f -a "auto\t'The pool is grown first and put back after'
only\t'The pool as it is: all of the segment on it, or no start'
true\t'The pool as it is, and base pages for what it lacks'
false\t'Base pages, whatever --pages says'"
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from page-tables" -l pre-touch -d 'Who touches the segment before there is any work; without it the server, and every session where --touch is 100 for log-ins' -r -f -a "none\t'Nobody'
creator\t'The server once, when it makes the segment'
session\t'The server, and every session all of it as it logs in, as `pre_page_sga` had it in Oracle 11.2'"
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from page-tables" -l pages -d 'Pages to compare, the first being what the others are compared with: 4k, thp, thp-64k, 2m, 1g' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from page-tables" -l runs -d 'Rounds; each measures every kind of pages once' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from page-tables" -l warm-ups -d 'Rounds before them that do not count' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from page-tables" -l seed -d 'The order of the pages within the rounds follows from it' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from page-tables" -l keep-free -d 'Memory that must stay free, where it is more than what hugewise keeps free by itself' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from page-tables" -l format -d 'Text for people, JSON for programs, or a page with plots' -r -f -a "text\t'For people'
json\t'For programs'
html\t'One page in one file'"
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from page-tables" -l out -d 'Where the results go instead of standard output' -r -F
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from page-tables" -l keep -d 'Keep the results in this folder too: NAME.json, NAME.html, and each plot as NAME-1.svg and so on' -r -F
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from page-tables" -l color -d 'Colour in text' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from page-tables" -l random -d 'Sessions touch all over the segment, not from its start on'
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from page-tables" -l write -d 'Sessions write to what they touch'
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from page-tables" -l interleave -d 'Spread the segment over all NUMA nodes'
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from page-tables" -l plan -d 'Only say what would be done and taken'
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from page-tables" -s y -l yes -d 'Do not ask before it changes pools or switches'
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from page-tables" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from logins" -l sessions -d 'Sessions that log in at once' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from logins" -l paced -d 'Sessions that log in one by one; 0 for none' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from logins" -l interval -d 'Milliseconds between two of these' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from logins" -l segment -d 'Size of the shared segment' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from logins" -l touch -d 'Part of the segment that each session touches as it logs in' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from logins" -l kind -d 'What the segment is' -r -f -a "system-v\t'shmget, as Oracle takes it'
mmap\t'A shared mapping without a file, as PostgreSQL takes it'
memfd\t'A memory file'"
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from logins" -l policy -d 'On pages of a pool: what becomes of the segment where the pool is short, in the words of Oracle\'s `use_large_pages`' -r -f -a "auto\t'The pool is grown first and put back after'
only\t'The pool as it is: all of the segment on it, or no start'
true\t'The pool as it is, and base pages for what it lacks'
false\t'Base pages, whatever --pages says'"
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from logins" -l pre-touch -d 'Who touches the segment before there is any work; without it the server, and every session where --touch is 100 for log-ins' -r -f -a "none\t'Nobody'
creator\t'The server once, when it makes the segment'
session\t'The server, and every session all of it as it logs in, as `pre_page_sga` had it in Oracle 11.2'"
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from logins" -l pages -d 'Pages to compare, the first being what the others are compared with: 4k, thp, thp-64k, 2m, 1g' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from logins" -l runs -d 'Rounds; each measures every kind of pages once' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from logins" -l warm-ups -d 'Rounds before them that do not count' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from logins" -l seed -d 'The order of the pages within the rounds follows from it' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from logins" -l keep-free -d 'Memory that must stay free, where it is more than what hugewise keeps free by itself' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from logins" -l format -d 'Text for people, JSON for programs, or a page with plots' -r -f -a "text\t'For people'
json\t'For programs'
html\t'One page in one file'"
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from logins" -l out -d 'Where the results go instead of standard output' -r -F
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from logins" -l keep -d 'Keep the results in this folder too: NAME.json, NAME.html, and each plot as NAME-1.svg and so on' -r -F
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from logins" -l color -d 'Colour in text' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from logins" -l random -d 'Sessions touch all over the segment, not from its start on'
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from logins" -l write -d 'Sessions write to what they touch'
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from logins" -l interleave -d 'Spread the segment over all NUMA nodes'
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from logins" -l plan -d 'Only say what would be done and taken'
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from logins" -s y -l yes -d 'Do not ask before it changes pools or switches'
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from logins" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from sort" -l rows -d 'Rows to sort' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from sort" -l row-bytes -d 'Bytes of a row' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from sort" -l extents -d 'Sizes of the extents in which memory is taken, powers of two' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from sort" -l pages -d 'Pages to compare, the first being what the others are compared with: 4k, thp, thp-64k, 2m, 1g' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from sort" -l runs -d 'Rounds; each measures every kind of pages once' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from sort" -l warm-ups -d 'Rounds before them that do not count' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from sort" -l seed -d 'The order of the pages within the rounds follows from it' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from sort" -l keep-free -d 'Memory that must stay free, where it is more than what hugewise keeps free by itself' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from sort" -l format -d 'Text for people, JSON for programs, or a page with plots' -r -f -a "text\t'For people'
json\t'For programs'
html\t'One page in one file'"
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from sort" -l out -d 'Where the results go instead of standard output' -r -F
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from sort" -l keep -d 'Keep the results in this folder too: NAME.json, NAME.html, and each plot as NAME-1.svg and so on' -r -F
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from sort" -l color -d 'Colour in text' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from sort" -l plan -d 'Only say what would be done and taken'
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from sort" -s y -l yes -d 'Do not ask before it changes pools or switches'
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from sort" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from access" -l segment -d 'Memory that is touched; without it as much as the host can well spare, at most 8 GiB' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from access" -l pages -d 'Pages to compare, the first being what the others are compared with: 4k, thp, thp-64k, 2m, 1g' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from access" -l runs -d 'Rounds; each measures every kind of pages once' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from access" -l warm-ups -d 'Rounds before them that do not count' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from access" -l seed -d 'The order of the pages within the rounds follows from it' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from access" -l keep-free -d 'Memory that must stay free, where it is more than what hugewise keeps free by itself' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from access" -l format -d 'Text for people, JSON for programs, or a page with plots' -r -f -a "text\t'For people'
json\t'For programs'
html\t'One page in one file'"
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from access" -l out -d 'Where the results go instead of standard output' -r -F
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from access" -l keep -d 'Keep the results in this folder too: NAME.json, NAME.html, and each plot as NAME-1.svg and so on' -r -F
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from access" -l color -d 'Colour in text' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from access" -l plan -d 'Only say what would be done and taken'
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from access" -s y -l yes -d 'Do not ask before it changes pools or switches'
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from access" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from pool" -l size -d 'Memory that the pool shall get; without it a quarter of what the host can spare, at most 4 GiB' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from pool" -l pages -d 'Pages to compare, the first being what the others are compared with: 4k, thp, thp-64k, 2m, 1g' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from pool" -l runs -d 'Rounds; each measures every kind of pages once' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from pool" -l warm-ups -d 'Rounds before them that do not count' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from pool" -l seed -d 'The order of the pages within the rounds follows from it' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from pool" -l keep-free -d 'Memory that must stay free, where it is more than what hugewise keeps free by itself' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from pool" -l format -d 'Text for people, JSON for programs, or a page with plots' -r -f -a "text\t'For people'
json\t'For programs'
html\t'One page in one file'"
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from pool" -l out -d 'Where the results go instead of standard output' -r -F
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from pool" -l keep -d 'Keep the results in this folder too: NAME.json, NAME.html, and each plot as NAME-1.svg and so on' -r -F
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from pool" -l color -d 'Colour in text' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from pool" -l no-fragments -d 'Leave out what breaks free memory into pieces on purpose'
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from pool" -l plan -d 'Only say what would be done and taken'
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from pool" -s y -l yes -d 'Do not ask before it changes pools or switches'
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from pool" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from workload" -l sessions -d 'Sessions that ask at once' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from workload" -l segment -d 'Shared buffers; the tables fill three quarters of them' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from workload" -l seconds -d 'How long each measurement takes' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from workload" -l pages -d 'Pages to compare, the first being what the others are compared with: 4k, thp, thp-64k, 2m, 1g' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from workload" -l runs -d 'Rounds; each measures every kind of pages once' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from workload" -l warm-ups -d 'Rounds before them that do not count' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from workload" -l seed -d 'The order of the pages within the rounds follows from it' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from workload" -l keep-free -d 'Memory that must stay free, where it is more than what hugewise keeps free by itself' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from workload" -l format -d 'Text for people, JSON for programs, or a page with plots' -r -f -a "text\t'For people'
json\t'For programs'
html\t'One page in one file'"
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from workload" -l out -d 'Where the results go instead of standard output' -r -F
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from workload" -l keep -d 'Keep the results in this folder too: NAME.json, NAME.html, and each plot as NAME-1.svg and so on' -r -F
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from workload" -l color -d 'Colour in text' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from workload" -l plan -d 'Only say what would be done and taken'
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from workload" -s y -l yes -d 'Do not ask before it changes pools or switches'
complete -c hugewise -n "__fish_hugewise_using_subcommand lab; and __fish_seen_subcommand_from workload" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c hugewise -n "__fish_hugewise_using_subcommand run" -l pages -d 'Transparent huge pages, or pages of the pool of 2M or 1G' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand run" -l need -d 'Do not start the program unless so much fits in the pool of 2M or 1G' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand run" -l runs -d 'Runs of each with --compare, after one that does not count' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand run" -l format -d 'Text for people or JSON for programs, of --report and --compare' -r -f -a "text\t'For people'
json\t'For programs'"
complete -c hugewise -n "__fish_hugewise_using_subcommand run" -l out -d 'Write the report to this file instead' -r -F
complete -c hugewise -n "__fish_hugewise_using_subcommand run" -l color -d 'Colour in the report of --compare' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c hugewise -n "__fish_hugewise_using_subcommand run" -l hugetext -d 'Put its code (text) on huge pages too, as far as kernel and program allow'
complete -c hugewise -n "__fish_hugewise_using_subcommand run" -l report -d 'At the end, report on standard error what it used: time, memory, the part on huge pages, faults'
complete -c hugewise -n "__fish_hugewise_using_subcommand run" -l compare -d 'Run it without and with huge pages in turn, its output thrown away, and say what was gained'
complete -c hugewise -n "__fish_hugewise_using_subcommand run" -s q -l quiet -d 'Do not say how it is done'
complete -c hugewise -n "__fish_hugewise_using_subcommand run" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c hugewise -n "__fish_hugewise_using_subcommand serve" -l listen -d 'Address and port to listen on; port 0 takes any that is free' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand serve" -l web-config -d 'Who may ask, and how: TLS and passwords, in the format of the exporter-toolkit (web.yml)' -r -F
complete -c hugewise -n "__fish_hugewise_using_subcommand serve" -l interval -d 'Seconds between readings when nobody asks' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand serve" -l textfile -d 'Listen nowhere, and write the metrics to this file for node_exporter\'s textfile collector at each interval' -r -F
complete -c hugewise -n "__fish_hugewise_using_subcommand serve" -l insecure-bind -d 'Listen for other hosts without TLS or without a credential: everybody who can reach it can read it'
complete -c hugewise -n "__fish_hugewise_using_subcommand serve" -l once -d 'Write the file once'
complete -c hugewise -n "__fish_hugewise_using_subcommand serve" -s h -l help -d 'Print help'
complete -c hugewise -n "__fish_hugewise_using_subcommand watch" -l interval -d 'Seconds between readings' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand watch" -l replay -d 'Show what was recorded instead of this host: captures of it, or what collectors left behind, as investigate reads it' -r -F
complete -c hugewise -n "__fish_hugewise_using_subcommand watch" -l host -d 'The host to show, of a recording of several' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand watch" -l from -d 'Show nothing recorded before this: 2026-11-21T08:00:00+01:00, "2026-11-21 08:00", or 08:00 of the last day' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand watch" -l to -d 'Show nothing recorded after this; as --from' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand watch" -l timezone -d 'The zone of recorded times that come without one: Europe/Berlin, or +02:00' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand watch" -l speed -d 'Frames of a recording to play per second' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand watch" -l filter -d 'Show only what has this in it, until Esc is pressed: the name of an instance, the code of a finding' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand watch" -l color -d 'Colour' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c hugewise -n "__fish_hugewise_using_subcommand watch" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c hugewise -n "__fish_hugewise_using_subcommand rules" -l format -d 'Text for people or JSON for programs' -r -f -a "text\t'For people'
json\t'For programs'"
complete -c hugewise -n "__fish_hugewise_using_subcommand rules" -l color -d 'Colour in text' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c hugewise -n "__fish_hugewise_using_subcommand rules" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c hugewise -n "__fish_hugewise_using_subcommand completions" -s h -l help -d 'Print help'
