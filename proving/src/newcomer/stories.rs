//! What is played: chapters of the documents, and what each of their commands is documented to do.

use crate::vm::image::{Image, Suite};

/// One sitting at a fresh machine.
pub(super) struct Story {
    pub(super) name: &'static str,
    pub(super) shows: &'static str,
    /// The machine's image on a suite of Debian.
    pub(super) image: fn(Suite) -> Image,
    /// What root has set up on it before the newcomer comes.
    pub(super) found: &'static str,
    pub(super) chapters: &'static [Chapter],
}

/// The commands of one heading. What is not played has a `None`.
pub(super) struct Chapter {
    pub(super) page: &'static str,
    pub(super) heading: &'static str,
    pub(super) steps: &'static [Option<Step>],
}

/// What one command does.
pub(super) struct Step {
    /// With which it ends.
    pub(super) code: i32,
    /// Texts that it prints.
    pub(super) says: &'static [&'static str],
    /// What is answered where it asks; empty where it must not ask.
    pub(super) answer: &'static str,
    /// What holds afterwards.
    pub(super) then: &'static [Then],
}

/// What the kernel and the host are asked.
#[derive(Clone, Copy)]
pub(super) enum Then {
    /// PostgreSQL's shared memory is on huge pages.
    OnHugePages,
    /// None of it is.
    OnBasePages,
    /// What is there now is what was before: what the package brings is no change of hugewise's.
    Noted,
    /// Every file and value is as it was noted, or as on the fresh machine.
    AsBefore,
    /// A script that root runs ends well.
    Holds(&'static str),
}

const fn ends(code: i32, says: &'static [&'static str]) -> Option<Step> {
    Some(Step { code, says, answer: "", then: &[] })
}

const fn and(step: Option<Step>, then: &'static [Then]) -> Option<Step> {
    match step {
        Some(step) => Some(Step { then, ..step }),
        None => None,
    }
}

/// Answers that question with yes.
const fn yes(step: Option<Step>) -> Option<Step> {
    match step {
        Some(step) => Some(Step { answer: "y", ..step }),
        None => None,
    }
}

pub(super) static ALL: &[Story] = &[START, POSTGRESQL, ARCHIVE, MARIADB, REDIS, JVM];

/// Nothing of hugewise is left but what removing it leaves.
const GONE: Then = Then::Holds(
    "! test -e /usr/bin/hugewise && ! test -e /lib/systemd/system/hugewise-record.service",
);
const JOURNALS: Then = Then::Holds("ls /var/lib/hugewise/journal/*.journal");
const NO_JOURNALS: Then = Then::Holds("! test -e /var/lib/hugewise");
const NO_POOL: Then = Then::Holds("grep -q 'HugePages_Total: *0$' /proc/meminfo");
const ON_PAPER: Then =
    Then::Holds("cd /home/dba && runuser -u dba -- grep -q /main db7.html && rm db7.html");

const REMOVE: Chapter = Chapter {
    page: "docs/install.md",
    heading: "Remove the package",
    steps: &[
        and(yes(ends(0, &["install it again to undo"])), &[GONE, JOURNALS]),
        and(yes(ends(0, &[])), &[NO_JOURNALS]),
    ],
};

