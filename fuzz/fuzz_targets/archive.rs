#![no_main]

//! Any bytes as a file of the format that they begin like, or else as one of every format.

use hugewise_investigate::readers::{self, FORMATS, HEAD};

/// Tells the day and the host of OSWatcher's.
const NAME: &str = "db1_vmstat_26.11.21.2300.dat";
/// A file of another layout than those that are read here would be given to atop: it has a target
/// of its own.
const READ_BY_PROGRAM: &str = "atop_file";

fn read(bytes: &[u8]) {
    let known = readers::describe_format(bytes).is_some();
    let formats = FORMATS.iter().filter(|format| format.name != READ_BY_PROGRAM);
    for format in formats.filter(|format| !known || format.may_be(bytes)) {
        let _ = std::hint::black_box(format.read_bytes(bytes, HEAD, NAME));
    }
}

hugewise_fuzz::target!(read);
