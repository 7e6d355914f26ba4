//! What a program is told so that its private memory is on huge pages, and what cannot be done.

use hugewise_model::host::Thp;
use hugewise_model::{Bytes, PageCount, PageSize, Pool};

use super::program::{Allocator, CLibrary, ExaminedProgram, Runtime};
use super::refusal::LaunchRefusal;
use super::thp;

/// The requested pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestedPages {
    /// Transparent huge pages, by madvise.
    Thp,
    /// Pages of the pool of this size.
    Huge(PageSize),
}

/// The request.
#[derive(Clone, Copy, Debug)]
pub struct ProgramPageRequest {
    /// The pages.
    pub pages: RequestedPages,
    /// Whether the program's text is requested too.
    pub text: bool,
    /// How much has to fit in the pool.
    pub need: Option<Bytes>,
}

/// What the host offers.
#[derive(Clone, Copy, Debug)]
pub struct Surroundings<'a> {
    /// The host's THP switches.
    pub thp: &'a Thp,
    /// The host's pools; `None` where they could not be read.
    pub pools: Option<&'a [Pool]>,
}

/// How the program is started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Instructions {
    /// Environment variables to set.
    pub variables: Vec<(&'static str, String)>,
    /// Arguments to put before the program's own.
    pub arguments: Vec<String>,
    /// What is done, a sentence each.
    pub done: Vec<String>,
    /// What is not done, and what to know.
    pub caveats: Vec<String>,
    /// Whether the text is requested from outside, once the program runs.
    pub text_from_outside: bool,
    /// Whether the settings may be ignored by chance, at each start anew.
    pub by_chance: bool,
}

/// Plans how `program` is told; `variable` reads its environment.
/// Errors: it would run without huge pages: the host offers none, or its allocator cannot be told.
pub fn plan_instructions(
    program: &ExaminedProgram,
    wish: ProgramPageRequest,
    there: Surroundings<'_>,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<Instructions, LaunchRefusal> {
    let mut instructions = Instructions::default();
    let (always, silent) = match wish.pages {
        RequestedPages::Thp => {
            let given = thp::derive_thp_grant(there.thp)?;
            (given.always, (!given.glibc_asks).then(|| thp::glibc_is_silent(there.thp)))
        }
        RequestedPages::Huge(page) => {
            let line = describe_pool_supply(page, wish.need, there.pools)?;
            instructions.done.push(line);
            (false, None)
        }
    };
    if program.privileged {
        return Err(LaunchRefusal(format!(
            "{} runs with its owner's rights (setuid or setgid), so such settings do not reach it",
            program.runs.display()
        )));
    }
    if always {
        instructions.done.push(
            "the host gives transparent huge pages to every program (THP is `always`)".into(),
        );
    }
    let mut hand =
        InstructionBuilder { instructions, always, silent, program, pages: wish.pages, variable };
    let reached = hand.instruct_allocator();
    if let Err(refusal) = reached
        && !always
    {
        return Err(refusal);
    }
    if wish.text {
        hand.instruct_text();
    }
    let mut instructions = hand.instructions;
    if let RequestedPages::Huge(page) = wish.pages {
        instructions.caveats.push(format!(
            "if the {page} pool is too small, the allocator silently uses base pages for the rest \
             (--need SIZE refuses that, --report shows it), and a process that forks and then \
             writes may be killed when the pool runs out"
        ));
    }
    Ok(instructions)
}

/// The first release of glibc that reliably honours `glibc.malloc.hugetlb=1`: earlier ones do not
/// terminate the string from `transparent_hugepage/enabled`, and what is on the stack behind it
/// decides (glibc commit 801deb07f6; not in Debian 12's 2.36). `LD_BIND_NOW` only moves the chance.
const TERMINATED: (u16, u16) = (2, 38);

struct InstructionBuilder<'a> {
    instructions: Instructions,
    always: bool,
    silent: Option<String>,
    program: &'a ExaminedProgram,
    pages: RequestedPages,
    variable: &'a dyn Fn(&str) -> Option<String>,
}

