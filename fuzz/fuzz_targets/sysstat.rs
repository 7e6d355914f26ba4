#![no_main]

//! Any bytes as a file of sysstat.

fn read(mut bytes: &[u8]) -> usize {
    hugewise_incident::readers::sysstat::read(&mut bytes, "sa01").map_or(0, |series| series.samples().len())
}

hugewise_fuzz::target!(read);
