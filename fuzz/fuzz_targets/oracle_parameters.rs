#![no_main]

hugewise_fuzz::target!(
    hugewise_engines::oracle::parameters::parse_spfile,
    hugewise_engines::oracle::parameters::parse_text
);
