//! Texts that mean something to one language or another. Whatever they would run makes a file
//! called `OWNED` where it is run.

/// Each by itself.
const FIXED: [&str; 58] = [
    "",
    " ",
    " leading",
    "trailing ",
    "in  between",
    "it's",
    "\"quoted\"",
    "back\\slash \\n \\x41 \\",
    "$(touch OWNED)",
    "`touch OWNED`",
    "${IFS}touch${IFS}OWNED",
    "$HOME ~ ~root",
    "~",
    ";touch OWNED;",
    "|touch OWNED",
    "&& touch OWNED #",
    "';touch OWNED;'",
    "\";touch OWNED;\"",
    "\\';touch OWNED;\\'",
    "!touch",
    "{{ lookup('pipe', 'touch OWNED') }}",
    "{{{ lookup(\"pipe\",\"touch OWNED\") }}",
    "{% if lookup('pipe', 'touch OWNED') %}{% endif %}",
    "{# comment #}",
    "{{ hugewise_tools }}",
    "{{ '{{' }}",
    "#jinja2:variable_start_string:'[',variable_end_string:']' [lookup('pipe','touch OWNED')]",
    "- item",
    "key: value",
    "? key",
    "&anchor",
    "*tools",
    "!unsafe x",
    "!!python/object/apply:os.system [touch OWNED]",
    "%TAG",
    "---",
    "...",
    "[a, b]",
    "{\"a\": 1}",
    "null",
    "true",
    "0123",
    "1e3",
    "=cmd|' /C calc'!A0",
    "+1+1",
    "-1-1",
    "@SUM(1)",
    "<script>alert(1)</script>",
    "</title><img src=x onerror=alert(1)>",
    "&lt;b&gt; &amp;",
    "--help",
    "-rf",
    "END",
    "a,b;c\td",
    "warn|a=1;2;3",
    "# comment",
    "B\u{fc}cher \u{65e5}\u{672c} \u{1f600}",
    "50% *?[a-z]",
];

/// What ends lines, moves cursors and hides, in the midst of something.
const ACTIVE: [&str; 16] = [
    "\n",
    "\r",
    "\r\n",
    "\0",
    "\u{b}",
    "\u{c}",
    "\u{1b}[2J",
    "\u{85}",
    "\u{2028}",
    "\u{2029}",
    "\u{202e}",
    "\u{2066}",
    "\u{200b}",
    "\u{feff}",
    "\u{ffff}",
    "\u{a0}",
];

/// All of them: the fixed ones, runs of every length, long ones, and some that are thrown together.
pub(crate) fn all_texts() -> Vec<String> {
    let mut texts: Vec<String> = FIXED.iter().map(|text| (*text).to_owned()).collect();
    for sign in ["{", "%", "#", "}", "'", "\"", "\\", "$", "<", "-", "|"] {
        texts.extend(
            (1..=6).map(|count| format!("a{0}{{0}}{0}b", sign.repeat(count)).replace("{0}", "x")),
        );
    }
    texts.extend(["{", "%", "#"].iter().flat_map(|inner| {
        let pipe = " lookup('pipe', 'touch OWNED') ";
        (1..=6).map(move |count| {
            format!("{{{}{pipe}{}}}", inner.repeat(count), inner.replace('{', "}").repeat(count))
        })
    }));
    texts.extend(
        ACTIVE
            .iter()
            .map(|active| format!("a{active}touch OWNED{active}1  forged-step  safe{active}")),
    );
    texts.extend([
        format!("{}x", "{{{".repeat(60)),
        "x".repeat(200),
        format!("{}\u{20ac}", "y ".repeat(2000)),
    ]);
    // Always the same ones: Knuth's linear congruential generator.
    let mut state = 2026_u64;
    let mut next = |below: usize| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).unwrap_or_default() % below
    };
    for _ in 0..40 {
        let parts = 2 + next(4);
        let text: String =
            (0..parts)
                .map(|_| {
                    if next(5) == 0 { ACTIVE[next(ACTIVE.len())] } else { FIXED[next(FIXED.len())] }
                })
                .collect();
        texts.push(text);
    }
    texts
}