impl InstructionBuilder<'_> {
    fn instruct_allocator(&mut self) -> Result<(), LaunchRefusal> {
        let name = self.program.runs.display().to_string();
        match self.program.runtime {
            Some(Runtime::Java) => {
                self.instruct_java();
                return Ok(());
            }
            Some(Runtime::Go) => {
                return Err(LaunchRefusal(format!(
                    "{name} is a Go program, whose runtime has no such setting"
                )));
            }
            Some(Runtime::Python) => self.instruct_python(),
            Some(Runtime::Node) => self.instructions.caveats.push(
                "node: the JavaScript heap comes from V8's own allocator, which has no such \
                 setting; only buffers and native memory are affected"
                    .into(),
            ),
            None => {}
        }
        match (&self.program.allocator, &self.program.c_library) {
            (Some(Allocator::Jemalloc(variable)), _) => self.instruct_jemalloc(variable),
            (Some(Allocator::Mimalloc), _) => self.instruct_mimalloc(),
            (Some(Allocator::Tcmalloc), _) => Err(LaunchRefusal(format!(
                "{name} uses tcmalloc, which has no such setting at startup"
            ))),
            (None, CLibrary::Glibc { tunable: true, release }) => {
                match self.silent.take().filter(|_| !self.always) {
                    Some(why) => Err(LaunchRefusal(why)),
                    None => {
                        self.instruct_glibc(*release);
                        Ok(())
                    }
                }
            }
            (None, CLibrary::Glibc { tunable: false, .. }) => Err(LaunchRefusal(format!(
                "{name} uses a glibc without the tunable glibc.malloc.hugetlb (added in 2.35); \
                 preload an allocator that supports huge pages: LD_PRELOAD=libjemalloc.so.2"
            ))),
            (None, CLibrary::Musl) => Err(LaunchRefusal(format!(
                "{name} uses musl, whose malloc does not support huge pages; preload jemalloc or \
                 mimalloc"
            ))),
            (None, CLibrary::Other) => Err(LaunchRefusal(format!(
                "{name} is linked statically with an allocator that hugewise does not know"
            ))),
        }
    }

    fn instruct_mimalloc(&mut self) -> Result<(), LaunchRefusal> {
        // The name before version 2.1; later ones read it only where the new one is missing.
        self.instructions.variables.push(("MIMALLOC_LARGE_OS_PAGES", "1".into()));
        self.set_variable("MIMALLOC_ALLOW_LARGE_OS_PAGES", "1", "mimalloc: large pages allowed");
        match self.pages {
            RequestedPages::Huge(PageSize::GIB_1) => Err(LaunchRefusal(
                "mimalloc uses 1 GiB pages only from a reserve whose size you choose: set \
                 MIMALLOC_RESERVE_HUGE_OS_PAGES=N yourself"
                    .into(),
            )),
            _ => Ok(()),
        }
    }

    fn instruct_glibc(&mut self, release: Option<(u16, u16)>) {
        const VARIABLE: &str = "GLIBC_TUNABLES";
        const TUNABLE: &str = "glibc.malloc.hugetlb";
        let value = match self.pages {
            RequestedPages::Thp => "1".to_owned(),
            RequestedPages::Huge(page) => page.bytes().get().to_string(),
        };
        let before = (self.variable)(VARIABLE).unwrap_or_default();
        let others: Vec<&str> = before.split(':').filter(|part| !part.is_empty()).collect();
        let mine = others.iter().find_map(|part| part.strip_prefix(TUNABLE)?.strip_prefix('='));
        if let Some(theirs) = mine.filter(|theirs| *theirs != value) {
            self.instructions
                .caveats
                .push(format!("{TUNABLE}={theirs} in your {VARIABLE} is replaced"));
        }
        let kept =
            others.iter().filter(|part| !part.starts_with(TUNABLE)).map(|part| (*part).to_owned());
        let all: Vec<String> = kept.chain([format!("{TUNABLE}={value}")]).collect();
        self.instructions.variables.push((VARIABLE, all.join(":")));
        let how = match self.pages {
            RequestedPages::Thp => {
                "it asks the kernel for transparent huge pages (madvise) wherever it grows by 2 \
                 MiB or more"
            }
            RequestedPages::Huge(_) => "it maps pages of the pool",
        };
        self.instructions.done.push(format!("glibc's malloc: {TUNABLE}={value}; {how}"));
        if self.pages == RequestedPages::Thp
            && !self.always
            && release.is_none_or(|release| release < TERMINATED)
        {
            let which = release
                .map_or_else(String::new, |(major, minor)| format!(" (this is {major}.{minor})"));
            self.instructions.by_chance = true;
            self.instructions.caveats.push(format!(
                "glibc before 2.38{which} may ignore {TUNABLE}=1 at any start, at random; --report \
                 says whether it did, and --pages 2M is not affected"
            ));
        }
        if self.pages == RequestedPages::Huge(PageSize::GIB_1) {
            let text = "every thread that allocates may take its own 1 GiB page; \
                 glibc.malloc.arena_max limits how many do";
            self.instructions.caveats.push(text.into());
        }
    }

    fn instruct_jemalloc(&mut self, variable: &'static str) -> Result<(), LaunchRefusal> {
        if let RequestedPages::Huge(page) = self.pages {
            return Err(LaunchRefusal(format!(
                "jemalloc cannot use pool pages ({page}); use --pages thp"
            )));
        }
        let before = (self.variable)(variable).unwrap_or_default();
        if before.split(',').any(|part| part.starts_with("thp:")) {
            self.instructions
                .caveats
                .push(format!("{variable}={before} is your own setting and stays"));
            return Ok(());
        }
        let more = "thp:always,metadata_thp:auto";
        let all = if before.is_empty() { more.to_owned() } else { format!("{before},{more}") };
        self.set_variable(variable, &all, "jemalloc: transparent huge pages for all of its memory");
        Ok(())
    }

    fn instruct_java(&mut self) {
        let flags = java_flags(self.pages);
        let from = if self.pages == RequestedPages::Thp { "by madvise" } else { "from the pool" };
        self.instructions.arguments.extend(flags.iter().map(|flag| (*flag).to_owned()));
        self.instructions.done.push(format!(
            "JVM: {}; heap and code cache {from}. If you give a different flag yourself, yours \
             wins",
            flags.join(" ")
        ));
    }

    fn instruct_python(&mut self) {
        if let Some(theirs) = (self.variable)("PYTHONMALLOC") {
            self.instructions
                .caveats
                .push(format!("PYTHONMALLOC={theirs} is your own setting and stays"));
            return;
        }
        let says = "Python: small objects come from malloc, because Python's own arenas never ask \
             for huge pages";
        self.instructions.caveats.push(
            "malloc is slower with small objects than Python's own allocator; --compare shows \
             whether huge pages make up for that (PYTHONMALLOC=pymalloc in your environment keeps \
             Python's own)"
                .into(),
        );
        self.set_variable("PYTHONMALLOC", "malloc", says);
    }

    fn instruct_text(&mut self) {
        match self.program.runtime {
            Some(Runtime::Java) => {
                self.instructions.done.push(
                    "text: the JVM's compiled code is in its code cache, which is on huge pages"
                        .into(),
                );
            }
            Some(Runtime::Node) => {
                let before = (self.variable)("NODE_OPTIONS").unwrap_or_default();
                let all = format!("{before} --use-largepages=on");
                self.set_variable(
                    "NODE_OPTIONS",
                    all.trim_start(),
                    "text: node maps its own text onto transparent huge pages",
                );
            }
            _ => self.instructions.text_from_outside = true,
        }
    }

    fn set_variable(&mut self, variable: &'static str, value: &str, says: &str) {
        self.instructions.done.push(format!("{says} ({variable}={value})"));
        self.instructions.variables.push((variable, value.to_owned()));
    }
}

