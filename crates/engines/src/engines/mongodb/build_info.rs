//! The version that a server writes to its log as it starts: `db version v3.0.2` up to 4.2, since
//! then `"msg":"Build Info"` with `"buildInfo":{"version":"5.0.5",...}`.

use hugewise_host::Source;
use hugewise_model::Process;
use hugewise_model::instance::ServerSetting;

use crate::EngineContext;
use crate::shared::options;
use crate::shared::versions::is_short_number;

const MARKS: [&str; 2] = ["db version v", "\"buildInfo\":{\"version\":\""];
/// How far back in a log a start is looked for.
const MOST: u64 = 16 << 20;

/// The version of the last start in the log that its settings name.
pub(super) fn find_logged_version(
    scene: &EngineContext<'_>,
    process: &Process,
    log: Option<&ServerSetting>,
) -> Option<String> {
    let path = options::from_working_directory(process, &log?.value);
    let path = options::as_reader_opens(scene.host, process, &path);
    let tail = scene.logs_of(process).read_part(&path, None, MOST).into_known()?;
    last_version(&tail.bytes)
}

fn last_version(log: &[u8]) -> Option<String> {
    let last = |mark: &&str| {
        let at = memchr::memmem::rfind(log, mark.as_bytes())?;
        Some((at, log.get(at + mark.len()..)?))
    };
    let (_, behind) = MARKS.iter().filter_map(last).max_by_key(|(at, _)| *at)?;
    let is_part = |byte: &u8| byte.is_ascii_digit() || *byte == b'.';
    let end = behind.iter().position(|byte| !is_part(byte)).unwrap_or(behind.len());
    let version = String::from_utf8_lossy(behind.get(..end)?).into_owned();
    let is_version = version.contains('.') && version.split('.').all(is_short_number);
    is_version.then_some(version)
}

/// What a capture keeps of a log.
pub(super) fn keep_version(log: &[u8]) -> Vec<u8> {
    let [mark, _] = MARKS;
    last_version(log).map_or_else(Vec::new, |text| format!("{mark}{text}\n").into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_start_in_a_log_tells_the_version() {
        let old = b"x [initandlisten] db version v4.2.24\n".as_slice();
        let new =
            br#"{"t":{},"msg":"Build Info","attr":{"buildInfo":{"version":"5.0.5","git":"d"}}}
"#
            .as_slice();
        let release = b"db version v8.0.0-rc1\n".as_slice();
        for (parts, expected) in [
            (vec![old], Some("4.2.24")),
            (vec![old, new], Some("5.0.5")),
            (vec![new, old], Some("4.2.24")),
            (vec![release], Some("8.0.0")),
            (vec![b"db version v4.x\n"], None),
            (vec![b"db version v"], None),
            (vec![b"S3 nothing\n"], None),
        ] {
            let log = parts.concat();
            assert_eq!(last_version(&log).as_deref(), expected);
            let kept = keep_version(&log);
            assert!(!String::from_utf8_lossy(&kept).contains("msg"));
            assert_eq!(last_version(&kept).as_deref(), expected);
            assert_eq!(keep_version(&kept), kept);
        }
    }
}
