//! Readings as they are made, for listeners (server-sent events, HTML Living Standard 9.2).

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Bytes;
use futures_core::Stream;
use hugewise_report::json::api;
use hugewise_report::json::history::HistoryPoint;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, interval_at};

use crate::HostReading;

/// Something is sent at least so often, so that both ends notice a dead connection.
const SIGN_OF_LIFE: Duration = Duration::from_secs(15);
/// A client reconnects after so many milliseconds.
const COME_BACK: &[u8] = b"retry: 2000\n\n";

/// A reading for all listeners, written once and only if there are any.
pub(super) struct ReadingEvent {
    reading: Arc<HostReading>,
    point: Option<Arc<HistoryPoint>>,
    text: OnceLock<Bytes>,
}

impl ReadingEvent {
    pub(super) fn new(reading: &Arc<HostReading>, point: Option<&Arc<HistoryPoint>>) -> Self {
        Self { reading: Arc::clone(reading), point: point.cloned(), text: OnceLock::new() }
    }

    fn event_text(&self) -> Bytes {
        let write = || {
            let mut text =
                format!("id: {}\nevent: reading\ndata: ", self.reading.number).into_bytes();
            let point = self.point.as_deref();
            // Writing to memory cannot fail.
            let _ =
                api::write_event(&self.reading.as_checked(), self.reading.number, point, &mut text);
            text.extend_from_slice(b"\n\n");
            text.into()
        };
        self.text.get_or_init(write).clone()
    }
}

/// One client's stream. A slow client misses readings, and delays nobody.
pub(super) struct Events(mpsc::Receiver<Bytes>);

impl Events {
    /// Begins with the last reading.
    pub(super) fn start(
        told: watch::Receiver<Option<Arc<ReadingEvent>>>,
        ended: watch::Receiver<bool>,
    ) -> Self {
        let (send, receive) = mpsc::channel(1);
        tokio::spawn(send_events(told, ended, send));
        Self(receive)
    }
}

async fn send_events(
    mut told: watch::Receiver<Option<Arc<ReadingEvent>>>,
    mut ended: watch::Receiver<bool>,
    to: mpsc::Sender<Bytes>,
) {
    told.mark_changed();
    let mut next = Some(Bytes::from_static(COME_BACK));
    let mut life = interval_at(Instant::now() + SIGN_OF_LIFE, SIGN_OF_LIFE);
    loop {
        if let Some(text) = next {
            tokio::select! {
                sent = to.send(text) => if sent.is_err() { return },
                _ = ended.wait_for(|ended| *ended) => return,
            }
        }
        next = tokio::select! {
            changed = told.changed() => match changed {
                // Before the first reading there is nothing to send.
                Ok(()) => told.borrow_and_update().as_ref().map(|event| event.event_text()),
                Err(_) => return,
            },
            _ = life.tick() => Some(Bytes::from_static(b"event: alive\ndata:\n\n")),
            _ = ended.wait_for(|ended| *ended) => return,
            () = to.closed() => return,
        };
    }
}

impl Stream for Events {
    type Item = Result<Bytes, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(context).map(|bytes| bytes.map(Ok))
    }
}
