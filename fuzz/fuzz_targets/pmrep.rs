#![no_main]

//! Any bytes as what pmrep prints.

fn read(mut bytes: &[u8]) -> usize {
    hugewise_investigate::readers::pcp::read(&mut bytes, "pcp")
        .map_or(0, |series| series.samples().len())
}

hugewise_fuzz::target!(read);
