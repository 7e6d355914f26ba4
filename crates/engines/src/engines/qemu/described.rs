//! A QEMU guest by its command line.

use hugewise_host::Source;
use hugewise_model::{Bytes, Host};

use super::hugetlbfs::GuestMounts;
use super::{build_instance, memory_size, option_values, parse_backends, parse_size};
use crate::EngineContext;
use crate::shared::described;
use crate::shared::description::{DescribeError, Described, Description};

pub(crate) fn describe_guest(
    host: &Host,
    source: &dyn Source,
    description: &Description,
    _ask: bool,
) -> Result<Described, DescribeError> {
    let example = "qemu-system-x86_64 -m 4G";
    let command = described::command_of(description, example, "qemu-system-x86_64")?;
    let sane =
        |size: Option<Bytes>| size.is_some_and(|size| size.get() > 0 && size.get() < 1 << 63);
    let no_size = |text: &str| {
        let todo =
            "write a whole number followed by K, M, G or T; after -m, a bare number is mebibytes";
        Err(DescribeError::new(format!("no size of memory: {text:?}"), todo))
    };
    if let Some(text) = option_values(command, "m").last().filter(|text| !sane(memory_size(text))) {
        return no_size(text);
    }
    for backend in parse_backends(command) {
        for text in ["size", "hugetlbsize"].into_iter().filter_map(|name| backend.get(name)) {
            if !sane(parse_size(text, 1)) {
                return no_size(text);
            }
        }
    }
    let mounts = GuestMounts::from_host(host);
    let memfds = parse_backends(command)
        .into_iter()
        .filter(|backend| backend.kind == "memory-backend-memfd" && backend.is_huge(&mounts));
    for backend in memfds {
        let (Some(size), Some(page)) = (backend.size(), backend.page_size(&mounts)) else {
            continue;
        };
        if !size.get().is_multiple_of(page.bytes().get()) {
            let what = format!(
                "a memfd of {} bytes is not a whole number of {page} pages: QEMU refuses it",
                size.get()
            );
            return Err(DescribeError::new(what, "give the backend a size that is"));
        }
    }
    let scene = EngineContext::new(host, source);
    let named = build_instance(&scene, &described::process_from_command(command.to_vec()));
    let mut described = described::without_process(named);
    if described.name == "0" {
        described.name = "guest".into();
    }
    Ok(described.into())
}

#[cfg(test)]
mod tests {
    use hugewise_host::source::MapSource;
    use hugewise_model::host::HugetlbfsMount;
    use hugewise_model::{Engine, HugePageMode, Observed, PageCount, PageSize};

    use super::*;

    #[test]
    fn a_described_guest_is_the_sum_of_its_backends() {
        let by = |command: &str| {
            let host = Host {
                default_huge_page: Observed::Known(PageSize::MIB_2),
                hugetlbfs_mounts: Observed::Known(vec![HugetlbfsMount {
                    path: "/mnt/huge1g".into(),
                    page_size: Observed::Known(PageSize::GIB_1),
                    options: String::new(),
                }]),
                ..Host::default()
            };
            let command = command.split_whitespace().map(str::to_owned).collect();
            describe_guest(
                &host,
                &MapSource::new(),
                &Description::Command { engine: Engine::Qemu, command },
                false,
            )
            .map(|described| described.instance)
        };
        let guest = by("qemu-system-x86_64 -m 3G -object \
            memory-backend-file,id=a,size=1G,mem-path=/mnt/huge1g -object \
            memory-backend-file,id=b,size=1025M,mem-path=/mnt/huge1g");
        let guest = guest.unwrap();
        assert_eq!((guest.asked, guest.pid, guest.name.as_str()), (HugePageMode::Must, 0, "guest"));
        let demand = guest.demand.unwrap();
        assert_eq!((demand.page_size, demand.pages), (PageSize::GIB_1, PageCount(3)));
        let plain = by("qemu-system-x86_64 -name db -m 301").unwrap();
        assert_eq!(
            (plain.name.as_str(), plain.demand.map(|demand| demand.pages)),
            ("db", Some(PageCount(151)))
        );
        for bad in [
            "",
            "kvm -m x",
            "kvm -m 0",
            "kvm -m -1",
            "kvm -object memory-backend-memfd,size=1Q",
            "kvm -object memory-backend-memfd,size=1025M,hugetlb=on",
        ] {
            assert!(by(bad).is_err(), "{bad}");
        }
    }
}
