#![no_main]

//! Any bytes as what sadf prints.

fn read(mut bytes: &[u8]) -> usize {
    hugewise_incident::readers::sysstat::sadf::read(&mut bytes, "sa01").map_or(0, |series| series.len())
}

hugewise_fuzz::target!(read);
