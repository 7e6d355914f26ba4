//! The report that a DBA reads in ten seconds: the host, its instances, what is wrong, what was not seen.

use std::io;

use hugewise_model::Observed;

use crate::screen::Screen;
use crate::{Checked, Layout};

pub(crate) mod applied;
pub mod chain;
pub(crate) mod closing;
mod findings;
pub(crate) mod host;
pub(crate) mod instances;
pub mod investigate;
pub mod lab;
pub(crate) mod nothing;
pub(crate) mod plan;
pub mod run;
pub(crate) mod size;
pub(crate) mod verify;

pub(crate) fn write(checked: &Checked<'_>, out: &mut dyn io::Write, layout: Layout) -> io::Result<()> {
    let mut screen = Screen::new(out, layout);
    let cases = findings::of(checked);
    findings::first(&mut screen, checked, &cases)?;
    host::write(&mut screen, checked.host)?;
    screen.blank()?;
    if checked.instances.is_empty() {
        nothing::write(&mut screen, checked.host)?;
    } else {
        instances::write(&mut screen, checked)?;
    }
    screen.blank()?;
    findings::write(&mut screen, checked, &cases)?;
    closing::write(&mut screen, checked)
}

/// A fact for a table: its value, `-` where there is none, `?` where it could not be read.
fn shown<T: std::fmt::Display>(fact: &Observed<T>) -> String {
    match fact {
        Observed::Known(value) => value.to_string(),
        Observed::Absent => "-".into(),
        Observed::Denied | Observed::Malformed(_) => "?".into(),
    }
}

