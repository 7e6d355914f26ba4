#![no_main]

//! Any bytes as nmon's file.

fn read(mut bytes: &[u8]) -> usize {
    hugewise_incident::readers::nmon::read(&mut bytes, "db1.nmon").map_or(0, |series| series.samples().len())
}

hugewise_fuzz::target!(read);