const START: Story = Story {
    name: "start",
    shows: "what README does with a package, then \"Start in five minutes\", then the package is removed",
    image: Image::Newcomer,
    found: "",
    chapters: &[
        Chapter {
            page: "README.md",
            heading: "From a package",
            steps: &[
                and(ends(0, &[]), &[Then::Holds("test -x /usr/bin/hugewise"), Then::Noted]),
                and(
                    ends(
                        1,
                        &[
                            "error postgresql 15/main holds",
                            "no huge pages are",
                            "next  sudo hugewise plan",
                            "huge_pages=try silently let it start without huge pages",
                        ],
                    ),
                    &[Then::OnBasePages, Then::AsBefore],
                ),
                and(
                    ends(
                        0,
                        &[
                            "set the pool of 2 MiB pages to",
                            "huge_pages = on",
                            "sudo hugewise apply",
                        ],
                    ),
                    &[Then::AsBefore],
                ),
                and(
                    yes(ends(0, &["All steps are done. 1 finding waits for a restart or reboot."])),
                    &[Then::OnBasePages, JOURNALS],
                ),
                and(
                    ends(0, &["every file and value is as it was before"]),
                    &[Then::AsBefore, Then::OnBasePages],
                ),
            ],
        },
        Chapter {
            page: "docs/start.md",
            heading: "1. Look",
            steps: &[ends(1, &["error postgresql 15/main holds", "none  none     none"])],
        },
        Chapter {
            page: "docs/start.md",
            heading: "2. Size",
            steps: &[and(ends(0, &["postgresql 15/main", "its mappings"]), &[Then::AsBefore])],
        },
        Chapter {
            page: "docs/start.md",
            heading: "3. Plan",
            steps: &[and(
                ends(0, &["set the pool of 2 MiB pages to", "by hand"]),
                &[Then::AsBefore],
            )],
        },
        Chapter {
            page: "docs/start.md",
            heading: "4. Apply",
            steps: &[
                and(yes(ends(0, &["All steps are done."])), &[Then::OnBasePages]),
                and(
                    yes(ends(
                        0,
                        &[
                            "verified   postgresql 15/main  is wholly on huge pages",
                            "All steps are done.",
                        ],
                    )),
                    &[Then::OnHugePages],
                ),
            ],
        },
        Chapter {
            page: "docs/start.md",
            heading: "5. Verify",
            steps: &[ends(
                0,
                &["postgresql 15/main  all", "postgresql 15/main is wholly on huge pages."],
            )],
        },
        Chapter {
            page: "docs/start.md",
            heading: "6. Show somebody",
            steps: &[
                and(
                    ends(0, &["Wrote db7.html"]),
                    &[Then::Holds("test \"$(stat -c '%a %U' /home/dba/db7.html)\" = '600 root'")],
                ),
                and(ends(0, &[]), &[ON_PAPER, Then::OnHugePages]),
            ],
        },
        Chapter {
            page: "docs/start.md",
            heading: "And back",
            steps: &[
                and(ends(0, &["every file and value is as it was before"]), &[Then::OnHugePages]),
                and(ends(0, &[]), &[Then::AsBefore, Then::OnBasePages, NO_POOL]),
            ],
        },
        REMOVE,
    ],
};

const POSTGRESQL: Story = Story {
    name: "postgresql",
    shows: "\"From zero to verified\" of PostgreSQL's page; a removed package leaves what it set \
         up",
    image: Image::Newcomer,
    found: "",
    chapters: &[
        Chapter {
            page: "docs/install.md",
            heading: "Debian package",
            steps: &[
                ends(0, &[]),
                ends(1, &["error postgresql 15/main holds"]),
                and(ends(0, &[]), &[Then::Holds("systemctl is-active hugewise-record")]),
            ],
        },
        Chapter {
            page: "docs/engines/postgresql.md",
            heading: "From zero to verified",
            steps: &[
                ends(1, &["error postgresql 15/main holds"]),
                ends(0, &["postgresql 15/main"]),
                ends(0, &["postgresql"]),
                ends(0, &["set the pool of 2 MiB pages to"]),
                and(
                    yes(ends(0, &["verified   postgresql 15/main  is wholly on huge pages"])),
                    &[
                        Then::OnHugePages,
                        Then::Holds(
                            "runuser -u postgres -- psql -Atc 'SHOW huge_pages' | grep -x on",
                        ),
                    ],
                ),
                ends(0, &["postgresql 15/main  all"]),
            ],
        },
        Chapter {
            page: "docs/install.md",
            heading: "Remove the package",
            steps: &[
                and(
                    yes(ends(0, &["install it again to undo"])),
                    &[
                        GONE,
                        JOURNALS,
                        Then::Holds("! systemctl is-active hugewise-record"),
                        Then::Holds("systemctl restart postgresql@*-main"),
                        Then::OnHugePages,
                    ],
                ),
                and(yes(ends(0, &[])), &[NO_JOURNALS, Then::OnHugePages]),
            ],
        },
    ],
};

const ARCHIVE: Story = Story {
    name: "archive",
    shows: "install.sh from the archive beside it, from a folder, into the home folder, and its \
         removal",
    image: Image::Newcomer,
    found: "",
    chapters: &[Chapter {
        page: "docs/install.md",
        heading: "install.sh",
        steps: &[
            and(
                ends(0, &["verified hugewise-"]),
                &[Then::Holds("/usr/local/bin/hugewise --version")],
            ),
            ends(0, &["verified hugewise-"]),
            and(
                ends(0, &["/home/dba/.local/bin"]),
                &[Then::Holds("/home/dba/.local/bin/hugewise --version")],
            ),
            and(
                ends(0, &["removed /usr/local/bin/hugewise"]),
                &[Then::Holds("! test -e /usr/local/bin/hugewise")],
            ),
        ],
    }],
};

const INSTALL: Chapter = Chapter {
    page: "docs/install.md",
    heading: "Debian package",
    steps: &[and(ends(0, &[]), &[Then::Noted]), None, None],
};

/// The kernel's word for MariaDB's buffer pool of 512 MiB: pages are taken, and it maps them.
const MARIADB_ON_HUGE_PAGES: Then = Then::Holds(
    "grep -q ' /anon_hugepage' /proc/$(pidof mariadbd)/maps
awk '/^HugePages_Total/ { all = $2 } /^HugePages_Free/ { free = $2 } END \
         { exit !(all - free > 256) }' /proc/meminfo",
);

