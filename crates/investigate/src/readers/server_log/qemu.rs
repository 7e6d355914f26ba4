//! The log of a guest below /var/log/libvirt/qemu: QEMU's own lines, with or without a time, and
//! libvirt's of its starts and ends.

use super::Meanings;
use crate::event::{LogEvent, LogEventKind};
use crate::readers::line_timestamp::LineTimestamp;

/// `2017-09-29T12:54:42.748222Z qemu-kvm: text`, `2017-09-29 12:54:40.123+0000: starting up libvirt
/// version: 3.2.0, ...`
pub(super) fn parse_qemu_line(line: &str) -> Option<(LineTimestamp, &str)> {
    if let Some((time, rest)) = line.split_once(' ')
        && time.contains('T')
        && let Some((program, message)) = rest.split_once(": ")
        && is_program(program)
    {
        return Some((LineTimestamp::parse(time)?, message));
    }
    let (time, message) = line.split_once(": ")?;
    let of_libvirt = message.starts_with("starting up") || message.starts_with("shutting down");
    // `2017-09-29 12:54:40.123+0000`
    let stamp = of_libvirt.then(|| time.replacen(' ', "T", 1));
    Some((LineTimestamp::parse(&stamp?)?, message))
}

/// `qemu-system-x86_64`, `/usr/libexec/qemu-kvm`
pub(super) fn is_program(word: &str) -> bool {
    !word.contains(' ') && word.rsplit('/').next().is_some_and(|name| name.starts_with("qemu"))
}

/// What libvirt's daemon says of a guest, QEMU's words behind its own.
pub(super) fn parse_daemon_event(message: &str) -> Option<LogEvent> {
    let at = message.find("qemu-").or_else(|| message.find("/qemu"))?;
    let (_, own) = message.get(at..)?.split_once(": ")?;
    super::find_meaning(own, QEMU)
}

const NO_MEMORY: &str = "QEMU could not get its guest's memory, and did not start";
const NO_HUGE_PAGES: &str = "QEMU got no huge pages for its guest's memory, and did not start";

pub(super) const QEMU: Meanings = &[
    (LogEventKind::ServerStarted, &[("starting up", "libvirt started a guest")]),
    (
        LogEventKind::ServerRefused,
        &[
            ("cannot set up guest memory", NO_MEMORY),
            ("unable to map backing store for guest RAM", NO_HUGE_PAGES),
            ("can't open backing store *for guest RAM", NO_HUGE_PAGES),
            ("os_mem_prealloc: ", NO_HUGE_PAGES),
            ("qemu_prealloc_mem: ", NO_HUGE_PAGES),
        ],
    ),
    (
        LogEventKind::ServerFailed,
        &[("shutting down, reason=crashed", "a guest's QEMU ended by itself, or was killed")],
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn told(line: &str) -> Option<LogEventKind> {
        let (_, message) = parse_qemu_line(line)?;
        super::super::find_meaning(message, QEMU).map(|event| event.kind)
    }

    #[test]
    fn a_guest_that_got_no_memory_was_refused() {
        for (line, kind) in [
            (
                "2017-09-29T12:54:42.748222Z qemu-system-x86_64: cannot set up guest memory \
                 'pc.ram': Cannot allocate memory",
                Some(LogEventKind::ServerRefused),
            ),
            (
                "2025-06-04T01:42:29.495586Z /usr/libexec/qemu-kvm: unable to map backing store \
                 for guest RAM: Cannot allocate memory",
                Some(LogEventKind::ServerRefused),
            ),
            (
                "2017-09-29 12:54:40.123+0000: starting up libvirt version: 3.2.0",
                Some(LogEventKind::ServerStarted),
            ),
            (
                "2017-09-29 12:54:43.000+0000: shutting down, reason=crashed",
                Some(LogEventKind::ServerFailed),
            ),
            ("2017-09-29 12:54:43.000+0000: shutting down, reason=failed", None),
            ("2017-09-29T12:54:42Z qemu-kvm: terminating on signal 15 from pid 1", None),
            ("2017-09-29T12:54:42Z kubelet: cannot set up guest memory", None),
        ] {
            assert_eq!(told(line), kind, "{line}");
        }
        let daemon = "internal error: process exited while connecting to monitor: \
                      2017-09-29T12:54:42.748222Z qemu-system-x86_64: cannot set up guest memory \
                      'pc.ram': Cannot allocate memory";
        let event = parse_daemon_event(daemon).unwrap();
        assert_eq!(event.kind, LogEventKind::ServerRefused);
    }
}
