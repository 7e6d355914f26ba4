#![no_main]

hugewise_fuzz::target!(parse);

fn parse(bytes: &[u8]) -> usize {
    hugewise_host::config::sysctl::parse("/f", bytes).len()
}
