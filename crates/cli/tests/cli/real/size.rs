//! `hugewise size` of servers that are down: with the pages that it says they start wholly on huge
//! pages, with one less they do not.

use std::process::Command;

use hugewise_lab::guard::PoolGuard;
use hugewise_model::{PageCount, PageSize};
use hugewise_testkit::require;
use serde_json::Value;

use crate::real::harness::{self, MIB, kernel, text};
use crate::real::postgresql::Cluster;
use crate::real::{jvm, mariadb, oracle};

/// Pages of 2 MiB that size says for what is described so, alone.
pub(crate) fn pages(described: &[&str]) -> u64 {
    let mut command = Command::new(harness::HUGEWISE);
    let output = command
        .args(["size", "--format", "json", "--only-described"])
        .args(described)
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    let sized: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {errors}"));
    assert_eq!(sized["schema"], "hugewise.size/1");
    let instances = sized["instances"].as_array().expect("instances");
    assert_eq!(instances.len(), 1, "{sized:#}");
    assert_eq!(instances[0]["page_bytes"], 2 * MIB, "{sized:#}");
    instances[0]["demand_pages"].as_u64().expect("demand_pages")
}

fn exact(cluster: &Cluster) {
    let guard = require!(PoolGuard::take_for_test());
    let settings = "shared_buffers = 1GB\nhuge_pages = on";
    cluster.configure(settings);
    let data = cluster.data();
    let program = cluster.program("postgres");
    let described = ["--engine", "postgresql", "--data-dir", data.to_str().unwrap()];
    let needed = pages(&[&described[..], &["--server-binary", program.to_str().unwrap()]].concat());

    require!(guard.set_pool(PageSize::MIB_2, PageCount(needed)));
    let server = cluster.start(settings);
    let (huge, _) = kernel::large_mappings(server.pid, 512 * MIB);
    assert_eq!(huge, needed * 2 * MIB);
    drop(server);

    require!(guard.set_pool(PageSize::MIB_2, PageCount(needed - 1)));
    let refused = cluster.command("postgres").arg("-D").arg(&data).output().unwrap();
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(
        !refused.status.success() && said.contains("could not map anonymous shared memory"),
        "{said}"
    );
}

#[test]
fn postgresql_15_of_debian() {
    exact(&require!(Cluster::debian("postgres")));
}

#[test]
fn postgresql_18_of_the_registry() {
    exact(&require!(Cluster::registry("postgres")));
}

/// Bytes on huge pages with a pool of so many pages.
fn java_on(guard: &PoolGuard, pages: u64) -> Result<u64, hugewise_testkit::Skip> {
    guard.set_pool(PageSize::MIB_2, PageCount(pages))?;
    let folder = harness::folder();
    let server = jvm::start(&folder, &["-XX:+UseLargePages"])?;
    Ok(kernel::large_mappings(server.pid, MIB).0)
}

#[test]
fn a_java_virtual_machine() {
    let guard = require!(PoolGuard::take_for_test());
    let needed = pages(
        &[&["--engine", "jvm", "--", "java"], jvm::HEAP_ARGUMENTS, &["-XX:+UseLargePages"]]
            .concat(),
    );
    let whole = require!(java_on(&guard, needed + 200));
    assert_eq!(whole, needed * 2 * MIB);
    assert_eq!(require!(java_on(&guard, needed)), whole);
    assert!(require!(java_on(&guard, needed - 1)) < whole);
}

/// Where the kernel does not put the buffer pool at a multiple of 8 MiB, MariaDB asks for it anew,
/// with up to 10 MiB more.
const BY_CHANCE: u64 = 5;

/// With the pages that size says every start is wholly on huge pages; with fewer than the luckiest
/// one takes, none is.
#[test]
fn a_mariadb_server() {
    let installed = require!(mariadb::Installed::new());
    let guard = require!(PoolGuard::take_for_test());
    for (pool, least) in [("64M", 163), ("101M", 183), ("128M", 195), ("256M", 259), ("1G", 643)] {
        let settings = format!("large-pages\ninnodb_buffer_pool_size={pool}");
        installed.configure(&settings);
        let config = installed.config();
        let needed = pages(&["--engine", "mariadb", "--config", config.to_str().unwrap()]);
        assert_eq!(needed, least + BY_CHANCE, "{pool}");
        let on = |pages| {
            guard.set_pool(PageSize::MIB_2, PageCount(pages))?;
            let server = installed.start(&settings);
            // Its one stretch may be several mappings: what is kept out of core dumps is one of its
            // own.
            let huge = kernel::large_mappings(server.pid, 2 * MIB).0 / (2 * MIB);
            Ok::<_, hugewise_testkit::Skip>((
                huge,
                text(&harness::check().instance("mariadb", server.pid)["huge_pages"]),
            ))
        };
        for _ in 0..4 {
            let (huge, said) = require!(on(needed));
            assert!((least..=needed).contains(&huge), "{pool}: {huge} of {needed} pages");
            assert_eq!(said, "all", "{pool}: {huge} of {needed} pages");
        }
        for _ in 0..2 {
            let (huge, said) = require!(on(least - 1));
            assert!(huge < least && said != "all", "{pool}: {huge} of {} pages, {said}", least - 1);
        }
    }
}

#[test]
fn a_segment_of_an_odd_size() {
    let guard = require!(PoolGuard::take_for_test());
    let needed = pages(&["--segment", "314572801B"]);
    // 300 MiB are 150 pages, and there is one byte more.
    assert_eq!(needed, 151);
    require!(guard.set_pool(PageSize::MIB_2, PageCount(needed)));
    let arguments = ["--segments", "314572801", "--pages", "2M", "--fall-back", "--touch", "0"];
    let fits = oracle::Oracle::start("ODD", "", &arguments);
    let (huge, _) = kernel::large_mappings(fits.pid, MIB);
    assert_eq!(huge, needed * 2 * MIB);
    drop(fits);
    require!(guard.set_pool(PageSize::MIB_2, PageCount(needed - 1)));
    let short = oracle::Oracle::start("ODD", "", &arguments);
    assert_eq!(kernel::large_mappings(short.pid, MIB).0, 0);
}
