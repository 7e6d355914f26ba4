//! Oracle's parameter files: the text one (init.ora) and the binary one (spfile).
//! Text: Oracle Database Reference, "Initialization Parameters": `name=value` and `SID.name=value`
//! lines, `#` begins a comment, `ifile=` includes another file, `spfile=` points to a binary one.
//!
//! Binary: Oracle documents it nowhere. Published dumps (the SPFILE sample in RedHatInsights'
//! insights-core `test_oracle.py`; "Getting the database parameters from a spfile",
//! fritshoogland.wordpress.com 2014) show blocks of 512 bytes: Oracle's usual block header of 20
//! bytes, which begins with `C"`, 488 bytes of plain lines, `*.name=value` or `SID.name=value`,
//! that run on into the next block in the middle of a word, and a tail of 4 bytes. The rest of the
//! file is zero.

use hugewise_host::ParseError;

/// One assignment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParameterAssignment {
    /// The SID that it is for; `None` for every instance (`*.` or no prefix).
    pub sid: Option<String>,
    /// Name in lower case.
    pub name: String,
    /// Value without its quotes; of a list the first member.
    pub value: String,
    /// Line, from 1; 0 in a spfile.
    pub line: u64,
}

const BLOCK: usize = 512;
const BLOCK_MAGIC: &[u8] = b"C\"";
const BLOCK_HEADER: usize = 20;
const BLOCK_TAIL: usize = 4;

/// Reads a text parameter file.
/// # Errors
/// The file has zero bytes in it.
pub fn parse_text(bytes: &[u8]) -> Result<Vec<ParameterAssignment>, ParseError> {
    if bytes.contains(&0) {
        return Err(ParseError::whole_file("zero bytes in a text parameter file"));
    }
    let text = String::from_utf8_lossy(bytes);
    Ok((1..)
        .zip(text.lines())
        .filter_map(|(number, line)| parse_assignment(line, number))
        .collect())
}

/// Reads a server parameter file.
/// # Errors
/// The file begins with another block, or ends within one that holds text.
pub fn parse_spfile(bytes: &[u8]) -> Result<Vec<ParameterAssignment>, ParseError> {
    if !bytes.starts_with(BLOCK_MAGIC) {
        return Err(ParseError::whole_file(
            "not a server parameter file: it does not begin with a parameter block",
        ));
    }
    let whole = bytes
        .chunks(BLOCK)
        .take_while(|block| block.len() < BLOCK || block.starts_with(BLOCK_MAGIC));
    if whole.last().is_some_and(|block| block.len() < BLOCK) {
        return Err(ParseError::whole_file("it ends within a block"));
    }
    let text = text_of_blocks(bytes);
    let lines = text.split(|byte| *byte == b'\n' || *byte == 0);
    Ok(lines.filter_map(|line| parse_assignment(&String::from_utf8_lossy(line), 0)).collect())
}

pub(super) fn text_of_blocks(bytes: &[u8]) -> Vec<u8> {
    let blocks = bytes.chunks(BLOCK).take_while(|block| block.starts_with(BLOCK_MAGIC));
    blocks
        .flat_map(|block| block.get(BLOCK_HEADER..BLOCK - BLOCK_TAIL).unwrap_or_default())
        .copied()
        .collect()
}

fn parse_assignment(line: &str, number: u64) -> Option<ParameterAssignment> {
    let (name, rest) = line.split_once('=')?;
    let name = name.trim();
    let (sid, name) = match name.split_once('.') {
        Some(("*", name)) => (None, name),
        Some((sid, name)) => (Some(sid.to_owned()), name),
        None => (None, name),
    };
    let plain =
        |character: char| character.is_ascii_alphanumeric() || matches!(character, '_' | '$' | '#');
    let named = !name.is_empty() && name.chars().all(plain) && !name.starts_with('#');
    let ours = sid
        .as_deref()
        .is_none_or(|sid| !sid.is_empty() && !sid.starts_with('#') && !sid.contains(' '));
    (named && ours).then(|| ParameterAssignment {
        sid,
        name: name.to_ascii_lowercase(),
        value: first_value(rest),
        line: number,
    })
}

/// The value, or the first of a list: up to the closing quote, or up to a blank, comma or comment.
fn first_value(rest: &str) -> String {
    let rest = rest.trim_start().trim_start_matches('(').trim_start();
    match rest.chars().next() {
        Some(quote @ ('\'' | '"')) => {
            rest.get(1..).unwrap_or_default().split(quote).next().unwrap_or_default().into()
        }
        _ => rest.split([' ', '\t', ',', '#', ')', '\r']).next().unwrap_or_default().into(),
    }
}

