//! Whoever writes `--sga 34` means 34 GiB: a size without its unit is refused everywhere, with what
//! to write.

use std::collections::BTreeSet;
use std::process::{Command, Stdio};

/// Every option that takes a size: subcommand, option, and what comes before and after the size.
const SIZES: [(&str, &str, [&str; 2]); 24] = [
    ("size", "--memory", ["", ""]),
    ("size", "--page-size", ["", ""]),
    ("size", "--sga", ["", ""]),
    ("size", "--sga-max", ["", ""]),
    ("size", "--asm", ["", ""]),
    ("size", "--management-database", ["", ""]),
    ("size", "--segment", ["", ""]),
    ("plan", "--page-size", ["", ""]),
    ("plan", "--overcommit", ["", "=100"]),
    ("apply", "--page-size", ["", ""]),
    ("apply", "--overcommit", ["", "=100"]),
    ("lab page-tables", "--segment", ["", ""]),
    ("lab page-tables", "--keep-free", ["", ""]),
    ("lab logins", "--segment", ["", ""]),
    ("lab logins", "--keep-free", ["", ""]),
    ("lab sort", "--extents", ["64K,", ""]),
    ("lab sort", "--keep-free", ["", ""]),
    ("lab access", "--segment", ["", ""]),
    ("lab access", "--keep-free", ["", ""]),
    ("lab pool", "--size", ["", ""]),
    ("lab pool", "--keep-free", ["", ""]),
    ("lab workload", "--segment", ["", ""]),
    ("lab workload", "--keep-free", ["", ""]),
    ("run", "--need", ["", ""]),
];

/// Exit code and what was said.
fn hugewise(words: &[&str]) -> (Option<i32>, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_hugewise"))
        .args(words)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn a_number_alone_is_refused_by_every_option_that_takes_a_size() {
    for (subcommand, option, [before, after]) in SIZES {
        let argument = format!("{option}={before}34{after}");
        let words: Vec<&str> = subcommand.split(' ').chain([argument.as_str()]).collect();
        let (code, said) = hugewise(&words);
        assert_eq!(code, Some(2), "{subcommand} {argument}: {said}");
        let wanted = if option == "--page-size" {
            "\"34\" is not a page size"
        } else {
            "34 has no unit; write 34G"
        };
        assert!(said.contains(wanted) && said.contains(option), "{subcommand} {argument}: {said}");
    }
}

#[test]
fn what_to_write_is_what_was_likely_meant() {
    for (number, wanted) in [
        ("1.5", "write 1.5G"),
        (" 34 ", "34 has no unit; write 34G"),
        ("8192", "8192 has no unit; write 8192M, or 8192B"),
        ("36507222016", "write 36507222016B"),
    ] {
        let (code, said) = hugewise(&["size", "--segment", number]);
        assert!(code == Some(2) && said.contains(wanted), "{number}: {said}");
    }
}

#[test]
fn units_are_read_as_ever() {
    for size in [
        "34g",
        "34G",
        "34GB",
        "34GiB",
        "34 gib",
        "0.033203125T",
        "34816M",
        "35651584k",
        "36507222016B",
    ] {
        let words =
            ["size", "--only-described", "--memory", "64G", "--segment", size, "--page-size", "2M"];
        let (code, said) = hugewise(&words);
        assert_eq!((code, said.as_str()), (Some(0), ""), "{size}");
    }
    // Zero is not a size, with or without a unit.
    for zero in ["0", "0G"] {
        let (code, said) = hugewise(&["size", "--segment", zero]);
        assert!(code == Some(2) && said.contains("is zero"), "{zero}: {said}");
    }
}

/// The table above is whole: no option with a size is missing in it.
#[test]
fn no_option_with_a_size_is_forgotten() {
    fn look(path: &str, command: &clap::Command, found: &mut BTreeSet<(String, String)>) {
        for argument in command.get_arguments() {
            let names = argument.get_value_names().unwrap_or_default();
            let option = argument.get_long().map(|long| format!("--{long}")).unwrap_or_default();
            if names.iter().any(|name| name.contains("SIZE")) || option == "--extents" {
                found.insert((path.to_owned(), option));
            }
        }
        for subcommand in command.get_subcommands() {
            look(format!("{path} {}", subcommand.get_name()).trim_start(), subcommand, found);
        }
    }
    let mut found = BTreeSet::new();
    look("", &hugewise_cli::command_definition(), &mut found);
    let table: BTreeSet<_> = SIZES
        .iter()
        .map(|(subcommand, option, _)| ((*subcommand).to_owned(), (*option).to_owned()))
        .collect();
    assert_eq!(found, table);
}
