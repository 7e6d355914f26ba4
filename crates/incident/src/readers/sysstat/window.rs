//! A stream seen through a window that reaches from the record at hand as far as it is asked to.

use std::io::{ErrorKind, Read};

/// What is read at a time: so much that a buffered stream hands it on without a copy, and so little that the allocator serves
/// each file with the same memory instead of mapping it anew.
const CHUNK: usize = 96 << 10;

/// A stream whose bytes from a moving start on can be looked at before they are let go.
pub(super) struct Window<'a> {
    stream: &'a mut dyn Read,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// Where in the stream the window starts.
    offset: u64,
    ended: bool,
    error: Option<String>,
}

impl<'a> Window<'a> {
    pub(super) fn new(stream: &'a mut dyn Read) -> Self {
        Self { stream, buffer: vec![0; CHUNK], start: 0, end: 0, offset: 0, ended: false, error: None }
    }

    /// Whether the window reaches over `length` bytes; reads on where it does not yet.
    pub(super) fn reach(&mut self, length: usize) -> bool {
        while self.end - self.start < length {
            if self.ended {
                return false;
            }
            self.read_on();
        }
        true
    }

    fn read_on(&mut self) {
        // Grows only as bytes come, so that a length that makes no sense takes no memory; and moves no more than half
        // of it for each half that was read.
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

    /// Bytes from the window's start on that have been reached, at least those of the last `reach` that succeeded.
    pub(super) fn bytes(&self) -> &[u8] {
        self.buffer.get(self.start..self.end).unwrap_or_default()
    }

    /// Lets go of the first `length` bytes that have been reached.
    pub(super) fn advance(&mut self, length: usize) {
        let length = length.min(self.end - self.start);
        self.start += length;
        self.offset = self.offset.saturating_add(u64::try_from(length).unwrap_or(u64::MAX));
    }

    /// Where in the stream the window starts.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// Why the stream ended before its end.
    pub(super) fn error(&self) -> Option<&str> {
        self.error.as_deref()
    }
}
