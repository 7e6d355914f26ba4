//! `hugewise check` on real servers: each on base pages, on huge pages, and partly where it can be.
//!
//! What check must say comes from the kernel or from the server itself, never from hugewise's own
//! code. The tests change the host's pools, so they run one after the other, each behind a guard
//! that restores them.

mod asleep;
mod attacks;
mod boot_files;
mod browser;
mod capture;
mod cgroup;
mod change;
mod clusterware;
mod collect;
mod container;
mod crash;
mod doors;
mod formats;
mod harness;
mod host_namespaces;
mod hostile;
mod jvm;
mod mariadb;
mod moments;
mod namespace;
mod next_start;
mod one_lock;
mod oracle;
mod page_tables;
mod pam;
mod plans;
mod postgresql;
mod qemu;
mod redis;
mod serve;
mod size;
mod system_log;
mod systemd;
mod unit_starts;
mod users;
mod values;
mod verify;
mod vm;
mod watch;
