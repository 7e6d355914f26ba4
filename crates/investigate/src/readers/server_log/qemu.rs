//! The log of a guest below /var/log/libvirt/qemu: QEMU's own lines, with or without a time, and
//! libvirt's of its starts and ends.

use hugewise_model::Engine;

use super::interpret_message;
use crate::event::LogEvent;
use crate::readers::line_timestamp::LineTimestamp;

/// `2017-09-29T12:54:42.748222Z qemu-kvm: text`, perhaps behind the words of whoever passes it on, and
/// `2017-09-29 12:54:40.123+0000: starting up libvirt version: 3.2.0, ...`
pub(super) fn parse_qemu_line(line: &str) -> Option<(LineTimestamp, &str)> {
    if let Some(told) = find_qemu_message(line) {
        return Some(told);
    }
    let (time, message) = line.split_once(": ")?;
    let of_libvirt = message.starts_with("starting up") || message.starts_with("shutting down");
    // `2017-09-29 12:54:40.123+0000`
    let stamp = of_libvirt.then(|| time.replacen(' ', "T", 1));
    Some((LineTimestamp::parse(&stamp?)?, message))
}

/// QEMU's time, its program and what it says.
fn find_qemu_message(line: &str) -> Option<(LineTimestamp, &str)> {
    line.match_indices("qemu").map(|(at, _)| at).take(8).find_map(|at| {
        let (before, behind) = line.split_at_checked(at)?;
        let (program, message) = behind.split_once(": ")?;
        // Its path may stand before its name.
        let (before, path) = before.rsplit_once(' ')?;
        let time = before.rsplit(' ').next().filter(|time| time.contains('T'))?;
        let known = is_program(program) && (path.is_empty() || path.starts_with('/'));
        Some((LineTimestamp::parse(time).filter(|_| known)?, message))
    })
}

/// `qemu-system-x86_64`, `/usr/libexec/qemu-kvm`
pub(super) fn is_program(word: &str) -> bool {
    !word.contains(' ') && word.rsplit('/').next().is_some_and(|name| name.starts_with("qemu"))
}

/// `qemu-system-x86_64: text`, of the time of the line before.
pub(super) fn parse_untimed_line(line: &str) -> Option<LogEvent> {
    let (program, message) = line.split_once(": ")?;
    is_program(program).then(|| interpret_message(Engine::Qemu, message))?
}

/// What libvirt's daemon says of a guest, QEMU's words behind its own.
pub(super) fn parse_daemon_event(message: &str) -> Option<LogEvent> {
    let at = message.find("qemu-").or_else(|| message.find("/qemu"))?;
    let (_, own) = message.get(at..)?.split_once(": ")?;
    interpret_message(Engine::Qemu, own)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::LogEventKind;

    fn find_event_kind(line: &str) -> Option<LogEventKind> {
        let (_, message) = parse_qemu_line(line)?;
        interpret_message(Engine::Qemu, message).map(|event| event.kind)
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
            assert_eq!(find_event_kind(line), kind, "{line}");
        }
        let daemon = "internal error: process exited while connecting to monitor: \
                      2017-09-29T12:54:42.748222Z qemu-system-x86_64: cannot set up guest memory \
                      'pc.ram': Cannot allocate memory";
        let event = parse_daemon_event(daemon).unwrap();
        assert_eq!(event.kind, LogEventKind::ServerRefused);
    }
}
