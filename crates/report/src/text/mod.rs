//! The report that a DBA reads in ten seconds.

use std::io;

use crate::CheckReport;
use crate::screen::Screen;
use crate::view::cases as view;
use crate::view::counted_noun;
use crate::view::host::{brief_host_lines, host_lines};

pub(crate) mod applied;
mod cases;
mod chain;
mod closing;
pub(crate) mod host_report;
mod instances;
pub(crate) mod investigate;
pub mod lab;
mod labels;
mod no_instances;
pub(crate) mod plan;
pub(crate) mod pod;
pub mod run;
pub(crate) mod size;
pub(crate) mod verify;

pub(crate) fn write(screen: &mut Screen<'_>, checked: &CheckReport<'_>) -> io::Result<()> {
    let all = view::cases_of_report(checked);
    cases::write_worst_case(screen, checked, &all)?;
    if screen.is_verbose() {
        screen.write_field_lines(&host_lines(checked.host))?;
    } else {
        screen.write_field_lines(&brief_host_lines(checked.host))?;
    }
    screen.write_blank()?;
    if checked.instances.is_empty() {
        no_instances::write(screen, checked.host)?;
    } else {
        instances::write(screen, checked)?;
    }
    screen.write_blank()?;
    cases::write(screen, checked, &all)?;
    closing::write(screen, checked)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use crate::samples;
    use crate::screen::text_width;

    #[test]
    fn an_instance_on_base_pages_beside_one_on_huge_pages() {
        insta::assert_snapshot!(samples::prod().text(80), @r"
        error oracle PROD holds 34.0 GiB on 4 KiB pages
        cost  11.2 GiB of page tables now, 27.9 GiB at processes=1000
        next  sudo hugewise plan

        db7  Oracle Linux Server 8.9
          4 cores, 2 nodes, 128.0 GiB of memory, 3.0 GiB available
        page tables 12.0 GiB, 9.4 %  THP always  swap 102.0 MiB used
          huge pages 3,200 of 2 MiB, 9 available

        instance            now   restart  reboot  sess.  segments    tables   session
        oracle PROD         none  ?        ?         402  34.0 GiB  11.2 GiB  28.5 MiB
        postgresql 15/main  all   ?        ?          60   6.2 GiB  14.1 MiB   218 KiB

        error HW201 oracle PROD holds 34.0 GiB on 4 KiB pages; the pool has room for
              18.0 MiB of it
              also   HW401 use_large_pages=TRUE lets it start without huge pages,
                           silently
        warn  HW501 Oracle 19c asks for madvise or never
              cost   latency while the kernel compacts memory; memory that is not
                     returned
        do    set the pool of 2 MiB pages to 20,779 (40.6 GiB), from the next boot on
              set transparent huge pages to madvise
              reboot, or restart oracle PROD once its pages are there
              once it runs on huge pages, make oracle PROD require them:
              use_large_pages=ONLY
        1 error, 2 warnings (hugewise rules HW201).
        Undecided: restart of oracle PROD (/proc/4711/status: not read), restart of
          postgresql 15/main (/proc/4711/status: not read).
        ");
    }

    #[test]
    fn a_wide_terminal_has_the_full_headings() {
        insta::assert_snapshot!(samples::prod().text(120), @r"
        error oracle PROD holds 34.0 GiB on 4 KiB pages; the pool has room for 18.0 MiB of it
        cost  11.2 GiB of page tables now, 27.9 GiB at processes=1000
        next  sudo hugewise plan

        db7  Oracle Linux Server 8.9  4 cores, 2 nodes, 128.0 GiB of memory, 3.0 GiB available
        page tables 12.0 GiB, 9.4 %  THP always  swap 102.0 MiB used  huge pages 3,200 of 2 MiB, 9 available

        instance                  now   restart  reboot  sessions  segments  page tables  a session
        oracle PROD 19c           none  ?        ?            402  34.0 GiB     11.2 GiB   28.5 MiB
        postgresql 15/main 15.20  all   ?        ?             60   6.2 GiB     14.1 MiB    218 KiB

        error HW201 oracle PROD holds 34.0 GiB on 4 KiB pages; the pool has room for 18.0 MiB of it
              also   HW401 use_large_pages=TRUE lets it start without huge pages, silently
        warn  HW501 Oracle 19c asks for madvise or never
              cost   latency while the kernel compacts memory; memory that is not returned
        do    set the pool of 2 MiB pages to 20,779 (40.6 GiB), from the next boot on
              set transparent huge pages to madvise
              reboot, or restart oracle PROD once its pages are there
              once it runs on huge pages, make oracle PROD require them: use_large_pages=ONLY
        1 error, 2 warnings (hugewise rules HW201).
        Undecided: restart of oracle PROD (/proc/4711/status: not read), restart of postgresql 15/main (/proc/4711/status: not
          read).
        ");
    }

    #[test]
    fn a_host_without_a_database() {
        insta::assert_snapshot!(samples::empty().text(80), @r"
        db7  Oracle Linux Server 8.9
          4 cores, 2 nodes, 128.0 GiB of memory, 3.0 GiB available
        page tables 12.0 GiB, 9.4 %  THP always  swap 102.0 MiB used  huge pages none

        No database runs here. Looked for Oracle, PostgreSQL, MySQL, MariaDB, JVM,
        Redis, Valkey, MongoDB, QEMU/KVM, IBM Db2, SAP HANA, SQL Server, Informix,
        ClickHouse, SAP ASE, CockroachDB, TiDB, NuoDB, Couchbase, ArangoDB, Aerospike,
        Splunk, and for any other processes that share a segment over 256 MiB.
        try next  hugewise check --root PATH  check a captured host or a sosreport: a
                                              folder or a tar
                  hugewise size --engine ...  calculate the huge pages for a server that
                                              does not run here
                  hugewise rules              list what is checked on a host with a
                                              database

        Nothing wrong was found. Everything was read.
        ");
    }

    #[test]
    fn an_ordinary_user_learns_what_was_not_seen() {
        insta::assert_snapshot!(samples::unprivileged().text(80), @r"
        db7  Oracle Linux Server 8.9
          4 cores, 2 nodes, 128.0 GiB of memory, 3.0 GiB available
        page tables 12.0 GiB, 9.4 %  THP always  swap 102.0 MiB used
          huge pages 3,200 of 2 MiB, 9 available

        instance            now  restart  reboot  sess.  segments  tables  session
        oracle PROD         ?    ?        ?         402         ?       ?        ?
        postgresql 15/main  ?    ?        ?          60         ?       ?        ?

        oracle PROD
              chain  asked for   ?    /proc/4711/maps: denied
                     pool        ?    /proc/4711/maps: denied
                     room        ?    /proc/4711/maps: denied
                     permission  ?    /proc/4711/maps: denied
                     cgroup      ?    /proc/4711/maps: denied
                     mapped      ?    /proc/4711/maps: denied

        Nothing wrong was found in what could be read.
        Undecided: HW201 no-pool of oracle PROD (/proc/4711/maps: denied), now of
          postgresql 15/main (page size of the mappings of pid 4711: not told).
        Not read: /etc/sysctl.d/90-a.conf (malformed: line 3: no `=`), /proc/PID/maps of
          402 processes (denied). Run as root to see the rest.
        ");
    }

    #[test]
    fn hostile_names_reach_no_terminal() {
        let text = samples::hostile().text(80);
        assert!(
            !text.chars().any(|character| character != '\n' && character.is_control()),
            "{text:?}"
        );
        assert!(!text.contains('\u{202e}'));
        insta::assert_snapshot!(text, @r"
        error oracle PROD\x1b[2J\u{202e}\x0a\x9b31m is bad\x08\x08\x08good
        cost  11.2 GiB of page tables now, 27.9 GiB at processes=1000
        next  sudo hugewise plan

        db7\x1b]0;owned\x07  Oracle Linux Server 8.9
          4 cores, 2 nodes, 128.0 GiB of memory, 3.0 GiB available
        page tables 12.0 GiB, 9.4 %  THP always  swap 102.0 MiB used
          huge pages 3,200 of 2 MiB, 9 available

        instance               now  restart  reboot  sess.  segments    tables   session
        oracle PROD\x1b[2J\u…  ?    ?        ?         402  34.0 GiB  11.2 GiB  28.5 MiB
        postgresql 15/main\x…  ?    ?        ?          60   6.2 GiB  14.1 MiB   218 KiB

        oracle PROD\x1b[2J\u{202e}\x0a\x9b31m
              cause  asked for: huge_pages=off (/tmp/\x1b[31m\x0d\x0a/postgresql.conf:1)
              chain  asked for  NO   huge_pages=off
                                     (/tmp/\x1b[31m\x0d\x0a/postgresql.conf:1)

        error HW201 oracle PROD\x1b[2J\u{202e}\x0a\x9b31m is bad\x08\x08\x08good
              also   HW401 use_large_pages=TRUE lets it start without huge pages,
                           silently
        warn  HW501 oracle PROD\x1b[2J\u{202e}\x0a\x9b31m is bad\x08\x08\x08good
              cost   latency while the kernel compacts memory; memory that is not
                     returned
        do    set the pool of 2 MiB pages to 20,779 (40.6 GiB), from the next boot on
              set transparent huge pages to madvise
              make oracle PROD ask for huge pages: use_large_pages=TRUE
              restart oracle PROD
        1 error, 2 warnings (hugewise rules HW201).
        Not read: /proc/1/root/\x1bc (denied). Even root may not read these: a container
          or a security policy blocks it.
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
        fn no_report_is_wider_than_the_terminal(width in 40_usize..200) {
            for sample in [samples::prod(), samples::empty(), samples::unprivileged(), samples::hostile()] {
                for line in sample.text(width).lines() {
                    prop_assert!(text_width(line) <= width, "{}: {line}", text_width(line));
                }
            }
        }
    }
}
