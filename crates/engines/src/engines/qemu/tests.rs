use hugewise_host::source::map::MapSource;
use hugewise_model::host::HugetlbfsMount;
use hugewise_model::{Host, HugePageUse, Mapping};
use proptest::prelude::*;

use super::*;
use crate::testing;

fn guest(command: &str, mappings: Vec<Mapping>) -> Process {
    Process {
        pid: 9,
        name: "qemu-system-x86".into(),
        command: Observed::Known(command.split(' ').map(str::to_owned).collect()),
        executable: Observed::Known("/usr/bin/qemu-system-x86_64".into()),
        mappings: Observed::Known(mappings),
        ..Process::default()
    }
}

fn mapping(mib: u64, name: &str, shared: bool, page: PageSize) -> Mapping {
    Mapping {
        start: 0x7f00_0000_0000 + (mib << 32),
        end: 0x7f00_0000_0000 + (mib << 32) + (mib << 20),
        shared,
        accessible: true,
        offset: 0,
        device: 17,
        inode: mib,
        name: name.into(),
        page_size: Observed::Known(page),
    }
}

fn only(process: Process) -> Instance {
    let host = Host {
        base_page: Observed::Known(PageSize::KIB_4),
        default_huge_page: Observed::Known(PageSize::MIB_2),
        hugetlbfs_mounts: Observed::Known(
            ["/mnt/huge1g", "/run/hugepages/kvm/1048576kB"]
                .map(|path| HugetlbfsMount {
                    path: path.into(),
                    page_size: Observed::Known(PageSize::GIB_1),
                    options: String::new(),
                })
                .into(),
        ),
        processes: testing::known([process]),
        ..Host::default()
    };
    let mut found = FoundInstances::default();
    find_qemu_guests(&EngineContext::new(&host, &MapSource::new()), &mut found);
    assert_eq!(found.instances.len(), 1);
    found.instances.remove(0)
}

#[test]
fn a_memfd_on_huge_pages_is_all_and_a_must() {
    let ram = mapping(256, "/memfd:memory-backend-memfd (deleted)", false, PageSize::MIB_2);
    let translator = mapping(1024, "", false, PageSize::KIB_4);
    let command = "qemu-system-x86_64 -name guest=web,,1,debug-threads=on -m 256 -object \
        memory-backend-memfd,hugetlb=on,id=m,size=256M -machine q35,memory-backend=m -vnc \
        password=on";
    let instance = only(guest(command, vec![ram, translator]));
    assert_eq!(
        (instance.name.as_str(), instance.asked, instance.huge_pages),
        ("web,1", HugePageMode::Must, HugePageUse::All)
    );
    assert_eq!((instance.mechanism, instance.segments.len()), (Mechanism::Mmap, 1));
    assert_eq!(instance.demand.map(|demand| demand.pages), Some(PageCount(128)));
    assert_eq!(
        instance.setting.map(|server_setting| server_setting.to_string()).as_deref(),
        Some("hugetlb=on (/proc/9/cmdline)")
    );
    assert!(!instance.settings.contains_key("vnc"));
}

#[test]
fn libvirt_writes_json_and_files() {
    let command = r#"/usr/libexec/qemu-kvm -name guest=db1 -m size=4194304k,slots=16,maxmem=8G -object {"qom-type":"memory-backend-file","id":"ram0","mem-path":"/mnt/huge1g/libvirt/qemu/1-db1","share":true,"prealloc":true,"size":2147483648} -object {"qom-type":"memory-backend-file","id":"ram1","mem-path":"/mnt/huge1g/libvirt/qemu/1-db1","size":2147483648} -object {"qom-type":"secret","id":"masterKey0","data":"x"}"#;
    let ram = mapping(4096, "/mnt/huge1g/libvirt/qemu/1-db1/ram (deleted)", true, PageSize::GIB_1);
    let instance = only(guest(command, vec![ram]));
    assert_eq!((instance.asked, instance.mechanism), (HugePageMode::Must, Mechanism::Hugetlbfs));
    assert_eq!(instance.asked_page_size, Observed::Known(PageSize::GIB_1));
    assert_eq!(instance.demand.map(|demand| demand.pages), Some(PageCount(4)));
    assert_eq!(instance.huge_pages, HugePageUse::All);
    assert!(instance.settings.values().all(|setting| !setting.value.contains("masterKey")));
}

