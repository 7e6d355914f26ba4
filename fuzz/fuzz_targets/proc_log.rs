#![no_main]

//! Any bytes as a log of dates and the kernel's files.

fn read(mut bytes: &[u8]) -> usize {
    hugewise_incident::readers::proc_log::read(&mut bytes, "meminfo.log").map_or(0, |series| series.samples().len())
}

hugewise_fuzz::target!(read);
