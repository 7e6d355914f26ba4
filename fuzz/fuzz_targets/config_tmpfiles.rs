#![no_main]

use hugewise_host::config::tmpfiles;

hugewise_fuzz::target!(parse);

fn parse(bytes: &[u8]) -> usize {
    tmpfiles::parse("/f", bytes).len()
}
