//! A host in memory that takes a plan's changes as the kernel and the programs would.

use std::sync::Arc;

use hugewise_diagnose::Assessment;
use hugewise_diagnose::sizing::{self, PageSizeChoice, Request, Sizing};
use hugewise_host::Source;
use hugewise_host::config::cmdline;
use hugewise_model::configuration::Loaded;
use hugewise_model::{
    Host, HugePageMode, HugePageUse, Instance, Level, Limit, Observed, PageCount, PageSize,
    process::SoftHard,
};

use crate::plan::{Change, CommandChange, EffectTime, ExpectedResolution, Plan, PoolRef};
use crate::planner::{PlanOptions, build_plan, owned_files};
use hugewise_diagnose::target::to_size;
use hugewise_host::source::OverlaySource;

/// A host and the changes that it took.
#[derive(Clone)]
pub(super) struct World<'a> {
    pub(super) files: OverlaySource<'a>,
    /// GRUB's menu as it was before any plan.
    menu: Option<String>,
    /// Units and clusters that were restarted.
    pub(super) restarted: Vec<String>,
    /// Whether systemd has loaded its units as their files are.
    reloaded: bool,
}

/// What is found on a host.
pub(super) struct Seen {
    pub(super) host: Host,
    pub(super) instances: Vec<Instance>,
    pub(super) assessment: Assessment,
}

impl Seen {
    fn of(host: Host, instances: Vec<Instance>) -> Self {
        let assessment = hugewise_diagnose::assess_host(&host, &instances);
        Self { host, instances, assessment }
    }

    pub(super) fn sizing(&self, options: &PlanOptions, request: &Request) -> Option<Sizing> {
        sizing::size_servers(
            &self.host,
            &to_size(&self.host, &self.instances, &self.assessment, options.target_wish()),
            request,
        )
        .ok()
    }

    /// Codes of findings of at least that level, each with its instance.
    pub(super) fn codes(&self, level: Level) -> Vec<String> {
        let worse = self.assessment.findings.iter().filter(|finding| finding.level >= level);
        worse
            .map(|finding| {
                format!(
                    "{} {}",
                    finding.code,
                    finding.instance.as_ref().map(ToString::to_string).unwrap_or_default()
                )
            })
            .collect()
    }

    fn has(&self, code: &str, instance: Option<&String>) -> bool {
        let is = |id: &Option<hugewise_model::InstanceId>| {
            id.as_ref().map(ToString::to_string).as_ref() == instance
        };
        self.assessment
            .findings
            .iter()
            .any(|finding| finding.code.as_str() == code && is(&finding.instance))
    }

    /// The servers start again, with the configuration that is there: those that find all their
    /// pages are on them.
    pub(super) fn after_restart(mut self, plan: &Plan) -> Self {
        let unlimited = plan.steps.iter().any(|step| step.id.starts_with("memlock"));
        for instance in &mut self.instances {
            let asks = matches!(
                instance.asked,
                HugePageMode::Try | HugePageMode::Must | HugePageMode::Raises
            );
            let Some(need) = hugewise_diagnose::demand::find_missing_demand(&self.host, instance)
                .filter(|_| asks)
            else {
                continue;
            };
            if let (true, Observed::Known(processes)) = (unlimited, &mut self.host.processes) {
                let ours =
                    processes.iter_mut().filter(|process| instance.pids.contains(&process.pid));
                ours.for_each(|process| {
                    Arc::make_mut(process).memlock =
                        Observed::Known(SoftHard { soft: Limit::Unlimited, hard: Limit::Unlimited })
                });
            }
            let Observed::Known(pools) = &mut self.host.pools else { continue };
            let Some(pool) = pools.iter_mut().find(|pool| pool.page_size == need.page_size) else {
                continue;
            };
            if pool.available_pages().unwrap_or_default() < need.pages {
                continue;
            }
            pool.free = pool.free.clone().map(|free| free.saturating_sub(need.pages));
            instance.huge_pages = HugePageUse::All;
            for segment in &mut instance.segments {
                segment.page_size = Observed::Known(need.page_size);
                segment.huge = Observed::Known(true);
            }
            instance.page_tables = Observed::Known(hugewise_model::Bytes::from_kib(64));
        }
        Self::of(self.host, self.instances)
    }
}

