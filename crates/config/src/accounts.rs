//! passwd(5) and group(5). Accounts from LDAP and the like are in no file and are not known.

use std::collections::BTreeMap;

use hugewise_model::host::{AccountGroup, Accounts, User};

use super::files::numbered_lines;
use hugewise_source::FactReader;

/// Accounts of the files; empty where there are none. What could not be read, the door notes.
pub fn read(door: &mut FactReader<'_>) -> Accounts {
    let users = door.parse("/etc/passwd", |bytes| Ok(parse_users(bytes)));
    let groups = door.parse("/etc/group", |bytes| Ok(parse_groups(bytes)));
    Accounts {
        users: users.into_known().unwrap_or_default(),
        groups: groups.into_known().unwrap_or_default(),
    }
}

/// Users by id. As in the C library, a line that is none is skipped and the first of one id counts.
pub fn parse_users(bytes: &[u8]) -> BTreeMap<u32, User> {
    let mut users = BTreeMap::new();
    for (_, line) in numbered_lines(bytes) {
        let fields: Vec<&str> = line.split(':').collect();
        let [name, _, uid, gid, more @ ..] = fields.as_slice() else { continue };
        let (Ok(uid), Ok(gid)) = (uid.parse(), gid.parse()) else { continue };
        let home = more.get(1).filter(|home| home.starts_with('/'));
        let home = home.map(|home| (*home).to_owned());
        if is_account_line(name) {
            users.entry(uid).or_insert_with(|| User { name: (*name).to_owned(), gid, home });
        }
    }
    users
}

/// Groups by id. Lines of one id are joined: members of both are in that group, by either name.
pub fn parse_groups(bytes: &[u8]) -> BTreeMap<u32, AccountGroup> {
    let mut groups: BTreeMap<u32, AccountGroup> = BTreeMap::new();
    for (_, line) in numbered_lines(bytes) {
        let fields: Vec<&str> = line.split(':').collect();
        let [name, _, gid, more @ ..] = fields.as_slice() else { continue };
        let Some(gid) = gid.parse().ok().filter(|_| is_account_line(name)) else { continue };
        let name = (*name).to_owned();
        let new = || AccountGroup { name: name.clone(), ..AccountGroup::default() };
        let group = groups.entry(gid).or_insert_with(new);
        if !group.all_names().any(|known| *known == name) {
            group.other_names.push(name);
        }
        let members = more.first().unwrap_or(&"").split(',').map(str::trim);
        group.members.extend(members.filter(|member| !member.is_empty()).map(str::to_owned));
    }
    groups
}

/// Not a comment, and not a NIS line (`+::`, `-name:`).
fn is_account_line(name: &str) -> bool {
    !name.is_empty() && !name.starts_with(['#', '+', '-'])
}

#[cfg(test)]
mod tests {
    use super::*;
    use hugewise_source::map::MapSource;
    use proptest::prelude::*;

    #[test]
    fn groups_of_a_user_come_from_both_files() {
        let source = MapSource::new()
            .with_file("/etc/passwd", "root:x:0:0:root:/root:/bin/sh\n# \
                 c\n\noracle:x:54321:54321::/home/oracle:/bin/bash\nora2:x:54321:1::/:\n+::::::\nbad:x:no:1::/:\n")
            .with_file("/etc/group", "root:x:0:\noinstall:x:54321:\ndba:x:54322:other,oracle\nempty\nhuge:x:99999999999:\nhugetlb:x:500: oracle ,\n");
        let accounts = read(&mut FactReader::new(&source));
        assert_eq!(accounts.users.len(), 2);
        assert_eq!(accounts.user_name(54321), "oracle");
        assert_eq!(accounts.groups_of(54321), [54321, 500, 54322]);
        assert_eq!(accounts.groups.len(), 4);
    }

    #[test]
    fn lines_that_are_none_and_ids_that_come_twice() {
        let users = parse_users(
            b"+@ldap::::::\n-evil:x:7:7::/:\n+:x:0:0:::\nroot:x:0:0::/:\ntoor:x:0:0::/:\n:x:5:5::/:\nshort:x:6\nneg:x:-1:1::/:\n\
              big:x:4294967296:1::/:\nhex:x:0x10:1::/:\nbin\xff:x:2:2::/:\ntail:x:9:9\r\nlast:x:10:10::/:",
        );
        assert_eq!(users.get(&0).map(|user| user.name.as_str()), Some("root"));
        for absent in [1, 5, 6, 7, 16, u32::MAX] {
            assert!(!users.contains_key(&absent), "{absent}");
        }
        assert!(users.contains_key(&10));
        let home = |line: &str| parse_users(line.as_bytes()).remove(&7).and_then(|user| user.home);
        assert_eq!(
            home("db2inst1:x:7:7:Db2, HQ:/home/db2inst1:/bin/sh\n").as_deref(),
            Some("/home/db2inst1")
        );
        for none in ["a:x:7:7\n", "a:x:7:7:c\n", "a:x:7:7:::\n", "a:x:7:7::home:/bin/sh\n"] {
            assert_eq!(home(none), None, "{none}");
        }
        let groups =
            parse_groups(b"+:::\nroot:x:0:\nwheel:x:0:alice\n:x:3:bob\nopen:x:4294967296:\n");
        assert_eq!((groups.len(), &groups[&0].members[..]), (1, &["alice".to_owned()][..]));
    }

    proptest! {
        #[test]
        fn a_user_reads_back(name in "[a-z_][a-z0-9_-]{0,20}", uid: u32, gid: u32) {
            let users = parse_users(format!("{name}:x:{uid}:{gid}:a, b:/home:/bin/sh\n").as_bytes());
            prop_assert_eq!(users.get(&uid), Some(&User { name, gid, home: Some("/home".into()) }));
        }
    }
}