/// The flags by which a program puts its memory on such pages itself, if any.
pub fn own_flags(program: &ExaminedProgram, pages: RequestedPages) -> &'static [&'static str] {
    if program.runtime == Some(Runtime::Java) { java_flags(pages) } else { &[] }
}

const fn java_flags(pages: RequestedPages) -> &'static [&'static str] {
    match pages {
        RequestedPages::Thp => &["-XX:+UseTransparentHugePages"],
        RequestedPages::Huge(PageSize::GIB_1) => {
            &["-XX:+UseLargePages", "-XX:LargePageSizeInBytes=1g"]
        }
        RequestedPages::Huge(_) => &["-XX:+UseLargePages", "-XX:LargePageSizeInBytes=2m"],
    }
}

fn describe_pool_supply(
    page: PageSize,
    need: Option<Bytes>,
    pools: Option<&[Pool]>,
) -> Result<String, LaunchRefusal> {
    let kib = page.bytes().get() >> 10;
    let file = format!("/sys/kernel/mm/hugepages/hugepages-{kib}kB/nr_hugepages");
    let Some(pools) = pools else {
        return Err(LaunchRefusal("hugewise cannot read the host's pools".into()));
    };
    let Some(pool) = pools.iter().find(|pool| pool.page_size == page) else {
        return Err(LaunchRefusal(format!("this kernel has no {page} pages")));
    };
    let (Some(total), Some(available)) = (pool.total.get(), pool.available_pages()) else {
        return Err(LaunchRefusal(format!("the {page} pool cannot be read")));
    };
    let beyond = pool
        .overcommit
        .get()
        .unwrap_or_default()
        .saturating_sub(pool.surplus.get().unwrap_or_default());
    let wanted = need.map_or(PageCount(1), |need| page.pages_for(need));
    if available + beyond < wanted {
        let missing = wanted.saturating_sub(available + beyond);
        let more = total.saturating_sub(pool.surplus.get().unwrap_or_default()) + missing;
        let size = match need {
            Some(need) => {
                format!("{need} needs {wanted} pages of {page}, but {missing} are missing")
            }
            None => format!("no {page} page is available; say how much it needs with --need SIZE"),
        };
        return Err(LaunchRefusal(format!(
            "{size}: {available} of the pool's {total} pages are available. As root: echo {} > \
             {file} (then read it back: the kernel silently gives fewer if it has to), or run \
             `hugewise size` for the whole host",
            more.get()
        )));
    }
    let surplus = if beyond > PageCount::ZERO {
        format!(", and up to {beyond} more on demand")
    } else {
        String::new()
    };
    Ok(format!("{page} pool: {available} pages ({}) available{surplus}", available.to_bytes(page)))
}

