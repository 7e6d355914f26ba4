//! A zip of one file. One of several is refused: the first alone would look like all of it.

use std::io::{self, BufRead, Read};

use flate2::bufread::DeflateDecoder;

const LOCAL: [u8; 4] = *b"PK\x03\x04";
const DESCRIPTOR: [u8; 4] = *b"PK\x07\x08";
fn is_next(mark: [u8; 4]) -> bool {
    mark == LOCAL || matches!(&mark, b"PK\x01\x02" | b"PK\x05\x06" | b"PK\x06\x06" | b"PK\x06\x07")
}
/// Flags: packed with a password; lengths stand behind the packed data.
const SECRET: u16 = 1;
const LENGTHS_BEHIND: u16 = 8;

fn unsupported_zip(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, why.to_owned())
}

pub(super) enum Zip<R> {
    Before(R),
    Stored(io::Take<R>),
    Deflated(Box<DeflateDecoder<R>>, bool),
    Done,
}

impl<R: BufRead> Zip<R> {
    pub(super) const fn new(stream: R) -> Self {
        Self::Before(stream)
    }

    fn read_entry_header(mut stream: R) -> io::Result<Self> {
        let mut header = [0; 30];
        stream.read_exact(&mut header)?;
        let short = |place: usize| {
            u16::from_le_bytes([
                header.get(place).copied().unwrap_or(0),
                header.get(place + 1).copied().unwrap_or(0),
            ])
        };
        let (flags, method) = (short(6), short(8));
        let size = u64::from(short(18)) | u64::from(short(20)) << 16;
        if flags & SECRET != 0 {
            return Err(unsupported_zip("zip with a password: unpack it first"));
        }
        let names = u64::from(short(26)) + u64::from(short(28));
        if io::copy(&mut (&mut stream).take(names), &mut io::sink())? < names {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        match method {
            0 if flags & LENGTHS_BEHIND == 0 => Ok(Self::Stored(stream.take(size))),
            8 => Ok(Self::Deflated(
                Box::new(DeflateDecoder::new(stream)),
                flags & LENGTHS_BEHIND != 0,
            )),
            _ => Err(unsupported_zip(&format!("zip by method {method}: unpack it first"))),
        }
    }

    /// Only the list of files may follow.
    fn check_trailer(mut stream: R, lengths_behind: bool) -> io::Result<()> {
        let mut next = [0; 4];
        let mut read = |bytes: &mut [u8]| match stream.read_exact(bytes) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
            other => other.map(|()| true),
        };
        if !read(&mut next)? {
            return Ok(());
        }
        if lengths_behind {
            // A checksum and two lengths of 4 bytes, or of 8, with or without a mark before them.
            let mut rest = [0; 12];
            let length = if next == DESCRIPTOR { 12 } else { 8 };
            if !read(rest.get_mut(..length).unwrap_or_default())? || !read(&mut next)? {
                return Ok(());
            }
            if !is_next(next) {
                let mut longer = [0; 4];
                if !read(&mut longer)? || !read(&mut next)? {
                    return Ok(());
                }
            }
        }
        // Unless the list of files follows, there may be more files.
        if next == LOCAL || (lengths_behind && !is_next(next)) {
            return Err(unsupported_zip("zip of several files: unpack it first"));
        }
        Ok(())
    }
}

impl<R: BufRead> Read for Zip<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match std::mem::replace(self, Self::Done) {
                Self::Done => return Ok(0),
                Self::Before(stream) => *self = Self::read_entry_header(stream)?,
                Self::Stored(mut stored) => {
                    let read = stored.read(buffer)?;
                    if read > 0 || buffer.is_empty() {
                        *self = Self::Stored(stored);
                        return Ok(read);
                    }
                    if stored.limit() > 0 {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                    Self::check_trailer(stored.into_inner(), false)?;
                }
                Self::Deflated(mut packed, lengths_behind) => {
                    let read = packed.read(buffer)?;
                    if read > 0 || buffer.is_empty() {
                        *self = Self::Deflated(packed, lengths_behind);
                        return Ok(read);
                    }
                    Self::check_trailer(packed.into_inner(), lengths_behind)?;
                }
            }
        }
    }
}
