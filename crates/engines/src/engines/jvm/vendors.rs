//! What the vendors of servers written in Java say of their memory.

use hugewise_model::{Bytes, HugePageMode, Instance, Level, Trait};

use super::flags;
use crate::shared::kind::{Heap, ThpAdvice, Vendor};

static VENDORS: &[(&str, Vendor)] = &[
    (
        "org.elasticsearch.bootstrap.Elasticsearch",
        Vendor {
            name: "Elasticsearch",
            heap: true,
            lock: Some(
                "bootstrap.memory_lock: true in elasticsearch.yml, and LimitMEMLOCK=infinity for \
                 its service",
            ),
            no_defrag: false,
            thp: None,
        },
    ),
    ("com.hazelcast.core.server.HazelcastMemberStarter", HAZELCAST),
    // Up to release 4.
    ("com.hazelcast.core.server.StartServer", HAZELCAST),
    (
        "org.opensearch.bootstrap.OpenSearch",
        Vendor {
            name: "OpenSearch",
            heap: false,
            lock: Some(
                "bootstrap.memory_lock: true in opensearch.yml, and LimitMEMLOCK=infinity for its \
                 service",
            ),
            no_defrag: false,
            thp: None,
        },
    ),
    ("org.apache.cassandra.service.CassandraDaemon", CASSANDRA),
    ("com.datastax.bdp.DseModule", CASSANDRA),
];

const CASSANDRA: Vendor = Vendor {
    name: "Cassandra",
    heap: false,
    lock: Some("an unlimited memlock limit for its user, so that it can lock its heap at startup"),
    no_defrag: true,
    thp: None,
};

/// Its manual of 5.5, "Performance Tuning".
const HAZELCAST: Vendor = Vendor {
    name: "Hazelcast",
    heap: false,
    lock: None,
    no_defrag: false,
    thp: Some(ThpAdvice::Never(Level::Warn)),
};

/// HotSpot stops compressing references short of their end (OpenJDK 17: at 32,767 MiB).
const SHORT_OF_THE_END: Bytes = Bytes::from_mib(32);

pub(super) fn find_vendor(instance: &Instance) -> Option<&'static Vendor> {
    let class = instance.name.rsplit('/').next()?;
    VENDORS.iter().find(|(main, _)| *main == class).map(|(_, vendor)| vendor)
}

/// The heap of `-Xmx`. ZGC never compresses references.
pub(super) fn find_heap_limit(instance: &Instance) -> Option<Heap> {
    let size = |name: &str| instance.setting_value(name).and_then(flags::parse_size);
    let most = super::find_told_heap(instance)?;
    let alignment = size("objectalignmentinbytes").unwrap_or(Bytes(8));
    // Four bytes count objects at that distance (HotSpot's `OopEncodingHeapMax`).
    let end = Bytes(alignment.get().checked_mul(4 << 30)?);
    let is_beyond = most > end.saturating_sub(SHORT_OF_THE_END)
        && instance.setting_value("usezgc") != Some("true");
    Some(Heap { most, beyond: is_beyond.then_some(end) })
}

/// None of one that asks for THP itself. Azul wants it off beside Zing System Tools.
pub(super) fn advise_thp(instance: &Instance) -> Option<ThpAdvice> {
    if instance.traits.contains(&Trait::TransparentPages) {
        return None;
    }
    let of_zing = (instance.asked == HugePageMode::Cannot).then_some(ThpAdvice::Never(Level::Warn));
    find_vendor(instance).and_then(|vendor| vendor.thp).or(of_zing)
}

pub(super) fn touches_heap(instance: &Instance) -> bool {
    instance.setting_value("alwayspretouch") == Some("true")
}

#[cfg(test)]
mod tests {
    use hugewise_model::Observed;
    use hugewise_model::instance::ServerSetting;

    use super::*;
    use crate::{EngineContext, testing};

    fn machine(name: &str, flags: &[(&str, &str)]) -> Instance {
        let host = hugewise_model::Host { processes: testing::known([]), ..Default::default() };
        let source = hugewise_host::source::map::MapSource::new();
        let scene = EngineContext::new(&host, &source);
        let mut instance = scene.new_instance(
            hugewise_model::Engine::Jvm,
            name.into(),
            &Default::default(),
            Vec::new(),
        );
        for (name, value) in flags {
            let place = hugewise_model::configuration::FileLocation::command_line(7);
            let setting =
                ServerSetting { name: (*name).into(), value: (*value).into(), place: Some(place) };
            instance.settings.insert((*name).to_owned(), setting);
        }
        assert_eq!(instance.session_activity, Observed::Absent);
        instance
    }

    /// The classes that the vendors' start scripts name, since 8.0 in a module.
    #[test]
    fn a_vendor_is_known_by_the_class() {
        for (class, name) in [
            ("org.elasticsearch.bootstrap.Elasticsearch", Some("Elasticsearch")),
            (
                "org.elasticsearch.server/org.elasticsearch.bootstrap.Elasticsearch",
                Some("Elasticsearch"),
            ),
            ("org.apache.cassandra.service.CassandraDaemon", Some("Cassandra")),
            ("com.hazelcast.core.server.HazelcastMemberStarter", Some("Hazelcast")),
            ("org.opensearch.bootstrap.OpenSearch", Some("OpenSearch")),
            ("org.elasticsearch.bootstrap.ElasticsearchTest", None),
            ("app.jar", None),
        ] {
            assert_eq!(
                find_vendor(&machine(class, &[])).map(|vendor| vendor.name),
                name,
                "{class}"
            );
        }
    }

    #[test]
    fn hazelcast_wants_no_transparent_pages() {
        let advice = |class: &str| advise_thp(&machine(class, &[]));
        let hazelcast = advice("com.hazelcast.core.server.HazelcastMemberStarter");
        assert_eq!(hazelcast, Some(ThpAdvice::Never(Level::Warn)));
        assert_eq!(advice("org.apache.cassandra.service.CassandraDaemon"), None);
        assert_eq!(advice("app.jar"), None);
    }

    /// `java -XmxN -XX:+PrintFlagsFinal -version` of OpenJDK 17: UseCompressedOops.
    #[test]
    fn references_are_compressed_up_to_the_end() {
        for (most, alignment, beyond) in [
            ("31g", "8", false),
            ("32736m", "8", false),
            ("32767m", "8", true),
            ("32g", "8", true),
            ("32g", "16", false),
        ] {
            let flags = [("maxheapsize", most), ("objectalignmentinbytes", alignment)];
            assert_eq!(
                find_heap_limit(&machine("app.jar", &flags)).unwrap().beyond.is_some(),
                beyond,
                "{most} {alignment}"
            );
        }
        assert_eq!(
            find_heap_limit(&machine("app.jar", &[("maxheapsize", "64g"), ("usezgc", "true")]))
                .unwrap()
                .beyond,
            None
        );
        assert_eq!(find_heap_limit(&machine("app.jar", &[])), None);
    }
}
