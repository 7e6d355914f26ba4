//! The part of Thrift's compact protocol in which Parquet writes its headers and its footer.
//! (Apache Thrift, `doc/specs/thrift-compact-protocol.md`.)

const BOOL_TRUE: u8 = 1;
const BOOL_FALSE: u8 = 2;
const I32: u8 = 5;
const I64: u8 = 6;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const STRUCT: u8 = 12;

/// Seven bits a byte, the least first.
pub(super) fn write_varint(out: &mut Vec<u8>, mut value: u64) {
    while let Ok(low @ 128..) = u8::try_from(value & 0x7f | if value > 0x7f { 0x80 } else { 0 }) {
        out.push(low);
        value >>= 7;
    }
    out.extend(u8::try_from(value));
}

fn zigzag_encode(value: i64) -> u64 {
    (value.cast_unsigned() << 1) ^ (value >> 63).cast_unsigned()
}

fn write_bytes(out: &mut Vec<u8>, text: &[u8]) {
    write_varint(out, u64::try_from(text.len()).unwrap_or(u64::MAX));
    out.extend_from_slice(text);
}

fn list_head(out: &mut Vec<u8>, kind: u8, length: usize) {
    match u8::try_from(length) {
        Ok(short @ 0..15) => out.push(short << 4 | kind),
        _ => {
            out.push(0xf0 | kind);
            write_varint(out, u64::try_from(length).unwrap_or(u64::MAX));
        }
    }
}

/// A structure that is being written; its fields come in the order of their numbers.
#[derive(Default)]
pub(super) struct Struct {
    out: Vec<u8>,
    last: u8,
}

impl Struct {
    pub(super) fn new() -> Self {
        Self::default()
    }

    fn write_field_header(&mut self, field: u8, kind: u8) {
        // The fields of Parquet are all nearer to each other than fifteen.
        self.out.push((field - self.last) << 4 | kind);
        self.last = field;
    }

    pub(super) fn with_bool(mut self, field: u8, value: bool) -> Self {
        self.write_field_header(field, if value { BOOL_TRUE } else { BOOL_FALSE });
        self
    }

    pub(super) fn with_i32(mut self, field: u8, value: i32) -> Self {
        self.write_field_header(field, I32);
        write_varint(&mut self.out, zigzag_encode(value.into()));
        self
    }

    pub(super) fn with_i64(mut self, field: u8, value: i64) -> Self {
        self.write_field_header(field, I64);
        write_varint(&mut self.out, zigzag_encode(value));
        self
    }

    pub(super) fn with_bytes(mut self, field: u8, value: &[u8]) -> Self {
        self.write_field_header(field, BINARY);
        write_bytes(&mut self.out, value);
        self
    }

    pub(super) fn with_struct(mut self, field: u8, value: Self) -> Self {
        self.write_field_header(field, STRUCT);
        self.out.extend(value.finish());
        self
    }

    pub(super) fn with_struct_list(mut self, field: u8, values: &[Vec<u8>]) -> Self {
        self.write_field_header(field, LIST);
        list_head(&mut self.out, STRUCT, values.len());
        values.iter().for_each(|value| self.out.extend_from_slice(value));
        self
    }

    pub(super) fn with_i32_list(mut self, field: u8, values: &[i32]) -> Self {
        self.write_field_header(field, LIST);
        list_head(&mut self.out, I32, values.len());
        values.iter().for_each(|value| write_varint(&mut self.out, zigzag_encode((*value).into())));
        self
    }

    pub(super) fn with_text_list(mut self, field: u8, values: &[&str]) -> Self {
        self.write_field_header(field, LIST);
        list_head(&mut self.out, BINARY, values.len());
        values.iter().for_each(|value| write_bytes(&mut self.out, value.as_bytes()));
        self
    }

    /// The whole of it.
    pub(super) fn finish(mut self) -> Vec<u8> {
        self.out.push(0);
        self.out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_as_the_specification_has_them() {
        let bytes_of = |value| {
            let mut out = Vec::new();
            write_varint(&mut out, value);
            out
        };
        // 50399 is the example of the specification.
        assert_eq!(
            (bytes_of(50_399), bytes_of(0), bytes_of(127)),
            (vec![0xdf, 0x89, 0x03], vec![0], vec![0x7f])
        );
        assert_eq!((bytes_of(128), bytes_of(u64::MAX).len()), (vec![0x80, 1], 10));
        assert_eq!(
            [0, -1, 1, -2, i64::MAX, i64::MIN].map(zigzag_encode),
            [0, 1, 2, 3, u64::MAX - 1, u64::MAX]
        );
    }
}
