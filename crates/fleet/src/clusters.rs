//! Which cluster each host belongs to.

use std::collections::BTreeMap;

/// What a list of hosts and clusters is not.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WrongList {
    /// With its line's number.
    #[error("line {0} has a host and no cluster")]
    NoCluster(usize),
    /// A host, its two clusters, and the line with the second.
    #[error("line {3} puts {0} into {2}, but an earlier line puts it into {1}")]
    Twice(String, String, String, usize),
}

/// The clusters of hosts, by their names.
#[derive(Clone, Debug, Default)]
pub struct Clusters {
    /// Of hosts that are not in the list.
    other: Option<String>,
    /// By names in small letters.
    listed: BTreeMap<String, String>,
    /// By what stands before the first dot of names that have one; none where hosts of several
    /// clusters are called so.
    short: BTreeMap<String, Option<String>>,
}

impl Clusters {
    /// All hosts are of one cluster, or of none.
    pub fn for_all_hosts(cluster: Option<String>) -> Self {
        Self { other: cluster, ..Self::default() }
    }

    /// Reads a list: a host and its cluster per line, with blanks, a comma or a semicolon between
    /// them. `other` is the cluster of hosts that are not in it.
    ///
    /// # Errors
    /// A line without a cluster, or a host in two.
    pub fn from_list(text: &str, other: Option<String>) -> Result<Self, WrongList> {
        let mut clusters = Self::for_all_hosts(other);
        for (line, entry) in parse_host_list(text) {
            let cluster = entry.cluster.ok_or(WrongList::NoCluster(line))?;
            let host = entry.host.to_ascii_lowercase();
            if let Some(before) = clusters.listed.get(&host).filter(|before| **before != cluster) {
                return Err(WrongList::Twice(host, before.clone(), cluster.to_owned(), line));
            }
            clusters.listed.insert(host, cluster.to_owned());
        }
        for (host, cluster) in &clusters.listed {
            if let Some((short, _)) = host.split_once('.') {
                let known =
                    clusters.short.entry(short.to_owned()).or_insert_with(|| Some(cluster.clone()));
                if known.as_ref() != Some(cluster) {
                    *known = None;
                }
            }
        }
        Ok(clusters)
    }

    /// The cluster of a host. A name without a domain is that of any host of that name.
    pub fn find_cluster(&self, host: Option<&str>) -> Option<&str> {
        let found = host.and_then(|host| {
            let host = host.to_ascii_lowercase();
            let listed = self.listed.get(&host);
            listed.or_else(|| match host.split_once('.') {
                Some((short, _)) => self.listed.get(short),
                None => self.short.get(&host)?.as_ref(),
            })
        });
        found.or(self.other.as_ref()).map(String::as_str)
    }
}

/// A line of a list of hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostListEntry<'a> {
    /// The host's name.
    pub host: &'a str,
    /// What comes behind it.
    pub cluster: Option<&'a str>,
}

/// The lines of a list of hosts that say something, with their numbers from 1; `#` starts a
/// comment.
pub fn parse_host_list(text: &str) -> impl Iterator<Item = (usize, HostListEntry<'_>)> {
    const BETWEEN: [char; 4] = [' ', '\t', ',', ';'];
    // As Windows' editors begin a text.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    (1..).zip(text.lines()).filter_map(|(number, line)| {
        let line = line.split('#').next().unwrap_or_default().trim();
        let (host, rest) = line.split_once(BETWEEN).unwrap_or((line, ""));
        let host = host.trim_matches('"');
        let cluster = rest.trim_matches(BETWEEN).trim_matches('"');
        let entry =
            HostListEntry { host, cluster: Some(cluster).filter(|cluster| !cluster.is_empty()) };
        (!host.is_empty()).then_some((number, entry))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_of_the_cluster_that_the_list_says() {
        let list = "\u{feff}db1.east.example.org  RAC A # first\r\n\r\n\"DB2\",\"RAC \
             B\"\r\ndb3;c\ndb1.west.example.org\tD\ndb4.x e\ndb4.y e\n";
        let clusters = Clusters::from_list(list, Some("rest".into())).unwrap();
        let text_of = |host: &str| clusters.find_cluster(Some(host)).unwrap();
        assert_eq!(["DB1.east.example.org", "db1.west.example.org"].map(text_of), ["RAC A", "D"]);
        // Names without a domain are anybody's, where that tells one cluster.
        assert_eq!(
            ["db2.example.org", "db2", "db3.x", "db4", "db1"].map(text_of),
            ["RAC B", "RAC B", "c", "e", "rest"]
        );
        assert_eq!(
            (text_of("db1.north.example.org"), clusters.find_cluster(None)),
            ("rest", Some("rest"))
        );
        assert_eq!(Clusters::from_list("", None).unwrap().find_cluster(Some("db1")), None);
    }

    #[test]
    fn a_list_that_cannot_be_meant_is_refused() {
        assert_eq!(
            Clusters::from_list("a x\n\n# b\nc\n", None).unwrap_err(),
            WrongList::NoCluster(4)
        );
        let twice = Clusters::from_list("a x\nA y\n", None).unwrap_err().to_string();
        assert_eq!(twice, "line 2 puts a into y, but an earlier line puts it into x");
        assert!(Clusters::from_list("a x\nA x\n", None).is_ok());
    }
}
