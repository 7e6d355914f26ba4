//! The header: what the ring is, and the run that writes it.

#[cfg(test)]
#[allow(clippy::unwrap_used)]
pub(crate) mod tests;

use super::{BLOCK, HEADERS, MAGIC, MOST_BLOCKS, VERSION, put_at, u16_at, u32_at, u64_at};
use crate::CRC32C;
use crate::varint::{VarintReader, VarintWriter};

const ABOUT: usize = 64;
const MOST_LACKS: usize = 16;
const LONGEST: usize = 160;

/// Which of the two rings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RingKind {
    /// A sample a second, for a day or so.
    Seconds,
    /// A sample a minute, for weeks.
    Minutes,
}

impl RingKind {
    /// Its file's name.
    pub const fn file_name(self) -> &'static str {
        match self {
            Self::Seconds => "seconds.ring",
            Self::Minutes => "minutes.ring",
        }
    }
}

/// The host and the run that records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct About {
    /// Counts the runs that wrote to this ring.
    pub run: u64,
    /// When it began: milliseconds since 1970.
    pub began: i64,
    /// The host's name.
    pub host: String,
    /// The kernel's release.
    pub kernel: String,
    /// The architecture: `x86_64`.
    pub architecture: String,
    /// /proc/sys/kernel/random/boot_id: counters continue while it is the same.
    pub boot: String,
    /// The recorder's version.
    pub version: String,
    /// Bytes of a base page.
    pub base_page: u64,
    /// Clock ticks a second.
    pub ticks: u64,
    /// Seconds east of Greenwich, when the run began.
    pub offset: i64,
    /// Milliseconds from one sample to the next.
    pub interval_ms: u64,
    /// What the run had to do without, in words.
    pub lacks: Vec<String>,
}

/// Beginnings of the notes on what the recorder lacks to keep its pace.
pub(crate) const LOCKED_MEMORY: &str = "locked memory";
pub(crate) const REAL_TIME: &str = "real-time scheduling";

impl About {
    /// What it lacked without which samples may come late.
    pub fn list_pace_risks(&self) -> impl Iterator<Item = &str> {
        let for_pace = |lack: &&str| {
            [LOCKED_MEMORY, REAL_TIME].iter().any(|of_pace| lack.starts_with(of_pace))
        };
        self.lacks.iter().map(String::as_str).filter(for_pace)
    }

    pub(crate) fn encode(&self, put: &mut VarintWriter<'_>) {
        put.write_number(self.run);
        put.write_signed(self.began);
        for text in [&self.host, &self.kernel, &self.architecture, &self.boot, &self.version] {
            put.write_text(text.as_bytes(), LONGEST);
        }
        put.write_number(self.base_page);
        put.write_number(self.ticks);
        put.write_signed(self.offset);
        put.write_number(self.interval_ms);
        put.write_number(u64::try_from(self.lacks.len().min(MOST_LACKS)).unwrap_or(0));
        for text in self.lacks.iter().take(MOST_LACKS) {
            put.write_text(text.as_bytes(), LONGEST);
        }
    }

    pub(crate) fn decode(take: &mut VarintReader<'_>) -> Option<Self> {
        fn take_text(take: &mut VarintReader<'_>) -> Option<String> {
            take.read_text().map(|text| String::from_utf8_lossy(text).into_owned())
        }
        let mut about = Self {
            run: take.read_number()?,
            began: take.read_signed()?,
            host: take_text(take)?,
            kernel: take_text(take)?,
            architecture: take_text(take)?,
            boot: take_text(take)?,
            version: take_text(take)?,
            base_page: take.read_number()?,
            ticks: take.read_number()?,
            offset: take.read_signed()?,
            interval_ms: take.read_number()?,
            lacks: Vec::new(),
        };
        let lacks: usize = take.read_small()?;
        for _ in 0..lacks.min(MOST_LACKS) {
            about.lacks.push(take_text(take)?);
        }
        Some(about)
    }
}