#[cfg(test)]
mod tests {
    use hugewise_model::Observed;
    use hugewise_model::host::ThpSize;

    use super::*;

    fn program(
        runtime: Option<Runtime>,
        allocator: Option<Allocator>,
        c_library: CLibrary,
    ) -> ExaminedProgram {
        let path = "/usr/bin/p".into();
        ExaminedProgram {
            path,
            runs: "/usr/bin/p".into(),
            c_library,
            allocator,
            runtime,
            privileged: false,
        }
    }

    const GLIBC: CLibrary = CLibrary::Glibc { tunable: true, release: Some((2, 38)) };

    fn switches(top: &str) -> Thp {
        let pmd = PageSize::MIB_2;
        let sizes = vec![ThpSize {
            page_size: pmd,
            enabled: Observed::Known("inherit".into()),
            shmem_enabled: Observed::Absent,
        }];
        Thp {
            enabled: Observed::Known(top.into()),
            pmd_size: Observed::Known(pmd),
            sizes,
            ..Thp::default()
        }
    }

    fn pool(total: u64, free: u64, reserved: u64) -> Pool {
        let known = |pages| Observed::Known(PageCount(pages));
        Pool {
            page_size: PageSize::MIB_2,
            total: known(total),
            free: known(free),
            reserved: known(reserved),
            surplus: known(0),
            overcommit: known(0),
            nodes: Vec::new(),
        }
    }

