//! How a host was set up, from a capture or a sosreport of it.

use hugewise_host::Source;
use hugewise_model::instance::SessionModel;

use super::clock_skew;
use crate::verdict::{ClockSkew, HostSetupFacts, InstanceFacts, PoolFacts};

#[derive(Clone, Debug, Default)]
pub(crate) struct Setup {
    pub(crate) host: Option<String>,
    pub(crate) zone: Option<String>,
    /// When it was captured, in seconds of UTC.
    pub(crate) read_at: Option<i64>,
    /// When its kernel started, in seconds of UTC.
    pub(crate) booted: Option<i64>,
    pub(crate) ahead: Option<ClockSkew>,
    /// Everything else; without its moment, which is of no clock yet.
    pub(crate) facts: HostSetupFacts,
}

pub(crate) fn read(source: &dyn Source, label: &str) -> Setup {
    let (host, found) = hugewise_engines::read_host_and_instances(source);
    let pools = host.pools.as_known().map(|pools| {
        let pages = |count: &hugewise_model::Observed<hugewise_model::PageCount>| {
            count.get().map(|count| count.get())
        };
        let pool = |pool: &hugewise_model::host::Pool| PoolFacts {
            page: pool.page_size,
            total: pages(&pool.total),
            free: pages(&pool.free),
            reserved: pages(&pool.reserved),
        };
        pools.iter().map(pool).collect()
    });
    let instances = host.processes.as_known().map(|_| {
        let instance = |instance: &hugewise_model::Instance| InstanceFacts {
            engine: instance.engine,
            name: instance.name.clone(),
            processes: instance.session_model == SessionModel::Processes,
            sessions: instance.sessions.get(),
            most_sessions: instance.max_sessions.get(),
            segments: instance.segment_bytes(),
            huge: instance.huge_bytes(),
            page_tables: instance.page_tables.get(),
        };
        found
            .instances
            .iter()
            .filter(|other_instance| !other_instance.is_stopped())
            .map(instance)
            .collect()
    });
    let facts = HostSetupFacts {
        source: label.to_owned(),
        at: None,
        kernel: host.kernel.as_known().map(|kernel| kernel.text.clone()),
        memory: host.memory.total.get(),
        page_tables: host.memory.page_tables.get(),
        base_page: host.base_page.get(),
        huge_page: host.default_huge_page.get(),
        pools,
        thp: host.thp.enabled.as_known().cloned(),
        min_free: host.kernel_settings.min_free.get(),
        instances,
    };
    Setup {
        host: host.name.as_known().cloned(),
        zone: read_time_zone(source),
        read_at: host.read_at.get(),
        booted: read_boot_time(source),
        ahead: clock_skew::read_clock_skew(source, label),
        facts,
    }
}

/// `btime` of /proc/stat.
fn read_boot_time(source: &dyn Source) -> Option<i64> {
    let text = source.read("/proc/stat").into_known()?;
    let text = String::from_utf8_lossy(&text);
    let booted = text.lines().find_map(|line| line.strip_prefix("btime "))?;
    booted.trim().parse().ok().filter(|seconds| *seconds > 0)
}

fn read_time_zone(source: &dyn Source) -> Option<String> {
    let named = |text: &str| Some(text.trim().to_owned()).filter(|name| !name.is_empty());
    if let Some(target) = source.read_link("/etc/localtime").as_known()
        && let Some((_, name)) = target.split_once("zoneinfo/")
    {
        return named(name);
    }
    for path in ["/sos_commands/systemd/timedatectl", "/sos_commands/date/timedatectl"] {
        let text = source.read(path).into_known().unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let mut lines = text.lines().map(str::trim);
        if let Some(rest) = lines
            .find_map(|line| line.strip_prefix("Time zone:").or(line.strip_prefix("Timezone:")))
        {
            return rest
                .split_ascii_whitespace()
                .next()
                .and_then(named)
                .filter(|name| name != "n/a");
        }
    }
    let text = source.read("/etc/timezone").into_known()?;
    named(String::from_utf8_lossy(&text).lines().next()?)
}

#[cfg(test)]
mod tests {
    use hugewise_host::source::MapSource;

    use super::*;

    #[test]
    fn the_zone_is_told_in_three_places() {
        let timedatectl = "               Local time: Sat 2026-11-21\n                Time zone: \
             Europe/Berlin (CET, +0100)\n";
        let link = MapSource::default()
            .with_link("/etc/localtime", "../usr/share/zoneinfo/America/New_York");
        assert_eq!(read_time_zone(&link).as_deref(), Some("America/New_York"));
        let said = MapSource::default().with_file("/sos_commands/systemd/timedatectl", timedatectl);
        assert_eq!(read_time_zone(&said).as_deref(), Some("Europe/Berlin"));
        assert_eq!(
            read_time_zone(&MapSource::default().with_file("/etc/timezone", "Asia/Tokyo\n"))
                .as_deref(),
            Some("Asia/Tokyo")
        );
        assert_eq!(read_time_zone(&MapSource::default()), None);
    }

    #[test]
    fn what_is_not_there_is_not_known() {
        let setup = read(
            &MapSource::default().with_file("/proc/meminfo", "MemTotal: 16 kB\nPageTables: 4 kB\n"),
            "sos",
        );
        assert_eq!((setup.host, setup.facts.instances, setup.facts.pools), (None, None, None));
        assert_eq!(setup.facts.memory, Some(hugewise_model::Bytes(16 << 10)));
        assert_eq!(setup.facts.page_tables, Some(hugewise_model::Bytes(4 << 10)));
    }
}