impl<'a> World<'a> {
    pub(super) fn new(base: &'a dyn Source) -> Self {
        Self { files: OverlaySource::new(base), menu: None, restarted: Vec::new(), reloaded: false }
    }

    pub(super) fn look(&self) -> Seen {
        let mut host = hugewise_host::read(&self.files);
        if self.reloaded {
            host.configuration
                .units
                .iter_mut()
                .for_each(|unit| unit.loaded = Observed::Known(Loaded::Anew));
        }
        let instances = hugewise_engines::find_instances(&host, &self.files).instances;
        Seen::of(host, instances)
    }

    /// The plan for the host as it is.
    pub(super) fn plan(&self, options: &PlanOptions, request: &Request) -> Plan {
        let seen = self.look();
        let mut instances = seen.instances;
        crate::planner::mark_named_instances(&mut instances, options)
            .expect("instances of these names");
        let seen = Seen::of(seen.host, instances);
        let page_size = options.page_size.map_or(PageSizeChoice::Auto, PageSizeChoice::Size);
        let sizing = seen.sizing(options, &Request { page_size, ..request.clone() });
        build_plan(
            &seen.host,
            &seen.instances,
            &seen.assessment,
            sizing.as_ref(),
            &self.files,
            options,
        )
        .expect("a plan")
    }

    pub(super) fn apply(&mut self, plan: &Plan) {
        for (_, change) in plan.changes() {
            match change {
                Change::Value(value) => match value.pool {
                    Some(pool) => self.set_pool(pool, value.after.parse().unwrap()),
                    None => self.set_value(&value.path, &value.after),
                },
                Change::File(file) => {
                    let bytes = file.after.as_ref().map(|after| after.content.bytes().to_vec());
                    self.files.set_file(&file.path, bytes);
                }
                Change::Command(command) => self.run(command),
            }
        }
    }

    /// GRUB as Debian has it: its menu with one entry, and a grub-mkconfig that reads drop-ins.
    pub(super) fn put_grub(&mut self, words: &str) {
        let menu = format!(
            "menuentry 'Debian' --class debian {{\n\tlinux /boot/vmlinuz root=UUID=1 ro \
                 {words}\n}}\n"
        );
        self.menu = Some(menu.clone());
        self.put("/boot/grub/grub.cfg", menu);
        self.put("/etc/default/grub", format!("GRUB_CMDLINE_LINUX=\"{words}\"\n"));
        self.put("/usr/sbin/update-grub", "#!/bin/sh\nexec grub-mkconfig -o /boot/grub/grub.cfg\n");
        self.put(
            "/usr/sbin/grub-mkconfig",
            "for x in ${sysconfdir}/default/grub.d/*.cfg ; do . \"${x}\"; done\n",
        );
        self.put("/etc/default/grub", "GRUB_CMDLINE_LINUX=\"\"\n");
    }

    /// A process that is nobody's server.
    pub(super) fn put_process(&mut self, pid: u32, name: &str) {
        let status = format!(
            "Name:\t{name}\nPPid:\t1\nUid:\t0\t0\t0\t0\nGid:\t0\t0\t0\t0\nVmSize:\t1000 \
                 kB\nThreads:\t1\n"
        );
        self.put(&format!("/proc/{pid}/status"), status);
        self.put(&format!("/proc/{pid}/cmdline"), format!("/usr/sbin/{name}\0"));
    }

    pub(super) fn text(&self, path: &str) -> String {
        String::from_utf8(self.files.read(path).into_known().unwrap_or_default()).unwrap()
    }

    fn number(&self, path: &str) -> u64 {
        if self.files.read(path).is_absent() {
            // An archive without sysfs has the default pool in meminfo.
            let field = if path.ends_with("free_hugepages") {
                "HugePages_Free:"
            } else {
                "HugePages_Total:"
            };
            let meminfo = self.text("/proc/meminfo");
            return meminfo
                .lines()
                .find_map(|line| line.strip_prefix(field)?.trim().parse().ok())
                .unwrap();
        }
        self.text(path).trim().parse().unwrap_or_else(|_| panic!("{path} is no number"))
    }

