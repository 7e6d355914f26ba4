//! A host's estate, as kinds look through it for those of theirs that do not run.

use std::collections::BTreeSet;

use hugewise_host::Source;
use hugewise_host::config::services::Service;
use hugewise_model::vouch::Voucher;
use hugewise_model::{Asked, Asleep, AtBoot, Engine, Instance, Process, Reason, Unread};

use crate::{Scene, described, options};

/// Servers of a kind that are looked at. Nobody keeps so many that do not run, and each costs some files.
pub(crate) const MOST: usize = 256;

/// Where kinds look for those of theirs that do not run.
pub(crate) struct Estate<'a> {
    /// The host, and where files come from.
    pub(crate) scene: &'a Scene<'a>,
    /// The services that may start one.
    pub(crate) services: Vec<Service>,
    /// What runs.
    pub(crate) running: &'a [Instance],
    /// Services that something runs in.
    busy: BTreeSet<&'a str>,
    found: Vec<Sleeper>,
    unread: Vec<Unread>,
}

/// A server that does not run, as its files describe it.
#[derive(Clone, Debug)]
pub(crate) struct Sleeper {
    /// The process that it would be: whose files these are.
    pub(crate) process: Process,
    /// The server.
    pub(crate) instance: Instance,
    /// What says that it belongs here.
    pub(crate) asleep: Asleep,
    /// Who speaks for it, where its owner is one who may be spoken for.
    pub(crate) voucher: Voucher,
    /// The service that starts it, where one is known to.
    pub(crate) starter: Option<String>,
    /// Files of its that could not be read.
    pub(crate) unread: Vec<Unread>,
}

impl<'a> Estate<'a> {
    /// Nobody has looked here yet.
    pub(crate) fn new(
        scene: &'a Scene<'a>,
        running: &'a [Instance],
        services: Vec<Service>,
        busy: BTreeSet<&'a str>,
        unread: Vec<Unread>,
    ) -> Self {
        Self { scene, services, running, busy, found: Vec::new(), unread }
    }

    /// What was found, and lists that could not be read.
    pub(crate) fn into_found(self) -> (Vec<Sleeper>, Vec<Unread>) {
        (self.found, self.unread)
    }

    /// Takes a server in that asks for huge pages, or of which nobody knows whether it does: the others have no part in them.
    pub(crate) fn add(&mut self, mut sleeper: Sleeper) {
        if matches!(sleeper.instance.asked, Asked::No | Asked::Cannot) {
            return;
        }
        let engine = sleeper.instance.engine;
        let count = self.found.iter().filter(|other| other.instance.engine == engine).count();
        if count < MOST {
            let (owner, unit, startup) = {
                let it = &mut sleeper.instance;
                (std::mem::take(&mut it.owner), it.unit.take(), it.startup.take())
            };
            sleeper.instance = Instance { owner, unit, startup, ..described::without_process(sleeper.instance) };
            self.found.push(sleeper);
        } else if count == MOST {
            let why = format!("more than {MOST} are listed: the others are left out");
            let note = Unread { what: format!("{engine} servers that do not run"), why: Reason::untold(why) };
            if !self.unread.contains(&note) {
                self.unread.push(note);
            }
        }
    }

    /// Notes lists of servers that are there and cannot be read. Who is listed there may ask for any pages: in its place stands
    /// one server of which nothing is known.
    pub(crate) fn tell(&mut self, engine: Engine, unread: Vec<Unread>) {
        for note in &unread {
            let known_by = note.what.clone();
            let untold = AtBoot::Unknown(format!("{known_by} could not be read ({})", note.why));
            let nothing = described::instance(self.scene, engine, format!("of {known_by}"));
            let instance = Instance { asked: Asked::Unknown, setting: None, demand: None, ..nothing };
            let (asleep, process) = (Asleep::new(known_by, untold), self.process(0, Vec::new()));
            let voucher = Voucher::Listed;
            self.add(Sleeper { process, instance, asleep, voucher, starter: None, unread: Vec::new() });
        }
        self.unread.extend(unread);
    }

    /// Notes what could not be read, and says nothing of who is there.
    pub(crate) fn note(&mut self, unread: Vec<Unread>) {
        self.unread.extend(unread);
    }

    /// The services that would start one of these programs and that nothing runs in, each with the process that it would be.
    pub(crate) fn services_of(&self, is_started: impl Fn(&str) -> bool) -> Vec<(Service, Process)> {
        let ours = |service: &&Service| {
            let program = service.command.first().map(|first| options::file_name(first));
            service.masked.is_none() && program.is_some_and(&is_started) && !self.busy.contains(service.name.as_str())
        };
        let process = |service: &Service| {
            let uid = match &service.user {
                Some(user) => self.uid_of(user).unwrap_or(NOBODY),
                None => 0,
            };
            let main = self.process(uid, service.command.clone());
            Process { directory: service.directory.clone().into(), ..main }
        };
        self.services.iter().filter(ours).map(|service| (service.clone(), process(service))).collect()
    }

