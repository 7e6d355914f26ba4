#![no_main]

// Bytes as the answers of a processor, four registers a question, in the order of asking.
fn decode(bytes: &[u8]) -> usize {
    let at = std::cell::Cell::new(0);
    let levels = hugewise_host::tlb::decode_tlb(&|_, _| {
        let answer = bytes.chunks_exact(16).nth(at.replace(at.get() + 1))?;
        let mut registers = answer
            .chunks_exact(4)
            .map(|four| u32::from_le_bytes(four.try_into().unwrap_or_default()));
        Some([registers.next()?, registers.next()?, registers.next()?, registers.next()?])
    });
    levels.as_known().map_or(0, Vec::len)
}

hugewise_fuzz::target!(decode);