    /// Puts a file there that was there before any plan.
    pub(super) fn put(&mut self, path: &str, text: impl Into<String>) {
        self.files.set_file(path, Some(text.into().into_bytes()));
    }

    fn set_value(&mut self, path: &str, value: &str) {
        let old = self.text(path);
        assert!(!old.is_empty(), "{path} is not on this host");
        if old.contains('[') {
            let words = old.split_whitespace().map(|word| word.trim_matches(['[', ']']));
            let chosen =
                words.map(|word| if word == value { format!("[{word}]") } else { word.to_owned() });
            let text = chosen.collect::<Vec<_>>().join(" ") + "\n";
            assert!(text.contains('['), "{path} does not take {value}");
            return self.put(path, text);
        }
        self.put(path, format!("{value}\n"));
        if path == "/proc/sys/vm/nr_overcommit_hugepages" {
            let meminfo = self.text("/proc/meminfo");
            let default =
                meminfo.lines().find_map(|line| line.strip_prefix("Hugepagesize:")).unwrap();
            let kib = default.trim().trim_end_matches(" kB");
            let file =
                format!("/sys/kernel/mm/hugepages/hugepages-{kib}kB/nr_overcommit_hugepages");
            self.put(&file, format!("{value}\n"));
        }
    }

    /// As the kernel does: pages in use stay, new ones are spread over the nodes, and memory is
    /// less by them.
    pub(super) fn set_pool(&mut self, pool: PoolRef, pages: u64) {
        if self.text("/proc/sys/kernel/osrelease").starts_with("2.6.18") {
            return self.set_only_pool(pages);
        }
        let whole = PoolRef { node: None, ..pool };
        let kib = pool.page_size.bytes().get() >> 10;
        let nodes: Vec<u32> = (0..64)
            .filter(|node| {
                let folder =
                    PoolRef { page_size: pool.page_size, node: Some(*node) }.sysfs_folder();
                self.files.read(&format!("{folder}/nr_hugepages")).is_known()
            })
            .collect();
        // Surplus pages become the pool's own before others are taken.
        for at in nodes.iter().map(|node| PoolRef { node: Some(*node), ..pool }).chain([whole]) {
            let surplus = format!("{}/surplus_hugepages", at.sysfs_folder());
            if self.files.read(&surplus).is_known() {
                self.put(&surplus, "0\n");
            }
        }
        let before = self.number(&format!("{}/nr_hugepages", pool.sysfs_folder()));
        let change = i64::try_from(pages).unwrap() - i64::try_from(before).unwrap();
        self.move_by(whole, change);
        match pool.node {
            Some(_) => self.move_by(pool, change),
            None => {
                let count = i64::try_from(nodes.len()).unwrap();
                let mut rest = change;
                for (at, node) in nodes.iter().enumerate() {
                    let node = PoolRef { node: Some(*node), ..pool };
                    let left = count - i64::try_from(at).unwrap();
                    // A node gives back what it has free.
                    let free = i64::try_from(
                        self.number(&format!("{}/free_hugepages", node.sysfs_folder())),
                    )
                    .unwrap();
                    let part = if change < 0 { rest.max(-free) } else { rest / left };
                    self.move_by(node, part);
                    rest -= part;
                }
            }
        }
        let taken = change * i64::try_from(kib).unwrap();
        let meminfo = self.text("/proc/meminfo");
        let default = meminfo
            .lines()
            .any(|line| line.starts_with("Hugepagesize:") && line.contains(&format!(" {kib} ")));
        let line = |line: &str| {
            let (name, value) = line.split_once(':').unwrap();
            let mut value: i64 = value.trim().trim_end_matches(" kB").parse().unwrap();
            match name {
                "MemFree" | "MemAvailable" => value = (value - taken).max(0),
                "HugePages_Total" | "HugePages_Free" if default => value += change,
                "Hugetlb" => value += taken,
                _ => {}
            }
            let unit = if line.ends_with("kB") { " kB" } else { "" };
            format!("{name}: {value}{unit}\n")
        };
        let meminfo: String = meminfo.lines().map(line).collect();
        self.put("/proc/meminfo", meminfo);
        if default && !self.text("/proc/sys/vm/nr_hugepages").is_empty() {
            let pages = self.number(&format!("{}/nr_hugepages", whole.sysfs_folder()));
            self.put("/proc/sys/vm/nr_hugepages", format!("{pages}\n"));
        }
    }

