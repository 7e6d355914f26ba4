//! Pages as others than their makers meet them: with a screen reader, in the dark, on a telephone,
//! on a wall, on paper.

use std::fs;
use std::path::Path;

use hugewise_testkit::{Skip, require};
use serde_json::{Value, json};

use super::driver::{Browser, key};
use crate::real::harness::{self, HUGEWISE, text};

/// From a telephone to a wall; on paper as wide as A4 is.
pub(super) const SHOWN: [(u32, &str, &str); 7] = [
    (390, "screen", "light"),
    (390, "screen", "dark"),
    (1280, "screen", "light"),
    (1280, "screen", "dark"),
    (2560, "screen", "light"),
    (2560, "screen", "dark"),
    (794, "print", "light"),
];

fn axe() -> Result<String, Skip> {
    let target = Path::new(HUGEWISE).ancestors().nth(2).unwrap();
    let path = target.join("tools/axe/node_modules/axe-core/axe.min.js");
    fs::read_to_string(&path)
        .map_err(|error| Skip(format!("{}: {error}; cargo xtask test installs it", path.display())))
}

/// At each width, in light, in the dark and on paper: axe-core finds nothing, and nothing is wider
/// than the page.
pub(super) fn are_for_everybody(browser: &Browser, name: &str) {
    let axe = require!(axe());
    for (width, medium, scheme) in SHOWN {
        browser.widen(width);
        browser.show_on(medium, scheme);
        let found = browser.run_later(&format!(
            "{axe}; axe.run(document, {{resultTypes: ['violations']}}).then((it) => \
                     done(it.violations.map((of) => \
                 [of.id, of.help, of.nodes.slice(0, 3).map((node) => [node.html.slice(0, 200), \
                     node.failureSummary])])));"
        ));
        assert_eq!(found, json!([]), "{name} at {width} on {medium}, {scheme}: {found:#}");
        let wide = browser.run("return [document.documentElement.scrollWidth, innerWidth]");
        assert!(wide[0].as_u64() <= wide[1].as_u64(), "{name} at {width} on {medium}: {wide}");
    }
    browser.widen(1280);
    browser.show_on("screen", "light");
}

/// Writes a page, and opens it as a file.
pub(super) fn open(browser: &Browser, folder: &Path, words: &[&str]) {
    let fixtures =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").canonicalize().unwrap();
    let mut command = std::process::Command::new(HUGEWISE);
    let output =
        command.args(words).args(["--format", "html"]).current_dir(fixtures).output().unwrap();
    assert!(!output.stdout.is_empty(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    let file = folder.join("page.html");
    fs::write(&file, output.stdout).unwrap();
    browser.go(&format!("file://{}", file.display()));
}

pub(super) const HOST: [&str; 2] = ["--root", "hosts/oracle-many-sessions"];

#[test]
fn pages_are_for_everybody() {
    let browser = require!(Browser::start());
    let folder = harness::folder();
    let report = ["report", HOST[0], HOST[1], "collectors/two-freezes.sar"];
    let investigate = ["investigate", "collectors/two-freezes.sar"];
    for words in [
        &report[..],
        &["check", HOST[0], HOST[1]],
        &["size", HOST[0], HOST[1]],
        &["verify", HOST[0], HOST[1]],
        &investigate,
    ] {
        open(&browser, folder.path(), words);
        are_for_everybody(&browser, words[0]);
    }
}

#[test]
fn a_report_is_moved_and_copied_from_by_keys() {
    let browser = require!(Browser::start());
    let folder = harness::folder();
    open(&browser, folder.path(), &["report", HOST[0], HOST[1]]);
    let row = |at: &str| {
        browser.run(&format!(
            "return [...document.querySelectorAll('.stops tbody tr')].at({at}).dataset.says"
        ))
    };
    browser.run("document.querySelector('#sessions').focus()");
    for (key, at) in [(key::HOME, "0"), (key::END, "-1"), (key::HOME, "0"), (key::RIGHT, "1")] {
        browser.press(&[key]);
        assert_eq!(browser.text(".slider output"), text(&row(at)));
        let chosen = "return [...document.querySelectorAll('.stops tr')].filter((it) => \
             it.matches('.chosen')).length";
        assert_eq!(browser.run(chosen), 1);
    }
    // The picture has the row's shares.
    let shares = "const rows = document.querySelectorAll('.stops tbody tr'); return \
         [rows[1].dataset.parts, \
                  [...document.querySelectorAll('.slider > svg rect')].map((it) => \
         it.getAttribute('width')).join(' ')]";
    let shares: Value = browser.run(shares);
    assert_eq!(shares[0], shares[1]);

    browser.run("document.querySelector('header [data-copy]').focus()");
    browser.press(&[key::ENTER]);
    harness::wait_for("what was copied", || {
        (browser.text("header [data-copy]") == "Copied").then_some(())
    });
    // On paper nothing stands that only a screen is for.
    browser.show_on("print", "light");
    let shown = "return [...document.querySelectorAll('nav, button, .slider')].filter((it) => \
         it.checkVisibility()).length";
    assert_eq!(browser.run(shown), 0);
}

/// Of every chart: no label of the times is cut, and a legend that says what was at a moment moves
/// nothing.
#[test]
fn charts_of_an_investigation_stand_still_and_are_whole() {
    let browser = require!(Browser::start());
    let folder = harness::folder();
    for width in [390, 1280] {
        browser.widen(width);
        open(&browser, folder.path(), &["investigate", "collectors/two-freezes.sar"]);
        let tops = "const tops = () => [...document.querySelectorAll('svg.time')].map((it) => \
             it.getBoundingClientRect().top + scrollY);";
        let moved = browser.run(&format!(
            "{tops} const before = tops(), svg = document.querySelector('svg.time'), edge = \
                 svg.getBoundingClientRect(); \
             svg.dispatchEvent(new PointerEvent('pointermove', {{clientX: edge.left + edge.width \
                 / 2, clientY: edge.top + 50}})); \
             const said = document.querySelector('.legend .then')?.innerText, after = tops(); \
             svg.dispatchEvent(new PointerEvent('pointerleave')); \
             return [Boolean(said), before.length, before.every((top, at) => top === after[at])]"
        ));
        assert_eq!((&moved[0], &moved[2]), (&json!(true), &json!(true)), "at {width}: {moved}");
        assert!(moved[1].as_u64() > Some(2), "{moved}");
        let cut = browser.run(
            "return [...document.querySelectorAll('svg.time')].flatMap((svg) => \
                 { const edge = svg.getBoundingClientRect(); \
             return [...svg.querySelectorAll('text')].filter((it) => { const at = it.getBoundingClientRect(); \
             return at.left < edge.left - 1 || at.right > edge.right + 1; }).map((it) => it.textContent); })",
        );
        assert_eq!(cut, json!([]), "at {width}");
        // On a telephone the charts come first.
        let first = browser.run("return document.querySelector('.charts').getBoundingClientRect().top < document.querySelector('.words').getBoundingClientRect().top");
        assert_eq!(first, width < 1000, "at {width}");
        // What is to be shown in the charts is seen then.
        browser.run(
            "document.querySelector('.incident button').focus({preventScroll: true}); \
             scrollTo(0, 1e6)",
        );
        browser.press(&[key::ENTER]);
        harness::wait_for("the first chart in sight", || {
            let seen = "const at = document.querySelector('svg.time').getBoundingClientRect(); \
                 return at.top >= 0 && at.bottom <= innerHeight";
            (browser.run(seen) == true).then_some(())
        });
    }
}
