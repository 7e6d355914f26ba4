//! The dashboard of `hugewise serve` in a real browser, while a real pool and a real server change.

mod driver;

use std::cell::RefCell;

use hugewise_lab::guard::PoolGuard;
use hugewise_lab::require;
use hugewise_model::{PageCount, PageSize};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::harness::{self, text};
use crate::postgresql::Cluster;
use crate::serve::Served;
use driver::{Browser, key};

const SETTINGS: [&str; 2] = ["--interval", "1"];

/// At a port that nobody is given while the server is away: the kernel gives none of these by itself.
fn served_at_a_port_of_its_own() -> Served {
    let first = 20_000 + std::process::id() % 10_000;
    let mut started =
        (first..first + 1_000).filter_map(|port| Served::start_at(&format!("127.0.0.1:{port}"), &SETTINGS));
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
        let script = "return [...document.querySelectorAll('#glance div')].map((it) => it.innerText)";
        let expected = format!("{pages} pages");
        harness::wait_for(&format!("a pool of {expected} in the page"), || {
            let facts = strings(&self.browser.run(script));
            facts.iter().any(|fact| fact.contains("Pool of 2 MiB") && fact.contains(&expected)).then_some(())
        });
    }

    /// The text of the card of an instance.
    fn card(&self, title: &str) -> Option<String> {
        let cards = "[...document.querySelectorAll('#instances article')]";
        let found = format!("{cards}.find((it) => it.querySelector('h3').textContent === {})", json!(title));
        self.browser.run(&format!("return {found}?.textContent")).as_str().map(str::to_owned)
    }

    /// What has the focus.
    fn focus(&self) -> String {
        text(&self.browser.run(&format!("{NAMED} return named(document.activeElement)")))
    }

    /// Everything that the keyboard has to reach, in the page's order.
    fn reachable(&self) -> Vec<String> {
        let all = "'a[href], button, input, summary, [tabindex=\"0\"]'";
        let visible = format!("[...document.querySelectorAll({all})].filter((it) => it.checkVisibility())");
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
            eprintln!("the page when it went wrong:\n{}", self.browser.try_text("body").unwrap_or_default());
        }
    }
}

/// Says which element it is.
const NAMED: &str = "const named = (it) => [it.tagName, it.id, it.getAttribute('href'), it.getAttribute('aria-label'), \
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
    let details = "[...document.querySelectorAll('details')].find((it) => it.dataset.key === kept.key)";
    page.browser.run("window.kept.key = document.querySelector('details').dataset.key");
    harness::wait_for("a finding that is opened by a key", || {
        let state =
            page.browser.run(&format!("const it = {details}; it?.querySelector('summary').focus(); return it?.open"));
        if state == false {
            page.browser.press(&[key::ENTER]);
        }
        (state == true).then_some(())
    });
}

/// The sliders, moved by keys, tell no fewer pages than the server itself asks for, and what more sessions take.
fn what_if_has_numbers(page: &Page, pages: u64) {
    let browser = &page.browser;
    browser.run("document.querySelector('#sessions').focus()");
    browser.press(&[key::HOME, key::RIGHT, key::RIGHT]);
    page.wait_for("#sessions-said", "2");
    page.wait_for("#answer", "2 sessions");
    let few = browser.text("#answer table");
    browser.press(&[key::END]);
    page.wait_for("#sessions-said", "10,000");
    page.wait_for("#answer", "10,000 sessions");
    let many = browser.text("#answer table");
    for (table, sessions) in [(&few, "\t2\t"), (&many, "\t10,000\t")] {
        let rows: Vec<&str> = table.lines().skip(1).collect();
        assert!(rows.len() >= 2 && rows.iter().all(|row| row.contains(sessions) && row.contains("iB\t")), "{table}");
    }
    assert_ne!(few, many);

    browser.press(&[key::HOME]);
    page.wait_for("#sessions-said", "as now");
    browser.run("document.querySelector('#pages').focus()");
    browser.press(&[key::RIGHT]);
    page.wait_for("#pages-said", "2 MiB");
    // Servers of others may run on this host besides, and may leave too little of its memory.
    harness::wait_for("an answer in pages of 2 MiB", || {
        let answer = browser.text("#answer");
        if answer.starts_with("Does not fit, for ") {
            return answer.contains("iB are missing.").then_some(());
        }
        let (carry, _) = answer.strip_prefix("Fits: ")?.split_once(" pages of 2 MiB")?;
        (carry.replace(',', "").parse::<u64>().ok()? >= pages).then_some(())
    });
}

#[test]
fn the_dashboard_lives_in_a_browser() {
    let cluster = require!(Cluster::debian("postgres"));
    let page = Page { browser: require!(Browser::start()), asked: RefCell::default() };
    let mut served = served_at_a_port_of_its_own();
    let address = served.address.to_string();
    let guard = require!(PoolGuard::take());
    require!(guard.set_pool(PageSize::MIB_2, PageCount(16)));

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
    let title = format!("postgresql {}", text(&harness::check().instance("postgresql", server.pid)["name"]));
    harness::wait_for("the server in the page, and why it is on base pages", || {
        let card = page.card(&title)?;
        (card.contains("on base pages") && card.contains("Next boot") && card.contains("✗ room is broken"))
            .then_some(())
    });
    page.wait_for("#findings", &title);
    what_if_has_numbers(&page, pages);
    the_keyboard_reaches_everything(&page);
    drop(server);
    harness::wait_for("the page without the server", || page.card(&title).is_none().then_some(()));
    page.note_requests();

    assert_eq!(served.end(Signal::TERM), Some(0));
    page.wait_for("#line", "Connection lost");
    require!(guard.set_pool(PageSize::MIB_2, PageCount(8)));
    served = Served::start_at(&address, &SETTINGS).expect("its port again");
    page.wait_for("#line", "live");
    page.wait_for_pool(8);
    page.wait_for("figure[data-chart=pools]", "2 MiB pool 16.0 MiB");
    assert!(page.browser.run("return window.kept").is_object());
    page.note_requests();
    drop(guard);
    drop(served);

    let asked = page.asked.borrow();
    for part in ["/", "/script.js", "/style.css", "/api/v1/events", "/api/v1/history"] {
        assert!(asked.contains(&format!("http://{address}{part}")), "{part}: {asked:#?}");
    }
    let elsewhere: Vec<_> = asked.iter().filter(|url| !url.starts_with(&format!("http://{address}/"))).collect();
    assert!(elsewhere.is_empty(), "{elsewhere:?}");
}
