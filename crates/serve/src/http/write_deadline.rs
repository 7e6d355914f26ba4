//! A connection that gives up on a client that takes nothing, or takes it drop by drop.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

/// Writes fail after `patience` without progress, or when an answer is not done after `whole`.
pub(super) struct DeadlineStream<T> {
    stream: T,
    patience: Duration,
    whole: Duration,
    alarm: Pin<Box<Sleep>>,
    waiting: bool,
    /// When the current answer was begun.
    begun: Option<Instant>,
}

impl<T> DeadlineStream<T> {
    pub(super) fn new(stream: T, patience: Duration, whole: Duration) -> Self {
        Self {
            stream,
            patience,
            whole,
            alarm: Box::pin(sleep(patience)),
            waiting: false,
            begun: None,
        }
    }

    fn enforce_deadline<R>(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<R>>,
    ) -> Poll<io::Result<R>> {
        if written.is_ready() {
            self.waiting = false;
            return written;
        }
        if !self.waiting {
            self.waiting = true;
            let now = Instant::now();
            let last = *self.begun.get_or_insert(now) + self.whole;
            self.alarm.as_mut().reset(last.min(now + self.patience));
        }
        ready!(self.alarm.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for DeadlineStream<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, into)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for DeadlineStream<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.enforce_deadline(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.enforce_deadline(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        if flushed.is_ready() {
            self.begun = None;
        }
        self.enforce_deadline(context, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let closed = Pin::new(&mut self.stream).poll_shutdown(context);
        self.enforce_deadline(context, closed)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    fn run(test: impl Future<Output = ()>) {
        tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(test);
    }

    #[test]
    fn a_reader_who_takes_nothing_is_given_up() {
        run(async {
            let (ours, _theirs) = duplex(16);
            let mut ours =
                DeadlineStream::new(ours, Duration::from_millis(50), Duration::from_secs(60));
            let error = ours.write_all(&[0; 64]).await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        });
    }

    #[test]
    fn a_slow_reader_who_takes_something_is_served() {
        run(async {
            let (ours, mut theirs) = duplex(16);
            let mut ours =
                DeadlineStream::new(ours, Duration::from_secs(60), Duration::from_secs(60));
            let reader = tokio::spawn(async move {
                let mut read = 0;
                while read < 64 {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                    let mut some = [0; 8];
                    read += theirs.read(&mut some).await.unwrap();
                }
            });
            ours.write_all(&[0; 64]).await.unwrap();
            reader.await.unwrap();
        });
    }

    #[test]
    fn a_reader_who_takes_it_drop_by_drop_is_given_up() {
        run(async {
            let (ours, mut theirs) = duplex(16);
            let mut ours =
                DeadlineStream::new(ours, Duration::from_secs(60), Duration::from_millis(200));
            tokio::spawn(async move {
                loop {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                    if theirs.read(&mut [0]).await.unwrap() == 0 {
                        break;
                    }
                }
            });
            let error = ours.write_all(&vec![0; 1 << 20]).await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        });
    }
}
