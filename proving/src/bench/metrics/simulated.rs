//! Ten thousand hosts: the series of one real scrape, of which the rules read, under many names and
//! with other values.

use std::collections::BTreeSet;
use std::io::Write;

use hugewise_testkit::tools::Failure;

/// Clusters that the hosts are in, in turn.
const CLUSTERS: u64 = 40;

/// One series of the scrape.
#[derive(Clone, Debug)]
struct Template {
    name: String,
    labels: Vec<(String, String)>,
}

/// The fleet.
pub(super) struct Fleet {
    hosts: u64,
    templates: Vec<Template>,
    /// Seconds since the epoch, of each sample.
    times: Vec<i64>,
}

impl Fleet {
    /// Of the metrics with these names, as a scrape has them.
    pub(super) fn new(
        hosts: u64,
        scrape: &str,
        names: &BTreeSet<&str>,
        times: Vec<i64>,
    ) -> Result<Self, Failure> {
        let mut templates = Vec::new();
        for line in scrape.lines().filter(|line| !line.starts_with('#')) {
            let template = read(line).ok_or_else(|| format!("not a sample: {line}"))?;
            if names.contains(template.name.as_str()) {
                templates.push(template);
            }
        }
        let first = templates
            .iter()
            .find_map(|template| label(template, "instance_name"))
            .map(str::to_owned);
        // One server stands for those of all hosts.
        templates.retain(|template| {
            label(template, "instance_name").is_none_or(|name| Some(name) == first.as_deref())
        });
        let missing = names
            .iter()
            .find(|name| **name != "up" && templates.iter().all(|one| one.name != **name));
        if let Some(missing) = missing {
            return Err(format!("the rules read {missing}, which was not served").into());
        }
        templates.push(Template { name: "up".to_owned(), labels: Vec::new() });
        Ok(Self { hosts, templates, times })
    }

    /// Calls for each series of each host, those of one metric one after another; how many there
    /// are.
    pub(super) fn each(
        &self,
        mut call: impl FnMut(&Series<'_>) -> Result<(), Failure>,
    ) -> Result<u64, Failure> {
        let mut templates: Vec<&Template> = self.templates.iter().collect();
        templates.sort_by(|one, other| one.name.cmp(&other.name));
        let mut count = 0;
        for template in templates {
            for host in 0..self.hosts {
                if is_down(host) && template.name != "up" {
                    continue;
                }
                let servers =
                    if label(template, "instance_name").is_some() { servers(host) } else { 1 };
                for server in 0..servers {
                    call(&Series { template, host, server, times: &self.times })?;
                    count += 1;
                }
            }
        }
        Ok(count)
    }
}

/// A series of a host, or of a server of it.
pub(super) struct Series<'a> {
    template: &'a Template,
    host: u64,
    server: u64,
    times: &'a [i64],
}

