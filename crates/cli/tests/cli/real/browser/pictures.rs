//! Each face beside a picture of it that somebody has looked at: from a telephone to a wall, in
//! light, in the dark, on paper.
//!
//! The pictures are a quarter as large as the pages, and every letter in them is a box, so that
//! neither this machine's fonts nor how it draws them makes a difference. What differs is left in
//! target/pictures. `HUGEWISE_BLESS=1` takes them anew: look at them as you would read code.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hugewise_testkit::require;
use serde_json::json;

use super::driver::Browser;
use super::faces::{self, HOST, SHOWN};
use crate::real::harness::{self, HUGEWISE};

const SCALE: f64 = 0.25;
/// As far down as a picture goes: a report ends in the texts of its rules, which are words below
/// words.
const MOST_HEIGHT: u32 = 6000;

/// The share of a picture that may differ: the edges of letters that another version of the browser
/// draws otherwise.
const ALLOWED: f64 = 0.002;

/// Compares two pictures by the mean colours of squares of 4 x 4 points, 16 of the page: what share
/// of them differs by more than a tenth, and the second picture with those marked.
const COMPARE: &str = "
const load = (data) => new Promise((loaded, failed) => {
  const image = new Image();
  image.onload = () => loaded(image);
  image.onerror = () => failed(new Error('no picture'));
  image.src = 'data:image/webp;base64,' + data;
});
Promise.all([BEFORE, NOW].map(load)).then(([before, now]) => {
  const width = Math.max(before.width, now.width), height = Math.max(before.height, now.height);
  const drawn = (image) => {
    const canvas = document.createElement('canvas');
    [canvas.width, canvas.height] = [width, height];
    const context = canvas.getContext('2d');
    context.fillStyle = '#808080';
    context.fillRect(0, 0, width, height);
    context.drawImage(image, 0, 0);
    return context;
  };
  const contexts = [before, now].map(drawn);
  const points = contexts.map((it) => it.getImageData(0, 0, width, height).data);
  const mean = (data, left, top, of) => {
    let sum = 0, count = 0;
    for (let y = top; y < Math.min(top + 4, height); y++)
      for (let x = left; x < Math.min(left + 4, width); x++, count++) sum += data[4 * (y * width + x) + of];
    return sum / count;
  };
  let all = 0, differ = 0;
  const marked = contexts[1];
  marked.fillStyle = '#ff00ff90';
  for (let top = 0; top < height; top += 4) for (let left = 0; left < width; left += 4, all++) {
    const far = [0, 1, 2].some((of) => Math.abs(mean(points[0], left, top, of) - mean(points[1], left, top, of)) > 25.5);
    if (far) { differ++; marked.fillRect(left, top, 4, 4); }
  }
  done([differ / all, marked.canvas.toDataURL('image/png').split(',')[1]]);
}, (error) => done([null, String(error)]));";

fn baselines() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/real/browser/pictures")
}

/// The face as it is opened, at each width and medium; what is not as in its picture.
fn compare(browser: &Browser, face: &str) -> Vec<String> {
    let left = Path::new(HUGEWISE).ancestors().nth(2).unwrap().join("pictures");
    fs::create_dir_all(&left).unwrap();
    let bless = std::env::var_os("HUGEWISE_BLESS").is_some();
    let taken = SHOWN.map(|(width, medium, scheme)| {
        browser.widen(width);
        browser.show_on(medium, scheme);
        // What is drawn anew at a width is drawn at the next frame.
        browser.run_later("requestAnimationFrame(() => requestAnimationFrame(() => done(true)))");
        (format!("{face}-{width}-{medium}-{scheme}"), browser.picture(SCALE, MOST_HEIGHT))
    });
    // The page itself may allow no pictures from elsewhere.
    browser.go("about:blank");
    let mut wrong = Vec::new();
    for (name, now) in taken {
        let baseline = baselines().join(format!("{name}.webp"));
        if bless {
            fs::write(&baseline, STANDARD.decode(&now).unwrap()).unwrap();
            continue;
        }
        let before =
            fs::read(&baseline).unwrap_or_else(|error| panic!("{}: {error}", baseline.display()));
        let before = STANDARD.encode(before);
        let told = browser.run_later(&format!(
            "const BEFORE = {}, NOW = {};{COMPARE}",
            json!(before),
            json!(now)
        ));
        let share = told[0].as_f64().unwrap_or_else(|| panic!("{name}: {told}"));
        if share > ALLOWED {
            let difference = left.join(format!("{name}.png"));
            fs::write(&difference, STANDARD.decode(told[1].as_str().unwrap()).unwrap()).unwrap();
            fs::write(left.join(format!("{name}.webp")), STANDARD.decode(&now).unwrap()).unwrap();
            wrong.push(format!("{name}: {:.1} % differs: {}", 100.0 * share, difference.display()));
        }
    }
    wrong
}

