//! A server that starts anew without a word of its end: it was killed, or its host went down.

use hugewise_engines::logs::{ServerMessageKind, find_message_meaning};
use hugewise_model::Engine;

use super::ServerLogReader;
use crate::event::{LogEvent, LogEventKind};

const GONE: &str = "the server was gone without a word of its end, and started again: it was killed \
                    (kill -9, or the kernel for memory), or its host went down";

/// What the log says of the server's run so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum ServerRun {
    /// The log begins later, or the server said why it ended.
    #[default]
    Unknown,
    Up,
    /// It starts, and has not said that it ended before. One that is refused its port never gets up.
    UpAndStarting,
    /// It ended in order.
    Ended,
}

impl ServerLogReader {
    /// Follows the run by a message; an event where it ended without a word.
    pub(super) fn follow_run(&mut self, message: &str) {
        let Some((kind, _)) = find_message_meaning(self.engine, message) else { return };
        let was_up = matches!(self.run, ServerRun::Up | ServerRun::UpAndStarting);
        let mut is_gone = false;
        match kind {
            ServerMessageKind::Starting if self.run == ServerRun::Up => {
                self.run = ServerRun::UpAndStarting;
            }
            ServerMessageKind::Ended => self.run = ServerRun::Ended,
            ServerMessageKind::Failed => self.run = ServerRun::Unknown,
            // The server itself finds that it was not shut down.
            ServerMessageKind::Recovered => {
                is_gone = was_up;
                self.run = ServerRun::Unknown;
            }
            ServerMessageKind::Started => {
                // Redis has no such words.
                let silent = matches!(self.engine, Engine::Redis | Engine::Valkey);
                is_gone = silent && self.run == ServerRun::UpAndStarting;
                self.run = ServerRun::Up;
            }
            _ => {}
        }
        if is_gone {
            self.push_event(LogEvent::new(LogEventKind::ServerFailed, GONE));
        }
    }
}
