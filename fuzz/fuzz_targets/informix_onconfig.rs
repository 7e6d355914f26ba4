#![no_main]

hugewise_fuzz::target!(hugewise_engines::informix::parse);
