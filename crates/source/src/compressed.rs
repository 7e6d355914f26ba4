//! Decompression by the first bytes: gzip, bzip2, xz, zstd, compress, a zip of one file, or plain.

mod lzw;
mod zip;

use std::io::{self, BufRead, BufReader, Cursor, Read};

use bzip2::bufread::BzDecoder;
use flate2::bufread::GzDecoder;
use lzma_rust2::XzReader;
use ruzstd::decoding::StreamingDecoder;

/// Most bytes from one decompression: sosreports and days of samples stay far below, bombs do not.
pub const MAX_UNPACKED: u64 = 8 << 30;
/// Most pieces of one file: some make one every few seconds of a day, `bgzip` one of 64 KiB.
const MOST_MEMBERS: u32 = 1 << 16;
/// xz's dictionary in memory, as large as `xz -9` makes it.
const LARGEST_DICTIONARY: u64 = 64 << 20;
/// At damaged data at most these bytes before the damage are lost.
const UNPACKED_AT_ONCE: usize = 8 << 10;
/// Headers of an xz stream and of its first block at their longest.
const HEAD: u64 = 12 + 1024;

/// The plain bytes of a stream that may be compressed; more than [`MAX_UNPACKED`] are an error.
/// Errors: the stream cannot be read, or is an xz that needs more memory than `xz -9` does.
pub fn open_decompressed<'a>(stream: impl Read + 'a) -> io::Result<Box<dyn Read + 'a>> {
    open_members(stream, MOST_MEMBERS)
}

fn open_members<'a>(mut stream: impl Read + 'a, most: u32) -> io::Result<Box<dyn Read + 'a>> {
    let mut head = Vec::new();
    stream.by_ref().take(HEAD).read_to_end(&mut head)?;
    let magic: [u8; 6] = std::array::from_fn(|place| head.get(place).copied().unwrap_or_default());
    let dictionary = xz_dictionary_size(&head);
    let whole = BufReader::with_capacity(64 << 10, Cursor::new(head).chain(stream));
    let plain: Box<dyn Read + 'a> = match magic {
        [0x1f, 0x8b, ..] => Box::new(MemberReader::new(
            whole,
            most,
            |packed| Ok(GzDecoder::new(packed)),
            GzDecoder::into_inner,
        )),
        [b'B', b'Z', b'h', b'1'..=b'9', 0x31 | 0x17, _] => Box::new(MemberReader::new(
            whole,
            most,
            |packed| Ok(BzDecoder::new(packed)),
            BzDecoder::into_inner,
        )),
        [0xfd, b'7', b'z', b'X', b'Z', 0] => {
            if dictionary.is_some_and(|size| size > LARGEST_DICTIONARY) {
                let most = LARGEST_DICTIONARY >> 20;
                return Err(io::Error::other(format!(
                    "xz with a dictionary of more than {most} MiB"
                )));
            }
            // One stream, as xz makes it.
            Box::new(XzReader::new(whole, false))
        }
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Box::new(MemberReader::new(
            whole,
            most,
            |packed| StreamingDecoder::new(packed).map_err(io::Error::other),
            StreamingDecoder::into_inner,
        )),
        [0x1f, 0x9d, ..] => Box::new(lzw::Lzw::new(whole)),
        [b'P', b'K', 3, 4, ..] => Box::new(zip::Zip::new(whole)),
        _ => return Ok(Box::new(whole)),
    };
    // Tars are read a few bytes at a time, which would be slow to unpack.
    let bounded = BoundedDecompressor { stream: plain, left: MAX_UNPACKED };
    Ok(Box::new(BufReader::with_capacity(UNPACKED_AT_ONCE, bounded)))
}

/// Whether something begins as a format that is unpacked here.
pub fn is_compressed(head: &[u8]) -> bool {
    let magics: [&[u8]; 6] = [
        &[0x1f, 0x8b],
        b"BZh",
        &[0xfd, b'7', b'z', b'X', b'Z', 0],
        &[0x28, 0xb5, 0x2f, 0xfd],
        &[0x1f, 0x9d],
        b"PK\x03\x04",
    ];
    magics.iter().any(|magic| head.starts_with(magic))
}

/// Member after member, as gzip, bzip2 and zstd read what was packed piece by piece. Each costs a
/// decoder, whether anything is in it or not.
struct MemberReader<R, D> {
    packed: Option<R>,
    member: Option<D>,
    open: fn(R) -> io::Result<D>,
    close: fn(D) -> R,
    left: u32,
}

impl<R: BufRead, D: Read> MemberReader<R, D> {
    fn new(packed: R, most: u32, open: fn(R) -> io::Result<D>, close: fn(D) -> R) -> Self {
        Self { packed: Some(packed), member: None, open, close, left: most }
    }
}

