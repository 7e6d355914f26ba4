//! What a run costs. In a process of its own: the kernel counts what the parent had resident before
//! the program was there, and other tests have much.
#![allow(clippy::unwrap_used, reason = "a test stops where this machine is not as expected")]

use std::process::Command;
use std::time::Duration;

use hugewise_model::Bytes;
use hugewise_testkit::measure;

#[test]
fn a_run_has_its_code_time_and_memory() {
    let cost = measure::run(Command::new("sh").args(["-c", "sleep 0.05; exit 7"])).unwrap();
    assert_eq!(cost.code, Some(7));
    assert!(cost.wall >= Duration::from_millis(50));
    assert!(cost.busy > Duration::ZERO && cost.busy < Duration::from_secs(60));
    assert!(cost.peak > Bytes::from_kib(100) && cost.peak < Bytes::from_mib(100), "{}", cost.peak);
    assert!(measure::run(&mut Command::new("/nowhere")).is_err());
}
