//! Numbers in as few bytes as they need (LEB128), written to a place of fixed size and read from an
//! untrusted one.

/// Writes to a buffer of fixed size; [`bytes_written`](Self::bytes_written) tells whether all fits.
pub(crate) struct VarintWriter<'a> {
    room: &'a mut [u8],
    used: usize,
    fits: bool,
}

impl<'a> VarintWriter<'a> {
    pub(crate) const fn new(room: &'a mut [u8]) -> Self {
        Self { room, used: 0, fits: true }
    }

    /// `None` where something did not fit.
    pub(crate) const fn bytes_written(&self) -> Option<usize> {
        if self.fits { Some(self.used) } else { None }
    }

    pub(crate) fn write_byte(&mut self, byte: u8) {
        self.write_bytes(&[byte]);
    }

    pub(crate) fn write_number(&mut self, mut number: u64) {
        while number >= 0x80 {
            let [low, ..] = number.to_le_bytes();
            self.write_byte(low | 0x80);
            number >>= 7;
        }
        let [low, ..] = number.to_le_bytes();
        self.write_byte(low);
    }

    pub(crate) fn write_signed(&mut self, number: i64) {
        self.write_number((number << 1 ^ number >> 63).cast_unsigned());
    }

    /// At most `most` bytes, behind their number.
    pub(crate) fn write_text(&mut self, bytes: &[u8], most: usize) {
        let bytes = bytes.get(..most.min(bytes.len())).unwrap_or_default();
        self.write_number(u64::try_from(bytes.len()).unwrap_or(0));
        self.write_bytes(bytes);
    }

    pub(crate) fn write_bytes(&mut self, bytes: &[u8]) {
        match self.room.get_mut(self.used..self.used.saturating_add(bytes.len())) {
            Some(place) => {
                place.copy_from_slice(bytes);
                self.used += bytes.len();
            }
            None => self.fits = false,
        }
    }
}

#[derive(Clone, Copy)]
pub(crate) struct VarintReader<'a>(&'a [u8]);

impl<'a> VarintReader<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    #[cfg(test)]
    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn read_byte(&mut self) -> Option<u8> {
        let (byte, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*byte)
    }

    pub(crate) fn read_number(&mut self) -> Option<u64> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.read_byte()?;
            let part = u64::from(byte & 0x7f);
            if shift == 63 && part > 1 {
                return None;
            }
            number |= part << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    pub(crate) fn read_signed(&mut self) -> Option<i64> {
        let number = self.read_number()?;
        Some((number >> 1).cast_signed() ^ -((number & 1).cast_signed()))
    }

    pub(crate) fn read_small<T: TryFrom<u64>>(&mut self) -> Option<T> {
        self.read_number().and_then(|number| T::try_from(number).ok())
    }

    pub(crate) fn read_text(&mut self) -> Option<&'a [u8]> {
        let length = self.read_small()?;
        self.read_bytes(length)
    }

    pub(crate) fn read_bytes(&mut self, length: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_number_takes_a_byte_for_each_seven_bits() {
        for (number, bytes) in [
            (0, &[0][..]),
            (127, &[127]),
            (300, &[0xac, 2]),
            (u64::MAX, &[255, 255, 255, 255, 255, 255, 255, 255, 255, 1]),
        ] {
            let mut room = [0; 16];
            let mut put = VarintWriter::new(&mut room);
            put.write_number(number);
            let used = put.bytes_written().unwrap();
            assert_eq!(&room[..used], bytes);
            assert_eq!(VarintReader::new(bytes).read_number(), Some(number));
        }
        // Eleven bytes, and ten that say more than 64 bits hold.
        assert_eq!(VarintReader::new(&[0x80; 11]).read_number(), None);
        assert_eq!(
            VarintReader::new(&[255, 255, 255, 255, 255, 255, 255, 255, 255, 2]).read_number(),
            None
        );
    }

    proptest! {
        #[test]
        fn what_was_put_is_taken(number: u64, signed: i64, text: Vec<u8>) {
            let mut room = [0; 200];
            let mut put = VarintWriter::new(&mut room);
            put.write_number(number);
            put.write_signed(signed);
            put.write_text(&text, 100);
            let used = put.bytes_written().unwrap();
            let mut take = VarintReader::new(&room[..used]);
            prop_assert_eq!(take.read_number(), Some(number));
            prop_assert_eq!(take.read_signed(), Some(signed));
            prop_assert_eq!(take.read_text(), Some(&text[..text.len().min(100)]));
            prop_assert!(take.is_empty());
        }

        #[test]
        fn what_does_not_fit_is_told(number: u64) {
            let mut room = [0; 1];
            let mut put = VarintWriter::new(&mut room);
            put.write_number(number);
            prop_assert_eq!(put.bytes_written().is_some(), number < 128);
        }
    }
}