/// A guest of Proxmox VE 8 with `hugepages: 1024`: its manager makes the pages before each start.
#[test]
fn a_guest_of_proxmox_has_its_pages_made() {
    let folder = "/run/hugepages/kvm/1048576kB";
    let command = format!(
        "/usr/bin/kvm -id 106 -name worker,debug-threads=on -m 4096 -object \
         memory-backend-file,id=ram-node0,size=4096M,mem-path={folder},share=on,prealloc=yes -numa \
         node,nodeid=0,cpus=0-3,memdev=ram-node0"
    );
    let ram = mapping(4096, &format!("{folder}/qemu_back_mem.x"), true, PageSize::GIB_1);
    let instance = only(guest(&command, vec![ram]));
    assert_eq!((instance.asked, instance.mechanism), (HugePageMode::Raises, Mechanism::Hugetlbfs));
    assert_eq!(instance.huge_pages, HugePageUse::All);
}

#[test]
fn without_a_backend_its_memory_is_the_private_stretch_of_its_size() {
    let mappings =
        vec![mapping(1024, "", false, PageSize::KIB_4), mapping(300, "", false, PageSize::KIB_4)];
    let instance = only(guest("kvm -name plain -m 300", mappings));
    assert_eq!(
        (instance.name.as_str(), instance.asked, instance.huge_pages),
        ("plain", HugePageMode::No, HugePageUse::None)
    );
    assert_eq!(
        instance.segments.iter().map(|segment| segment.size).collect::<Vec<_>>(),
        [Bytes::from_mib(300)]
    );
    assert_eq!(instance.demand.map(|demand| demand.pages), Some(PageCount(150)));
}

/// numa.c of QEMU 2.11: without -mem-prealloc, what -mem-path has no pages for is ordinary memory.
#[test]
fn before_5_0_a_guest_without_its_pages_goes_on_without() {
    let private = || {
        vec![mapping(4096, "", false, PageSize::KIB_4), mapping(150, "", false, PageSize::KIB_4)]
    };
    let command = "/usr/bin/qemu-system-x86_64 -m 4096 -mem-path /dev/hugepages -smp 4";
    let instance = only(guest(command, private()));
    assert_eq!((instance.asked, instance.huge_pages), (HugePageMode::Try, HugePageUse::None));
    assert_eq!(instance.segment_bytes(), Bytes::from_mib(4096));
    assert_eq!(instance.demand.map(|demand| demand.pages), Some(PageCount(2048)));
    let has_pages = vec![mapping(4096, "/dev/hugepages/x (deleted)", true, PageSize::MIB_2)];
    assert_eq!(only(guest(command, has_pages)).asked, HugePageMode::Must);
    let touched = format!("{command} -mem-prealloc");
    assert_eq!(only(guest(&touched, private())).asked, HugePageMode::Must);
}

/// LXD 4.3: the backend in its file is connected to nothing, so its guest has ordinary memory.
#[test]
fn a_machine_is_what_its_file_says() {
    let path = "/var/snap/lxd/common/lxd/logs/v1/qemu.conf";
    let backend = "[memory]\nsize = \"4096M\"\n[object \"mem0\"]\n\
                   qom-type = \"memory-backend-file\"\nmem-path = \"/dev/hugepages\"\n\
                   size = \"4096M\"\n";
    let found = |text: &str, mappings: Vec<Mapping>| {
        let command = format!("/snap/lxd/bin/qemu-system-x86_64 -name v1 -readconfig {path}");
        let host = Host {
            base_page: Observed::Known(PageSize::KIB_4),
            default_huge_page: Observed::Known(PageSize::MIB_2),
            processes: testing::known([guest(&command, mappings)]),
            ..Host::default()
        };
        let mut found = FoundInstances::default();
        let source = MapSource::new().with_file(path, text);
        find_qemu_guests(&EngineContext::new(&host, &source), &mut found);
        let instance = found.instances.remove(0);
        (instance.asked, instance.huge_pages, instance.segment_bytes())
    };
    let in_pool = || mapping(4096, "/dev/hugepages/x (deleted)", true, PageSize::MIB_2);
    let both = || vec![in_pool(), mapping(4097, "", false, PageSize::KIB_4)];
    let part = (HugePageMode::Must, HugePageUse::Partly, Bytes::from_mib(4096 + 4097));
    assert_eq!(found(backend, both()), part);
    let connected = format!("{backend}[numa]\ntype = \"node\"\nmemdev = \"mem0\"\n");
    let all = (HugePageMode::Must, HugePageUse::All, Bytes::from_mib(4096));
    assert_eq!(found(&connected, vec![in_pool()]), all);
}

