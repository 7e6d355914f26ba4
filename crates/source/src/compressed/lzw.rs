//! compress's .Z: LZW with codes of 9 bits and more, as ncompress documents it.
//!
//! Codes of one width come in groups of eight, as many bytes as a code has bits. A group that ends
//! early, for wider codes or a cleared table, is padded.

use std::io::{self, Read};

/// Two bytes of magic, and the flags.
const HEADER: usize = 3;
/// The code that clears the table, where the flags say so.
const CLEAR: usize = 256;
const LEAST: usize = 9;
const MOST: usize = 16;

pub(super) struct Lzw<R> {
    stream: R,
    begun: bool,
    most: usize,
    width: usize,
    clears: bool,
    /// A group of codes, its bits, and how many of them were taken.
    group: [u8; MOST],
    bits: usize,
    taken: usize,
    /// Each code stands for another code and a byte behind it.
    prefixes: Vec<u16>,
    suffixes: Vec<u8>,
    free: usize,
    before: Option<(usize, u8)>,
    /// Unpacked bytes, the last one first.
    ready: Vec<u8>,
}

impl<R: Read> Lzw<R> {
    pub(super) const fn new(stream: R) -> Self {
        Self {
            stream,
            begun: false,
            most: MOST,
            width: LEAST,
            clears: false,
            group: [0; MOST],
            bits: 0,
            taken: 0,
            prefixes: Vec::new(),
            suffixes: Vec::new(),
            free: CLEAR,
            before: None,
            ready: Vec::new(),
        }
    }

    fn read_header(&mut self) -> io::Result<()> {
        let mut header = [0; HEADER];
        self.stream.read_exact(&mut header)?;
        let [_, _, flags] = header;
        self.most = usize::from(flags & 0x1f);
        if !(LEAST..=MOST).contains(&self.most) {
            return Err(io::Error::other(format!("compress with codes of {} bits", self.most)));
        }
        self.clears = flags & 0x80 != 0;
        self.prefixes = vec![0; 1 << self.most];
        self.suffixes = (0..=u8::MAX).chain(std::iter::repeat(0)).take(1 << self.most).collect();
        self.free = if self.clears { CLEAR + 1 } else { CLEAR };
        self.begun = true;
        Ok(())
    }

    /// `None` at the end.
    fn read_code(&mut self) -> io::Result<Option<usize>> {
        // The widest codes are not followed by wider ones.
        if self.free > self.largest_code() && self.width < self.most {
            self.width += 1;
            self.bits = 0;
            self.taken = 0;
        }
        if self.taken + self.width > self.bits {
            let mut filled = 0;
            while let Some(rest) =
                self.group.get_mut(filled..self.width).filter(|rest| !rest.is_empty())
            {
                match self.stream.read(rest)? {
                    0 => break,
                    read => filled += read,
                }
            }
            (self.bits, self.taken) = (filled * 8, 0);
            if self.bits < self.width {
                return Ok(None);
            }
        }
        let bit = |place: usize| {
            let byte = self.group.get(place / 8).copied().unwrap_or(0);
            usize::from(byte >> (place % 8) & 1)
        };
        let code = (0..self.width).fold(0, |code, nth| code | bit(self.taken + nth) << nth);
        self.taken += self.width;
        Ok(Some(code))
    }

    const fn largest_code(&self) -> usize {
        (1 << self.width) - 1
    }

    /// False at the end.
    fn unpack_code(&mut self) -> io::Result<bool> {
        let Some(code) = self.read_code()? else { return Ok(false) };
        if code == CLEAR && self.clears {
            (self.free, self.width, self.bits, self.taken) = (CLEAR + 1, LEAST, 0, 0);
            self.before = None;
            return Ok(true);
        }
        let senseless = || io::Error::other("its compressed data is damaged");
        let Some((earlier, first)) = self.before else {
            let byte = u8::try_from(code).map_err(|_| senseless())?;
            self.before = Some((code, byte));
            self.ready.push(byte);
            return Ok(true);
        };
        let mut place = code;
        if code == self.free {
            // A code that is just being defined begins and ends with the first byte of the one
            // before.
            self.ready.push(first);
            place = earlier;
        } else if code > self.free {
            return Err(senseless());
        }
        while place >= CLEAR {
            let (suffix, prefix) =
                self.suffixes.get(place).zip(self.prefixes.get(place)).ok_or_else(senseless)?;
            self.ready.push(*suffix);
            // Each code builds on an earlier one.
            let prefix = usize::from(*prefix);
            if prefix >= place {
                return Err(senseless());
            }
            place = prefix;
        }
        let byte = u8::try_from(place).map_err(|_| senseless())?;
        self.ready.push(byte);
        if let Some((prefix, suffix)) =
            self.prefixes.get_mut(self.free).zip(self.suffixes.get_mut(self.free))
        {
            *prefix = u16::try_from(earlier).map_err(|_| senseless())?;
            *suffix = byte;
            self.free += 1;
        }
        self.before = Some((code, byte));
        Ok(true)
    }
}

impl<R: Read> Read for Lzw<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if !self.begun {
            self.read_header()?;
        }
        let mut read = 0;
        while read < buffer.len() {
            if self.ready.is_empty() && !self.unpack_code()? {
                break;
            }
            while let Some(slot) = buffer.get_mut(read) {
                let Some(byte) = self.ready.pop() else { break };
                *slot = byte;
                read += 1;
            }
        }
        Ok(read)
    }
}
