//! Kernel messages in their order: reports of many lines, and what belongs to the event before.

use std::collections::BTreeSet;

use super::crash::CrashLines;
use super::kernel;
use super::memory_info::MemoryInfo;
use super::oom::OomReport;
use super::trace::CallTrace;
use crate::Moment;
use crate::event::{LogEvent, LogEventKind};
use crate::series::{Mark, MarkKind};

/// Lines of one report of the kernel, which has one a process, and milliseconds that it takes.
const LONGEST_REPORT: usize = 400_000;
const LONGEST_TIME: i64 = 10 * 60_000;
const MOST_LIMITED: usize = 256;
/// Lines behind a failed allocation that tell of memory.
const LONGEST_FAILURE: usize = 400;

#[derive(Debug, Default)]
pub(super) struct KernelMessages {
    report: Option<OpenReport>,
    crash: CrashLines,
    /// The call trace of the last event, and the report of memory behind it.
    trace: Option<CallTrace>,
    failure: Option<(MemoryInfo, usize)>,
    /// Memory in a report whose beginning is missing, and the lines since.
    loose: Option<(MemoryInfo, usize)>,
    /// Programs that were at a cgroup's limit in a report of this log.
    limited: BTreeSet<String>,
}

#[derive(Debug)]
struct OpenReport {
    report: OomReport,
    begun: Moment,
    lines: usize,
}

impl KernelMessages {
    /// The events that a message makes: one that it ends, and its own.
    pub(super) fn parse_events(&mut self, at: Moment, message: &str) -> Vec<(Moment, LogEvent)> {
        let stale = self.report.as_ref().is_some_and(|open| {
            open.lines > LONGEST_REPORT || (at.0 - open.begun.0).abs() > LONGEST_TIME
        });
        let mut all = Vec::new();
        if stale {
            all.extend(self.take_cut_report());
        }
        let begun = OomReport::from_first_line(message)
            .or_else(|| OomReport::from_manual_order(message))
            .or_else(|| {
                let parted = || OomReport::from_table(message).or(OomReport::from_choice(message));
                parted().filter(|_| self.report.is_none())
            });
        if let Some(mut report) = begun {
            // The kernel's order by hand comes before its report.
            let by_hand = self.report.as_ref().is_some_and(|open| open.report.is_order());
            report.continue_order(by_hand);
            if !by_hand {
                all.extend(self.take_cut_report());
            }
            (self.trace, self.failure) = (None, None);
            self.report = Some(OpenReport { report, begun: at, lines: 0 });
            return all;
        }
        all.extend(self.parse_event(message).map(|event| (at, event)));
        all
    }

    /// The event of a message that begins no report.
    pub(super) fn parse_event(&mut self, message: &str) -> Option<LogEvent> {
        let event = match &mut self.report {
            Some(open) => {
                open.lines += 1;
                open.report.parse_line(message)
            }
            None => self.take_loose_report(message).parse_line(message),
        };
        if event.is_some() {
            let report = self.report.take().map(|open| open.report).unwrap_or_default();
            let room = MOST_LIMITED.saturating_sub(self.limited.len());
            self.limited.extend(report.limited_programs(message).into_iter().take(room));
            return event;
        }
        let event = self.crash.parse_line(message).or_else(|| kernel::parse_kernel_event(message));
        if let Some(event) = &event {
            let is_stuck = matches!(event.kind, LogEventKind::HungTask | LogEventKind::Lockup);
            self.trace = is_stuck.then(CallTrace::default);
            let lacked = matches!(
                event.kind,
                LogEventKind::MemoryExhausted | LogEventKind::AllocationFailure
            );
            self.failure = lacked.then(|| (MemoryInfo::default(), 0));
        }
        event
    }

    /// What lines of memory say of a panic that comes next, where their report has no beginning.
    fn take_loose_report(&mut self, message: &str) -> OomReport {
        if message.contains(" min:") && message.contains(" high:") {
            let (memory, lines) = self.loose.get_or_insert_default();
            memory.parse_line(message);
            *lines = 0;
        } else if let Some((_, lines)) = &mut self.loose {
            *lines += 1;
            if *lines > LONGEST_FAILURE {
                self.loose = None;
            }
        }
        let panics = message.starts_with("Kernel panic - ");
        let memory = self.loose.take_if(|_| panics).map(|(memory, _)| memory);
        memory.map(OomReport::from_memory).unwrap_or_default()
    }

    /// Adds what a line behind an event says of it.
    pub(super) fn amend_event(&mut self, message: &str, last: Option<&mut Mark>) {
        let Some(Mark { kind: MarkKind::Event(event), .. }) = last else { return };
        if let Some(trace) = &mut self.trace {
            let work = trace.parse_line(message);
            event.work = event.work.max(work);
            if trace.is_over() {
                self.trace = None;
            }
        }
        if let Some((memory, lines)) = &mut self.failure {
            memory.parse_line(message);
            *lines += 1;
            event.memory = memory.to_report(None).or(event.memory);
            kernel::judge_failure_by_report(event, memory.has_plenty());
            if *lines > LONGEST_FAILURE {
                self.failure = None;
            }
        }
    }

    /// What a report says that was never ended.
    pub(super) fn take_cut_report(&mut self) -> Option<(Moment, LogEvent)> {
        let mut open = self.report.take()?;
        open.report.follow_precedent(&self.limited);
        Some((open.begun, open.report.into_cut_event()?))
    }
}
