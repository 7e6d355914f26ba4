#![no_main]

//! Any bytes as a file of collectl, raw or for plots.

fn read(mut bytes: &[u8]) -> usize {
    hugewise_incident::readers::collectl::read(&mut bytes, "db1.raw").map_or(0, |series| series.samples().len())
}

hugewise_fuzz::target!(read);