/// What a program prints, which has to be JSON of one line.
fn json_of(words: &[&str]) -> String {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures");
    let mut command = Command::new(HUGEWISE);
    let output = command
        .args(words)
        .args(HOST)
        .args(["--format", "json"])
        .current_dir(fixtures)
        .output()
        .unwrap();
    serde_json::from_slice::<serde_json::Value>(&output.stdout).unwrap().to_string()
}

/// The dashboard of a captured host, as a folder: its server's answers are in the page.
fn dashboard(folder: &Path) -> PathBuf {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../serve/src/http/page");
    for file in ["script.js", "style.css", "icon.svg"] {
        fs::copy(page.join(file), folder.join(file)).unwrap();
    }
    let answers = include_str!("answers.js")
        .replace("CHECK", &json_of(&["check"]))
        .replace("SIZE", &json_of(&["size"]));
    fs::write(folder.join("answers.js"), answers).unwrap();
    let html = fs::read_to_string(page.join("index.html")).unwrap();
    let with_answers = html.replace(
        "<script src=\"script.js\"",
        "<script src=\"answers.js\"></script>\n<script src=\"script.js\"",
    );
    assert_ne!(html, with_answers);
    let file = folder.join("index.html");
    fs::write(&file, with_answers).unwrap();
    file
}

#[test]
fn each_face_is_as_in_its_pictures() {
    let browser = require!(Browser::without_letters());
    let folder = harness::folder();
    let mut wrong = Vec::new();
    browser.widen(1280);
    browser.show_on("screen", "light");
    browser.go(&format!("file://{}", dashboard(folder.path()).display()));
    harness::wait_for("the dashboard with its charts", || {
        let drawn = "return document.querySelectorAll('#charts canvas').length > 3 && \
             document.querySelector('#answer').innerText.length > 50";
        (browser.run(drawn) == true).then_some(())
    });
    wrong.extend(compare(&browser, "dashboard"));
    for (face, words) in [
        ("investigate", &["investigate", "collectors/two-freezes.sar"][..]),
        ("report", &["report", HOST[0], HOST[1], "collectors/two-freezes.sar"]),
    ] {
        faces::open(&browser, folder.path(), words);
        wrong.extend(compare(&browser, face));
    }
    assert!(
        wrong.is_empty(),
        "not as in their pictures (HUGEWISE_BLESS=1 takes them anew):\n{}",
        wrong.join("\n")
    );
}

#[test]
fn the_pictures_are_few_and_small() {
    let sizes: Vec<u64> = fs::read_dir(baselines())
        .unwrap()
        .map(|entry| entry.unwrap().metadata().unwrap().len())
        .collect();
    assert_eq!(
        sizes.len(),
        3 * SHOWN.len(),
        "pictures of faces that are gone, or none of one that is there"
    );
    assert!(sizes.iter().sum::<u64>() < 1 << 20, "{} bytes of pictures", sizes.iter().sum::<u64>());
}
