//! Pools that the kernel command line brings, on captured hosts with something more on them.

use hugewise_diagnose::sizing::{PageSizeChoice, Request};
use hugewise_model::{PageCount, PageSize};

use super::made_hosts::{commands, content, defaults, has, source, step};
use super::world::{World, holds, shown};
use crate::plan::{Change, Risk};
use crate::planner::{PlanError, PlanOptions, build_plan};

pub(super) fn gib_pages_at_boot() -> PlanOptions {
    PlanOptions { page_size: Some(PageSize::GIB_1), now: false, ..PlanOptions::default() }
}

#[test]
fn pages_of_1_gib_go_on_the_command_line_through_grubs_drop_in() {
    let base = source("no-pool-postgresql");
    let mut world = World::new(&*base);
    world.put_grub("quiet");
    let options = gib_pages_at_boot();
    let (plan, after) = holds("grub", &world, &options, &Request::default());
    let boot = step(&plan, "pools-command-line");
    assert_eq!(boot.risk, Risk::Reboot);
    assert_eq!(commands(boot), ["/usr/sbin/update-grub"]);
    assert_eq!(
        content(&plan, "/etc/default/grub.d/zz-hugewise.cfg"),
        "# Made by hugewise. To undo: hugewise undo\n\
         GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX hugepagesz=1G hugepages=2\"\n"
    );
    assert_eq!(after.pages_after_boot(PageSize::GIB_1), PageCount(2));
    assert!(after.text("/boot/grub/grub.cfg").contains("quiet hugepagesz=1G hugepages=2\n"));
    // The server has to ask for them.
    let (plan, _) = holds(
        "grub and server",
        &world,
        &PlanOptions { now: true, ..options },
        &Request::default(),
    );
    assert!(shown(&plan).contains("huge_page_size = 1GB"), "{}", shown(&plan));
}

#[test]
fn words_of_others_for_the_same_size_are_not_fought() {
    let base = source("no-pool-postgresql");
    let mut world = World::new(&*base);
    world.put_grub("hugepagesz=1G hugepages=1");
    let options = gib_pages_at_boot();
    let (plan, _) = holds("collision", &world, &options, &Request::default());
    assert!(!has(&plan, "pools-command-line"));
    let by_hand = plan
        .instructions
        .iter()
        .find(|instruction| instruction.title.contains("command line"))
        .unwrap();
    assert!(
        by_hand.text.contains("/boot/grub/grub.cfg:2 already names 1 GiB pages"),
        "{}",
        by_hand.text
    );
}

/// The line has what is needed, and a file after it asks for more than the host has: the file alone
/// is to be corrected.
#[test]
fn pages_that_the_line_has_are_not_to_be_put_there_again() {
    let base = source("no-pool-postgresql");
    let mut world = World::new(&*base);
    world.put_grub("quiet hugepagesz=1G hugepages=2");
    world.put(
        "/etc/tmpfiles.d/pages.conf",
        "w /sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages - - - - 900\n",
    );
    let options = gib_pages_at_boot();
    let (plan, after) = holds("on the line", &world, &options, &Request::default());
    assert!(
        plan.instructions.iter().all(|instruction| !instruction.title.contains("command line")),
        "{}",
        shown(&plan)
    );
    assert!(!has(&plan, "pools-command-line"));
    assert_eq!(after.pages_after_boot(PageSize::GIB_1), PageCount(2), "{}", shown(&plan));
}

#[test]
fn a_later_drop_in_that_forgets_what_was_there_is_found() {
    let base = source("no-pool-postgresql");
    let mut world = World::new(&*base);
    world.put_grub("quiet");
    world.put("/etc/default/grub.d/zzz.cfg", "GRUB_CMDLINE_LINUX=\"console=ttyS0\"\n");
    let options = gib_pages_at_boot();
    let (plan, _) = holds("later drop-in", &world, &options, &Request::default());
    assert!(!has(&plan, "pools-command-line"));
    assert!(shown(&plan).contains("/etc/default/grub.d/zzz.cfg is read after"), "{}", shown(&plan));
}

