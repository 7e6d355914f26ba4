//! The frames, and the one that is looked at.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use hugewise_model::Finding;

use super::frame::{Frame, FrameGauge};

/// Frames of a live host that are kept: an hour in steps of two seconds.
pub(crate) const MOST_LIVE: usize = 1800;

/// Frames in the order of time. Playing, it moves to the newest frame of a live host, or to the
/// next one of a recording.
#[derive(Clone, Debug)]
pub struct FrameTimeline {
    frames: VecDeque<Arc<Frame>>,
    at: usize,
    playing: bool,
    live: bool,
}

impl FrameTimeline {
    /// A live host's, still empty.
    pub const fn for_live_host() -> Self {
        Self { frames: VecDeque::new(), at: 0, playing: true, live: true }
    }

    /// Of what was recorded.
    pub fn from_recording(frames: Vec<Frame>) -> Self {
        Self {
            frames: frames.into_iter().map(Arc::new).collect(),
            at: 0,
            playing: true,
            live: false,
        }
    }

    pub(crate) const fn is_live(&self) -> bool {
        self.live
    }

    pub(crate) const fn is_playing(&self) -> bool {
        self.playing
    }

    /// The current frame's number, from 1, and the number of frames.
    pub(crate) fn frame_position(&self) -> (usize, usize) {
        (self.at.saturating_add(1).min(self.frames.len()), self.frames.len())
    }

    pub(crate) fn current_frame(&self) -> Option<&Arc<Frame>> {
        self.frames.get(self.at)
    }

    /// The frames of each of `count` columns, and the column of the current frame: of a live host,
    /// the last frames up to it; of a recording all, several to a column if need be.
    pub(crate) fn split_columns(&self, count: usize) -> (Vec<Range<usize>>, usize) {
        let all = self.frames.len();
        if self.live || all <= count {
            let end = if self.live { self.at.saturating_add(1).min(all) } else { all };
            let begin = end.saturating_sub(count);
            return ((begin..end).map(|at| at..at + 1).collect(), self.at.saturating_sub(begin));
        }
        let columns: Vec<Range<usize>> =
            (0..count).map(|column| column * all / count..(column + 1) * all / count).collect();
        let looked_at =
            columns.iter().position(|frames| frames.contains(&self.at)).unwrap_or_default();
        (columns, looked_at)
    }