    /// The same of a kernel that has no folder of pools.
    fn set_only_pool(&mut self, pages: u64) {
        let before = self.number("/proc/sys/vm/nr_hugepages");
        let meminfo = self.text("/proc/meminfo");
        let line = |line: &str| {
            let (name, value) = line.split_once(':').unwrap();
            match (name, value.trim().parse::<u64>()) {
                ("HugePages_Total", Ok(_)) => format!("{name}: {pages}\n"),
                ("HugePages_Free", Ok(free)) => format!("{name}: {}\n", free + pages - before),
                _ => format!("{line}\n"),
            }
        };
        let meminfo: String = meminfo.lines().map(line).collect();
        self.put("/proc/meminfo", meminfo);
        self.put("/proc/sys/vm/nr_hugepages", format!("{pages}\n"));
    }

    fn move_by(&mut self, at: PoolRef, change: i64) {
        for file in ["nr_hugepages", "free_hugepages"] {
            let path = format!("{}/{file}", at.sysfs_folder());
            let value = self
                .number(&path)
                .checked_add_signed(change)
                .expect("pages in use are not given back");
            self.put(&path, format!("{value}\n"));
        }
    }

    fn run(&mut self, command: &CommandChange) {
        let words: Vec<&str> = command.command.iter().map(String::as_str).collect();
        assert!(words[0].starts_with('/'), "{words:?}");
        match words[1..] {
            ["daemon-reload"] => self.reloaded = true,
            ["restart", unit] => self.restarted.push(unit.to_owned()),
            [version, cluster, "restart"] => self.restarted.push(format!("{version}/{cluster}")),
            ["profile", profile] => self.put("/etc/tuned/active_profile", format!("{profile}\n")),
            [] | ["-o", _] => self.update_grub(&command.files[0]),
            ["--update-kernel=ALL", words] => {
                for file in command.files.iter().filter(|file| file.contains("/entries/")) {
                    let text = self.text(file);
                    let args = words.strip_prefix("--args=").unwrap();
                    let line = |line: &str| match line.starts_with("options ") {
                        true => format!("{line} {args}\n"),
                        false => format!("{line}\n"),
                    };
                    let text: String = text.lines().map(line).collect();
                    self.put(file, text);
                }
            }
            ["-X", "-h", _, "-p", _, "-d", "postgres", "-c", sql] => {
                assert!(command.user.is_some(), "{words:?}");
                let setting = sql.strip_prefix("ALTER SYSTEM SET ").unwrap();
                let text = self.text(&command.files[0]) + setting + "\n";
                self.put(&command.files[0], text);
            }
            _ => panic!("{words:?}"),
        }
    }

    /// grub-mkconfig of Debian sources the drop-ins in a shell; each entry's line is made of the
    /// result.
    fn update_grub(&mut self, grub_cfg: &str) {
        let original = self.menu.clone().expect("a menu");
        let drop_in = self.text(owned_files::GRUB);
        let added = drop_in.lines().find_map(|line| {
            line.strip_prefix("GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX ")?
                .strip_suffix('"')
                .map(str::to_owned)
        });
        let added = added.expect("a shell would set it");
        let line = |line: &str| match line.trim_start().starts_with("linux") {
            true => format!("{line} {added}\n"),
            false => format!("{line}\n"),
        };
        self.put(grub_cfg, original.lines().map(line).collect::<String>());
    }

    /// The next boot: pools and THP as the files and the command line say; nothing runs but what
    /// systemd starts.
    pub(super) fn pages_after_boot(&self, page: PageSize) -> PageCount {
        let host = hugewise_host::read(&self.files);
        let steps = hugewise_diagnose::boot::predict_pool_steps(&host, page).unwrap();
        if let Some(entry) = host.configuration.boot.as_known() {
            // What the kernel makes of the line, where no file comes after it.
            let words = cmdline::huge_page_words(&entry.command_line);
            let default = host.default_huge_page.get();
            let there = words.pools.iter().filter(|pool| pool.page_size.or(default) == Some(page));
            if steps.last().is_some_and(|step| step.place == entry.place.clone().into()) {
                return there.map(|pool| pool.pages).sum();
            }
        }
        steps.last().map_or(PageCount::ZERO, |step| PageCount(step.value))
    }
}