    /// The process of a user that these words would start.
    pub(crate) fn process(&self, uid: u32, command: Vec<String>) -> Process {
        let accounts = &self.scene.host.accounts;
        let gid = accounts.users.get(&uid).map_or(if uid == 0 { 0 } else { NOBODY }, |user| user.gid);
        let groups = accounts.groups_of(uid).into_iter().collect();
        Process { uid, gid, groups, ..described::process(command) }
    }

    /// The owner of what lies at these paths, from the top down: the last that is not root, as he decides what is found there.
    /// Root, where nobody can be asked.
    pub(crate) fn owner_of(&self, paths: &[&str]) -> u32 {
        let mut owners = paths.iter().rev().filter_map(|path| self.scene.source.owner_of(path).get());
        owners.find(|uid| *uid != 0).unwrap_or_default()
    }

    /// Who a listed server runs as, in words: its folder's owner, and in a capture the account for such servers.
    pub(crate) fn owner_in_words(&self, uid: u32, usual: &str) -> String {
        match uid {
            0 => usual.to_owned(),
            uid => self.scene.host.accounts.user_name(uid),
        }
    }

    fn uid_of(&self, user: &str) -> Option<u32> {
        let mut users = self.scene.host.accounts.users.iter();
        user.parse().ok().or_else(|| users.find(|(_, account)| account.name == user).map(|(uid, _)| *uid))
    }

    /// Servers of an engine that run and have the host's own files.
    pub(crate) fn running(&self, engines: &[Engine]) -> impl Iterator<Item = &Instance> {
        self.running.iter().filter(move |it| engines.contains(&it.engine) && !it.containered)
    }

    /// Whether one of these runs on a data directory, or on one that cannot be seen.
    pub(crate) fn runs_on(&self, engines: &[Engine], data: &str) -> bool {
        let tidy = |path: &str| path.trim_end_matches('/').to_owned();
        self.running(engines).any(|it| match it.data_directory.known() {
            Some(theirs) => tidy(theirs) == tidy(data) || self.is_option_of(it, data),
            None => true,
        })
    }

    /// Whether a running server names a path on its command line: its working directory is where links on the way lead to.
    fn is_option_of(&self, running: &Instance, path: &str) -> bool {
        let command = self.scene.host.process(running.pid).and_then(|main| main.command.known());
        let path = path.trim_end_matches('/');
        let names = |word: &String| {
            let value = word.split_once('=').map_or(word.as_str(), |(_, value)| value);
            let value = value.strip_prefix("-D").unwrap_or(value);
            value.trim_end_matches('/') == path
        };
        command.is_some_and(|words| words.iter().any(names))
    }

    /// Whether a server of that data directory is among those that do not run already.
    pub(crate) fn is_listed(&self, data: &str) -> bool {
        let tidy = |path: &str| path.trim_end_matches('/').to_owned();
        let listed = |it: &Sleeper| it.instance.data_directory.known().is_some_and(|path| tidy(path) == tidy(data));
        self.found.iter().any(listed)
    }

    /// What a service says of the boot, by its name.
    pub(crate) fn service(&self, name: &str) -> Option<&Service> {
        self.services.iter().find(|service| service.name == name)
    }

    /// A server's files, as its owner may read them.
    pub(crate) fn source(&self) -> &dyn Source {
        self.scene.source
    }
}

impl Sleeper {
    /// A server of a service.
    pub(crate) fn of_service(service: &Service, process: Process, mut instance: Instance, unread: Vec<Unread>) -> Self {
        instance.owner = service.user.clone().unwrap_or_else(|| "root".to_owned());
        instance.unit = Some(service.name.clone());
        let asleep = Asleep::new(service.file.clone(), service.at_boot.clone());
        let starter = Some(service.name.clone());
        Self { process, instance, asleep, voucher: Voucher::Unit, starter, unread }
    }
}

/// The boot of a list of its own: what it says, unless the service that reads the list is known not to be started.
pub(crate) fn by_service(service: Option<&Service>, said: AtBoot) -> AtBoot {
    match (said, service.map(|service| &service.at_boot)) {
        (AtBoot::Yes(_), Some(AtBoot::No(why))) => AtBoot::No(why.clone()),
        (said, _) => said,
    }
}

/// Who has no account: the kernel's overflow user.
pub(crate) const NOBODY: u32 = 65534;
