//! The dashboard of `hugewise serve` in a real browser, while a real pool and a real server change.

mod driver;
mod faces;
mod pictures;

use std::cell::RefCell;

use hugewise_lab::guard::PoolGuard;
use hugewise_model::{PageCount, PageSize};
use hugewise_testkit::require;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::real::harness::{self, text};
use crate::real::postgresql::Cluster;
use crate::real::serve::Served;
use driver::{Browser, key};

const SETTINGS: [&str; 2] = ["--interval", "1"];

/// At a port that nobody is given while the server is away: the kernel gives none of these by
/// itself.
fn served_at_a_port_of_its_own() -> Served {
    let first = 20_000 + std::process::id() % 10_000;
    let mut started = (first..first + 1_000)
        .filter_map(|port| Served::start_at(&format!("127.0.0.1:{port}"), &SETTINGS));
    started.next().expect("a free port")
}

/// The dashboard in a browser.
struct Page {
    browser: Browser,
    /// Every address that it has asked for.
    asked: RefCell<Vec<String>>,
}

impl Page {
    /// Waits until a part of the page has these words in it.
    #[track_caller]
    fn wait_for(&self, selector: &str, words: &str) {
        harness::wait_for(&format!("{words:?} in {selector}"), || {
            self.browser.text(selector).contains(words).then_some(())
        });
    }

    /// Waits until the glance has a pool of 2 MiB pages with so many in it.
    #[track_caller]
    fn wait_for_pool(&self, pages: u64) {
        let script =
            "return [...document.querySelectorAll('#glance div')].map((it) => it.innerText)";
        let expected = format!("{pages} pages");
        harness::wait_for(&format!("a pool of {expected} in the page"), || {
            let facts = strings(&self.browser.run(script));
            facts
                .iter()
                .any(|fact| fact.contains("Pool of 2 MiB") && fact.contains(&expected))
                .then_some(())
        });
    }

    /// The text of the card of an instance.
    fn card(&self, title: &str) -> Option<String> {
        let cards = "[...document.querySelectorAll('#instances article')]";
        let found = format!(
            "{cards}.find((it) => it.querySelector('h3').textContent === {})",
            json!(title)
        );
        self.browser.run(&format!("return {found}?.textContent")).as_str().map(str::to_owned)
    }

    /// What has the focus.
    fn focus(&self) -> String {
        text(&self.browser.run(&format!("{NAMED} return named(document.activeElement)")))
    }

    /// Everything that the keyboard has to reach, in the page's order.
    fn reachable(&self) -> Vec<String> {
        let all = "'a[href], button, input, summary, [tabindex=\"0\"]'";
        let visible =
            format!("[...document.querySelectorAll({all})].filter((it) => it.checkVisibility())");
        strings(&self.browser.run(&format!("{NAMED} return {visible}.map(named)")))
    }

    /// Takes down what was asked for since the last time.
    fn note_requests(&self) {
        self.asked.borrow_mut().extend(self.browser.requests());
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!(
                "the page when it went wrong:\n{}",
                self.browser.try_text("body").unwrap_or_default()
            );
        }
    }
}

/// Says which element it is.
const NAMED: &str = "const named = (it) => [it.tagName, it.id, it.getAttribute('href'), \
     it.getAttribute('aria-label'), \
                     it.closest('details')?.dataset.key].filter(Boolean).join(' ');";

fn strings(value: &Value) -> Vec<String> {
    value.as_array().unwrap().iter().map(text).collect()
}

/// From the page's first link on, Tab goes from one thing to the next and leaves none out.
fn the_keyboard_reaches_everything(page: &Page) {
    // A living host: findings may come and go on the way. Then it is walked again.
    harness::wait_for("the keyboard reaches everything", || {
        let there = page.reachable();
        page.browser.run("document.querySelector('a.skip').focus()");
        let mut reached = vec![page.focus()];
        while reached.len() < there.len() {
            page.browser.press(&[key::TAB]);
            reached.push(page.focus());
        }
        (reached == there && page.reachable() == there).then_some(())
    });
    let details =
        "[...document.querySelectorAll('details')].find((it) => it.dataset.key === kept.key)";
    page.browser.run("window.kept.key = document.querySelector('details').dataset.key");
    harness::wait_for("a finding that is opened by a key", || {
        let state = page.browser.run(&format!(
            "const it = {details}; it?.querySelector('summary').focus(); return it?.open"
        ));
        if state == false {
            page.browser.press(&[key::ENTER]);
        }
        (state == true).then_some(())
    });
}