/// The assignment for an instance: its own beats the one for all, and the last of a kind wins.
pub fn find_effective_index<'a>(
    assignments: impl DoubleEndedIterator<Item = &'a ParameterAssignment> + ExactSizeIterator,
    sid: &str,
    name: &str,
) -> Option<usize> {
    let mut for_all = None;
    for (at, one) in assignments.enumerate().rev().filter(|(_, one)| one.name == name) {
        match &one.sid {
            Some(own) if own.eq_ignore_ascii_case(sid) => return Some(at),
            None if for_all.is_none() => for_all = Some(at),
            _ => {}
        }
    }
    for_all
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A spfile as the public dumps show it: a block of zeros, the text, then blocks of zeros.
    pub(crate) fn build_spfile(text: &str) -> Vec<u8> {
        let block = |payload: &[u8], number: u32| {
            let mut block = vec![0x43, 0x22, 0, 0];
            block.extend(number.to_le_bytes());
            block.extend([0, 0, 0, 0, 0, 0, 1, 4, 0x78, 0x35, 0, 0]);
            block.extend(payload);
            block.resize(BLOCK - 4, 0);
            block.extend([1, 0x43, 0, 0]);
            block
        };
        let mut file = block(&[], 1);
        let mut number = 1;
        for payload in text.as_bytes().chunks(488) {
            number += 1;
            file.extend(block(payload, number));
        }
        file.extend(block(&[], number + 1));
        file
    }

    fn effective_value(
        assignments: &[ParameterAssignment],
        sid: &str,
        name: &str,
    ) -> Option<String> {
        find_effective_index(assignments.iter(), sid, name).map(|at| assignments[at].value.clone())
    }

    #[test]
    fn a_text_file_says_what_its_people_wrote() {
        let file = b"# sga_target=1G\n\nprocesses = 300 # \
             comment\n*.sga_target='8G'\nPROD1.sga_target=6G\r\n\
            use_large_pages=\"only\"\ncontrol_files=('/u01/c1.ctl','/u02/c2.ctl')\nSPFILE='+DATA/prod/spfileprod.ora'\nnonsense\n";
        let read = parse_text(file).unwrap();
        assert_eq!(effective_value(&read, "PROD1", "sga_target").as_deref(), Some("6G"));
        assert_eq!(effective_value(&read, "prod1", "sga_target").as_deref(), Some("6G"));
        assert_eq!(effective_value(&read, "PROD2", "sga_target").as_deref(), Some("8G"));
        assert_eq!(effective_value(&read, "PROD1", "use_large_pages").as_deref(), Some("only"));
        assert_eq!(
            effective_value(&read, "PROD1", "control_files").as_deref(),
            Some("/u01/c1.ctl")
        );
        assert_eq!(
            effective_value(&read, "PROD1", "spfile").as_deref(),
            Some("+DATA/prod/spfileprod.ora")
        );
        let processes = &read[find_effective_index(read.iter(), "PROD1", "processes").unwrap()];
        assert_eq!((processes.value.as_str(), processes.line), ("300", 3));
    }

    #[test]
    fn the_last_of_two_equal_assignments_wins() {
        let read =
            parse_text(b"sga_target=1G\n*.sga_target=2G\nA.sga_target=3G\nA.sga_target=4G\n")
                .unwrap();
        assert_eq!(effective_value(&read, "B", "sga_target").as_deref(), Some("2G"));
        assert_eq!(effective_value(&read, "A", "sga_target").as_deref(), Some("4G"));
    }

    #[test]
    fn a_spfile_says_the_same_as_its_text_wherever_blocks_cut_it() {
        for padding in 440..500 {
            let text = format!(
                "perf.__sga_target=1\n*.audit_file_dest='{}'\n*.use_large_pages='ONLY'\nperf_1.sga_target=28941m\n*.processes=300\n",
                "x".repeat(padding)
            );
            let read = parse_spfile(&build_spfile(&text)).unwrap();
            assert_eq!(
                effective_value(&read, "perf_1", "use_large_pages").as_deref(),
                Some("ONLY"),
                "padding {padding}"
            );
            assert_eq!(
                effective_value(&read, "perf_1", "sga_target").as_deref(),
                Some("28941m"),
                "padding {padding}"
            );
            assert_eq!(
                effective_value(&read, "perf_1", "processes").as_deref(),
                Some("300"),
                "padding {padding}"
            );
        }
    }

    #[test]
    fn what_is_no_parameter_file_is_malformed() {
        assert!(parse_spfile(b"").is_err());
        assert!(parse_spfile(b"*.sga_target=1G\n").is_err());
        assert!(parse_text(&build_spfile("*.sga_target=1G\n")).is_err());
        let whole = build_spfile("*.sga_target=1G\n");
        assert!(parse_spfile(&whole[..700]).is_err());
    }

    proptest! {
        #[test]
        fn what_is_read_of_a_cut_file_is_its_beginning(cut in 0..2048_usize) {
            let whole = build_spfile(&"*.processes=300\n".repeat(60));
            let all = parse_spfile(&whole).unwrap();
            prop_assert_eq!(all.len(), 60);
            if let Ok(read) = parse_spfile(&whole[..cut.min(whole.len())]) {
                prop_assert!(all.starts_with(&read), "{}", read.len());
            }
        }

        #[test]
        fn a_spfile_reads_as_its_text(lines in prop::collection::vec("(\\*|[A-Z][a-z0-9_]{0,7})\\.[a-z_]{1,30}=[a-zA-Z0-9/]{1,60}", 0..60)) {
            let text = lines.iter().map(|line| format!("{line}\n")).collect::<String>();
            let plain = parse_text(text.as_bytes()).unwrap().into_iter().map(|one| ParameterAssignment { line: 0, ..one }).collect::<Vec<_>>();
            prop_assert_eq!(parse_spfile(&build_spfile(&text)).unwrap(), plain);
        }
    }
}
