#![no_main]

hugewise_fuzz::target!(hugewise_engines::ini::parse_all_entries);