/// A ring's header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RingHeader {
    /// Which ring.
    pub kind: RingKind,
    /// Blocks that it has room for.
    pub blocks: u64,
    /// Its id, which its blocks carry too: blocks of an older ring in its place are not its own.
    pub ring: u64,
    /// The run that wrote to it last.
    pub about: About,
}

impl RingHeader {
    /// Bytes of the whole file.
    pub const fn file_bytes(&self) -> u64 {
        (self.blocks + HEADERS as u64) * BLOCK as u64
    }

    pub(crate) fn encode(&self) -> [u8; BLOCK] {
        let mut bytes = [0; BLOCK];
        put_at(&mut bytes, 0, &MAGIC);
        put_at(&mut bytes, 12, &VERSION.to_le_bytes());
        put_at(&mut bytes, 14, &(self.kind as u16).to_le_bytes());
        put_at(&mut bytes, 16, &u32::try_from(BLOCK).unwrap_or(0).to_le_bytes());
        put_at(&mut bytes, 24, &self.blocks.to_le_bytes());
        put_at(&mut bytes, 32, &self.ring.to_le_bytes());
        let used = bytes.get_mut(ABOUT..).and_then(|room| {
            let mut put = VarintWriter::new(room);
            self.about.encode(&mut put);
            put.bytes_written()
        });
        let used = used.and_then(|used| u16::try_from(used).ok()).unwrap_or(0);
        put_at(&mut bytes, 40, &used.to_le_bytes());
        let sum = CRC32C.checksum(bytes.get(12..).unwrap_or_default());
        put_at(&mut bytes, 8, &sum.to_le_bytes());
        bytes
    }

    /// Fails with the reason why these bytes are no header of a ring.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, String> {
        let torn = || "its header is cut off".to_owned();
        if !bytes.starts_with(&MAGIC) {
            return Err("is not a hugewise recording".to_owned());
        }
        let version = u16_at(bytes, 12).ok_or_else(torn)?;
        let sum = u32_at(bytes, 8).ok_or_else(torn)?;
        let whole = bytes.get(12..BLOCK).ok_or_else(torn)?;
        if CRC32C.checksum(whole) != sum {
            return Err("the checksum of its header is wrong".to_owned());
        }
        if version != VERSION {
            return Err(format!(
                "was recorded in format {version} by another version of hugewise; this one reads \
                     format {VERSION}"
            ));
        }
        let kind = match u16_at(bytes, 14) {
            Some(0) => RingKind::Seconds,
            Some(1) => RingKind::Minutes,
            _ => return Err("is a kind of ring that this version does not know".to_owned()),
        };
        let block = u32_at(bytes, 16).and_then(|block| usize::try_from(block).ok());
        let blocks = u64_at(bytes, 24).filter(|blocks| (1..=MOST_BLOCKS).contains(blocks));
        let (Some(BLOCK), Some(blocks), Some(ring)) = (block, blocks, u64_at(bytes, 32)) else {
            return Err("its header makes no sense".to_owned());
        };
        let used = usize::from(u16_at(bytes, 40).unwrap_or(0));
        let about = bytes
            .get(ABOUT..ABOUT + used)
            .and_then(|about| About::decode(&mut VarintReader::new(about)));
        Ok(Self { kind, blocks, ring, about: about.ok_or("its header makes no sense")? })
    }

    /// The whole copy that was written last. Fails where neither is whole.
    pub(crate) fn of_copies(bytes: &[u8]) -> Result<Self, String> {
        let (one, two) = bytes.split_at_checked(BLOCK).unwrap_or((bytes, &[]));
        match (Self::decode(one), Self::decode(two)) {
            (Ok(one), Ok(two)) => Ok(if two.about.run > one.about.run { two } else { one }),
            (Ok(whole), Err(_)) | (Err(_), Ok(whole)) => Ok(whole),
            (Err(why), Err(_)) => Err(why),
        }
    }
}
