//! Rows as Parquet: the small part of the format that flat rows need. The library that writes all
//! of it would add a megabyte to the program; the tests read with it what is written here.
//!
//! Row groups of a column chunk each with one data page (version 1, GZIP). Numbers are PLAIN, texts
//! are in a dictionary, what is absent is in the definition levels. (Apache Parquet 2.11,
//! `parquet.thrift`, `Encodings.md`.) Times are TIMESTAMP in milliseconds.

mod chunk;
mod column;
mod packer;
mod thrift;

use std::io::{self, Write};
use std::mem;

use self::chunk::Chunk;
use self::column::encode_schema_element;
pub use self::column::{ColumnKind, ParquetColumn};
use self::packer::Packer;
use self::thrift::Struct;

/// Rows that are held back until they are written: some thirty megabytes where every metric is
/// there.
pub(crate) const GROUP: usize = if cfg!(test) { 1 << 9 } else { 1 << 16 };

const MAGIC: &[u8; 4] = b"PAR1";
const BOOLEAN: i32 = 0;
const INT64: i32 = 2;
const DOUBLE: i32 = 5;
const BYTE_ARRAY: i32 = 6;
const PLAIN: i32 = 0;
const RLE: i32 = 3;
const RLE_DICTIONARY: i32 = 8;
const GZIP: i32 = 2;
const DATA_PAGE: i32 = 0;
const DICTIONARY_PAGE: i32 = 2;
const UTF8: i32 = 0;
const TIMESTAMP_MILLIS: i32 = 9;

/// What one row has in one column.
#[derive(Clone, Debug, PartialEq)]
pub enum ParquetCell {
    /// Nothing.
    Absent,
    /// A text.
    Text(String),
    /// A whole number.
    Integer(i64),
    /// A number.
    Number(f64),
    /// Whether it is so.
    Flag(bool),
    /// Milliseconds since the epoch.
    Time(i64),
}

/// Writes rows as they come, a row group at a time.
pub struct ParquetWriter<W> {
    out: W,
    name: &'static str,
    at: i64,
    rows: usize,
    all_rows: i64,
    columns: Vec<ParquetColumn>,
    groups: Vec<Vec<u8>>,
    packer: Packer,
}

impl<W: Write> ParquetWriter<W> {
    /// Begins a file of a table of this name.
    ///
    /// # Errors
    /// Where the disk takes no more.
    pub fn new(mut out: W, name: &'static str, columns: Vec<ParquetColumn>) -> io::Result<Self> {
        out.write_all(MAGIC)?;
        Ok(Self {
            out,
            name,
            at: 4,
            rows: 0,
            all_rows: 0,
            columns,
            groups: Vec::new(),
            packer: Packer::new(),
        })
    }

    /// Takes a row: a cell for each column, in their order.
    ///
    /// # Errors
    /// Where the cells are not those of the columns, or the disk takes no more.
    pub fn write_row(&mut self, cells: &[ParquetCell]) -> io::Result<()> {
        let fit = cells.len() == self.columns.len()
            && cells.iter().zip(&self.columns).all(|(cell, column)| column.accepts_cell(cell));
        if !fit {
            let what = format!("a row of {} is not of its columns", self.name);
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        self.columns.iter_mut().zip(cells).for_each(|(column, cell)| column.push_cell(cell));
        self.commit_rows(1)
    }

    /// The columns, for who fills them one after another, and says by [`added`](Self::added) how
    /// many rows came.
    pub(crate) fn columns_mut(&mut self) -> std::slice::IterMut<'_, ParquetColumn> {
        self.columns.iter_mut()
    }

    /// Rows for which there is room until a group is full.
    pub(crate) const fn rows_until_full(&self) -> usize {
        GROUP - self.rows
    }

    /// So many rows were put into each column.
    pub(crate) fn commit_rows(&mut self, rows: usize) -> io::Result<()> {
        self.rows += rows;
        if self.rows >= GROUP { self.write_group() } else { Ok(()) }
    }

    fn write_group(&mut self) -> io::Result<()> {
        let rows: i64 = try_narrow(mem::take(&mut self.rows))?;
        let start = self.at;
        let mut chunks = Vec::with_capacity(self.columns.len());
        let (mut plain_size, mut size) = (0, 0);
        for column in &mut self.columns {
            let chunk = Chunk::from_column(column, rows, &mut self.packer)?;
            self.out.write_all(&chunk.bytes)?;
            chunks.push(chunk.encode_metadata(column, self.at, rows)?);
            plain_size += chunk.plain_size;
            size += try_narrow::<_, i64>(chunk.bytes.len())?;
            self.at += try_narrow::<_, i64>(chunk.bytes.len())?;
            column.clear();
        }
        self.all_rows += rows;
        let group =
            Struct::new().with_struct_list(1, &chunks).with_i64(2, plain_size).with_i64(3, rows);
        self.groups.push(group.with_i64(5, start).with_i64(6, size).finish());
        Ok(())
    }

    /// Writes what is left, and the footer, which says whether all times are of UTC.
    ///
    /// # Errors
    /// Where the disk takes no more.
    pub fn finish(mut self, utc: bool) -> io::Result<W> {
        if self.rows > 0 {
            self.write_group()?;
        }
        let root = Struct::new()
            .with_bytes(4, self.name.as_bytes())
            .with_i32(5, try_narrow(self.columns.len())?)
            .finish();
        let mut schema = vec![root];
        schema.extend(self.columns.iter().map(|column| encode_schema_element(column, utc)));
        // Statistics are in the order of each type.
        let order = Struct::new().with_struct(1, Struct::new()).finish();
        let footer = Struct::new()
            .with_i32(1, 1)
            .with_struct_list(2, &schema)
            .with_i64(3, self.all_rows)
            .with_struct_list(4, &self.groups)
            .with_bytes(6, concat!("hugewise version ", env!("CARGO_PKG_VERSION")).as_bytes())
            .with_struct_list(7, &vec![order; self.columns.len()])
            .finish();
        self.out.write_all(&footer)?;
        self.out.write_all(&try_narrow::<_, u32>(footer.len())?.to_le_bytes())?;
        self.out.write_all(MAGIC)?;
        Ok(self.out)
    }
}

/// Where rows are counted or bytes measured, which a file format holds in fewer bits than memory
/// does.
fn try_narrow<T, U: TryFrom<T>>(value: T) -> io::Result<U> {
    U::try_from(value)
        .map_err(|_| io::Error::new(io::ErrorKind::FileTooLarge, "more than the format can hold"))
}
