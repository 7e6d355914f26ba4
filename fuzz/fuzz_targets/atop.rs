#![no_main]

//! Any bytes as what atop prints.

fn read(mut bytes: &[u8]) -> usize {
    hugewise_incident::readers::atop::read(&mut bytes, "atop.txt").map_or(0, |series| series.samples().len())
}

hugewise_fuzz::target!(read);
