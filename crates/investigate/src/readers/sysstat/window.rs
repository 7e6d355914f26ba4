//! A window over a stream, from the current record as far as needed.

use std::io::{ErrorKind, Read};

/// Bytes read at a time: enough that a buffered stream hands them on without a copy, and few enough
/// that the allocator reuses memory instead of mapping it anew for each file.
const CHUNK: usize = 96 << 10;

pub(super) struct StreamWindow<'a> {
    stream: &'a mut dyn Read,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    offset: u64,
    ended: bool,
    error: Option<String>,
}

impl<'a> StreamWindow<'a> {
    pub(super) fn new(stream: &'a mut dyn Read) -> Self {
        Self {
            stream,
            buffer: vec![0; CHUNK],
            start: 0,
            end: 0,
            offset: 0,
            ended: false,
            error: None,
        }
    }

    /// Whether the window reaches over `length` bytes; reads on if needed.
    pub(super) fn fill_to(&mut self, length: usize) -> bool {
        while self.end - self.start < length {
            if self.ended {
                return false;
            }
            self.read_on();
        }
        true
    }

    fn read_on(&mut self) {
        // Grows only as bytes come, so that a senseless length takes no memory; moves at most half
        // of the buffer for each half that was read.
        if self.end == self.buffer.len() {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
            if self.end > self.buffer.len() / 2 {
                self.buffer.resize(self.buffer.len().saturating_mul(2), 0);
            }
        }
        let Some(room) = self.buffer.get_mut(self.end..) else { return };
        match self.stream.read(room) {
            Ok(0) => self.ended = true,
            Ok(more) => self.end = (self.end + more).min(self.buffer.len()),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => {
                self.error = Some(error.to_string());
                self.ended = true;
            }
        }
    }

    /// The bytes from the window's start on, as far as the last [`fill_to`](Self::fill_to).
    pub(super) fn bytes(&self) -> &[u8] {
        self.buffer.get(self.start..self.end).unwrap_or_default()
    }

    pub(super) fn advance(&mut self, length: usize) {
        let length = length.min(self.end - self.start);
        self.start += length;
        self.offset = self.offset.saturating_add(u64::try_from(length).unwrap_or(u64::MAX));
    }

    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    pub(super) fn error(&self) -> Option<&str> {
        self.error.as_deref()
    }
}
