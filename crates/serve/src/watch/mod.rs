//! The view in a terminal.
//!
//! A [`Frame`] is what is shown of a host at one moment; a [`FrameTimeline`] holds the frames of a
//! live host, of captures or of an archive; a [`View`] is where on it somebody looks.

mod draw;
mod frame;
mod instance_order;
#[cfg(test)]
mod testing;
mod timeline;
mod view;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError};
use std::thread;
use std::time::{Duration, Instant};

use hugewise_host::Source;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use signal_hook::consts::{SIGHUP, SIGQUIT, SIGTERM};

use crate::HostReading;

pub use frame::{Frame, Gauges, InstanceRow, PoolRow, Recorder};
pub use timeline::FrameTimeline;
pub use view::View;

/// How long a key or a frame waits for the screen at most.
const PATIENCE: Duration = Duration::from_millis(100);

/// Shows a recording until somebody quits.
///
/// # Errors
/// Where the terminal cannot be used.
pub fn watch_recording(view: View) -> io::Result<()> {
    show_view(view, None)
}

/// Shows what a source tells, opened and read anew at each interval, until somebody quits.
///
/// # Errors
/// Where the terminal cannot be used, or the reading ended.
pub fn watch_live(
    view: View,
    open: impl Fn() -> Box<dyn Source> + Send + 'static,
    every: Duration,
) -> io::Result<()> {
    // Keys must not wait for a reading.
    let (send, frames) = std::sync::mpsc::sync_channel(1);
    thread::Builder::new().name("reading".into()).spawn(move || read(&open, every, &send))?;
    show_view(view, Some(&frames))
}

/// Until nobody takes its frames.
fn read(open: &dyn Fn() -> Box<dyn Source>, every: Duration, frames: &SyncSender<Frame>) {
    let mut recorder = Recorder::default();
    for number in 1.. {
        let begun = Instant::now();
        let reading = HostReading::from_source(open().as_ref(), number);
        if frames.send(recorder.next_frame(&reading)).is_err() {
            return;
        }
        thread::sleep(every.saturating_sub(begun.elapsed()));
    }
}

fn show_view(mut view: View, frames: Option<&Receiver<Frame>>) -> io::Result<()> {
    let end = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGQUIT] {
        signal_hook::flag::register(signal, Arc::clone(&end))?;
    }
    // A terminal that has gone needs no restoring.
    signal_hook::flag::register_conditional_shutdown(
        SIGHUP,
        128 + SIGHUP,
        Arc::new(AtomicBool::new(true)),
    )?;
    let mut terminal = ratatui::try_init()?;
    let done = until_quit(&mut terminal, &mut view, frames, &end);
    let restored = ratatui::try_restore();
    done.and(restored)
}

fn until_quit(
    terminal: &mut DefaultTerminal,
    view: &mut View,
    frames: Option<&Receiver<Frame>>,
    end: &AtomicBool,
) -> io::Result<()> {
    let mut stepped = Instant::now();
    let mut changed = true;
    while !end.load(Ordering::Relaxed) {
        if changed {
            terminal.draw(|screen| draw::draw_view(view, screen))?;
        }
        changed = false;
        let step = Duration::from_secs(1) / view.speed;
        wait_for_key(PATIENCE.min(step))?;
        if event::poll(Duration::ZERO)? {
            match event::read()? {
                Event::Key(key) if view.press_key(key) == view::Then::Quit => return Ok(()),
                _ => changed = true,
            }
        }
        if let Some(frames) = frames {
            match frames.try_recv() {
                Ok(frame) => {
                    view.timeline.push(frame);
                    changed = true;
                }
                Err(TryRecvError::Empty) => {}
                Err(TryRecvError::Disconnected) => {
                    return Err(io::Error::other("reading the host ended unexpectedly"));
                }
            }
        } else if view.timeline.is_playing() && stepped.elapsed() >= step {
            view.timeline.advance_frame();
            (stepped, changed) = (Instant::now(), true);
        }
    }
    Ok(())
}

/// Until a key, a signal or the end of `patience`. Fails if the terminal has gone, of which
/// crossterm (0.29) would read nothing for ever.
fn wait_for_key(patience: Duration) -> io::Result<()> {
    let input = io::stdin();
    let mut terminal = [PollFd::new(&input, PollFlags::IN)];
    let patience = Timespec { tv_sec: 0, tv_nsec: patience.subsec_nanos().into() };
    match rustix::event::poll(&mut terminal, Some(&patience)) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    let gone = PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL;
    match terminal.first().is_some_and(|terminal| terminal.revents().intersects(gone)) {
        true => Err(io::Error::other("it has gone")),
        false => Ok(()),
    }
}
