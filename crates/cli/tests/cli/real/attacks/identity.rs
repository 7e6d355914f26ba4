//! Who calls himself a server.

use std::fs;
use std::process::{Command, Output, Stdio};

use hugewise_lab::guard::PoolGuard;
use hugewise_testkit::require;
use serde_json::Value;

use super::{Attacker, Fake, Looks};
use crate::real::harness::{self, HUGEWISE};
use crate::real::namespace::{self, State, assert_same};

fn run(arguments: &[&str]) -> Output {
    Command::new(HUGEWISE).args(arguments).stdin(Stdio::null()).output().unwrap()
}

fn text(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

/// The plan of this machine, with these options.
#[track_caller]
fn plan(options: &[&str]) -> Value {
    let output = run(&[&["plan", "--format", "json"], options].concat());
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", text(&output)))
}

/// Asserts that a plan changes nothing on the word of a stranger.
#[track_caller]
fn assert_nothing(plan: &Value) {
    assert_eq!(plan["steps"].as_array().map(Vec::len), Some(0), "{plan:#}");
    assert_eq!(plan["instructions"].as_array().map(Vec::len), Some(0), "{plan:#}");
    assert!(plan["refusal"].is_null(), "{plan:#}");
}

#[test]
fn an_untouched_segment_gets_no_pool() {
    if !require!(namespace::inside("attacks::identity::an_untouched_segment_gets_no_pool")) {
        return;
    }
    let _guard = require!(PoolGuard::take_for_test());
    let attacker = require!(Attacker::new());
    let data = attacker.postgresql("data", "shared_buffers = 12GB\nhuge_pages = try\n");
    let fake = require!(Fake::postgres(&attacker, &data, 12 << 10, 4));
    assert_nothing(&plan(&[]));
    let before = State::etc();
    assert_eq!(run(&["apply", "--yes"]).status.code(), Some(0));
    assert_same(&before, &State::etc());

    // It is shown, marked, and gives no command but the one that names it.
    let shown = text(&run(&["check", "-v"]));
    assert!(shown.contains("nothing vouches for it (user 4242, no system service)"), "{shown}");
    let handle = format!("pid {}'", fake.pid);
    assert!(
        shown.contains("hugewise plan --instance 'postgresql ") && shown.contains(&handle),
        "{shown}"
    );
    assert!(!shown.contains("nr_hugepages="), "{shown}");
    let checked = harness::check();
    let instance = checked.instance("postgresql", fake.pid);
    assert_eq!(instance["vouched_by"], Value::Array(Vec::new()), "{instance:#}");
    assert!(instance["touched_bytes"].as_u64().unwrap() < 64 << 20, "{instance:#}");
    let sized = text(&run(&["size"]));
    assert!(
        sized.contains("nothing to size") || sized.contains("nothing vouches for it"),
        "{sized}"
    );
}

#[test]
fn any_program_that_shares_memory_is_no_server_for_root() {
    if !require!(namespace::inside(
        "attacks::identity::any_program_that_shares_memory_is_no_server_for_root"
    )) {
        return;
    }
    let _guard = require!(PoolGuard::take_for_test());
    let attacker = require!(Attacker::new());
    let directory = attacker.home();
    let looks = |program, arguments, memory| Looks {
        program,
        arguments,
        directory,
        memory,
        mapped: 3000,
        touched: 700,
    };
    let servers: [(&str, &[&str]); 8] = [
        ("batch", &[]),
        ("mysqld", &["--large-pages"]),
        ("mariadbd", &["--large-pages=ON"]),
        ("ora_pmon_PROD", &[]),
        ("mongod", &[]),
        ("redis-server", &[]),
        ("java", &["-XX:+UseLargePages", "-Xmx2g", "-jar", "app.jar"]),
        (
            "qemu-system-x86_64",
            &["-m", "2G", "-object", "memory-backend-memfd,id=m,size=2G,hugetlb=on"],
        ),
    ];
    for memory in ["anon", "sysv"] {
        let mut fakes = Vec::new();
        for (program, arguments) in servers {
            fakes.push(require!(Fake::start(&attacker, &looks(program, arguments, memory))));
        }
        for options in
            [&[][..], &["--shrink"], &["--early"], &["--only", "boot"], &["--page-size", "2M"]]
        {
            assert_nothing(&plan(options));
        }
    }
}

#[test]
fn a_stranger_gets_neither_a_group_nor_a_limit() {
    if !require!(namespace::inside(
        "attacks::identity::a_stranger_gets_neither_a_group_nor_a_limit"
    )) {
        return;
    }
    let guard = require!(PoolGuard::take_for_test());
    require!(guard.set_pool(hugewise_model::PageSize::MIB_2, hugewise_model::PageCount(300)));
    let attacker = require!(Attacker::new());
    // As it is without him: nothing but what is told of the pool.
    let told = |plan: &serde_json::Value| (plan["steps"].clone(), plan["instructions"].clone());
    let before = told(&plan(&[]));
    assert_eq!(before.0, serde_json::json!([]));
    let looks = Looks {
        program: "ora_pmon_PROD",
        arguments: &[],
        directory: attacker.home(),
        memory: "sysv",
        mapped: 500,
        touched: 500,
    };
    let fake = require!(Fake::start(&attacker, &looks));
    assert_eq!(told(&plan(&[])), before);
    let shown = text(&run(&["check", "-v"]));
    for command in [
        "sysctl -w vm.hugetlb_shm_group",
        "'vm.hugetlb_shm_group",
        "memlock unlimited",
        "usermod",
        "limits.d/99",
    ] {
        assert!(!shown.contains(command), "{command}:\n{shown}");
    }

    // The same as nobody: by name it is planned for, and his group is still nobody's to give.
    drop(fake);
    let nobody = require!(harness::User::named("nobody"));
    let fake = require!(Fake::start_by(&attacker, &looks, |program| nobody.command(program)));
    assert_eq!(told(&plan(&[])), before);
    let named = plan(&["--instance", &format!("oracle PROD pid {}", fake.pid)]);
    let written = named["steps"].to_string();
    assert!(!written.contains("hugetlb_shm_group") && !written.contains("65534"), "{named:#}");
}

#[test]
fn a_claim_that_no_host_can_meet_blocks_nobodys_plan() {
    if !require!(namespace::inside(
        "attacks::identity::a_claim_that_no_host_can_meet_blocks_nobodys_plan"
    )) {
        return;
    }
    let cluster = require!(crate::real::postgresql::Cluster::debian("postgres"));
    let _guard = require!(PoolGuard::take_for_test());
    let server = cluster.start("shared_buffers = 600MB\n");
    let alone = plan(&[]);
    assert!(
        alone["refusal"].is_null() && alone["steps"].as_array().unwrap().len() > 1,
        "{alone:#}"
    );
    let attacker = require!(Attacker::new());
    let data = attacker.postgresql("data", "shared_buffers = 200GB\nhuge_pages = on\n");
    let _fake = require!(Fake::postgres(&attacker, &data, 200 << 10, 4));
    let both = plan(&[]);
    assert_eq!(both["steps"], alone["steps"], "{both:#}");
    assert!(both["refusal"].is_null(), "{both:#}");
    assert!(
        both["warnings"].to_string().contains("is left out: nothing vouches for it"),
        "{both:#}"
    );
    drop(server);
}

#[test]
fn whoever_takes_a_servers_name_does_not_take_its_place() {
    if !require!(namespace::inside(
        "attacks::identity::whoever_takes_a_servers_name_does_not_take_its_place"
    )) {
        return;
    }
    let cluster = require!(crate::real::postgresql::Cluster::debian("postgres"));
    let _guard = require!(PoolGuard::take_for_test());
    let server = cluster.start("shared_buffers = 600MB\ncluster_name = 'prod'\n");
    let name = harness::text(&harness::check().instance("postgresql", server.pid)["name"]);
    let alone = plan(&["--instance", &name]);
    assert!(!alone["steps"].as_array().unwrap().is_empty(), "{alone:#}");

    let attacker = require!(Attacker::new());
    let mut fakes = Vec::new();
    for (at, takes) in
        [name.clone(), name.clone(), format!("{name} pid {}", server.pid)].into_iter().enumerate()
    {
        let settings = format!("cluster_name = '{takes}'\nport = {takes}\nshared_buffers = 3GB\n");
        let data = attacker.postgresql(&format!("{at}/{name}"), &settings);
        fakes.push(require!(Fake::postgres(&attacker, &data, 3000, 300)));
    }
    let checked = harness::check();
    assert_eq!(harness::text(&checked.instance("postgresql", server.pid)["name"]), name);
    for asked in [
        name.clone(),
        format!("postgresql {name}"),
        format!("postgresql {name} pid {}", server.pid),
    ] {
        assert_eq!(plan(&["--instance", &asked])["steps"], alone["steps"], "{asked}");
    }
    // One that only a stranger has is acted on by its pid alone.
    let settings = "cluster_name = 'other'\nport = 7777\nshared_buffers = 3GB\n";
    let data = attacker.postgresql("other", settings);
    let fake = require!(Fake::postgres(&attacker, &data, 3000, 300));
    let own = harness::text(&harness::check().instance("postgresql", fake.pid)["name"]);
    let refused = run(&["plan", "--instance", &own]);
    assert_eq!(refused.status.code(), Some(2), "{}", text(&refused));
    assert!(text(&refused).contains(&format!("pid {}", fake.pid)), "{}", text(&refused));
    let handle = format!("postgresql {own} pid {}", fake.pid);
    assert_ne!(plan(&["--instance", &handle])["steps"].as_array().map(Vec::len), Some(0));
}

/// A set-user-ID program under a server's name runs as root, with a working directory and arguments
/// of its caller's.
#[test]
fn a_program_that_becomes_root_is_not_roots() {
    if !require!(namespace::inside("attacks::identity::a_program_that_becomes_root_is_not_roots")) {
        return;
    }
    let _guard = require!(PoolGuard::take_for_test());
    let attacker = require!(Attacker::new());
    let data = attacker.postgresql("data", "shared_buffers = 2GB\nhuge_pages = on\n");
    // What `su` under that name would be while it waits for a password, with memory of its own.
    let program = require!(attacker.program("suid/postgres"));
    std::os::unix::fs::chown(&program, Some(0), Some(0)).unwrap();
    fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o4755)).unwrap();
    let arguments = ["-D", data.to_str().unwrap()];
    let looks = Looks {
        program: "suid/postgres",
        arguments: &arguments,
        directory: &data,
        memory: "anon",
        mapped: 2200,
        touched: 300,
    };
    let fake = require!(Fake::start(&attacker, &looks));
    let status = fs::read_to_string(format!("/proc/{}/status", fake.pid)).unwrap();
    assert!(status.contains("Uid:\t4242\t0\t0\t0"), "{status}");
    assert_nothing(&plan(&[]));
}
