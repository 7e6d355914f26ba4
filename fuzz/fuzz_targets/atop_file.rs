#![no_main]

//! Any bytes as a file of atop's own, of a layout that is read here: another one would be given to atop.

fn read(bytes: &[u8]) -> usize {
    let mut bytes = bytes.to_vec();
    // The length of atop 2.6's structures, a record's length and a page.
    for (place, with) in [
        (12, &96_u16.to_le_bytes()[..]),
        (28, &716_656_u32.to_le_bytes()),
        (436, &4096_u32.to_le_bytes()),
    ] {
        if let Some(bytes) = bytes.get_mut(place..place + with.len()) {
            bytes.copy_from_slice(with);
        }
    }
    hugewise_investigate::readers::atop::read_atop_file(&mut bytes.as_slice(), "atop")
        .map_or(0, |series| series.samples().len())
}

hugewise_fuzz::target!(read);