    fn made(
        program: &ExaminedProgram,
        pages: RequestedPages,
        environment: &[(&str, &str)],
    ) -> Result<Instructions, LaunchRefusal> {
        let wish = ProgramPageRequest { pages, text: false, need: None };
        let pools = [pool(10, 8, 3)];
        let thp = switches("madvise");
        let there = Surroundings { thp: &thp, pools: Some(&pools) };
        plan_instructions(program, wish, there, &|name| {
            environment.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn glibc_keeps_other_tunables() {
        let sort = program(None, None, GLIBC);
        let theirs =
            [("GLIBC_TUNABLES", "glibc.malloc.check=3:glibc.malloc.hugetlb=0:glibc.rtld.nns=4")];
        let instructions = made(&sort, RequestedPages::Thp, &theirs).unwrap();
        let expected = "glibc.malloc.check=3:glibc.rtld.nns=4:glibc.malloc.hugetlb=1";
        assert_eq!(instructions.variables, [("GLIBC_TUNABLES", expected.to_owned())]);
        assert!(instructions.caveats[0].contains("replaced"));
        let instructions = made(&sort, RequestedPages::Huge(PageSize::MIB_2), &[]).unwrap();
        assert_eq!(
            instructions.variables,
            [("GLIBC_TUNABLES", "glibc.malloc.hugetlb=2097152".to_owned())]
        );
        // Five of the eight free pages are promised to nobody.
        assert!(instructions.done[0].contains("5 pages (10.0 MiB)"), "{instructions:?}");
    }

    #[test]
    fn each_allocator_is_told_in_its_own_words() {
        let jemalloc = program(None, Some(Allocator::Jemalloc("_RJEM_MALLOC_CONF")), GLIBC);
        let instructions =
            made(&jemalloc, RequestedPages::Thp, &[("_RJEM_MALLOC_CONF", "narenas:2")]).unwrap();
        assert_eq!(
            instructions.variables,
            [("_RJEM_MALLOC_CONF", "narenas:2,thp:always,metadata_thp:auto".to_owned())]
        );
        assert!(made(&jemalloc, RequestedPages::Huge(PageSize::MIB_2), &[]).is_err());
        let mimalloc = made(
            &program(None, Some(Allocator::Mimalloc), CLibrary::Musl),
            RequestedPages::Thp,
            &[],
        )
        .unwrap();
        let names: Vec<&str> = mimalloc.variables.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, ["MIMALLOC_LARGE_OS_PAGES", "MIMALLOC_ALLOW_LARGE_OS_PAGES"]);
        let instructions = made(
            &program(Some(Runtime::Java), None, GLIBC),
            RequestedPages::Huge(PageSize::MIB_2),
            &[],
        )
        .unwrap();
        assert_eq!(instructions.arguments, ["-XX:+UseLargePages", "-XX:LargePageSizeInBytes=2m"]);
        assert_eq!(instructions.variables, []);
        let python =
            made(&program(Some(Runtime::Python), None, GLIBC), RequestedPages::Thp, &[]).unwrap();
        assert_eq!(python.variables[0], ("PYTHONMALLOC", "malloc".to_owned()));
        assert_eq!(python.variables[1].0, "GLIBC_TUNABLES");
    }

    #[test]
    fn a_glibc_that_ignores_its_switch_by_chance_is_named_beforehand() {
        let with = |release, pages, top| {
            let program = program(None, None, CLibrary::Glibc { tunable: true, release });
            let pools = [pool(10, 8, 3)];
            let thp = switches(top);
            let wish = ProgramPageRequest { pages, text: false, need: None };
            plan_instructions(
                &program,
                wish,
                Surroundings { thp: &thp, pools: Some(&pools) },
                &|_| None,
            )
            .unwrap()
        };
        let old = with(Some((2, 36)), RequestedPages::Thp, "madvise");
        assert!(
            old.by_chance
                && old.caveats.iter().any(|line| line.contains("(this is 2.36) may ignore")),
            "{old:?}"
        );
        assert!(with(None, RequestedPages::Thp, "madvise").by_chance);
        assert!(!with(Some((2, 38)), RequestedPages::Thp, "madvise").by_chance);
        assert!(!with(Some((2, 36)), RequestedPages::Thp, "always").by_chance);
        assert!(!with(Some((2, 36)), RequestedPages::Huge(PageSize::MIB_2), "madvise").by_chance);
    }

    #[test]
    fn what_cannot_be_done_is_refused_and_never_half_done() {
        for (runtime, allocator, c_library) in [
            (Some(Runtime::Go), None, CLibrary::Other),
            (None, Some(Allocator::Tcmalloc), GLIBC),
            (None, None, CLibrary::Musl),
            (None, None, CLibrary::Other),
            (None, None, CLibrary::Glibc { tunable: false, release: Some((2, 34)) }),
        ] {
            let program = program(runtime, allocator, c_library);
            assert!(made(&program, RequestedPages::Thp, &[]).is_err(), "{program:?}");
        }
        let mut setuid = program(None, None, GLIBC);
        setuid.privileged = true;
        assert!(made(&setuid, RequestedPages::Thp, &[]).is_err_and(|why| why.0.contains("setuid")));
    }

    #[test]
    fn thp_never_is_said_and_always_needs_nothing() {
        let wish = ProgramPageRequest { pages: RequestedPages::Thp, text: false, need: None };
        let musl = program(None, None, CLibrary::Musl);
        let with = |thp: &Thp| {
            plan_instructions(&musl, wish, Surroundings { thp, pools: None }, &|_| None)
        };
        assert!(with(&switches("never")).is_err_and(|why| why.0.contains("echo madvise")));
        assert!(with(&switches("always")).is_ok());
        // The size's own switch overrides the top one.
        let mut never = switches("always");
        never.sizes[0].enabled = Observed::Known("never".into());
        assert!(with(&never).is_err());
        assert!(
            with(&Thp::default()).is_err_and(|why| why.0.contains("no transparent huge pages"))
        );
    }

    #[test]
    fn a_short_pool_is_refused_with_the_number_that_it_takes() {
        let with = |pool: Pool, need: Option<Bytes>| {
            describe_pool_supply(PageSize::MIB_2, need, Some(&[pool]))
        };
        assert!(with(pool(10, 8, 3), Some(Bytes::from_mib(10))).is_ok());
        let refused = with(pool(10, 8, 3), Some(Bytes::from_mib(1024))).unwrap_err().0;
        // 512 wanted, 5 to be had: 507 more than the 10 that are there.
        assert!(refused.contains("507 are missing") && refused.contains("echo 517 >"), "{refused}");
        assert!(with(pool(0, 0, 0), None).is_err());
        let mut on_demand = pool(0, 0, 0);
        on_demand.overcommit = Observed::Known(PageCount(4));
        assert!(with(on_demand, Some(Bytes::from_mib(8))).is_ok());
        assert!(describe_pool_supply(PageSize::GIB_1, None, Some(&[pool(1, 1, 0)])).is_err());
        assert!(describe_pool_supply(PageSize::GIB_1, None, None).is_err());
    }
}
