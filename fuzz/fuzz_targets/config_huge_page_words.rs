#![no_main]

hugewise_fuzz::target!(parse);

fn parse(bytes: &[u8]) -> hugewise_host::config::cmdline::HugePageWords {
    let text = String::from_utf8_lossy(bytes);
    hugewise_host::config::cmdline::huge_page_words(&text.split_whitespace().collect::<Vec<_>>())
}