/// The menu that is made anew for our words would bring these too, and the kernel goes by the first
/// number.
#[test]
fn words_that_wait_for_the_menu_are_not_overlooked() {
    let base = source("no-pool-postgresql");
    let mut world = World::new(&*base);
    world.put_grub("quiet");
    world.put("/etc/default/grub", "GRUB_CMDLINE_LINUX=\"hugepagesz=1G hugepages=1\"\n");
    let options = gib_pages_at_boot();
    let (plan, _) = holds("waiting words", &world, &options, &Request::default());
    assert!(!has(&plan, "pools-command-line"));
    let waits = "# hugepagesz=1G hugepages=1 in /etc/default/grub:1 is not in the boot menu, but \
         regenerating the menu";
    assert!(shown(&plan).contains(waits), "{}", shown(&plan));
    // What nobody asked for comes with it as well: 64 GiB, another size for each server that asks
    // for the default, THP.
    for words in ["hugepages=32768", "default_hugepagesz=1G", "transparent_hugepage=always"] {
        world.put("/etc/default/grub", format!("GRUB_CMDLINE_LINUX=\"{words}\"\n"));
        let (plan, _) = holds("waiting words of others", &world, &options, &Request::default());
        assert!(!has(&plan, "pools-command-line"), "{words}");
        let waits = format!(
            "# {words} in /etc/default/grub:1 is not in the boot menu, but regenerating the menu"
        );
        assert!(shown(&plan).contains(&waits), "{}", shown(&plan));
        // The next kernel that is installed has the menu made, whatever the plan does: who sets the
        // pool by a file is told.
        let (plan, _) =
            holds("waiting words beside a file", &world, &defaults().0, &Request::default());
        let told = format!(
            "{words} in /etc/default/grub:1 is not in the boot menu, but will be once the menu is \
                 regenerated"
        );
        assert!(plan.warnings.iter().any(|text| text.starts_with(&told)), "{}", shown(&plan));
    }
    // Our own wait where an apply was cut off: the plan goes on from there.
    world.put("/etc/default/grub", "GRUB_CMDLINE_LINUX=\"\"\n");
    let ours = "# Made by hugewise. To undo: hugewise undo\n\
                GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX hugepagesz=1G hugepages=2\"\n";
    world.put("/etc/default/grub.d/zz-hugewise.cfg", ours);
    let (plan, after) = holds("our own words", &world, &options, &Request::default());
    assert!(has(&plan, "pools-command-line"), "{}", shown(&plan));
    assert_eq!(after.pages_after_boot(PageSize::GIB_1), PageCount(2));
}

/// Somebody wrote them into the menu, or made it and then took them out of the file: the new menu
/// is without them, and a server that needs the pool is then without it.
#[test]
fn words_that_a_new_menu_would_lose_are_not_overlooked() {
    let base = source("no-pool-postgresql");
    let mut world = World::new(&*base);
    world.put_grub("quiet hugepages=600");
    world.put("/etc/default/grub", "GRUB_CMDLINE_LINUX=\"quiet\"\n");
    let options = gib_pages_at_boot();
    let (plan, _) = holds("words that the file lacks", &world, &options, &Request::default());
    assert!(!has(&plan, "pools-command-line"));
    let lost = "# /boot/grub/grub.cfg:2 has hugepages=600 but /etc/default/grub does not, so";
    assert!(shown(&plan).contains(lost), "{}", shown(&plan));
    world.put("/etc/default/grub", "GRUB_CMDLINE_LINUX=\"quiet hugepages=600\"\n");
    let (plan, _) = holds("words that the file has", &world, &options, &Request::default());
    assert!(has(&plan, "pools-command-line"), "{}", shown(&plan));
    assert!(!plan.warnings.iter().any(|text| text.contains("boot menu")), "{}", shown(&plan));
}

#[test]
fn a_missing_update_grub_is_replaced_by_grub_mkconfig() {
    let base = source("no-pool-postgresql");
    let mut world = World::new(&*base);
    world.put_grub("quiet");
    world.files.set_file("/usr/sbin/update-grub", None);
    let options = gib_pages_at_boot();
    let (plan, _) = holds("no update-grub", &world, &options, &Request::default());
    assert_eq!(
        commands(step(&plan, "pools-command-line")),
        ["/usr/sbin/grub-mkconfig -o /boot/grub/grub.cfg"]
    );
    world.put("/usr/sbin/grub-mkconfig", "# upstream's, which reads /etc/default/grub alone\n");
    let (plan, _) = holds("no drop-ins", &world, &options, &Request::default());
    assert!(!has(&plan, "pools-command-line"));
    assert!(
        shown(&plan).contains("grub-mkconfig reads no drop-ins on this host"),
        "{}",
        shown(&plan)
    );
}

#[test]
fn red_hat_keeps_its_command_lines_through_grubby() {
    let base = source("no-pool-postgresql");
    let mut world = World::new(&*base);
    world.put("/boot/grub2/grub.cfg", "blscfg\n");
    let entry = "title Linux\nversion 6.1\nlinux /vmlinuz\noptions root=1 ro\n";
    world.put("/boot/loader/entries/m-6.1.conf", entry);
    world.put("/usr/sbin/grubby", "ELF");
    world.put("/etc/default/grub", "GRUB_CMDLINE_LINUX=\"\"\n");
    let options = gib_pages_at_boot();
    let (plan, after) = holds("grubby", &world, &options, &Request::default());
    let boot = step(&plan, "pools-command-line");
    let Change::Command(command) = &boot.changes[0] else { panic!("{boot:?}") };
    assert_eq!(
        command.command,
        ["/usr/sbin/grubby", "--update-kernel=ALL", "--args=hugepagesz=1G hugepages=2"]
    );
    assert_eq!(command.files, ["/boot/loader/entries/m-6.1.conf", "/etc/default/grub"]);
    assert_eq!(after.pages_after_boot(PageSize::GIB_1), PageCount(2));
}