impl<R: BufRead, D: Read> Read for MemberReader<R, D> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if let Some(member) = &mut self.member {
                let read = member.read(buffer)?;
                if read > 0 || buffer.is_empty() {
                    return Ok(read);
                }
                self.packed = self.member.take().map(self.close);
            }
            let Some(mut packed) = self.packed.take() else { return Ok(0) };
            if packed.fill_buf()?.is_empty() {
                return Ok(0);
            }
            let left = self.left.checked_sub(1);
            self.left =
                left.ok_or_else(|| io::Error::other("packed in more pieces than are unpacked"))?;
            self.member = Some((self.open)(packed)?);
        }
    }
}

struct BoundedDecompressor<R> {
    stream: R,
    left: u64,
}

impl<R: Read> Read for BoundedDecompressor<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.stream.read(buffer)?;
        let left = u64::try_from(read).ok().and_then(|read| self.left.checked_sub(read));
        self.left = left.ok_or_else(|| {
            io::Error::other(format!("more than {} GiB unpacked", MAX_UNPACKED >> 30))
        })?;
        Ok(read)
    }
}

/// The largest dictionary of an xz file's first block; `None` where its header is invalid. The .xz
/// file format 1.2.1, 3.1 and 5.3.1.
fn xz_dictionary_size(start: &[u8]) -> Option<u64> {
    const LZMA2: u64 = 0x21;
    let block = start.get(12..)?;
    let block = block.get(..(usize::from(*block.first()?) + 1) * 4)?;
    let flags = *block.get(1)?;
    let mut rest = block.get(2..)?;
    for _ in 0..(flags >> 6).count_ones() {
        parse_xz_number(&mut rest)?;
    }
    let mut largest = None;
    for _ in 0..=flags & 3 {
        let filter = parse_xz_number(&mut rest)?;
        let length = usize::try_from(parse_xz_number(&mut rest)?).ok()?;
        let (properties, after) = rest.split_at_checked(length)?;
        rest = after;
        if filter == LZMA2 {
            let bits = u32::from(*properties.first()?);
            largest = largest.max((2 | u64::from(bits & 1)).checked_shl(bits / 2 + 11));
        }
    }
    largest
}