/// Applies a plan in memory and holds it to what it promises; gives the plan and the host
/// afterwards.
pub(super) fn holds<'a>(
    name: &str,
    world: &World<'a>,
    options: &PlanOptions,
    request: &Request,
) -> (Plan, World<'a>) {
    let (plan, after, problems) = tried(world, options, request);
    assert!(problems.is_empty(), "{name}: {problems:#?}\n{}", shown(&plan));
    (plan, after)
}

/// The same with everything that went wrong.
pub(super) fn tried<'a>(
    world: &World<'a>,
    options: &PlanOptions,
    request: &Request,
) -> (Plan, World<'a>, Vec<String>) {
    let mut errors_before = world.look().codes(Level::Error);
    // A warning about permission becomes the error that it is once nothing else stands before it.
    errors_before.extend(
        world.look().codes(Level::Info).into_iter().filter(|code| code.starts_with("HW30")),
    );
    let plan = world.plan(options, request);
    let mut after = world.clone();
    after.apply(&plan);
    let seen = after.look();
    let allowed = crate::allowed::check_plan_allowed(&plan)
        .err()
        .map(|error| format!("apply would not take it: {error}"));
    // A restart that a step did is not in the files.
    let by_restart = |expected_resolution: &ExpectedResolution| {
        plan.steps.iter().any(|step| {
            step.id.starts_with("restart-") && step.expects.contains(expected_resolution)
        })
    };
    let mut problems: Vec<String> = allowed.into_iter().collect();
    let has = |id: &&String| plan.steps.iter().any(|step| step.id == **id);
    let lacking = plan
        .steps
        .iter()
        .flat_map(|step| step.relies_on.iter().filter(|id| !has(id)).map(move |id| (step, id)));
    problems.extend(
        lacking.map(|(step, id)| format!("{} relies on {id}, which the plan lacks", step.id)),
    );
    problems.extend(still_there(&plan, &seen, &[EffectTime::Now], by_restart));
    let restart_promised =
        plan.instructions.iter().any(|instruction| instruction.title.starts_with("restart "))
            || !after.restarted.is_empty();
    // What the next boot brings is not the plan's affair where nobody asked for that, or where it
    // says that it is not.
    let left = plan.warnings.iter().any(|warning| warning.contains("next boot"));
    let asked_for = |text: &String| {
        (options.boot && !left) || !(text.starts_with("HW603") || text.starts_with("HW604"))
    };
    let new = new_errors(&errors_before, &seen)
        .into_iter()
        .filter(|text| !(text.starts_with("HW209") && restart_promised));
    let new = new.filter(asked_for);
    problems.extend(new.map(|code| format!("the plan makes an error: {code}")));
    let again = after.plan(options, request);
    let again = again.steps.iter().filter(|step| !step.id.starts_with("restart-"));
    problems.extend(again.map(|step| format!("a second plan finds something to do: {step:?}")));
    let restarted = after.look().after_restart(&plan);
    problems.extend(still_there(
        &plan,
        &restarted,
        &[EffectTime::Now, EffectTime::Restart],
        |_| false,
    ));
    let new = new_errors(&errors_before, &restarted).into_iter().filter(asked_for);
    problems.extend(
        new.map(|code| format!("the plan makes an error that shows after the restart: {code}")),
    );
    let set_by_us = |instance: &&Instance| {
        let mut own =
            plan.steps.iter().filter(|step| step.instance.as_ref() == Some(&instance.title()));
        own.any(|step| step.title.contains("huge_pages = on"))
    };
    for instance in restarted.instances.iter().filter(set_by_us) {
        let need = hugewise_diagnose::demand::find_demand(&restarted.host, instance).unwrap();
        if after.pages_after_boot(need.page_size) < need.pages {
            problems.push(format!("{} would not start after a boot", instance.title()));
        }
    }
    (plan, after, problems)
}

