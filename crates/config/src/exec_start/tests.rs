//! What systemd 252 starts, by a program that says what it was given.

use proptest::prelude::*;

use super::*;
use crate::unit;
use hugewise_source::map::MapSource;

const NAME: &str = "t@a\\x2db-c.service";

const VARIABLES: &str = "# comment \\
A=one two
; other
B=\"quoted  value\"  \x20
C='single $x \\n'
D=a\\ b\\\\c
E=\"line\\
joined\" F
 G = spaced  \x20
export H=1
I=x\"y z\"
J=\"a\\\"b\\$c\\d\"
K='p'\"q\" r
1L=no
A-B=no
M=
N=a # b
O=two \\
lines
";

fn start(text: &str) -> ServiceStart {
    let source = MapSource::new().with_file("/run/a.env", VARIABLES);
    let assignments = unit::parse(format!("[Service]\n{text}\n").as_bytes());
    let assignments: Vec<_> =
        assignments.into_iter().map(|one| ("/etc/t@.service".to_owned(), one)).collect();
    read(&mut FactReader::new(&source), NAME, &assignments).unwrap()
}

fn arguments(text: &str) -> String {
    let commands = start(text).commands.into_iter();
    let lines = commands.map(|command| {
        command.words[1..].iter().map(|word| format!("{word}|")).collect::<String>()
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn variables_of_a_file_are_what_systemd_reads() {
    for (name, said) in [
        ("A", "x||y|z|"),
        ("B", "x|quoted  value|y|quoted|value|z|"),
        ("C", "x|single $x \\n|y|single|$x|n|z|"),
        ("D", "x|a b\\c|y|a|bc|z|"),
        ("E", "x|linejoinedF|y|linejoinedF|z|"),
        ("G", "x|spaced|y|spaced|z|"),
        ("H", "x||y|z|"),
        ("I", "x|x\"y z\"|y|xy z|z|"),
        ("J", "x|a\"b$c\\d|y|ab$cd|z|"),
        ("K", "x|pqr|y|pqr|z|"),
        ("M", "x||y|z|"),
        ("N", "x|a # b|y|a|#|b|z|"),
        ("O", "x|two lines|y|two|lines|z|"),
    ] {
        let text =
            format!("EnvironmentFile=/run/a.env\nExecStart=/run/args.sh x ${{{name}}} y ${name} z");
        assert_eq!(arguments(&text), said, "{name}");
    }
}

#[test]
fn words_variables_and_specifiers_are_what_systemd_makes_of_them() {
    for (text, said) in [
        ("Environment=B=1\nEnvironmentFile=/run/a.env\nExecStart=/p ${B}", "quoted  value|"),
        ("EnvironmentFile=/run/a.env\nEnvironment=B=1\nExecStart=/p ${B}", "quoted  value|"),
        ("EnvironmentFile=/run/a.env\nUnsetEnvironment=B\nExecStart=/p ${B} $B z", "|z|"),
        (
            "Environment=\"X=-c a=1 \\\"b c\\\"\" Y=%i\nExecStart=/p $X ${X} pre$Y ${Y}post $$Y \
                 $${Y}",
            "-c|a=1|b c|-c a=1 \"b c\"|pre$Y|a\\x2db-cpost|$Y|${Y}|",
        ),
        ("ExecStart=:/p $X ${X} %%", "$X|${X}|%|"),
        (
            "ExecStart=@/p name %i %I %p %n %N %j %f",
            r"a\x2db-c|a-b/c|t|t@a\x2db-c.service|t@a\x2db-c|t|/a-b/c|",
        ),
        (
            "ExecStart=/p a\\x41 b\\tc d\\se \"f\\\"g\" h\\qi \\\\ \\101",
            "aA|b\tc|d e|f\"g|h\\qi|\\|A|",
        ),
        ("ExecStart=/p one ; /p two", "one|\ntwo|"),
        (r"ExecStart=/p one \; two", "one|;|two|"),
        (
            "ExecStart=/p one\nExecStart=\nExecStart=-!/p two \"a b\" %t %S %C %L %E %T %V %h %u \
                 %U",
            "two|a b|/run|/var/lib|/var/cache|/var/log|/etc|/tmp|/var/tmp|/root|root|0|",
        ),
        ("Environment=P=%%x Q=\"a\\x20b\"\nExecStart=/p ${P} $Q ${NOT} $NOT end", "%x|a|b||end|"),
        ("EnvironmentFile=/run/[ab].env\nExecStart=/p ${B}", "quoted  value|"),
        ("EnvironmentFile=-/run/none\nExecStart=/p ${A} z", "|z|"),
        ("Environment=A=x\nExecStart=/p $A.b \"$A\" ${A:-z} -Xmx$A", "x|${A:-z}|-Xmx$A|"),
        ("Environment=A=x A_=q\nExecStart=/p \"a ${A} b\" $A$A", "a x b|"),
    ] {
        assert_eq!(arguments(text), said, "{text}");
    }
}

/// systemd says that it failed to load the environment, and starts nothing.
#[test]
fn a_file_of_variables_that_is_not_there_keeps_it_from_starting() {
    for (text, lacks) in [
        ("EnvironmentFile=/run/none", Some("/run/none")),
        ("EnvironmentFile=/run/*.none", Some("/run/*.none")),
        ("EnvironmentFile=-/run/none", None),
        ("EnvironmentFile=/run/none\nEnvironmentFile=", None),
        ("EnvironmentFile=/run/a.env", None),
    ] {
        let start = start(&format!("{text}\nExecStart=/p"));
        assert_eq!(start.lacks.as_ref().map(|(file, _)| file.as_str()), lacks, "{text}");
    }
    assert_eq!(start("EnvironmentFile=/run/a.env\nExecStart=/p").variable_files, ["/run/a.env"]);
}

/// Whoever can write one of its files of variables chooses its words.
#[test]
fn what_no_variable_decides_is_kept_apart() {
    let start = start(
        "Environment=B=y\nEnvironmentFile=-/run/a.env\nEnvironmentFile=-/run/x/*.env\n\
         ExecStart=/usr/bin/env $A $B ${B}/z /p -D",
    );
    assert_eq!(start.variable_places, ["/run/a.env", "/run/x"]);
    assert_eq!(start.commands[0].bare_words, ["/z", "/p", "-D"]);
}

#[test]
fn a_program_is_told_behind_what_wraps_it_and_by_its_line() {
    let start = start(
        "\n\nExecStart=/usr/bin/env A=b java -Xmx1g\nExecStart=/usr/bin/numactl -i all /bin/x y",
    );
    let told: Vec<_> = start
        .commands
        .iter()
        .map(|start_command| (start_command.words.join(" "), start_command.place.line))
        .collect();
    assert_eq!(told, [("java -Xmx1g".to_owned(), 4), ("/bin/x y".to_owned(), 5)]);
}

#[test]
fn of_variables_those_are_kept_that_servers_read() {
    let start = start("Environment=PGDATA=/d SECRET=x JAVA_TOOL_OPTIONS=-Xmx1g\nExecStart=/p");
    assert_eq!(start.environment.keys().collect::<Vec<_>>(), ["JAVA_TOOL_OPTIONS", "PGDATA"]);
}

proptest! {
    #[test]
    fn any_text_is_survived(text in "[ -~\n]{0,80}", file in "[ -~\n]{0,80}") {
        let source = MapSource::new().with_file("/e", file);
        let text = format!("[Service]\nEnvironmentFile=/e\nExecStart={text}\n");
        let all = unit::parse(text.as_bytes()).into_iter().map(|one| (String::new(), one)).collect::<Vec<_>>();
        drop(read(&mut FactReader::new(&source), "x.service", &all));
    }
}
