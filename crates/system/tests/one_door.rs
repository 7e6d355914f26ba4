//! The machine is changed through this crate alone: whoever else opens a file to write it writes a
//! file of his own.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test reads the sources")]

use std::fs;
use std::path::{Path, PathBuf};

/// Calls that make or change a file.
const WRITES: [&str; 9] = [
    "fs::write(",
    ".write(true)",
    ".append(true)",
    "File::create",
    "OFlags::WRONLY",
    "OFlags::RDWR",
    "OFlags::CREATE",
    ".create_file(",
    "open_output_file(",
];

/// Files that have one, and what it writes.
const OF_THEIR_OWN: [(&str, &str); 18] = [
    ("cli/src/investigate.rs", "series that are handed out"),
    ("cli/src/outcome.rs", "logs and reports that the command line names"),
    ("cli/src/plan.rs", "the plan"),
    ("cli/src/record/export.rs", "what was recorded, as a file that the command line names"),
    ("fleet/src/lake.rs", "tables, in a folder that the command line names"),
    ("host/src/capture/new_files.rs", "a capture"),
    ("investigate/src/readers/pcp/mod.rs", "an archive unpacked, in a folder of its own"),
    ("lab/src/experiments/cluster.rs", "a database cluster in a folder of its own"),
    ("lab/src/fake_server/server.rs", "that the kernel is to kill this process first"),
    (
        "lab/src/guard/mod.rs",
        "nothing: whether the pools may be written at all, and the lock of tests",
    ),
    ("lab/src/segment.rs", "the memory itself, on a hugetlbfs"),
    ("record/src/record.rs", "that the kernel is to kill this process last, or first"),
    ("record/src/ring/file.rs", "the flight recorder's rings"),
    (
        "report/src/recorded/oswatcher_folder.rs",
        "what was recorded, in a folder that the command line names",
    ),
    ("report/src/series/mod.rs", "series that are handed out"),
    (
        "report/src/unnamed_file.rs",
        "a file without a name, which takes its own only once it is whole",
    ),
    ("serve/src/textfile.rs", "a file for node_exporter"),
    ("source/src/output_place.rs", "what the command line names, for all of these"),
];

#[test]
fn nobody_else_writes_to_the_machine() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut found = Vec::new();
    for entry in fs::read_dir(crates).unwrap() {
        let folder = entry.unwrap().path();
        if !folder.ends_with("system") && !folder.ends_with("testkit") {
            walk(&folder.join("src"), crates, &mut found);
        }
    }
    found.sort();
    let known = OF_THEIR_OWN.map(|(file, _)| file);
    assert_eq!(
        found, known,
        "a new file that writes: through hugewise_system::System where it is the machine's, else \
             named above"
    );
}

/// Files of a folder whose code, tests aside, opens a file to write it.
fn walk(folder: &Path, crates: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path: PathBuf = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            if !matches!(name.as_str(), "tests" | "hostile") {
                walk(&path, crates, found);
            }
        } else if name.ends_with(".rs") && !matches!(name.as_str(), "tests.rs" | "testing.rs") {
            let text = fs::read_to_string(&path).unwrap();
            let code = text
                .split("#[cfg(test)]\n")
                .filter(|part| !part.contains("mod tests {"))
                .collect::<String>();
            if WRITES.iter().any(|call| code.contains(call)) {
                found.push(path.strip_prefix(crates).unwrap().to_string_lossy().into_owned());
            }
        }
    }
}