/// What QEMU 7.2 maps: its memory is `-m` of private memory, unless a backend is named for it.
#[test]
fn a_device_of_its_own_on_huge_pages_is_a_part() {
    let mappings = || {
        let memfd = mapping(128, "/memfd:memory-backend-memfd (deleted)", true, PageSize::MIB_2);
        vec![memfd, mapping(1024, "", false, PageSize::KIB_4)]
    };
    for more in [
        "",
        " -device ivshmem-plain,memdev=x",
        r#" -device {"driver":"ivshmem-plain","memdev":"x"}"#,
    ] {
        let command =
            format!("kvm -m 1G -object memory-backend-memfd,id=x,size=128M,hugetlb=on{more}");
        let instance = only(guest(&command, mappings()));
        assert_eq!(
            (instance.huge_pages, instance.asked),
            (HugePageUse::Partly, HugePageMode::Must)
        );
        assert_eq!(instance.demand.map(|demand| demand.pages), Some(PageCount(64 + 512)), "{more}");
        let next = instance.next.into_known().unwrap();
        assert_eq!(
            next.demands.iter().map(|demand| demand.pages).collect::<Vec<_>>(),
            [PageCount(64)]
        );
    }
    // As large as the machine's memory, and not it.
    let memfd = mapping(1024, "/memfd:memory-backend-memfd (deleted)", true, PageSize::MIB_2);
    let mut ram = mapping(1024, "", false, PageSize::KIB_4);
    (ram.start, ram.end) = (ram.start << 1, (ram.start << 1) + (1 << 30));
    let dimm = "kvm -m 1G,slots=1,maxmem=4G -object memory-backend-memfd,id=x,size=1G,hugetlb=on \
        -device pc-dimm,memdev=x";
    let instance = only(guest(dimm, vec![memfd, ram]));
    assert_eq!((instance.huge_pages, instance.segments.len()), (HugePageUse::Partly, 2));
    assert_eq!(instance.demand.map(|demand| demand.pages), Some(PageCount(1024)));
}

#[test]
fn backends_on_pages_of_two_sizes_are_counted_by_size() {
    let command = "kvm -m 1324M -object memory-backend-file,id=a,size=1G,mem-path=/mnt/huge1g \
        -object memory-backend-memfd,id=b,size=300M,hugetlb=on -numa node,memdev=a -numa \
        node,memdev=b";
    let instance = only(guest(command, vec![]));
    let demand_of = |page_size, pages| Demand {
        page_size,
        pages: PageCount(pages),
        source: DemandSource::Engine,
    };
    assert_eq!(
        (instance.demand, instance.other_demands),
        (Some(demand_of(PageSize::GIB_1, 1)), vec![demand_of(PageSize::MIB_2, 150)])
    );
    assert!(instance.next.is_absent());
    let path = only(guest("kvm -m 2G -mem-path /mnt/huge1g", vec![]));
    assert_eq!(path.demand, Some(demand_of(PageSize::GIB_1, 2)));
}

#[test]
fn a_hidden_command_line_leaves_the_question_open() {
    let process = Process { command: Observed::Denied, ..guest("", vec![]) };
    let instance = only(process);
    assert_eq!(
        (instance.asked, instance.setting, instance.demand),
        (HugePageMode::Unknown, None, None)
    );
    for command in [
        "kvm -m 1G -readconfig /etc/vm.cfg",
        r#"kvm -m 1G -object {"qom-type":"memory-backend-memfd""#,
    ] {
        assert_eq!(only(guest(command, vec![])).asked, HugePageMode::Unknown, "{command}");
    }
}

