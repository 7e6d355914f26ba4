//! Column chunks as they are on the disk.

use std::io;

use super::column::{ColumnValues, DictionaryValues, ParquetColumn};
use super::packer::Packer;
use super::thrift::Struct;
use super::{DATA_PAGE, DICTIONARY_PAGE, GZIP, PLAIN, RLE, RLE_DICTIONARY, try_narrow};

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
    pub(super) fn from_column(
        column: &ParquetColumn,
        rows: i64,
        packer: &mut Packer,
    ) -> io::Result<Self> {
        let mut chunk = Self { bytes: Vec::new(), plain_size: 0, data_at: 0, least_and_most: None };
        let mut page = Vec::new();
        if column.optional {
            let levels = column.levels.encode_rle(1);
            page.extend(try_narrow::<_, u32>(levels.len())?.to_le_bytes());
            page.extend(levels);
        }
        let encoding = match &column.values {
            ColumnValues::Times(values) | ColumnValues::Integers(values) => {
                page.extend(values.iter().flat_map(|value| value.to_le_bytes()));
                let bytes = |value: Option<&i64>| value.map(|value| value.to_le_bytes().to_vec());
                chunk.least_and_most = bytes(values.iter().min()).zip(bytes(values.iter().max()));
                PLAIN
            }
            ColumnValues::Numbers(values) => {
                page.extend(values.iter().flat_map(|value| value.to_le_bytes()));
                let ends = values.iter().copied().fold(None, |ends: Option<(f64, f64)>, value| {
                    Some(ends.map_or((value, value), |(least, most)| {
                        (least.min(value), most.max(value))
                    }))
                });
                // A least zero is written as -0, and a most one as +0, so that no reader skips
                // either.
                let least = |value: f64| if value == 0.0 { -0.0_f64 } else { value };
                chunk.least_and_most = ends.map(|(low, high)| {
                    (least(low).to_le_bytes().to_vec(), (high + 0.0).to_le_bytes().to_vec())
                });
                PLAIN
            }
            ColumnValues::Flags(values) => {
                // Eight to a byte, the first in the lowest bit.
                page.extend(values.chunks(8).map(|eight| {
                    eight
                        .iter()
                        .enumerate()
                        .fold(0_u8, |byte, (place, value)| byte | u8::from(*value) << place)
                }));
                let bytes = |value: Option<&bool>| value.map(|value| vec![u8::from(*value)]);
                chunk.least_and_most = bytes(values.iter().min()).zip(bytes(values.iter().max()));
                PLAIN
            }
            ColumnValues::Names(names) => {
                chunk.append_names(names, &mut page, packer)?;
                RLE_DICTIONARY
            }
        };
        chunk.data_at = try_narrow(chunk.bytes.len())?;
        let about = Struct::new()
            .with_i32(1, try_narrow(rows)?)
            .with_i32(2, encoding)
            .with_i32(3, RLE)
            .with_i32(4, RLE);
        chunk.append_page(DATA_PAGE, 5, about, &page, packer)?;
        Ok(chunk)
    }

    /// Appends the dictionary of a column's texts, and adds to its page which of them each row has.
    fn append_names(
        &mut self,
        DictionaryValues { distinct: names, which, .. }: &DictionaryValues,
        page: &mut Vec<u8>,
        packer: &mut Packer,
    ) -> io::Result<()> {
        let mut dictionary = Vec::new();
        for name in names {
            dictionary.extend(try_narrow::<_, u32>(name.len())?.to_le_bytes());
            dictionary.extend_from_slice(name.as_bytes());
        }
        let about = Struct::new().with_i32(1, try_narrow(names.len())?).with_i32(2, PLAIN);
        self.append_page(DICTIONARY_PAGE, 7, about, &dictionary, packer)?;
        let width = 32 - try_narrow::<_, u32>(names.len())?.leading_zeros();
        page.push(try_narrow(width)?);
        page.extend(which.encode_rle(try_narrow(width.div_ceil(8))?));
        let bytes = |name: Option<&String>| name.map(|name| name.clone().into_bytes());
        self.least_and_most = bytes(names.iter().min()).zip(bytes(names.iter().max()));
        Ok(())
    }

    fn append_page(
        &mut self,
        kind: i32,
        field: u8,
        about: Struct,
        plain: &[u8],
        packer: &mut Packer,
    ) -> io::Result<()> {
        let packed = packer.pack_gzip(plain)?;
        let header = Struct::new()
            .with_i32(1, kind)
            .with_i32(2, try_narrow(plain.len())?)
            .with_i32(3, try_narrow(packed.len())?);
        let header = header.with_struct(field, about).finish();
        self.plain_size += try_narrow::<_, i64>(header.len() + plain.len())?;
        self.bytes.extend(header);
        self.bytes.extend(packed);
        Ok(())
    }

    /// What the footer says of it.
    pub(super) fn encode_metadata(
        &self,
        column: &ParquetColumn,
        at: i64,
        rows: i64,
    ) -> io::Result<Vec<u8>> {
        let named = matches!(column.values, ColumnValues::Names(..));
        let encodings: &[i32] = if named { &[PLAIN, RLE, RLE_DICTIONARY] } else { &[PLAIN, RLE] };
        let mut about = Struct::new()
            .with_i32(1, column.physical_type())
            .with_i32_list(2, encodings)
            .with_text_list(3, &[column.name])
            .with_i32(4, GZIP)
            .with_i64(5, rows)
            .with_i64(6, self.plain_size)
            .with_i64(7, try_narrow(self.bytes.len())?)
            .with_i64(9, at + self.data_at);
        if named {
            about = about.with_i64(11, at);
        }
        let mut statistics = Struct::new().with_i64(3, try_narrow(column.levels.count_value(0))?);
        if let Some((least, most)) = &self.least_and_most {
            statistics = statistics.with_bytes(5, most).with_bytes(6, least);
        }
        Ok(Struct::new().with_i64(2, at).with_struct(3, about.with_struct(12, statistics)).finish())
    }
}
