//! Numbers in as few bytes as they need (LEB128), into a place of fixed size and out of one that anybody may have written.

/// What is written into a buffer of fixed size. What does not fit is left out, and [`fits`](Self::fits) says so.
pub(crate) struct Put<'a> {
    room: &'a mut [u8],
    used: usize,
    fits: bool,
}

impl<'a> Put<'a> {
    pub(crate) const fn new(room: &'a mut [u8]) -> Self {
        Self { room, used: 0, fits: true }
    }

    /// Bytes written so far; `None` where something did not fit.
    pub(crate) const fn used(&self) -> Option<usize> {
        if self.fits { Some(self.used) } else { None }
    }

    pub(crate) fn byte(&mut self, byte: u8) {
        match self.room.get_mut(self.used) {
            Some(place) => {
                *place = byte;
                self.used += 1;
            }
            None => self.fits = false,
        }
    }

    pub(crate) fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            let [low, ..] = number.to_le_bytes();
            self.byte(low | 0x80);
            number >>= 7;
        }
        let [low, ..] = number.to_le_bytes();
        self.byte(low);
    }

    /// A number that may be negative: small ones of either sign take little.
    pub(crate) fn signed(&mut self, number: i64) {
        self.number((number << 1 ^ number >> 63).cast_unsigned());
    }

    /// Bytes behind their number, at most `most` of them.
    pub(crate) fn text(&mut self, bytes: &[u8], most: usize) {
        let bytes = bytes.get(..most.min(bytes.len())).unwrap_or_default();
        self.number(u64::try_from(bytes.len()).unwrap_or(0));
        self.bytes(bytes);
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        match self.room.get_mut(self.used..self.used.saturating_add(bytes.len())) {
            Some(place) => {
                place.copy_from_slice(bytes);
                self.used += bytes.len();
            }
            None => self.fits = false,
        }
    }
}

/// What is read; nothing comes behind the end, and no number is longer than it may be.
#[derive(Clone, Copy)]
pub(crate) struct Take<'a>(&'a [u8]);

impl<'a> Take<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    #[cfg(test)]
    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn byte(&mut self) -> Option<u8> {
        let (byte, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*byte)
    }

    pub(crate) fn number(&mut self) -> Option<u64> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
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

    pub(crate) fn signed(&mut self) -> Option<i64> {
        let number = self.number()?;
        Some((number >> 1).cast_signed() ^ -((number & 1).cast_signed()))
    }

    pub(crate) fn small<T: TryFrom<u64>>(&mut self) -> Option<T> {
        self.number().and_then(|number| T::try_from(number).ok())
    }

    pub(crate) fn text(&mut self) -> Option<&'a [u8]> {
        let length = self.small()?;
        self.bytes(length)
    }

    pub(crate) fn bytes(&mut self, length: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
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
            let mut put = Put::new(&mut room);
            put.number(number);
            let used = put.used().unwrap();
            assert_eq!(&room[..used], bytes);
            assert_eq!(Take::new(bytes).number(), Some(number));
        }
        // Eleven bytes, and ten that say more than 64 bits hold.
        assert_eq!(Take::new(&[0x80; 11]).number(), None);
        assert_eq!(Take::new(&[255, 255, 255, 255, 255, 255, 255, 255, 255, 2]).number(), None);
    }

    proptest! {
        #[test]
        fn what_was_put_is_taken(number: u64, signed: i64, text: Vec<u8>) {
            let mut room = [0; 200];
            let mut put = Put::new(&mut room);
            put.number(number);
            put.signed(signed);
            put.text(&text, 100);
            let used = put.used().unwrap();
            let mut take = Take::new(&room[..used]);
            prop_assert_eq!(take.number(), Some(number));
            prop_assert_eq!(take.signed(), Some(signed));
            prop_assert_eq!(take.text(), Some(&text[..text.len().min(100)]));
            prop_assert!(take.is_empty());
        }

        #[test]
        fn what_does_not_fit_is_told(number: u64) {
            let mut room = [0; 1];
            let mut put = Put::new(&mut room);
            put.number(number);
            prop_assert_eq!(put.used().is_some(), number < 128);
        }
    }
}
