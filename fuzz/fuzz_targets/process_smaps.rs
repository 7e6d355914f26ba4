#![no_main]

hugewise_fuzz::target!(hugewise_host::process::smaps::smallest_page);
