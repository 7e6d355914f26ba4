#![no_main]

//! Any bytes as what vmstat prints.

fn read(mut bytes: &[u8]) -> usize {
    hugewise_incident::readers::vmstat::read(&mut bytes, "vmstat.log").map_or(0, |series| series.samples().len())
}

hugewise_fuzz::target!(read);
