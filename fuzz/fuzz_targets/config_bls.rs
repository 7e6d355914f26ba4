#![no_main]

hugewise_fuzz::target!(parse, hugewise_host::config::bls::loader_default);

fn parse(bytes: &[u8]) -> hugewise_host::config::bls::BlsEntry {
    hugewise_host::config::bls::parse_entry("/boot/loader/entries/x.conf", bytes)
}
