//! What kinds search on a host for their servers that do not run.

use std::collections::BTreeSet;

use hugewise_host::config::services::ServiceDefinition;
use hugewise_model::trusted_by::TrustReason;
use hugewise_model::{
    AtBoot, Engine, Host, HugePageMode, Instance, Process, Reason, StoppedInstance, Unread,
};

use crate::EngineContext;
use crate::shared::{described, options, trusted_by};

/// The most servers of a kind that are looked at: each costs some files.
pub(crate) const MOST: usize = 256;

pub(crate) struct Discovery<'a> {
    pub(crate) scene: &'a EngineContext<'a>,
    pub(crate) services: Vec<ServiceDefinition>,
    pub(crate) running: &'a [Instance],
    busy: BTreeSet<&'a str>,
    pub(super) found: Vec<StoppedServer>,
    /// Servers that run, by pid, and the enabled services that start them at the boot instead.
    pub(super) boot_services: Vec<(u32, String)>,
    pub(super) unread: Vec<Unread>,
}

#[derive(Clone, Debug)]
pub(crate) struct StoppedServer {
    /// The process that it would be: it decides whose files these are.
    pub(crate) process: Process,
    pub(crate) instance: Instance,
    pub(crate) asleep: StoppedInstance,
    pub(crate) voucher: TrustReason,
    pub(crate) starter: Option<String>,
    pub(crate) unread: Vec<Unread>,
}

impl<'a> Discovery<'a> {
    pub(crate) fn new(
        scene: &'a EngineContext<'a>,
        running: &'a [Instance],
        services: Vec<ServiceDefinition>,
        busy: BTreeSet<&'a str>,
        unread: Vec<Unread>,
    ) -> Self {
        let (found, boot_services) = (Vec::new(), Vec::new());
        Self { scene, services, running, busy, found, boot_services, unread }
    }

    /// Adds a server that asks for huge pages, or may: the others do not matter.
    pub(crate) fn add(&mut self, mut server: StoppedServer) {
        if matches!(server.instance.asked, HugePageMode::No | HugePageMode::Cannot) {
            return;
        }
        let engine = server.instance.engine;
        let count = self.found.iter().filter(|other| other.instance.engine == engine).count();
        if count < MOST {
            let (owner, unit, startup) = {
                let instance = &mut server.instance;
                (std::mem::take(&mut instance.owner), instance.unit.take(), instance.startup.take())
            };
            server.instance =
                Instance { owner, unit, startup, ..described::without_process(server.instance) };
            self.found.push(server);
        } else if count == MOST {
            let why = format!("more than {MOST} are listed: the others are left out");
            let what = format!("{engine} servers that do not run");
            let note = Unread::new(what, Reason::from_text(why));
            if !self.unread.contains(&note) {
                self.unread.push(note);
            }
        }
    }

    /// Notes lists of servers that cannot be read. Whoever is listed there may ask for any pages:
    /// one unknown server takes its place.
    pub(crate) fn add_unreadable_list(&mut self, engine: Engine, unread: Vec<Unread>) {
        for note in &unread {
            let known_by = note.what.clone();
            let untold = AtBoot::Unknown(format!("{known_by} could not be read ({})", note.why));
            let nothing =
                described::new_described_instance(self.scene, engine, format!("of {known_by}"));
            let instance =
                Instance { asked: HugePageMode::Unknown, setting: None, demand: None, ..nothing };
            self.add(StoppedServer {
                process: self.new_process(0, Vec::new()),
                instance,
                asleep: StoppedInstance::new(known_by, untold),
                voucher: TrustReason::Listed,
                starter: None,
                unread: Vec::new(),
            });
        }
        self.unread.extend(unread);
    }

    pub(crate) fn add_unread(&mut self, unread: Vec<Unread>) {
        self.unread.extend(unread);
    }

    pub(crate) fn services_of(
        &self,
        is_started: impl Fn(&str) -> bool,
    ) -> Vec<(ServiceDefinition, Process)> {
        let ours = |service: &&ServiceDefinition| {
            let program = service.command.first().map(|first| options::file_name(first));
            service.masked.is_none()
                && program.is_some_and(&is_started)
                && !self.busy.contains(service.name.as_str())
        };
        let process = |service: &ServiceDefinition| {
            let uid = match &service.user {
                Some(user) => find_uid(self.scene.host, user).unwrap_or(NOBODY),
                None => 0,
            };
            let main = self.new_process(uid, service.command.clone());
            Process { directory: service.directory.clone().into(), ..main }
        };
        self.services
            .iter()
            .filter(ours)
            .map(|service| (service.clone(), process(service)))
            .collect()
    }

    pub(crate) fn new_process(&self, uid: u32, command: Vec<String>) -> Process {
        let accounts = &self.scene.host.accounts;
        let gid =
            accounts.users.get(&uid).map_or(if uid == 0 { 0 } else { NOBODY }, |user| user.gid);
        let groups = accounts.groups_of(uid);
        Process { uid, gid, groups, ..described::process_from_command(command) }
    }