#[test]
fn systemd_boots_command_line_is_not_ours_to_write() {
    let base = source("no-pool-postgresql");
    let mut world = World::new(&*base);
    world.put("/efi/loader/loader.conf", "default *\n");
    world.put(
        "/efi/loader/entries/debian.conf",
        "title Debian\nversion 6.1\nlinux /vmlinuz\noptions root=1\n",
    );
    let options = gib_pages_at_boot();
    let (plan, _) = holds("systemd-boot", &world, &options, &Request::default());
    let by_hand = plan
        .instructions
        .iter()
        .find(|instruction| instruction.title.contains("command line"))
        .unwrap();
    assert!(by_hand.text.contains("hugepagesz=1G hugepages=2"), "{}", by_hand.text);
    assert!(by_hand.text.contains("systemd-boot takes its command line from"), "{}", by_hand.text);
    // tmpfiles.d tries, early in the boot.
    let lines = content(&plan, "/etc/tmpfiles.d/00-hugewise-pools.conf");
    assert!(
        lines.contains("w /sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages - - - - 2\n"),
        "{lines}"
    );
}

#[test]
fn a_processor_without_1_gib_pages_is_refused_them_with_the_reason() {
    let base = source("no-pool-postgresql");
    let mut world = World::new(&*base);
    let cpuinfo = world.text("/proc/cpuinfo").replace(" pdpe1gb", "");
    world.put("/proc/cpuinfo", cpuinfo);
    let seen = world.look();
    let page_size = Some(PageSize::GIB_1);
    let options =
        PlanOptions { instances: vec!["5433".into()], page_size, ..PlanOptions::default() };
    assert_eq!(
        crate::planner::check_options(&seen.host, &seen.instances, &options),
        Err(PlanError::NoGibPages)
    );
    // Where a sizing chose them all the same.
    let request =
        Request { page_size: PageSizeChoice::Size(PageSize::GIB_1), ..Request::default() };
    let sizing = seen.sizing(&options, &request);
    let options = PlanOptions { page_size: None, ..options };
    let error = build_plan(
        &seen.host,
        &seen.instances,
        &seen.assessment,
        sizing.as_ref(),
        &world.files,
        &options,
    );
    assert_eq!(error, Err(PlanError::NoGibPages));
    assert!(PlanError::NoGibPages.to_string().contains("pdpe1gb"));
}

#[test]
fn early_reservation_takes_the_default_size_to_the_command_line() {
    let base = source("no-pool-postgresql");
    let mut world = World::new(&*base);
    world.put_grub("quiet");
    let options = PlanOptions { early: true, ..PlanOptions::default() };
    let (plan, after) = holds("early", &world, &options, &Request::default());
    assert!(
        content(&plan, "/etc/default/grub.d/zz-hugewise.cfg")
            .contains("hugepagesz=2M hugepages=537")
    );
    assert!(!has(&plan, "pools-boot"), "{}", shown(&plan));
    assert_eq!(after.pages_after_boot(PageSize::MIB_2), PageCount(537));
    // Where a file has another number, it comes after the command line: it has to say the same.
    world.put("/etc/sysctl.d/50.conf", "vm.nr_hugepages = 1\n");
    let (plan, after) = holds("early and sysctl", &world, &options, &Request::default());
    assert!(has(&plan, "pools-boot"), "{}", shown(&plan));
    assert_eq!(after.pages_after_boot(PageSize::MIB_2), PageCount(537));
}

#[test]
fn words_without_effect_and_new_ones_are_one_instruction() {
    let base = source("no-pool-postgresql");
    let mut world = World::new(&*base);
    world.put("/efi/loader/loader.conf", "default *\n");
    let options = "root=1 hugepagesz=1G hugepagesz=2M hugepages=32 hugepages=1024";
    let entry = format!("title Debian\nversion 6.1\nlinux /vmlinuz\noptions {options}\n");
    world.put("/efi/loader/entries/debian.conf", entry);
    let seen = world.look();
    assert!(seen.assessment.findings.iter().any(|finding| finding.code.as_str() == "HW608"));
    let (plan, _) = holds("count twice", &world, &gib_pages_at_boot(), &Request::default());
    let texts = plan.instructions.iter().map(|instruction| instruction.text.as_str());
    let about_words: Vec<&str> = texts.filter(|text| text.contains("hugepagesz=")).collect();
    let [text] = about_words.as_slice() else { panic!("{about_words:#?}") };
    assert!(text.contains("replace all words about huge pages by: "), "{text}");
}
