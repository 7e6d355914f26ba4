//! System V segments of odd sizes, as the stand-in takes them.

use std::ffi::OsString;
use std::fs;
use std::process::Command;

use hugewise_model::{Bytes, PageSize};
use rustix::process::Signal;

use super::server::{self, Server, Start};
use super::{Case, Cases};
use hugewise_testkit::tools::{Failure, programs};

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// A server with these segments.
struct Segments {
    sizes: Vec<u64>,
    page: PageSize,
    folder: tempfile::TempDir,
}

pub(super) fn cases(quick: bool) -> Result<Cases, Failure> {
    let two: &[&[u64]] = &[
        &[300 * MIB + 1],
        &[2 * MIB + 1],
        &[GIB - 4096],
        &[GIB],
        &[335_544_421],
        &[18 * MIB, 333_333_333, 7 * MIB + 4096],
        &[2_684_354_559],
    ];
    let giant: &[&[u64]] = &[&[GIB], &[GIB + 1], &[1_500_000_001, 300 * MIB]];
    let all = two
        .iter()
        .map(|sizes| (sizes, PageSize::MIB_2))
        .chain(giant.iter().map(|sizes| (sizes, PageSize::GIB_1)));
    let wanted = all.take(if quick { 2 } else { usize::MAX });
    wanted
        .map(|(sizes, page)| {
            let case = Segments { sizes: sizes.to_vec(), page, folder: server::folder()? };
            Ok(Box::new(case) as Box<dyn Case>)
        })
        .collect()
}

impl Case for Segments {
    fn engine(&self) -> String {
        "System V".to_owned()
    }

    fn settings(&self) -> String {
        let sizes: Vec<String> = self.sizes.iter().map(u64::to_string).collect();
        format!("{} bytes", sizes.join(" + "))
    }

    fn page(&self) -> PageSize {
        self.page
    }

    fn memory(&self) -> Bytes {
        Bytes(self.sizes.iter().sum())
    }

    fn all_or_nothing(&self) -> bool {
        true
    }

    fn describe(&self) -> Result<Vec<OsString>, Failure> {
        Ok(self
            .sizes
            .iter()
            .flat_map(|size| ["--segment".into(), format!("{size}B").into()])
            .collect())
    }

    fn start(&self, huge: bool) -> Result<Start, Failure> {
        let sizes: Vec<String> = self.sizes.iter().map(u64::to_string).collect();
        let program = programs::built_standin();
        let pages = match (huge, self.page) {
            (false, _) => "base",
            (true, PageSize::GIB_1) => "1G",
            (true, _) => "2M",
        };
        let mut command = Command::new(program);
        command.args(["--as", "oracle:ODD", "--touch", "0", "--sessions", "1", "--pages", pages]);
        command.args(["--segments", &sizes.join(",")]);
        let log = self.folder.path().join("log");
        Server::start(&mut command, &log, Signal::TERM, |pid| {
            let ready =
                fs::read_to_string(&log).is_ok_and(|text| text.lines().any(|line| line == "ready"));
            // The stand-in itself maps nothing once its sessions do.
            server::children(pid).first().copied().filter(|_| ready)
        })
    }
}
