# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_hugewise_global_optspecs
    string join \n root= format= fail-on= instance= connect v/verbose color= h/help V/version
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
complete -c hugewise -n "__fish_hugewise_needs_command" -l format -d 'Text for people or JSON for programs' -r -f -a "text\t'For people'
json\t'For programs'"
complete -c hugewise -n "__fish_hugewise_needs_command" -l fail-on -d 'Exit with 1 for findings of this level or worse' -r -f -a "error\t'It hurts now, or will at the next start'
warn\t'It will hurt under load'
info\t'Worth knowing'
never\t'Findings never fail'"
complete -c hugewise -n "__fish_hugewise_needs_command" -l instance -d 'Only what concerns this instance and the host: PROD, 15/main, or "oracle PROD"' -r
complete -c hugewise -n "__fish_hugewise_needs_command" -l color -d 'Colour in text' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c hugewise -n "__fish_hugewise_needs_command" -l connect -d 'Also ask the servers over their sockets; without it nothing is connected to'
complete -c hugewise -n "__fish_hugewise_needs_command" -s v -l verbose -d 'All evidence of every finding in text; JSON always has it'
complete -c hugewise -n "__fish_hugewise_needs_command" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c hugewise -n "__fish_hugewise_needs_command" -s V -l version -d 'Print version'
complete -c hugewise -n "__fish_hugewise_needs_command" -f -a "check" -d 'Say what is wrong here, and why (the default)'
complete -c hugewise -n "__fish_hugewise_needs_command" -f -a "capture" -d 'Save what check reads, secrets left out, so that check --root can read it elsewhere'
complete -c hugewise -n "__fish_hugewise_needs_command" -f -a "size" -d 'Say how many huge pages of which size what runs here needs, or what is described'
complete -c hugewise -n "__fish_hugewise_needs_command" -f -a "verify" -d 'Tell whether each instance is wholly on huge pages, and if not, which link is broken'
complete -c hugewise -n "__fish_hugewise_needs_command" -f -a "rules" -d 'List the rules, or print the page of one'
complete -c hugewise -n "__fish_hugewise_needs_command" -f -a "completions" -d 'Print completions for a shell'
complete -c hugewise -n "__fish_hugewise_using_subcommand check" -l root -d 'Check what was captured instead of this host: a folder, .tar, .tar.gz or .tar.xz; a sosreport will do' -r -F
complete -c hugewise -n "__fish_hugewise_using_subcommand check" -l format -d 'Text for people or JSON for programs' -r -f -a "text\t'For people'
json\t'For programs'"
complete -c hugewise -n "__fish_hugewise_using_subcommand check" -l fail-on -d 'Exit with 1 for findings of this level or worse' -r -f -a "error\t'It hurts now, or will at the next start'
warn\t'It will hurt under load'
info\t'Worth knowing'
never\t'Findings never fail'"
complete -c hugewise -n "__fish_hugewise_using_subcommand check" -l instance -d 'Only what concerns this instance and the host: PROD, 15/main, or "oracle PROD"' -r
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
complete -c hugewise -n "__fish_hugewise_using_subcommand size" -l format -d 'Text for people or JSON for programs' -r -f -a "text\t'For people'
json\t'For programs'"
complete -c hugewise -n "__fish_hugewise_using_subcommand size" -l sessions -d 'Sessions on the host that the plan has to carry' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand size" -l memory -d 'Plan for a host with so much memory, instead of this one' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand size" -l page-size -d 'Page size: 2M, 1G, or auto: what each server\'s settings ask for' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand size" -l headroom -d 'Pages beyond the demand, in percent of it, at most 100' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand size" -l instance -d 'Only this running or described instance: PROD, 15/main, or "oracle PROD". What others hold stays theirs' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand size" -l color -d 'Colour in text' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c hugewise -n "__fish_hugewise_using_subcommand size" -l engine -d 'Describe a server; the options below it belong to the --engine before them, which may be repeated' -r -f -a "postgresql\t'By --data-dir, --config or both'
oracle\t'By --sga, or by --config with a parameter file'
mariadb\t'By --config'
mysql\t'By --config'
jvm\t'By its command behind --, or in --command'
qemu\t'By its command behind --, or in --command'"
complete -c hugewise -n "__fish_hugewise_using_subcommand size" -l data-dir -d 'PostgreSQL\'s data directory' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand size" -l config -d 'The server\'s configuration: postgresql.conf, init.ora, my.cnf' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand size" -l server-binary -d 'PostgreSQL\'s program `postgres`, where it is at no usual place' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand size" -l sga -d 'Oracle\'s SGA_TARGET: 34G' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand size" -l sga-max -d 'Oracle\'s SGA_MAX_SIZE, where it is larger' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand size" -l processes -d 'Oracle\'s PROCESSES' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand size" -l asm -d 'An ASM instance beside it, with this SGA (=1G where no size is given)' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand size" -l management-database -d 'The management database (-MGMTDB) beside it, with this SGA (=1G where no size is given)' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand size" -l command -d 'The JVM\'s or QEMU\'s command in one word, where several are described: \'java -Xmx8g -jar a.jar\'' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand size" -l segment -d 'A System V segment of this size; may be repeated, and needs no --engine' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand size" -l only-described -d 'Leave out what runs here'
complete -c hugewise -n "__fish_hugewise_using_subcommand size" -l connect -d 'Also ask the servers over their sockets; without it nothing is connected to'
complete -c hugewise -n "__fish_hugewise_using_subcommand size" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c hugewise -n "__fish_hugewise_using_subcommand verify" -l log -d 'A server\'s own log: Oracle\'s alert log, PostgreSQL\'s, MariaDB\'s or MySQL\'s, a JVM\'s, QEMU\'s; may be repeated' -r -F
complete -c hugewise -n "__fish_hugewise_using_subcommand verify" -l wait -d 'Wait up to so many seconds until a starting server has mapped its memory' -r
complete -c hugewise -n "__fish_hugewise_using_subcommand verify" -l root -d 'Look at what was captured instead of this host: a folder, .tar, .tar.gz or .tar.xz; a sosreport will do' -r -F
complete -c hugewise -n "__fish_hugewise_using_subcommand verify" -l format -d 'Text for people, JSON for programs, or a line for a monitoring system' -r -f -a "text\t'For people'
json\t'For programs'
nagios\t'One line and the exit codes of a monitoring plugin'"
complete -c hugewise -n "__fish_hugewise_using_subcommand verify" -l color -d 'Colour in text' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c hugewise -n "__fish_hugewise_using_subcommand verify" -l connect -d 'Also ask the servers over their sockets; without it nothing is connected to'
complete -c hugewise -n "__fish_hugewise_using_subcommand verify" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c hugewise -n "__fish_hugewise_using_subcommand rules" -l format -d 'Text for people or JSON for programs' -r -f -a "text\t'For people'
json\t'For programs'"
complete -c hugewise -n "__fish_hugewise_using_subcommand rules" -l color -d 'Colour in text' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'Always'
never\t'Never'"
complete -c hugewise -n "__fish_hugewise_using_subcommand rules" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c hugewise -n "__fish_hugewise_using_subcommand completions" -s h -l help -d 'Print help'
