//! Huge pages that were there and are not.

use std::io::Cursor;

use hugewise_investigate::readers;
use hugewise_investigate::{Confidence, IncidentVerdict, SignatureKind};

use crate::stories::made::{
    DAY, GIB, Keeps, Second, every, investigated, says, seen, started, verdicts,
};

const NOON: i64 = DAY / 2;

fn host(before: f64, after: f64) -> impl Fn(i64) -> Second {
    move |second| {
        let pool = if second < NOON { before } else { after };
        Second {
            system: 2.0,
            user: 20.0,
            free: 6.0 * GIB,
            tasks: 300.0,
            pool: pool * GIB,
            ..Second::default()
        }
    }
}

#[test]
fn a_pool_that_did_not_come_back_with_the_host_is_lost() {
    let seen = |before, after| seen(&host(before, after), &every(600, 0, DAY), Keeps::default());
    let history = investigated(vec![started(seen(8.0, 0.0), NOON)]);
    assert_eq!(verdicts(&history), [IncidentVerdict::HugePagesLost]);
    let incident = &history.incidents[0];
    assert_eq!(incident.confidence, Confidence::High);
    says(
        &incident.summary,
        &["huge pages were lost", "8.0 GiB before the restart", "nothing was left of it"],
    );
    says(&incident.next.join("\n"), &["hugewise check", "hugewise plan"]);
    // A third of it, which is told; most of it, which is not; made smaller by a person, who knows.
    says(
        &investigated(vec![started(seen(9.0, 3.0), NOON)]).incidents[0].summary,
        &["3.0 GiB were left of it"],
    );
    assert_eq!(verdicts(&investigated(vec![started(seen(8.0, 7.0), NOON)])), []);
    assert_eq!(verdicts(&investigated(vec![seen(8.0, 0.0)])), []);
    assert_eq!(verdicts(&investigated(vec![started(seen(0.125, 0.0), NOON)])), []);
}

/// A pool that a service fills behind the boot is none that was lost.
#[test]
fn a_pool_that_is_filled_later_was_not_lost() {
    let late = |second: i64| Second {
        pool: if (NOON..NOON + 1500).contains(&second) { 0.0 } else { 8.0 * GIB },
        free: 6.0 * GIB,
        ..Second::default()
    };
    let history =
        investigated(vec![started(seen(&late, &every(600, 0, DAY), Keeps::default()), NOON)]);
    assert_eq!(verdicts(&history), []);
}

/// By its log alone, as MariaDB 10.11.19 wrote it.
#[test]
fn a_server_that_says_it_got_no_huge_pages_is_told() {
    let log = "\
2026-11-21 12:00:01 0 [Note] Starting MariaDB 10.11.19-MariaDB-0+deb12u1 source revision 5843d847 \
         as process 29030
2026-11-21 12:00:01 0 [Warning] mariadbd: Couldn't allocate 130023424 bytes (Large/HugeTLB memory \
         page size 2097152); errno 12; continuing to smaller size
2026-11-21 12:00:03 0 [Note] /usr/sbin/mariadbd: ready for connections.
";
    let history = investigated(readers::read(Cursor::new(log), "error.log").unwrap());
    assert_eq!(verdicts(&history), [IncidentVerdict::HugePagesLost], "{:#?}", history.signatures);
    let incident = &history.incidents[0];
    assert!(incident.signatures.iter().any(|one| one.kind == SignatureKind::HugePagesLost));
    says(
        &incident.summary,
        &["MariaDB got no huge pages for a part of its memory and went on without them"],
    );
}