#[test]
fn sizes_are_qemus() {
    for (text, bytes) in [
        ("4096", Some(4 << 30)),
        ("4G", Some(4 << 30)),
        ("size=1024M,slots=2", Some(1 << 30)),
        ("1T", Some(1 << 40)),
        ("", None),
        ("x", None),
        ("99999999999999999999", None),
    ] {
        assert_eq!(memory_size(text), bytes.map(Bytes), "{text}");
    }
}

proptest! {
    #[test]
    fn memory_is_in_mebibytes_unless_it_has_a_unit(number in 1..1_u64 << 20) {
        for (unit, shift) in [("", 20), ("M", 20), ("G", 30), ("K", 10)] {
            prop_assert_eq!(memory_size(&format!("{number}{unit}")), Some(Bytes(number << shift)));
            prop_assert_eq!(memory_size(&format!("size={number}{unit},slots=2")), Some(Bytes(number << shift)));
        }
    }
}

/// A pod's /dev/hugepages is not the host's: its own mounts tell its pages, or what it has mapped.
#[test]
fn a_guest_of_a_container_has_the_pages_of_its_own_mounts() {
    const OWN: &str = "624 601 0:90 / / rw - overlay overlay rw\n\
        735 624 0:131 / /dev/hugepages/vm rw,relatime - hugetlbfs nodev rw,pagesize=1024M\n";
    let apart = |path: &str, mountinfo: Option<&str>, mapped: Option<Mapping>| {
        let command = format!(
            "qemu-kvm -m 16G -object memory-backend-file,id=r,mem-path={path},size=16G -machine \
             memory-backend=r"
        );
        let mut process = guest(&command, mapped.into_iter().collect());
        process.namespaces.mount = Observed::Known(2);
        let mut host = Host {
            base_page: Observed::Known(PageSize::KIB_4),
            default_huge_page: Observed::Known(PageSize::MIB_2),
            hugetlbfs_mounts: Observed::Known(vec![HugetlbfsMount {
                path: "/dev/hugepages".into(),
                page_size: Observed::Known(PageSize::MIB_2),
                options: String::new(),
            }]),
            processes: testing::known([process]),
            ..Host::default()
        };
        host.namespaces.mount = Observed::Known(1);
        let source = mountinfo.map_or_else(MapSource::new, |text| {
            MapSource::new().with_file("/proc/9/mountinfo", text)
        });
        let mut found = FoundInstances::default();
        find_qemu_guests(&EngineContext::new(&host, &source), &mut found);
        let guest = found.instances.remove(0);
        let demand = guest.demand.unwrap();
        (guest.asked, demand.page_size, demand.pages)
    };
    let gib_pages = (HugePageMode::Must, PageSize::GIB_1, PageCount(16));
    let ram =
        || mapping(16 << 10, "/dev/hugepages/vm/qemu_back_mem.r (deleted)", true, PageSize::GIB_1);
    assert_eq!(apart("/dev/hugepages/vm/1", Some(OWN), None), gib_pages);
    assert_eq!(apart("/dev/hugepages/vm/1", Some(OWN), Some(ram())), gib_pages);
    assert_eq!(apart("/dev/hugepages/vm", None, Some(ram())), gib_pages);
    // What neither tells is the default.
    let by_default = (HugePageMode::Must, PageSize::MIB_2, PageCount(8192));
    assert_eq!(apart("/dev/hugepages/vm/1", None, None), by_default);
    // A folder of its disk lies over one of the hugetlbfs (an emptyDir of KubeVirt's).
    let masked = format!("{OWN}736 735 253:0 /x /dev/hugepages/vm/libvirt rw - ext4 /dev/sda rw\n");
    let below = "/dev/hugepages/vm/libvirt/1";
    assert_eq!(apart(below, Some(&masked), None).0, HugePageMode::No);
    assert_eq!(apart(below, Some(OWN), None), gib_pages);
    // On its own disk, whatever the host has at that path.
    assert_eq!(apart("/dev/hugepages/x", Some(OWN), None).0, HugePageMode::No);
}
