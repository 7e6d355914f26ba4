//! Hosts that are made, each another.

use std::fs::File;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use hugewise_testkit::oracle_fixtures::{
    Database, Distribution, FixtureEntry, FixtureMachine, FixtureMemlock, OracleFixture,
    ParameterStore, SgaPages, gib_to_bytes, mib_to_bytes,
};

use hugewise_testkit::tools::Failure;

/// Writes a capture of the host of that number: no two are alike.
pub(super) fn write(number: u32, file: &Path) -> Result<(), Failure> {
    let mut tar = tar::Builder::new(GzEncoder::new(File::create(file)?, Compression::fast()));
    for (path, entry) in host(number).make_files().map_err(|error| error.to_string())?.iter() {
        let at = format!("hugewise-capture{path}");
        let mut header = tar::Header::new_gnu();
        match entry {
            FixtureEntry::File(bytes) => {
                header.set_size(u64::try_from(bytes.len())?);
                header.set_mode(0o600);
                tar.append_data(&mut header, at, bytes.as_slice())?;
            }
            FixtureEntry::Link(target) => {
                header.set_entry_type(tar::EntryType::Symlink);
                header.set_size(0);
                tar.append_link(&mut header, at, target)?;
            }
        }
    }
    tar.into_inner()?.finish()?;
    Ok(())
}

/// Distribution, memory, servers, sessions, pages, pool and settings go by the number, each at its
/// own pace.
fn host(number: u32) -> OracleFixture {
    // Steps that share no divisor with what they go through.
    let pick = |step: u32, other_number: u32| {
        (number / 3).wrapping_mul(step).wrapping_add(number) % other_number
    };
    let distribution = match pick(7, 5) {
        0 => Distribution::RedHat5,
        1 => Distribution::RedHat6,
        2 => Distribution::OracleLinux7,
        3 => Distribution::Sles11,
        _ => Distribution::OracleLinux8,
    };
    let memory_gib = 16_u32 << pick(5, 4);
    let servers = 1 + pick(11, 3);
    let sga_mib =
        u64::from(memory_gib) * 1024 / 4 / u64::from(servers) - 64 * u64::from(pick(13, 7));
    let is_huge = pick(3, 3) == 0;
    let databases = (0..servers).map(|server| Database {
        pages: if is_huge { SgaPages::Huge } else { SgaPages::Base },
        kept: if pick(17, 2) == 0 { ParameterStore::Spfile } else { ParameterStore::Pfile },
        ..Database::new(&format!("P{server}"), if pick(19, 2) == 0 { "11.2.0.4" } else { "19.0.0" })
            .with_sga(mib_to_bytes(sga_mib))
            .with_sessions(10 + pick(23, 60), gib_to_bytes(1) / (1 + u64::from(pick(29, 8))))
    });
    let pages = u64::from(servers) * (sga_mib / 2 + 4);
    let machine = FixtureMachine {
        processors: 4 << pick(31, 4),
        pool: if is_huge { pages + u64::from(pick(37, 3)) * 512 } else { 0 },
        pool_at_boot: is_huge.then_some(pages),
        log_in_memlock: (pick(41, 2) == 0).then_some(FixtureMemlock::Unlimited),
        ..FixtureMachine::new(&format!("db{number:06}"), distribution, u64::from(memory_gib) << 20)
    };
    OracleFixture { machine, databases: databases.collect(), ..OracleFixture::default() }
}
