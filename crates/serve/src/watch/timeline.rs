//! The frames that there are, and the one that is looked at.

use std::collections::VecDeque;
use std::sync::Arc;

use super::frame::{Frame, Gauge};

/// Frames of a live host that are kept: an hour in steps of two seconds.
pub const MOST_LIVE: usize = 1800;

/// Frames in the order of time. One that plays moves on: to the newest frame of a live host, to the next one of a
/// recorded host.
#[derive(Clone, Debug)]
pub struct Timeline {
    frames: VecDeque<Arc<Frame>>,
    at: usize,
    playing: bool,
    live: bool,
}

impl Timeline {
    /// Of a live host, nothing of which has been read yet.
    pub const fn live() -> Self {
        Self { frames: VecDeque::new(), at: 0, playing: true, live: true }
    }

    /// Of what was recorded.
    pub fn recorded(frames: Vec<Frame>) -> Self {
        Self { frames: frames.into_iter().map(Arc::new).collect(), at: 0, playing: true, live: false }
    }

    /// Whether frames still come.
    pub const fn is_live(&self) -> bool {
        self.live
    }

    /// Whether it moves on by itself.
    pub const fn is_playing(&self) -> bool {
        self.playing
    }

    /// How many frames there are, and which of them is looked at, from 1.
    pub fn place(&self) -> (usize, usize) {
        (self.at.saturating_add(1).min(self.frames.len()), self.frames.len())
    }

    /// The frame that is looked at.
    pub fn frame(&self) -> Option<&Arc<Frame>> {
        self.frames.get(self.at)
    }

    /// The values of a gauge up to the frame that is looked at: the last so many.
    pub fn last(&self, gauge: Gauge, count: usize) -> impl Iterator<Item = Option<f64>> + '_ {
        let end = self.at.saturating_add(1).min(self.frames.len());
        self.frames.range(end.saturating_sub(count)..end).map(move |frame| frame.gauges.get(gauge))
    }

    /// Whether any frame tells of a gauge.
    pub fn tells(&self, gauge: Gauge) -> bool {
        self.frames.iter().any(|frame| frame.gauges.get(gauge).is_some())
    }

    /// Takes in the newest frame of a live host; the oldest goes where there are many.
    pub fn push(&mut self, frame: Frame) {
        if self.frames.len() >= MOST_LIVE {
            self.frames.pop_front();
            self.at = self.at.saturating_sub(1);
        }
        self.frames.push_back(Arc::new(frame));
        if self.playing {
            self.last_frame();
        }
    }

    /// What was recorded goes on by a frame, and stops at the last one.
    pub fn tick(&mut self) {
        if self.live || !self.playing {
            return;
        }
        self.step(1);
        self.playing = self.at.saturating_add(1) < self.frames.len();
    }

    /// Stops, or goes on: a recording that is at its end from its beginning, a live host at its newest frame.
    pub fn pause_or_play(&mut self) {
        self.playing = !self.playing;
        match (self.playing, self.live) {
            (true, true) => self.last_frame(),
            (true, false) if self.at.saturating_add(1) >= self.frames.len() => self.at = 0,
            _ => {}
        }
    }

    /// Stops, and goes so many frames back or forth, as far as there are any.
    pub fn go(&mut self, frames: isize) {
        self.playing = false;
        self.step(frames);
    }

    /// Stops, and goes to the first frame.
    pub fn first_frame(&mut self) {
        self.playing = false;
        self.at = 0;
    }

    /// Goes to the last frame; a live host plays on from there.
    pub fn last_frame(&mut self) {
        self.playing = self.live;
        self.at = self.frames.len().saturating_sub(1);
    }

    fn step(&mut self, frames: isize) {
        self.at = self.at.saturating_add_signed(frames).min(self.frames.len().saturating_sub(1));
    }
}

#[cfg(test)]
mod tests {
    use super::super::frame::Gauges;
    use super::*;

    fn frame(number: usize) -> Frame {
        Frame { at: number.to_string(), ..Frame::default() }
    }

    fn at(timeline: &Timeline) -> &str {
        timeline.frame().map_or("none", |frame| &frame.at)
    }

    #[test]
    fn a_live_host_is_followed_until_somebody_looks_back() {
        let mut timeline = Timeline::live();
        assert_eq!((at(&timeline), timeline.place()), ("none", (0, 0)));
        timeline.go(-1);
        timeline.last_frame();
        (0..5).for_each(|number| timeline.push(frame(number)));
        assert_eq!(at(&timeline), "4");
        timeline.go(-2);
        timeline.push(frame(5));
        assert_eq!((at(&timeline), timeline.is_playing()), ("2", false));
        timeline.pause_or_play();
        assert_eq!((at(&timeline), timeline.place()), ("5", (6, 6)));
        timeline.tick();
        assert_eq!(at(&timeline), "5", "only frames that come move it on");
    }

    #[test]
    fn what_is_looked_at_stays_while_the_oldest_frames_go() {
        let mut timeline = Timeline::live();
        (0..MOST_LIVE).for_each(|number| timeline.push(frame(number)));
        timeline.go(-3);
        let seen = at(&timeline).to_owned();
        timeline.push(frame(9999));
        assert_eq!((at(&timeline), timeline.place()), (seen.as_str(), (MOST_LIVE - 4, MOST_LIVE)));
        timeline.first_frame();
        (0..3).for_each(|number| timeline.push(frame(number)));
        assert_eq!(timeline.place().0, 1);
    }

    #[test]
    fn a_recording_plays_to_its_end_and_again() {
        let mut timeline = Timeline::recorded((0..3).map(frame).collect());
        assert_eq!(at(&timeline), "0");
        timeline.tick();
        timeline.tick();
        assert_eq!((at(&timeline), timeline.is_playing()), ("2", false));
        timeline.tick();
        timeline.go(7);
        assert_eq!(at(&timeline), "2");
        timeline.pause_or_play();
        assert_eq!((at(&timeline), timeline.is_playing()), ("0", true));
        timeline.pause_or_play();
        timeline.tick();
        assert_eq!(at(&timeline), "0");
        Timeline::recorded(Vec::new()).tick();
    }

    #[test]
    fn history_ends_at_what_is_looked_at() {
        let told = |value| Frame { gauges: Gauges { swap: value, ..Gauges::default() }, ..Frame::default() };
        let mut timeline = Timeline::recorded([Some(1.0), None, Some(3.0), Some(4.0)].map(told).into());
        timeline.go(2);
        let last = |count| timeline.last(Gauge::Swap, count).collect::<Vec<_>>();
        assert_eq!(last(2), [None, Some(3.0)]);
        assert_eq!(last(9), [Some(1.0), None, Some(3.0)]);
        assert!(timeline.tells(Gauge::Swap) && !timeline.tells(Gauge::Sessions));
    }
}