/// The sliders, moved by keys, tell no fewer pages than the server itself asks for, and their
/// tables agree with each other.
fn what_if_has_numbers(page: &Page, pages: u64) {
    let browser = &page.browser;
    let mut tables = Vec::new();
    for (key, sessions) in [(key::HOME, Some("1 session;")), (key::END, None)] {
        browser.run("document.querySelector('#sessions').focus()");
        browser.press(&[key]);
        let many = browser.text("#sessions-said");
        let said = sessions.map_or_else(|| format!("{many} sessions"), str::to_owned);
        page.wait_for("#answer", &said);
        tables.push(browser.text("#answer .beside > :last-child"));
    }
    for table in &tables {
        let rows: Vec<&str> = table.lines().skip(1).collect();
        assert!(rows.len() >= 2 && rows.iter().all(|row| row.contains("iB\t")), "{table}");
    }
    assert_ne!(tables[0], tables[1]);

    browser.run("document.querySelector('#pages').focus()");
    browser.press(&[key::RIGHT]);
    page.wait_for("#pages-said", "2 MiB");
    // Servers of others may run on this host besides, and may leave too little of its memory.
    let fits = harness::wait_for("an answer in pages of 2 MiB", || {
        let answer = browser.text("#answer");
        if answer.starts_with("Does not fit for ") {
            return answer.contains("iB short.").then_some(None);
        }
        let (carry, rest) = answer.strip_prefix("Fits: ")?.split_once(" pages of 2 MiB")?;
        let (_, left) = rest.split_once("; ")?;
        let (left, _) = left.split_once(" left.")?;
        (carry.replace(',', "").parse::<u64>().ok()? >= pages).then(|| Some(left.to_owned()))
    });
    let Some(left) = fits else { return };
    // One number for what is left: in words, in the table of the memory, in that of the page sizes.
    let dealt = browser.text("#answer .beside > :first-child");
    assert!(dealt.lines().any(|line| line == format!("left\t{left}")), "{left}: {dealt}");
    let by_page = browser.text("#answer .beside > :last-child");
    let row = by_page.lines().find(|line| line.starts_with("2 MiB\t"));
    assert!(row.is_some_and(|row| row.ends_with(&format!("\t{left}"))), "{left}: {by_page}");
}

/// The charts by keys: a stretch of time is chosen, and one cursor goes over all of them.
fn charts_go_by_keys(page: &Page) {
    let browser = &page.browser;
    let pressed = "return document.querySelector('#ranges [aria-pressed=true]').textContent";
    assert_eq!(browser.run(pressed), "1 h");
    browser.run("document.querySelector('#ranges button').focus()");
    browser.press(&[key::ENTER]);
    assert_eq!(browser.run(pressed), "15 min");
    harness::wait_for("two points in time", || {
        (browser.run("return +document.querySelector('#moment').max > 0") == true).then_some(())
    });
    browser.run("document.querySelector('#moment').focus()");
    browser.press(&[key::HOME]);
    // The first of all: its time stands beside, and the cursor of every chart at one place.
    harness::wait_for("the moment without a last reading", || {
        let said = browser.text("#moment-said");
        (!said.is_empty() && !said.contains("last reading")).then_some(())
    });
    let cursors =
        "return [...document.querySelectorAll('.u-cursor-x')].map((it) => it.style.transform)";
    let places = strings(&browser.run(cursors));
    assert!(
        places.len() >= 4 && places.iter().all(|place| *place == places[0] && place.contains("px")),
        "{places:?}"
    );

    // The pointer over one chart has what that one is told of at its place.
    let middle = "const it = document.querySelector('[data-chart=page_tables] .u-over'); \
         it.scrollIntoView({block: 'center'}); \
                  const at = it.getBoundingClientRect(); return [at.left + at.width / 2, at.top + \
         at.height / 2]";
    harness::wait_for("a tooltip", || {
        let at = browser.run(middle);
        browser.point_at(at[0].as_f64()?, at[1].as_f64()?);
        let told = browser.run(
            "return [...document.querySelectorAll('.tip')].filter((it) => \
             it.checkVisibility()).map((it) => it.innerText)",
        );
        let told = strings(&told);
        (told.len() == 1 && told[0].contains("all processes ") && told[0].contains("iB"))
            .then_some(())
    });
    browser.point_at(2.0, 2.0);
}

