//! What a capture keeps of a title of Oracle's: of a dedicated server whether its client is on this host.

/// `oraclePROD (LOCAL=NO)`, without what else stands between the parentheses.
pub(super) fn title(word: &str) -> Option<String> {
    let (first, rest) = word.split_once(' ')?;
    if !first.starts_with("oracle") || !rest.starts_with('(') {
        return None;
    }
    let local = if rest.contains("LOCAL=NO") { "(LOCAL=NO)" } else { "(LOCAL=YES)" };
    let sid = |sign: u8| sign.is_ascii_alphanumeric() || b"_$+-#".contains(&sign);
    first.bytes().all(sid).then(|| format!("{first} {local}"))
}

#[cfg(test)]
mod tests {
    use super::*;

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
            assert_eq!(title(written).as_deref(), kept);
        }
    }
}