/// A number of seven bits a byte, the lowest first (1.2 of the same).
fn parse_xz_number(bytes: &mut &[u8]) -> Option<u64> {
    let end = bytes.iter().position(|byte| byte & 0x80 == 0).filter(|end| *end < 9)?;
    let (digits, rest) = bytes.split_at_checked(end + 1)?;
    *bytes = rest;
    Some(digits.iter().rev().fold(0, |value, digit| value << 7 | u64::from(digit & 0x7f)))
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::process::{Command, Stdio};

    use super::*;

    /// What the real tool makes of these bytes.
    fn compress_with_tool(tool: &[&str], bytes: &[u8]) -> Vec<u8> {
        let (program, arguments) = tool.split_first().unwrap();
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = child.stdin.take().unwrap();
        let bytes = bytes.to_vec();
        let writer = std::thread::spawn(move || input.write_all(&bytes));
        let output = child.wait_with_output().unwrap();
        writer.join().unwrap().unwrap();
        output.stdout
    }

    fn decompress_all(bytes: &[u8]) -> io::Result<Vec<u8>> {
        let mut plain = Vec::new();
        open_decompressed(bytes)?.read_to_end(&mut plain)?;
        Ok(plain)
    }

    fn sample_text() -> Vec<u8> {
        (0..100_000_u32)
            .flat_map(|number| number.wrapping_mul(2_654_435_761).to_string().into_bytes())
            .collect()
    }

    /// 8 MB of empty members kept a reader busy for a minute, each with a decoder of its own.
    #[test]
    fn pieces_without_end_are_refused() {
        for tool in [&["gzip", "-c"][..], &["bzip2", "-c"], &["zstd", "-c"]] {
            for text in [&b""[..], b"x"] {
                let packed = compress_with_tool(tool, text).repeat(4);
                let unpack = |most: u32| {
                    let mut plain = Vec::new();
                    open_members(&packed[..], most)?.read_to_end(&mut plain).map(|_| plain.len())
                };
                assert_eq!(unpack(4).unwrap(), 4 * text.len(), "{tool:?}");
                assert!(unpack(3).unwrap_err().to_string().contains("more pieces"), "{tool:?}");
            }
        }
    }

    #[test]
    fn what_the_tools_pack_is_unpacked() {
        let text = sample_text();
        assert_eq!(decompress_all(&text).unwrap(), text);
        assert_eq!(decompress_all(b"").unwrap(), b"");
        for tool in [&["gzip", "-c"][..], &["bzip2", "-c"], &["xz", "-c"], &["zstd", "-c"]] {
            let packed = compress_with_tool(tool, &text);
            assert!(packed.len() < text.len(), "{tool:?}");
            assert_eq!(decompress_all(&packed).unwrap(), text, "{tool:?}");
            if tool[0] != "xz" {
                let twice = [packed.as_slice(), &packed].concat();
                assert_eq!(decompress_all(&twice).unwrap().len(), 2 * text.len(), "{tool:?}");
            }
        }
    }

    /// ncompress packed it, with codes of 16 bits and of 12: `gzip -d` says what is in it.
    #[test]
    fn what_compress_packed_is_unpacked() {
        let files: [(&str, &[u8]); 2] = [
            ("16", include_bytes!("../../../fixtures/collectors/compress-16.Z")),
            ("12", include_bytes!("../../../fixtures/collectors/compress-12.Z")),
        ];
        for (name, bytes) in files {
            let plain = compress_with_tool(&["gzip", "-dc"], bytes);
            assert!(plain.len() > 100_000);
            assert_eq!(decompress_all(bytes).unwrap(), plain, "{name}");
            for cut in [0, 1, 2, 3, 4, 100, 5000] {
                let torn = decompress_all(&bytes[..cut]).unwrap_or_default();
                assert!(cut < 3 || plain.starts_with(&torn), "{cut}");
            }
        }
        // Codes of 20 bits, and one that was not given out.
        assert!(decompress_all(b"\x1f\x9d\x94abc").is_err());
        assert!(decompress_all(b"\x1f\x9d\x90\x61\xff\xff\xff\xff\xff\xff\xff\xff").is_err());
    }

    #[test]
    fn a_zip_of_one_file_is_unpacked_and_one_of_several_refused() {
        let folder = tempfile::tempdir().unwrap();
        let text = sample_text();
        std::fs::write(folder.path().join("one.dat"), &text).unwrap();
        std::fs::write(folder.path().join("two.dat"), b"two").unwrap();
        let zip = |arguments: &[&str]| {
            let output =
                Command::new("zip").current_dir(folder.path()).args(arguments).output().unwrap();
            assert!(output.status.success());
            output.stdout
        };
        for level in ["-0", "-6"] {
            zip(&["-q", level, "a.zip", "one.dat"]);
            assert_eq!(
                decompress_all(&compress_with_tool(
                    &["cat", folder.path().join("a.zip").to_str().unwrap()],
                    b""
                ))
                .unwrap(),
                text,
                "{level}"
            );
            std::fs::remove_file(folder.path().join("a.zip")).unwrap();
        }
        // Onto a pipe, lengths stand behind.
        assert_eq!(decompress_all(&zip(&["-q", "-", "one.dat"])).unwrap(), text);
        // Python's zipfile writes lengths of 8 bytes there.
        let script = "import sys, zipfile\nclass Pipe:\n  def write(self, b): return \
             sys.stdout.buffer.write(b)\n  def flush(self): pass\n\
                      with zipfile.ZipFile(Pipe(), 'w', zipfile.ZIP_DEFLATED) as z:\n  for n in \
             sys.argv[1:]:\n    with z.open(n, 'w', force_zip64=True) as f: f.write(open(n, \
             'rb').read())\n";
        let python = |files: &[&str]| {
            let mut command = Command::new("python3");
            let output = command
                .current_dir(folder.path())
                .args(["-c", script])
                .args(files)
                .output()
                .unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            output.stdout
        };
        assert_eq!(decompress_all(&python(&["one.dat"])).unwrap(), text);
        assert!(
            decompress_all(&python(&["one.dat", "two.dat"]))
                .unwrap_err()
                .to_string()
                .contains("several")
        );
        for (arguments, why) in [
            (&["-q", "-", "one.dat", "two.dat"][..], "several"),
            (&["-q", "-P", "x", "-", "one.dat"], "password"),
        ] {
            let error = decompress_all(&zip(arguments)).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn what_is_torn_is_told_and_gives_what_was_whole() {
        let text = sample_text();
        for tool in [&["gzip", "-c"][..], &["bzip2", "-c"], &["xz", "-c"], &["zstd", "-c"]] {
            let packed = compress_with_tool(tool, &text);
            let mut plain = Vec::new();
            open_decompressed(&packed[..packed.len() * 3 / 4])
                .unwrap()
                .read_to_end(&mut plain)
                .unwrap_err();
            assert!(text.starts_with(&plain), "{tool:?}");
        }
    }

    #[test]
    fn an_xz_that_asks_for_gibibytes_of_memory_is_refused() {
        for (preset, good) in [("dict=64MiB", true), ("dict=128MiB", false)] {
            let packed = compress_with_tool(&["xz", "-c", &format!("--lzma2={preset}")], b"text");
            match open_decompressed(packed.as_slice()) {
                Ok(_) => assert!(good, "{preset}"),
                Err(error) => {
                    assert!(!good && error.to_string().contains("dictionary"), "{preset} {error}")
                }
            }
        }
        // Without its header's checksum a block may claim anything.
        for bytes in [vec![0xff; 600], vec![0; 12], vec![0xfd; 13], vec![0xc0; 40]] {
            assert_eq!(xz_dictionary_size(&bytes), None);
        }
    }
}