#[test]
fn the_dashboard_lives_in_a_browser() {
    let cluster = require!(Cluster::debian("postgres"));
    let page = Page { browser: require!(Browser::start()), asked: RefCell::default() };
    // Before the first reading: the charts would begin with the pool that this host has.
    let guard = require!(PoolGuard::take_for_test());
    require!(guard.set_pool(PageSize::MIB_2, PageCount(16)));
    let mut served = served_at_a_port_of_its_own();
    let address = served.address.to_string();

    page.browser.go(&format!("http://{address}/"));
    page.wait_for("#line", "live");
    page.wait_for_pool(16);
    // A page that was loaded anew would not have it.
    page.browser.run("window.kept = {}");
    require!(guard.set_pool(PageSize::MIB_2, PageCount(24)));
    page.wait_for_pool(24);

    // 256 MiB, from where on it is a finding, do not fit into 48 MiB.
    let settings = "huge_pages = try\nshared_buffers = '256MB'";
    cluster.configure(settings);
    let pages = cluster.pages();
    let server = cluster.start(settings);
    let title = format!(
        "postgresql {}",
        text(&harness::check().instance("postgresql", server.pid)["name"])
    );
    harness::wait_for("the server in the page, and why it is on base pages", || {
        let card = page.card(&title)?;
        (card.contains("on base pages") && card.contains("✗ room is broken")).then_some(())
    });
    page.wait_for("#cases", &title);
    page.wait_for("#cases .copied", "hugewise");
    page.wait_for("#moments", &title);
    page.wait_for("#last", "Last reading ");
    page.wait_for("#version", concat!("hugewise ", env!("CARGO_PKG_VERSION")));
    what_if_has_numbers(&page, pages);
    charts_go_by_keys(&page);
    the_keyboard_reaches_everything(&page);
    faces::are_for_everybody(&page.browser, "the dashboard");
    drop(server);
    harness::wait_for("the page without the server", || page.card(&title).is_none().then_some(()));
    page.note_requests();

    assert_eq!(served.end(Signal::TERM), Some(0));
    page.wait_for("#line", "Connection lost. Showing data from ");
    let title =
        || page.browser.run("return document.title").as_str().unwrap_or_default().to_owned();
    assert!(title().starts_with("Connection lost · "), "{}", title());
    require!(guard.set_pool(PageSize::MIB_2, PageCount(8)));
    served = Served::start_at(&address, &SETTINGS).expect("its port again");
    page.wait_for("#line", "live");
    assert!(!title().contains("Connection lost"), "{}", title());
    page.wait_for_pool(8);
    page.wait_for("figure[data-chart=pools]", "2 MiB pool 16 MiB");
    // 24 pages were the most: 48 MiB, in steps that are round in binary.
    let ticks = "return document.querySelector('figure[data-chart=pools]').dataset.ticks";
    assert_eq!(page.browser.run(ticks), "0 B, 16 MiB, 32 MiB, 48 MiB");
    assert!(page.browser.run("return window.kept").is_object());
    page.note_requests();
    drop(guard);
    drop(served);

    let asked = page.asked.borrow();
    for part in ["/", "/script.js", "/style.css", "/api/v1/events", "/api/v1/history"] {
        assert!(asked.contains(&format!("http://{address}{part}")), "{part}: {asked:#?}");
    }
    let elsewhere: Vec<_> =
        asked.iter().filter(|url| !url.starts_with(&format!("http://{address}/"))).collect();
    assert!(elsewhere.is_empty(), "{elsewhere:?}");
}
