//! Whether a server that counts may be among what was left out.
//!
//! What is read of a user's processes and files has limits, and whoever exceeds them decides that
//! himself. What any user leaves out of his own is shown and no more: otherwise everybody could keep
//! every check incomplete for ever. But of an account that the host has for servers, it may be a
//! server.

use std::collections::BTreeSet;

use hugewise_host::source::Owner;
use hugewise_model::{Host, Instance, Reason, Unread};

/// Why not all servers that something vouches for may have been seen, if that is so.
pub(crate) fn explain_left_out_accounts(
    host: &Host,
    instances: &[Instance],
    unread: &[Unread],
) -> Option<String> {
    let known = list_server_accounts(host, instances);
    unread.iter().find_map(|fact| match &fact.why {
        Reason::LeftOut { user, why } if known.contains(user) => Some(format!(
            "servers of {} may be among what was not read: {} ({why})",
            host.accounts.user_name(*user),
            fact.what
        )),
        _ => None,
    })
}

/// Root, the accounts made for servers, and those of servers that something vouches for.
fn list_server_accounts(host: &Host, instances: &[Instance]) -> BTreeSet<u32> {
    let trusted = || instances.iter().filter(|instance| instance.is_trusted());
    let running = trusted().filter_map(|instance| {
        Some(Owner::user_behind(Owner::from_process(host.find_process(instance.pid)?).uid))
    });
    let of_kinds = hugewise_engines::all_kinds().iter();
    let names: BTreeSet<&str> = of_kinds
        .flat_map(|kind| kind.recognition.accounts)
        .copied()
        .chain(trusted().map(|instance| instance.owner.as_str()))
        .collect();
    let named = host.accounts.users.iter().filter(|(_, user)| names.contains(user.name.as_str()));
    running.chain(named.map(|(uid, _)| Owner::user_behind(*uid))).chain([0]).collect()
}

#[cfg(test)]
mod tests {
    use hugewise_model::host::User;

    use super::*;

    #[test]
    fn what_a_stranger_leaves_out_hides_no_server_and_an_accounts_may() {
        let mut host = Host::default();
        for (uid, name) in [(26, "postgres"), (1000, "mallory")] {
            let user = User { name: name.into(), gid: uid, home: None };
            host.accounts.users.insert(uid, user);
        }
        let unread = |user| {
            let why = Reason::LeftOut { user, why: "more than 16 MiB".into() };
            [Unread::new("/proc/PID/cmdline of 7 processes", why)]
        };
        assert_eq!(explain_left_out_accounts(&host, &[], &unread(1000)), None);
        assert_eq!(explain_left_out_accounts(&host, &[], &unread(61_234)), None);
        let why = explain_left_out_accounts(&host, &[], &unread(26)).unwrap();
        assert_eq!(
            why,
            "servers of postgres may be among what was not read: /proc/PID/cmdline of 7 processes \
             (more than 16 MiB)"
        );
        assert!(explain_left_out_accounts(&host, &[], &unread(0)).is_some());
    }
}