const MARIADB: Story = Story {
    name: "mariadb",
    shows: "\"From zero to verified\" of MariaDB's page, beside a Redis, and back",
    image: Image::NewcomerServers,
    found: "set -e
printf '[mariadbd]\ninnodb_buffer_pool_size = 512M\n' >/etc/mysql/mariadb.conf.d/60-size.cnf
systemctl --quiet enable --now mariadb redis-server
",
    chapters: &[
        INSTALL,
        Chapter {
            page: "docs/engines/mysql.md",
            heading: "From zero to verified",
            steps: &[
                ends(0, &["mariadb 3306"]),
                ends(0, &["mariadb 3306"]),
                and(ends(0, &["set the pool of 2 MiB pages to", "large_pages"]), &[Then::AsBefore]),
                and(
                    yes(ends(0, &["verified   mariadb 3306  is wholly on huge pages"])),
                    &[MARIADB_ON_HUGE_PAGES],
                ),
                ends(0, &["mariadb 3306  all"]),
            ],
        },
        Chapter {
            page: "docs/start.md",
            heading: "And back",
            steps: &[
                and(
                    ends(0, &["every file and value is as it was before"]),
                    &[Then::Holds("systemctl restart mariadb"), Then::AsBefore],
                ),
                None,
            ],
        },
    ],
};

const REDIS: Story = Story {
    name: "redis",
    shows: "Redis's page, of a server that is told to leave THP on, and back",
    image: Image::NewcomerServers,
    found: "set -e
echo 'disable-thp no' >>/etc/redis/redis.conf
systemctl --quiet enable --now redis-server
",
    chapters: &[
        INSTALL,
        Chapter {
            page: "docs/engines/redis.md",
            heading: "Redis and Valkey",
            steps: &[
                ends(1, &["redis 6379"]),
                and(ends(0, &["madvise"]), &[Then::AsBefore]),
                and(
                    yes(ends(0, &["All steps are done."])),
                    &[Then::Holds(
                        "grep -q '\\[madvise\\]' /sys/kernel/mm/transparent_hugepage/enabled",
                    )],
                ),
            ],
        },
        Chapter {
            page: "docs/start.md",
            heading: "And back",
            steps: &[
                and(ends(0, &["every file and value is as it was before"]), &[Then::AsBefore]),
                None,
            ],
        },
    ],
};

/// The kernel's word for a heap of 512 MiB: its pages are taken, or reserved until they are
/// touched.
const JVM_ON_HUGE_PAGES: Then = Then::Holds(
    "sleep 20
awk '/^HugePages_Total/ { all = $2 } /^HugePages_Free/ { free = $2 } /^HugePages_Rsvd/ \
         { reserved = $2 }
    END { exit !(all - free + reserved >= 256) }' /proc/meminfo",
);

const JVM: Story = Story {
    name: "jvm",
    shows: "\"From zero to verified\" of the JVM's page, of a service that asks for a pool, and \
         back",
    image: Image::NewcomerServers,
    // A server that every JRE has: the file server since Java 18, before it the registry of names.
    // That wants a security manager, which Java 21 refuses.
    found: "set -e
server=jdk.httpserver
java --list-modules | grep -q '^jdk.httpserver@17' && server=java.rmi/sun.rmi.registry.RegistryImpl
printf '[Service]\nExecStart=/usr/bin/java -Xms512m -Xmx512m -XX:+UseLargePages -m \
         %s\n[Install]\nWantedBy=multi-user.target\n' $server \\
    >/etc/systemd/system/app.service
systemctl --quiet enable --now app
sleep 10
systemctl is-active app || { journalctl -u app --no-pager >&2; exit 1; }
",
    chapters: &[
        INSTALL,
        Chapter {
            page: "docs/engines/jvm.md",
            heading: "From zero to verified",
            steps: &[
                ends(
                    1,
                    &[
                        "MiB on 4 KiB pages",
                        "UseLargePages=true silently let it start without \
                     huge pages",
                    ],
                ),
                // A heap of 8 GiB on a machine of 2.
                ends(1, &["jvm app.jar", "does not fit"]),
                and(ends(0, &["set the pool of 2 MiB pages to"]), &[Then::AsBefore]),
                yes(ends(0, &["All steps are done."])),
                and(ends(0, &[]), &[JVM_ON_HUGE_PAGES]),
                ends(0, &[" is wholly on huge pages."]),
            ],
        },
        Chapter {
            page: "docs/start.md",
            heading: "And back",
            steps: &[
                and(
                    ends(0, &["every file and value is as it was before"]),
                    &[Then::Holds("systemctl restart app"), Then::AsBefore],
                ),
                None,
            ],
        },
    ],
};