impl Series<'_> {
    pub(super) fn name(&self) -> &str {
        &self.template.name
    }

    fn labels(&self) -> Vec<(&str, String)> {
        let mut labels = vec![
            ("job", "hugewise".to_owned()),
            ("instance", format!("db{:05}.example:9752", self.host)),
            ("cluster", format!("c{:02}", self.host % CLUSTERS)),
        ];
        for (name, value) in &self.template.labels {
            let value = match name.as_str() {
                "instance_name" => format!("S{}", self.server),
                "state" => self.state().to_owned(),
                _ => value.clone(),
            };
            labels.push((name, value));
        }
        labels
    }

    /// Most servers are on huge pages and stay there; of the others there is every kind.
    fn state(&self) -> &'static str {
        let moment = label(self.template, "moment").unwrap_or_default();
        let now = ["all", "all", "all", "all", "partly", "none"];
        let later = ["all", "all", "all", "partly", "none", "does_not_start"];
        let (states, salt) = if moment == "now" { (now, 0) } else { (later, 1 + moment.len()) };
        let at = mix(self.host * 8 + self.server, salt) % 6;
        states.into_iter().nth(usize::try_from(at).unwrap_or_default()).unwrap_or("all")
    }

    /// At that sample.
    fn value(&self, at: u64) -> Result<u64, Failure> {
        let host = self.host;
        let matches = |salt: usize, one_in: u64| mix(host, salt).is_multiple_of(one_in);
        let small = label(self.template, "page_bytes") == Some("2097152");
        let memory = (64 << (host % 5)) << 30;
        Ok(match self.name() {
            "up" => u64::from(!is_down(host)),
            "hugewise_memory_bytes" => memory,
            "hugewise_page_tables_bytes" => {
                memory / (20 + mix(host, 2) % 200) + at * 4096 * (1 + host % 7)
            }
            "hugewise_pools_bytes" => memory / 2 / (1 + host % 3),
            "hugewise_pool_available_pages" if small && matches(3, 3) => mix(host, 4) % 50_000,
            "hugewise_pool_available_pages" if !small => u64::from(matches(5, 11)),
            "hugewise_pool_shortfall_pages" if small && matches(6, 9) => mix(host, 7) % 20_000,
            "hugewise_pool_available_pages" | "hugewise_pool_shortfall_pages" => 0,
            "hugewise_findings" => {
                let code = label(self.template, "code").unwrap_or_default();
                let salt = code.bytes().fold(8, |sum, byte| sum * 10 + usize::from(byte));
                u64::from(matches(salt, 40)) * (1 + mix(host, salt) % 2)
            }
            "hugewise_instances" => servers(host),
            "hugewise_instance_moment" => 1,
            "hugewise_servers_may_be_hidden" => u64::from(host % 211 == 5),
            other => return Err(format!("no value is made up for {other}").into()),
        })
    }

    fn values(&self) -> Result<Vec<u64>, Failure> {
        (0..).zip(self.times).map(|(at, _)| self.value(at)).collect()
    }

    /// As OpenMetrics.
    pub(super) fn open_metrics(&self, out: &mut impl Write) -> Result<(), Failure> {
        let labels: Vec<String> =
            self.labels().iter().map(|(name, value)| format!("{name}={value:?}")).collect();
        let labels = labels.join(",");
        for (time, value) in self.times.iter().zip(self.values()?) {
            writeln!(out, "{}{{{labels}}} {value} {time}", self.name())?;
        }
        Ok(())
    }

    /// As a line of VictoriaMetrics' own import.
    pub(super) fn line(&self, out: &mut impl Write) -> Result<(), Failure> {
        let mut metric: serde_json::Map<_, _> = self
            .labels()
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value.into()))
            .collect();
        metric.insert("__name__".to_owned(), self.name().into());
        let times: Vec<i64> = self.times.iter().map(|time| time * 1000).collect();
        let line =
            serde_json::json!({ "metric": metric, "values": self.values()?, "timestamps": times });
        Ok(writeln!(out, "{line}")?)
    }
}

fn is_down(host: u64) -> bool {
    host % 97 == 96
}

fn servers(host: u64) -> u64 {
    1 + mix(host, 9) % 3
}

fn label<'a>(template: &'a Template, wanted: &str) -> Option<&'a str> {
    template.labels.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.as_str())
}

/// A number that looks like chance (splitmix64).
fn mix(host: u64, salt: usize) -> u64 {
    let salt = u64::try_from(salt).unwrap_or_default();
    let mut z = host.wrapping_add(salt << 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A sample's line. Labels that rules read have no quotes and commas in their values.
fn read(line: &str) -> Option<Template> {
    let (series, _) = line.rsplit_once(' ')?;
    let Some((name, labels)) = series.split_once('{') else {
        return Some(Template { name: series.to_owned(), labels: Vec::new() });
    };
    let labels = labels.strip_suffix("\"}")?.split("\",").map(|label| label.split_once("=\""));
    let labels = labels.map(|label| label.map(|(name, value)| (name.to_owned(), value.to_owned())));
    Some(Template { name: name.to_owned(), labels: labels.collect::<Option<_>>()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCRAPE: &str = "# TYPE hugewise_findings gauge
hugewise_findings{code=\"HW201\",level=\"error\",name=\"no-pool\"} 3
hugewise_instance_moment{engine=\"oracle\",instance_name=\"A\",moment=\"now\",state=\"all\"} 1
hugewise_instance_moment{engine=\"oracle\",instance_name=\"B\",moment=\"now\",state=\"all\"} 1
hugewise_other 1
";

    #[test]
    fn every_host_has_the_series_of_the_scrape() {
        let names = BTreeSet::from(["hugewise_findings", "hugewise_instance_moment", "up"]);
        let fleet = Fleet::new(97, SCRAPE, &names, vec![60, 120]).unwrap();
        let mut lines = Vec::new();
        let count = fleet.each(|series| series.open_metrics(&mut lines)).unwrap();
        let lines = String::from_utf8(lines).unwrap();
        let servers: u64 = (0..96).map(servers).sum();
        // The last host is down: it has `up` alone.
        assert_eq!(count, 96 + servers + 97);
        assert_eq!(lines.lines().count() as u64, 2 * count);
        assert!(lines.contains(
            "up{job=\"hugewise\",instance=\"db00096.example:9752\",cluster=\"c16\"} 0 120\n"
        ));
        assert!(
            lines.contains("cluster=\"c00\",code=\"HW201\",level=\"error\",name=\"no-pool\"} "),
            "{lines}"
        );
        let names = BTreeSet::from(["hugewise_gone"]);
        assert!(Fleet::new(1, SCRAPE, &names, vec![60]).is_err());
    }
}