/// `1 warning`, `2 warnings`.
fn counted(number: usize, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use crate::samples;
    use crate::screen::columns;

    #[test]
    fn an_instance_on_base_pages_beside_one_on_huge_pages() {
        insta::assert_snapshot!(samples::prod().text(80), @r"
        error oracle PROD holds 34.0 GiB on 4 KiB pages; the pool has room for 18.0 MiB…
        cost  11.2 GiB of page tables now, 27.9 GiB at processes=1000
        next  sudo hugewise plan
        db7  Oracle Linux Server 8.9  Linux 5.15.0-200.el8uek.x86_64, 4 cores, 2 nodes
        memory 128.0 GiB, 3.0 GiB available  swap 102.0 MiB of 8.0 GiB  base page 4 KiB
        page tables 12.0 GiB, 9.4 %  huge pages 3,200 of 2 MiB, 9 available  THP always

        instance              sess.  segments  now   restart  reboot    tables   session
        oracle PROD 19c         402  34.0 GiB  none  ?        ?       11.2 GiB  28.5 MiB
        postgresql 15/main …     60   6.2 GiB  all   ?        ?       14.1 MiB   218 KiB

        error HW201 no-pool  oracle PROD holds 34.0 GiB on 4 KiB pages; the pool has
              room for 18.0 MiB of it
              also   HW401 silent-fallback  use_large_pages=TRUE starts without huge pa…
        warn  HW501 thp-always  Oracle 19c asks for madvise or never
        do    have each boot bring 20,604 pages of 2 MiB (40.2 GiB); no room for them
              now
              set transparent huge pages to madvise
              have oracle PROD refuse a start without huge pages: use_large_pages=ONLY
              restart oracle PROD

        1 error, 2 warnings (hugewise rules HW201). Everything was read.
        ");
    }

    #[test]
    fn a_wide_terminal_has_the_full_headings() {
        insta::assert_snapshot!(samples::prod().text(120), @r"
        error oracle PROD holds 34.0 GiB on 4 KiB pages; the pool has room for 18.0 MiB of it
        cost  11.2 GiB of page tables now, 27.9 GiB at processes=1000
        next  sudo hugewise plan
        db7  Oracle Linux Server 8.9  Linux 5.15.0-200.el8uek.x86_64, 4 cores, 2 nodes
        memory 128.0 GiB, 3.0 GiB available  swap 102.0 MiB of 8.0 GiB  base page 4 KiB
        page tables 12.0 GiB, 9.4 %  huge pages 3,200 of 2 MiB, 9 available  THP always

        instance                  sessions  segments  now   restart  reboot  page tables  a session
        oracle PROD 19c                402  34.0 GiB  none  ?        ?          11.2 GiB   28.5 MiB
        postgresql 15/main 15.20        60   6.2 GiB  all   ?        ?          14.1 MiB    218 KiB

              also   HW401 silent-fallback  use_large_pages=TRUE starts without huge pages when they don't reach
        warn  HW501 thp-always  Oracle 19c asks for madvise or never
        do    have each boot bring 20,604 pages of 2 MiB (40.2 GiB); no room for them now
              set transparent huge pages to madvise
              have oracle PROD refuse a start without huge pages: use_large_pages=ONLY
              restart oracle PROD

        1 error, 2 warnings (hugewise rules HW201). Everything was read.
        ");
    }

    #[test]
    fn a_host_without_a_database() {
        insta::assert_snapshot!(samples::empty().text(80), @r#"
        db7  Oracle Linux Server 8.9  Linux 5.15.0-200.el8uek.x86_64, 4 cores, 2 nodes
        memory 128.0 GiB, 3.0 GiB available  swap 102.0 MiB of 8.0 GiB  base page 4 KiB
        page tables 12.0 GiB, 9.4 %  huge pages none  THP always

        No database runs here. Looked for Oracle, PostgreSQL, MySQL, MariaDB, JVM,
        Redis, Valkey, MongoDB, QEMU/KVM, and for any other processes that share a
        segment over 256 MiB.
        try next  hugewise check --root PATH  checks a captured host or a sosreport, a
                                              folder or a tar
                  hugewise size --engine ...  says what a server would need that does
                                              not run here
                  hugewise rules              lists what is looked for on a host with a
                                              database

        Nothing wrong was found. Everything was read.
        "#);
    }

    #[test]
    fn an_ordinary_user_learns_what_was_not_seen() {
        insta::assert_snapshot!(samples::unprivileged().text(80), @r"
        db7  Oracle Linux Server 8.9  Linux 5.15.0-200.el8uek.x86_64, 4 cores, 2 nodes
        memory 128.0 GiB, 3.0 GiB available  swap 102.0 MiB of 8.0 GiB  base page 4 KiB
        page tables 12.0 GiB, 9.4 %  huge pages 3,200 of 2 MiB, 9 available  THP always

        instance            sess.  segments  now  restart  reboot  tables  session
        oracle PROD           402         ?  ?    ?        ?            ?        ?
        postgresql 15/main     60         ?  ?    ?        ?            ?        ?

        oracle PROD
              chain  asked for   ?    /proc/4711/maps: denied
                     pool        ?    /proc/4711/maps: denied
                     room        ?    /proc/4711/maps: denied
                     permission  ?    /proc/4711/maps: denied
                     cgroup      ?    /proc/4711/maps: denied
                     mapped      ?    /proc/4711/maps: denied

        Nothing wrong was found in what could be read.
        Undecided: HW201 no-pool of oracle PROD (/proc/4711/maps: denied).
        Not read: /etc/sysctl.d/90-a.conf (malformed: line 3: no `=`), /proc/PID/maps of
          402 processes (denied). Run as root to see the rest.
        ");
    }

    #[test]
    fn hostile_names_reach_no_terminal() {
        let text = samples::hostile().text(80);
        assert!(!text.chars().any(|c| c != '\n' && c.is_control()), "{text:?}");
        assert!(!text.contains('\u{202e}'));
        insta::assert_snapshot!(text, @r"
        error oracle PROD\x1b[2J\u{202e}\x0a\x9b31m is bad\x08\x08\x08good
        cost  11.2 GiB of page tables now, 27.9 GiB at processes=1000
        next  sudo hugewise plan
        db7\x1b]0;owned\x07  Oracle Linux Server 8.9
          Linux 5.15.0-200.el8uek.x86_64, 4 cores, 2 nodes
        memory 128.0 GiB, 3.0 GiB available  swap 102.0 MiB of 8.0 GiB  base page 4 KiB
        page tables 12.0 GiB, 9.4 %  huge pages 3,200 of 2 MiB, 9 available  THP always

        instance               sess.  segments  now  restart  reboot    tables   session
        oracle PROD\x1b[2J\u…    402  34.0 GiB  ?    ?        ?       11.2 GiB  28.5 MiB
        postgresql 15/main\x…     60   6.2 GiB  ?    ?        ?       14.1 MiB   218 KiB

        oracle PROD\x1b[2J\u{202e}\x0a\x9b31m
              cause  asked for: huge_pages=off (/tmp/\x1b[31m\x0d\x0a/postgresql.conf:1)
              chain  asked for  NO   huge_pages=off
                                     (/tmp/\x1b[31m\x0d\x0a/postgresql.conf:1)

              also   HW401 silent-fallback  oracle PROD\x1b[2J\u{202e}\x0a\x9b31m is ba…
        warn  HW501 thp-always  oracle PROD\x1b[2J\u{202e}\x0a\x9b31m is
              bad\x08\x08\x08good
        do    have each boot bring 20,604 pages of 2 MiB (40.2 GiB); no room for them
              now
              set transparent huge pages to madvise
              have oracle PROD ask for huge pages: use_large_pages=TRUE
              restart oracle PROD

        1 error, 2 warnings (hugewise rules HW201).
        Not read: /proc/1/root/\x1bc (denied). Root itself was denied: a container or a
          security policy stands before it.
        ");
    }

    #[test]
    fn colour_changes_nothing_but_colour() {
        let coloured = samples::prod().coloured(80);
        assert!(coloured.contains("\u{1b}[31m"));
        let mut plain = String::new();
        let mut pieces = coloured.split('\u{1b}');
        plain.push_str(pieces.next().unwrap());
        for piece in pieces {
            plain.push_str(piece.split_once('m').unwrap().1);
        }
        assert_eq!(plain, samples::prod().text(80));
    }

    proptest! {
        #[test]
        fn no_report_is_wider_than_the_terminal(width in 72_usize..200) {
            for sample in [samples::prod(), samples::empty(), samples::unprivileged(), samples::hostile()] {
                for line in sample.text(width).lines() {
                    prop_assert!(columns(line) <= width, "{}: {line}", columns(line));
                }
            }
        }
    }
}