fn new_errors(before: &[String], seen: &Seen) -> Vec<String> {
    // The same trouble goes by another name when another pool is emptied or filled.
    let lacks =
        |code: &str| ["HW201", "HW203", "HW204", "HW405"].iter().any(|text| code.starts_with(text));
    let text_of = |code: &str| code.split_once(' ').map(|(_, instance)| instance.to_owned());
    let known = |code: &String| {
        before.contains(code)
            || (lacks(code)
                && before.iter().any(|other| lacks(other) && text_of(other) == text_of(code)))
    };
    seen.codes(Level::Error).into_iter().filter(|code| !known(code)).collect()
}

fn still_there(
    plan: &Plan,
    seen: &Seen,
    when: &[EffectTime],
    but: impl Fn(&ExpectedResolution) -> bool,
) -> Vec<String> {
    let all = plan.steps.iter().flat_map(|step| {
        step.expects.iter().map(move |expected_resolution| (step, expected_resolution))
    });
    let due = all.filter(|(_, expected_resolution)| {
        when.contains(&expected_resolution.when) && !but(expected_resolution)
    });
    let missed = due.filter(|(_, expected_resolution)| {
        seen.has(&expected_resolution.code, expected_resolution.instance.as_ref())
    });
    let line = |(step, expected_resolution): (&crate::plan::Step, &ExpectedResolution)| {
        let finding = seen
            .assessment
            .findings
            .iter()
            .find(|finding| finding.code.as_str() == expected_resolution.code);
        let summary = finding.map(|finding| finding.summary.clone()).unwrap_or_default();
        format!(
            "{} was to end {} {}: {summary}",
            step.id,
            expected_resolution.code,
            expected_resolution.when.as_str()
        )
    };
    missed.map(line).collect()
}

/// The plan as lines, for a snapshot.
pub(super) fn shown(plan: &Plan) -> String {
    use std::fmt::Write as _;
    let mut text = String::new();
    for step in &plan.steps {
        writeln!(text, "{} [{}] {}", step.id, step.risk.as_str(), step.title).unwrap();
        writeln!(text, "  because {}", step.why).unwrap();
        for expected_resolution in &step.expects {
            let other_text = expected_resolution
                .instance
                .as_ref()
                .map(|instance| format!(" of {instance}"))
                .unwrap_or_default();
            writeln!(
                text,
                "  ends {} {}{other_text}, {}",
                expected_resolution.code,
                expected_resolution.name,
                expected_resolution.when.as_str()
            )
            .unwrap();
        }
        for change in &step.changes {
            match change {
                Change::Value(value) => {
                    writeln!(text, "  {} = {}", value.path, value.after).unwrap()
                }
                Change::File(file) => {
                    writeln!(text, "  {}", file.path).unwrap();
                    let content =
                        String::from_utf8_lossy(file.after.as_ref().unwrap().content.bytes())
                            .into_owned();
                    content.lines().for_each(|line| writeln!(text, "    | {line}").unwrap());
                }
                Change::Command(command) => {
                    let user = command
                        .user
                        .as_ref()
                        .map(|user| format!("as {user}: "))
                        .unwrap_or_default();
                    writeln!(text, "  $ {user}{}", command.command.join(" ")).unwrap();
                    if let Some(undo) = &command.undo {
                        writeln!(text, "    undo {}", undo.join(" ")).unwrap();
                    }
                    command
                        .files
                        .iter()
                        .for_each(|file| writeln!(text, "    rewrites {file}").unwrap());
                }
            }
        }
    }
    for instruction in &plan.instructions {
        writeln!(text, "by hand [{}] {}", instruction.risk.as_str(), instruction.title).unwrap();
        instruction.text.lines().for_each(|line| writeln!(text, "    {line}").unwrap());
    }
    plan.warnings.iter().for_each(|warning| writeln!(text, "warning: {warning}").unwrap());
    if let Some(refusal) = &plan.refusal {
        refusal.reasons.iter().for_each(|reason| writeln!(text, "refused: {reason}").unwrap());
    }
    text
}