    /// The last owner on these paths, from the top down, that is not root, as he decides what is
    /// found there. Root, where nobody can be asked.
    pub(crate) fn owner_of(&self, paths: &[&str]) -> u32 {
        let mut owners =
            paths.iter().rev().filter_map(|path| self.scene.source.owner_of(path).get());
        owners.find(|uid| *uid != 0).unwrap_or_default()
    }

    /// A listed server's owner, by its folder; in a capture the usual account for such servers.
    pub(crate) fn owner_in_words(&self, uid: u32, usual: &str) -> String {
        match uid {
            0 => usual.to_owned(),
            uid => self.scene.host.accounts.user_name(uid),
        }
    }

    pub(crate) fn running_instances(&self, engines: &[Engine]) -> impl Iterator<Item = &Instance> {
        self.running
            .iter()
            .filter(move |instance| engines.contains(&instance.engine) && !instance.containered)
    }

    /// Notes that the boot starts a server by a service, whoever has started the one that runs.
    pub(crate) fn note_boot_service(&mut self, service: &ServiceDefinition, pid: u32) {
        // What `systemd-run` makes is gone after the boot.
        let outlasts_boot = |instance: &Instance| {
            let unit = trusted_by::unit_of(self.scene.host, instance);
            let mut files = unit.into_iter().flat_map(|unit| &unit.files);
            instance.unit_is_its_own && files.any(|file| !file.starts_with("/run/"))
        };
        let is_apart = |instance: &Instance| !instance.containered && !outlasts_boot(instance);
        let mut running = self.running.iter();
        let is_by_hand = running.any(|instance| instance.pid == pid && is_apart(instance));
        if is_by_hand
            && matches!(service.at_boot, AtBoot::Yes(_))
            && service.masked.is_none()
            && !self.busy.contains(service.name.as_str())
        {
            self.boot_services.push((pid, service.name.clone()));
        }
    }

    /// The server that is known to run on a data directory.
    pub(crate) fn find_running_on(&self, engines: &[Engine], data: &str) -> Option<u32> {
        let runs_there = |instance: &&Instance| {
            let own = instance.data_directory.as_known();
            own.is_some_and(|own| options::is_same_path(own, data))
                || self.is_option_of(instance, data)
        };
        self.running_instances(engines).find(runs_there).map(|instance| instance.pid)
    }

    pub(crate) fn runs_on(&self, engines: &[Engine], data: &str) -> bool {
        self.running_instances(engines).any(|instance| match instance.data_directory.as_known() {
            Some(theirs) => {
                options::is_same_path(theirs, data) || self.is_option_of(instance, data)
            }
            None => true,
        })
    }

    /// Whether a running server names a path on its command line: its working directory has links
    /// resolved.
    fn is_option_of(&self, running: &Instance, path: &str) -> bool {
        let command =
            self.scene.host.find_process(running.pid).and_then(|main| main.command.as_known());
        let names = |word: &String| {
            let value = word.split_once('=').map_or(word.as_str(), |(_, value)| value);
            options::is_same_path(value.strip_prefix("-D").unwrap_or(value), path)
        };
        command.is_some_and(|words| words.iter().any(names))
    }

    pub(crate) fn is_listed(&self, data: &str) -> bool {
        let mut paths =
            self.found.iter().filter_map(|server| server.instance.data_directory.as_known());
        paths.any(|path| options::is_same_path(path, data))
    }

    pub(crate) fn find_service(&self, name: &str) -> Option<&ServiceDefinition> {
        self.services.iter().find(|service| service.name == name)
    }
}

impl StoppedServer {
    pub(crate) fn of_service(
        service: &ServiceDefinition,
        process: Process,
        mut instance: Instance,
        unread: Vec<Unread>,
    ) -> Self {
        instance.owner = service.user.clone().unwrap_or_else(|| "root".to_owned());
        instance.unit = Some(service.name.clone());
        let asleep = StoppedInstance::new(service.file.clone(), service.at_boot.clone());
        let starter = Some(service.name.clone());
        Self { process, instance, asleep, voucher: TrustReason::Unit, starter, unread }
    }
}

/// Whether a list starts its servers at boot: not by a service that is known not to start.
pub(crate) fn by_service(service: Option<&ServiceDefinition>, said: AtBoot) -> AtBoot {
    match (said, service.map(|service| &service.at_boot)) {
        (AtBoot::Yes(_), Some(AtBoot::No(why))) => AtBoot::No(why.clone()),
        (said, _) => said,
    }
}

pub(crate) fn find_uid(host: &Host, user: &str) -> Option<u32> {
    let by_name = || host.accounts.users.iter().find(|(_, account)| account.name == user);
    user.parse().ok().or_else(|| by_name().map(|(uid, _)| *uid))
}

/// The kernel's overflow user, for those without an account.
pub(crate) const NOBODY: u32 = 65534;
