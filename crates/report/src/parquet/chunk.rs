//! Column chunks as they are on the disk.

use std::io;

use super::column::{Column, Values};
use super::packer::Packer;
use super::thrift::Struct;
use super::{DATA_PAGE, DICTIONARY_PAGE, GZIP, PLAIN, RLE, RLE_DICTIONARY, fits};

/// A column chunk as it is on the disk.
pub(super) struct Chunk {
    pub(super) bytes: Vec<u8>,
    /// Size without compression, headers counted.
    pub(super) plain_size: i64,
    /// Where the data page begins, behind the dictionary.
    data_at: i64,
    least_and_most: Option<(Vec<u8>, Vec<u8>)>,
}

impl Chunk {
    pub(super) fn of(column: &Column, rows: i64, packer: &mut Packer) -> io::Result<Self> {
        let mut chunk = Self { bytes: Vec::new(), plain_size: 0, data_at: 0, least_and_most: None };
        let mut page = Vec::new();
        if column.optional {
            let levels = column.levels.encoded(1);
            page.extend(fits::<_, u32>(levels.len())?.to_le_bytes());
            page.extend(levels);
        }
        let encoding = match &column.values {
            Values::Times(values) | Values::Integers(values) => {
                page.extend(values.iter().flat_map(|value| value.to_le_bytes()));
                let bytes = |value: Option<&i64>| value.map(|value| value.to_le_bytes().to_vec());
                chunk.least_and_most = bytes(values.iter().min()).zip(bytes(values.iter().max()));
                PLAIN
            }
            Values::Numbers(values) => {
                page.extend(values.iter().flat_map(|value| value.to_le_bytes()));
                let ends = values.iter().copied().fold(None, |ends: Option<(f64, f64)>, value| {
                    Some(ends.map_or((value, value), |(least, most)| (least.min(value), most.max(value))))
                });
                // A least zero is written as -0, and a most one as +0, so that no reader skips either.
                let least = |value: f64| if value == 0.0 { -0.0_f64 } else { value };
                chunk.least_and_most =
                    ends.map(|(low, high)| (least(low).to_le_bytes().to_vec(), (high + 0.0).to_le_bytes().to_vec()));
                PLAIN
            }
            Values::Flags(values) => {
                // Eight to a byte, the first in the lowest bit.
                page.extend(values.chunks(8).map(|eight| {
                    eight.iter().enumerate().fold(0_u8, |byte, (place, value)| byte | u8::from(*value) << place)
                }));
                let bytes = |value: Option<&bool>| value.map(|value| vec![u8::from(*value)]);
                chunk.least_and_most = bytes(values.iter().min()).zip(bytes(values.iter().max()));
                PLAIN
            }
            Values::Names(names) => {
                let (names, which) = (&names.distinct, &names.which);
                let mut dictionary = Vec::new();
                for name in names {
                    dictionary.extend(fits::<_, u32>(name.len())?.to_le_bytes());
                    dictionary.extend_from_slice(name.as_bytes());
                }
                let about = Struct::new().i32(1, fits(names.len())?).i32(2, PLAIN);
                chunk.page(DICTIONARY_PAGE, 7, about, &dictionary, packer)?;
                let width = 32 - fits::<_, u32>(names.len())?.leading_zeros();
                page.push(fits(width)?);
                page.extend(which.encoded(fits(width.div_ceil(8))?));
                let bytes = |name: Option<&String>| name.map(|name| name.clone().into_bytes());
                chunk.least_and_most = bytes(names.iter().min()).zip(bytes(names.iter().max()));
                RLE_DICTIONARY
            }
        };
        chunk.data_at = fits(chunk.bytes.len())?;
        let about = Struct::new().i32(1, fits(rows)?).i32(2, encoding).i32(3, RLE).i32(4, RLE);
        chunk.page(DATA_PAGE, 5, about, &page, packer)?;
        Ok(chunk)
    }

    fn page(&mut self, kind: i32, field: u8, about: Struct, plain: &[u8], packer: &mut Packer) -> io::Result<()> {
        let packed = packer.pack(plain)?;
        let header = Struct::new().i32(1, kind).i32(2, fits(plain.len())?).i32(3, fits(packed.len())?);
        let header = header.inner(field, about).end();
        self.plain_size += fits::<_, i64>(header.len() + plain.len())?;
        self.bytes.extend(header);
        self.bytes.extend(packed);
        Ok(())
    }

    /// What the footer says of it.
    pub(super) fn about(&self, column: &Column, at: i64, rows: i64) -> io::Result<Vec<u8>> {
        let named = matches!(column.values, Values::Names(..));
        let encodings: &[i32] = if named { &[PLAIN, RLE, RLE_DICTIONARY] } else { &[PLAIN, RLE] };
        let mut about = Struct::new()
            .i32(1, column.kind())
            .numbers(2, encodings)
            .texts(3, &[column.name])
            .i32(4, GZIP)
            .i64(5, rows)
            .i64(6, self.plain_size)
            .i64(7, fits(self.bytes.len())?)
            .i64(9, at + self.data_at);
        if named {
            about = about.i64(11, at);
        }
        let mut statistics = Struct::new().i64(3, fits(column.levels.count(0))?);
        if let Some((least, most)) = &self.least_and_most {
            statistics = statistics.bytes(5, most).bytes(6, least);
        }
        Ok(Struct::new().i64(2, at).inner(3, about.inner(12, statistics)).end())
    }
}
