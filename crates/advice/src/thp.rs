//! What the engines of a host make of transparent huge pages, by engine and version.

use hugewise_model::{Engine, Host, Instance, Lack, Level};

use crate::Missing;
use crate::lead::wants_thp;

/// From this major version on MongoDB wants THP: its allocator manages it.
const MONGODB_WANTS: u32 = 8;

/// What an engine makes of THP set to `always`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// It says never or madvise; `always` is as bad as this for it.
    Against(Level),
    /// It asks for `always`.
    For,
}

/// What all the instances of a host make of it.
#[derive(Clone, Debug, Default)]
pub struct Policy<'a> {
    /// Those that are against `always`.
    pub against: Vec<(&'a Instance, Level)>,
    /// Those that would have `always`.
    pub wanting: Vec<&'a Instance>,
    /// Those that ask for THP themselves (madvise): `never` takes it from them.
    pub advised: Vec<&'a Instance>,
    /// A fact that the advice for some other instance hangs on, and that is not known.
    pub missing: Option<Missing>,
}

impl Policy<'_> {
    /// Whether nobody here has a wish.
    pub const fn is_empty(&self) -> bool {
        self.against.is_empty() && self.wanting.is_empty() && self.advised.is_empty()
    }
}

/// The setting that the instances of a host can agree on: `always` where some want it and none is against it, `madvise`
/// otherwise.
pub fn meeting_point(host: &Host, instances: &[Instance]) -> &'static str {
    let policy = policy(host, instances);
    if policy.against.is_empty() && !policy.wanting.is_empty() { "always" } else { "madvise" }
}

/// What the instances of a host make of THP.
pub fn policy<'a>(host: &Host, instances: &'a [Instance]) -> Policy<'a> {
    let mut policy = Policy::default();
    for instance in instances {
        match advice(host, instance) {
            Ok(Some(Advice::Against(level))) => policy.against.push((instance, level)),
            Ok(Some(Advice::For)) => policy.wanting.push(instance),
            Ok(None) => {}
            Err(what) => policy.missing = Some(what),
        }
        if wants_thp(instance) {
            policy.advised.push(instance);
        }
    }
    policy
}

/// What one engine in its version makes of it; none where it has switched THP off for itself, or says nothing.
///
/// # Errors
/// The advice hangs on the version, and that is not known.
pub fn advice(host: &Host, instance: &Instance) -> Result<Option<Advice>, Missing> {
    let process = host.process(instance.pid);
    if process.is_some_and(|process| process.thp_enabled.get() == Some(false)) {
        return Ok(None);
    }
    Ok(match instance.engine {
        Engine::Oracle | Engine::Redis | Engine::Valkey => Some(Advice::Against(Level::Warn)),
        Engine::PostgreSql => Some(Advice::Against(Level::Info)),
        Engine::MongoDb => {
            let version = instance.version.known().and_then(|version| major(version));
            let Some(version) = version else {
                let what = format_args!("version of {}", instance.title());
                return Err(Missing::Instance(Lack::of(what, &instance.version)));
            };
            let modern = host.architecture.known().is_none_or(|it| it == "x86_64" || it == "aarch64");
            match version {
                version if version < MONGODB_WANTS => Some(Advice::Against(Level::Warn)),
                _ if modern => Some(Advice::For),
                _ => Some(Advice::Against(Level::Warn)),
            }
        }
        Engine::MySql | Engine::MariaDb | Engine::Jvm | Engine::Qemu | Engine::Other => None,
    })
}

fn major(version: &str) -> Option<u32> {
    let digits = version.trim_start_matches('v');
    digits.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}
