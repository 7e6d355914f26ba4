//! The frames that there are, and the one that is looked at.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use hugewise_model::Finding;

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

    /// The frames that stand for each of so many columns, and the column of the frame that is looked at: the last frames up to it of a
    /// live host; of a recording all, several to a column where there are more of them than columns.
    pub fn columns(&self, count: usize) -> (Vec<Range<usize>>, usize) {
        let all = self.frames.len();
        if self.live || all <= count {
            let end = if self.live { self.at.saturating_add(1).min(all) } else { all };
            let begin = end.saturating_sub(count);
            return ((begin..end).map(|at| at..at + 1).collect(), self.at.saturating_sub(begin));
        }
        let columns: Vec<Range<usize>> =
            (0..count).map(|column| column * all / count..(column + 1) * all / count).collect();
        let looked_at = columns.iter().position(|frames| frames.contains(&self.at)).unwrap_or_default();
        (columns, looked_at)
    }

    /// The frames of a column.
    pub fn of(&self, column: &Range<usize>) -> impl DoubleEndedIterator<Item = &Arc<Frame>> + '_ {
        self.frames.range(column.start.min(self.frames.len())..column.end.min(self.frames.len()))
    }

    /// What a gauge says in a column: the value that looks worst.
    pub fn value(&self, gauge: Gauge, column: &Range<usize>) -> Option<f64> {
        let values = self.of(column).filter_map(|frame| frame.gauges.get(gauge));
        match gauge {
            Gauge::Available | Gauge::Free => values.reduce(f64::min),
            Gauge::KernelCpu | Gauge::PageTables | Gauge::Swap | Gauge::Sessions => values.reduce(f64::max),
        }
    }

    /// Whether something is found in a frame that was not in the one before.
    pub fn begins(&self, at: usize) -> bool {
        let Some(frame) = self.frames.get(at) else { return false };
        let Some(before) = at.checked_sub(1).and_then(|at| self.frames.get(at)) else {
            return !frame.findings.is_empty();
        };
        let is_new = |finding: &Finding| {
            let same = |other: &Finding| {
                (other.code, other.name, &other.instance) == (finding.code, finding.name, &finding.instance)
            };
            !before.findings.iter().any(same)
        };
        frame.findings.iter().any(is_new)
    }

    /// The next frame, or the one before, in which something is found that was not there.
    pub fn begin(&self, forth: bool) -> Option<usize> {
        if forth {
            (self.at.saturating_add(1)..self.frames.len()).find(|at| self.begins(*at))
        } else {
            (0..self.at).rev().find(|at| self.begins(*at))
        }
    }

    /// Stops, and goes to where the next thing found begins, or the one before.
    pub fn go_to_begin(&mut self, forth: bool) {
        self.playing = false;
        if let Some(at) = self.begin(forth) {
            self.at = at;
        }
    }

    /// A frame by its number.
    pub fn at(&self, number: usize) -> Option<&Arc<Frame>> {
        self.frames.get(number)
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
    fn a_live_hosts_history_ends_at_what_is_looked_at() {
        let told = |value| Frame { gauges: Gauges { swap: value, ..Gauges::default() }, ..Frame::default() };
        let mut timeline = Timeline::live();
        [Some(1.0), None, Some(3.0), Some(4.0)].map(told).into_iter().for_each(|frame| timeline.push(frame));
        timeline.go(-1);
        let last = |count| {
            let (columns, looked_at) = timeline.columns(count);
            (columns.iter().map(|column| timeline.value(Gauge::Swap, column)).collect::<Vec<_>>(), looked_at)
        };
        assert_eq!(last(2), (vec![None, Some(3.0)], 1));
        assert_eq!(last(9), (vec![Some(1.0), None, Some(3.0)], 2));
        assert!(timeline.tells(Gauge::Swap) && !timeline.tells(Gauge::Sessions));
    }

    #[test]
    fn a_recording_is_shown_whole_and_its_worst_is_never_lost() {
        let told = |number: i32| Frame {
            gauges: Gauges {
                kernel_cpu: Some(if number == 500 { 0.9 } else { 0.1 }),
                available: Some(if number == 250 { 1.0 } else { 100.0 }),
                ..Gauges::default()
            },
            ..Frame::default()
        };
        let mut timeline = Timeline::recorded((0..1001).map(told).collect());
        let shown = |timeline: &Timeline, gauge| {
            let (columns, _) = timeline.columns(40);
            assert_eq!((columns.len(), columns[0].start, columns[39].end), (40, 0, 1001));
            columns.iter().map(|column| timeline.value(gauge, column).unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(shown(&timeline, Gauge::KernelCpu).iter().filter(|value| **value > 0.5).count(), 1);
        assert_eq!(shown(&timeline, Gauge::Available).iter().filter(|value| **value < 2.0).count(), 1);
        assert_eq!(timeline.columns(40).1, 0);
        timeline.last_frame();
        assert_eq!(timeline.columns(40).1, 39);
        assert_eq!(timeline.columns(2000).1, 1000);
    }

    #[test]
    fn what_is_found_is_gone_to() {
        let told = |names: &[&'static str]| Frame {
            findings: names.iter().map(|name| Finding { name, ..super::super::testing::finding("", None) }).collect(),
            ..Frame::default()
        };
        let frames = [&[][..], &["a"], &["a"], &[], &["a"], &["a", "b"], &["b"]];
        let mut timeline = Timeline::recorded(frames.map(told).into());
        let mut seen = Vec::new();
        for _ in 0..4 {
            timeline.go_to_begin(true);
            seen.push(timeline.place().0);
        }
        assert_eq!(seen, [2, 5, 6, 6]);
        timeline.go_to_begin(false);
        assert_eq!(timeline.place().0, 5);
        timeline.go_to_begin(false);
        timeline.go_to_begin(false);
        assert_eq!(timeline.place().0, 2);
    }
}