    pub(crate) fn frames_in_column(
        &self,
        column: &Range<usize>,
    ) -> impl DoubleEndedIterator<Item = &Arc<Frame>> + '_ {
        self.frames.range(column.start.min(self.frames.len())..column.end.min(self.frames.len()))
    }

    /// The gauge's value that looks worst.
    pub(crate) fn worst_value(&self, gauge: FrameGauge, column: &Range<usize>) -> Option<f64> {
        let values = self.frames_in_column(column).filter_map(|frame| frame.gauges.get(gauge));
        match gauge {
            FrameGauge::Available | FrameGauge::Free => values.reduce(f64::min),
            FrameGauge::KernelCpu
            | FrameGauge::PageTables
            | FrameGauge::Swap
            | FrameGauge::Sessions => values.reduce(f64::max),
        }
    }

    /// Whether the frame has a finding that the one before has not.
    pub(crate) fn has_new_finding(&self, at: usize) -> bool {
        let Some(frame) = self.frames.get(at) else { return false };
        let Some(before) = at.checked_sub(1).and_then(|at| self.frames.get(at)) else {
            return !frame.findings.is_empty();
        };
        let is_new = |finding: &Finding| {
            let same = |other: &Finding| {
                (other.code, other.name, &other.instance)
                    == (finding.code, finding.name, &finding.instance)
            };
            !before.findings.iter().any(same)
        };
        frame.findings.iter().any(is_new)
    }

    /// The next frame with a new finding, or the one before.
    pub(crate) fn find_new_finding(&self, forth: bool) -> Option<usize> {
        if forth {
            (self.at.saturating_add(1)..self.frames.len()).find(|at| self.has_new_finding(*at))
        } else {
            (0..self.at).rev().find(|at| self.has_new_finding(*at))
        }
    }

    /// Stops at the next frame with a new finding, or the one before.
    pub(crate) fn go_to_begin(&mut self, forth: bool) {
        self.playing = false;
        if let Some(at) = self.find_new_finding(forth) {
            self.at = at;
        }
    }

    pub(crate) fn frame_at(&self, number: usize) -> Option<&Arc<Frame>> {
        self.frames.get(number)
    }

    pub(crate) fn has_gauge(&self, gauge: FrameGauge) -> bool {
        self.frames.iter().any(|frame| frame.gauges.get(gauge).is_some())
    }

    /// The oldest frame goes where there are many.
    pub(crate) fn push(&mut self, frame: Frame) {
        if self.frames.len() >= MOST_LIVE {
            self.frames.pop_front();
            self.at = self.at.saturating_sub(1);
        }
        self.frames.push_back(Arc::new(frame));
        if self.playing {
            self.last_frame();
        }
    }

    /// A recording stops at its last frame.
    pub(crate) fn advance_frame(&mut self) {
        if self.live || !self.playing {
            return;
        }
        self.move_by_frames(1);
        self.playing = self.at.saturating_add(1) < self.frames.len();
    }

    /// A recording at its end begins anew; a live host continues at its newest frame.
    pub(crate) fn pause_or_play(&mut self) {
        self.playing = !self.playing;
        match (self.playing, self.live) {
            (true, true) => self.last_frame(),
            (true, false) if self.at.saturating_add(1) >= self.frames.len() => self.at = 0,
            _ => {}
        }
    }

    /// Stops, and moves so many frames.
    pub(crate) fn go_by_frames(&mut self, frames: isize) {
        self.playing = false;
        self.move_by_frames(frames);
    }

    pub(crate) fn first_frame(&mut self) {
        self.playing = false;
        self.at = 0;
    }

    /// A live host plays on from there.
    pub(crate) fn last_frame(&mut self) {
        self.playing = self.live;
        self.at = self.frames.len().saturating_sub(1);
    }

    fn move_by_frames(&mut self, frames: isize) {
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

    fn at(timeline: &FrameTimeline) -> &str {
        timeline.current_frame().map_or("none", |frame| &frame.at)
    }

    #[test]
    fn a_live_host_is_followed_until_somebody_looks_back() {
        let mut timeline = FrameTimeline::for_live_host();
        assert_eq!((at(&timeline), timeline.frame_position()), ("none", (0, 0)));
        timeline.go_by_frames(-1);
        timeline.last_frame();
        (0..5).for_each(|number| timeline.push(frame(number)));
        assert_eq!(at(&timeline), "4");
        timeline.go_by_frames(-2);
        timeline.push(frame(5));
        assert_eq!((at(&timeline), timeline.is_playing()), ("2", false));
        timeline.pause_or_play();
        assert_eq!((at(&timeline), timeline.frame_position()), ("5", (6, 6)));
        timeline.advance_frame();
        assert_eq!(at(&timeline), "5", "only frames that come move it on");
    }

    #[test]
    fn what_is_looked_at_stays_while_the_oldest_frames_go() {
        let mut timeline = FrameTimeline::for_live_host();
        (0..MOST_LIVE).for_each(|number| timeline.push(frame(number)));
        timeline.go_by_frames(-3);
        let seen = at(&timeline).to_owned();
        timeline.push(frame(9999));
        assert_eq!(
            (at(&timeline), timeline.frame_position()),
            (seen.as_str(), (MOST_LIVE - 4, MOST_LIVE))
        );
        timeline.first_frame();
        (0..3).for_each(|number| timeline.push(frame(number)));
        assert_eq!(timeline.frame_position().0, 1);
    }

    #[test]
    fn a_recording_plays_to_its_end_and_again() {
        let mut timeline = FrameTimeline::from_recording((0..3).map(frame).collect());
        assert_eq!(at(&timeline), "0");
        timeline.advance_frame();
        timeline.advance_frame();
        assert_eq!((at(&timeline), timeline.is_playing()), ("2", false));
        timeline.advance_frame();
        timeline.go_by_frames(7);
        assert_eq!(at(&timeline), "2");
        timeline.pause_or_play();
        assert_eq!((at(&timeline), timeline.is_playing()), ("0", true));
        timeline.pause_or_play();
        timeline.advance_frame();
        assert_eq!(at(&timeline), "0");
        FrameTimeline::from_recording(Vec::new()).advance_frame();
    }

    #[test]
    fn a_live_hosts_history_ends_at_what_is_looked_at() {
        let told = |value| Frame {
            gauges: Gauges { swap: value, ..Gauges::default() },
            ..Frame::default()
        };
        let mut timeline = FrameTimeline::for_live_host();
        [Some(1.0), None, Some(3.0), Some(4.0)]
            .map(told)
            .into_iter()
            .for_each(|frame| timeline.push(frame));
        timeline.go_by_frames(-1);
        let last = |count| {
            let (columns, looked_at) = timeline.split_columns(count);
            (
                columns
                    .iter()
                    .map(|column| timeline.worst_value(FrameGauge::Swap, column))
                    .collect::<Vec<_>>(),
                looked_at,
            )
        };
        assert_eq!(last(2), (vec![None, Some(3.0)], 1));
        assert_eq!(last(9), (vec![Some(1.0), None, Some(3.0)], 2));
        assert!(timeline.has_gauge(FrameGauge::Swap) && !timeline.has_gauge(FrameGauge::Sessions));
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
        let mut timeline = FrameTimeline::from_recording((0..1001).map(told).collect());
        let shown = |timeline: &FrameTimeline, gauge| {
            let (columns, _) = timeline.split_columns(40);
            assert_eq!((columns.len(), columns[0].start, columns[39].end), (40, 0, 1001));
            columns
                .iter()
                .map(|column| timeline.worst_value(gauge, column).unwrap())
                .collect::<Vec<_>>()
        };
        assert_eq!(
            shown(&timeline, FrameGauge::KernelCpu).iter().filter(|value| **value > 0.5).count(),
            1
        );
        assert_eq!(
            shown(&timeline, FrameGauge::Available).iter().filter(|value| **value < 2.0).count(),
            1
        );
        assert_eq!(timeline.split_columns(40).1, 0);
        timeline.last_frame();
        assert_eq!(timeline.split_columns(40).1, 39);
        assert_eq!(timeline.split_columns(2000).1, 1000);
    }

    #[test]
    fn what_is_found_is_gone_to() {
        let told = |names: &[&'static str]| Frame {
            findings: names
                .iter()
                .map(|name| Finding { name, ..super::super::testing::finding("", None) })
                .collect(),
            ..Frame::default()
        };
        let frames = [&[][..], &["a"], &["a"], &[], &["a"], &["a", "b"], &["b"]];
        let mut timeline = FrameTimeline::from_recording(frames.map(told).into());
        let mut seen = Vec::new();
        for _ in 0..4 {
            timeline.go_to_begin(true);
            seen.push(timeline.frame_position().0);
        }
        assert_eq!(seen, [2, 5, 6, 6]);
        timeline.go_to_begin(false);
        assert_eq!(timeline.frame_position().0, 5);
        timeline.go_to_begin(false);
        timeline.go_to_begin(false);
        assert_eq!(timeline.frame_position().0, 2);
    }
}
