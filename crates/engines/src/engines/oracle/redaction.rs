//! What a capture keeps of titles, oratab and server parameter files.

use hugewise_host::capture::Forms;
use hugewise_host::capture::shape::ValueShape;

use super::{homes, last_start, parameters};

pub(super) const FORMS: Forms = Forms {
    title: Some(redact_session_title),
    rewrite: Some(|path, bytes| {
        redact_oratab(path, bytes)
            .or_else(|| last_start::redact_alert_log(path, bytes))
            .or_else(|| homes::redact_home_file(path, bytes))
    }),
    text: Some(parameter_file),
    ..Forms::NONE
};

/// `oraclePROD (LOCAL=NO)`: whether the client is on this host, without the rest in parentheses.
fn redact_session_title(word: &str) -> Option<String> {
    let (first, rest) = word.split_once(' ')?;
    if !first.starts_with("oracle") || !rest.starts_with('(') {
        return None;
    }
    let local = if rest.contains("LOCAL=NO") { "(LOCAL=NO)" } else { "(LOCAL=YES)" };
    let sid = |sign: u8| sign.is_ascii_alphanumeric() || b"_$+-#".contains(&sign);
    first.bytes().all(sid).then(|| format!("{first} {local}"))
}

fn redact_oratab(path: &str, bytes: &[u8]) -> Option<Vec<u8>> {
    if !super::stopped::TABLES.contains(&path) {
        return None;
    }
    let text = String::from_utf8_lossy(bytes);
    let mut kept = vec![String::new(); text.lines().count()];
    for line in super::stopped::parse_oratab(&text).filter(|line| {
        ValueShape::Path.matches_value(line.home) && ValueShape::Names.matches_value(line.sid)
    }) {
        let at = usize::try_from(line.number).ok().and_then(|number| number.checked_sub(1));
        if let Some(slot) = at.and_then(|at| kept.get_mut(at)) {
            *slot = format!("{}:{}:{}", line.sid, line.home, if line.starts { 'Y' } else { 'N' });
        }
    }
    Some((kept.join("\n") + "\n").into_bytes())
}

fn parameter_file(name: &str, bytes: &[u8]) -> Option<Vec<u8>> {
    name.starts_with("spfile").then(|| parameters::text_of_blocks(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_server_parameter_file_its_text_is_kept_from() {
        let spfile = parameters::tests::build_spfile("*.sga_target=1g\n");
        let text = String::from_utf8(parameter_file("spfilePROD.ora", &spfile).unwrap()).unwrap();
        assert_eq!(text.trim_matches('\0'), "*.sga_target=1g\n");
        assert_eq!(parameter_file("other.dbf", &spfile), None);
        assert_eq!(parameter_file("spfile.ora", b"no blocks").as_deref(), Some(&b""[..]));
    }

    #[test]
    fn of_oratab_the_instances_stay_on_their_lines() {
        let kept = |text: &str| {
            redact_oratab("/etc/oratab", text.as_bytes())
                .map(|kept| String::from_utf8(kept).unwrap())
        };
        let text = "# S3\nPROD:/u01/db:Y # S3\n*:/u01:N\n+ASM:/u01/grid:N:S3\nS 3:/x:Y\n";
        assert_eq!(kept(text).as_deref(), Some("\nPROD:/u01/db:Y\n\n+ASM:/u01/grid:N\n\n"));
        assert_eq!(kept(&kept(text).unwrap()), kept(text));
        assert_eq!(redact_oratab("/etc/other", b"x"), None);
    }

    #[test]
    fn of_a_dedicated_server_no_client_is_named() {
        let near = "oraclePROD (DESCRIPTION=(LOCAL=YES)(ADDRESS=(PROTOCOL=beq)))";
        for (written, kept) in [
            ("oraclePROD (LOCAL=NO)", Some("oraclePROD (LOCAL=NO)")),
            ("oracle+ASM_asmb_prod (LOCAL=NO)", Some("oracle+ASM_asmb_prod (LOCAL=NO)")),
            (near, Some("oraclePROD (LOCAL=YES)")),
            ("oracle/S3 (LOCAL=NO)", None),
            ("oraclePROD S3", None),
            ("ora_pmon_PROD", None),
        ] {
            assert_eq!(redact_session_title(written).as_deref(), kept);
        }
    }
}
