//! What a line may leave to the host: `%v` and its like, names of users and groups.

use std::cell::OnceCell;

use hugewise_model::host::Accounts;

use super::fields::Refused;
use crate::Source;
use crate::config::accounts;
use crate::config::files::lines;
use crate::config::identity::unquoted;

/// The host that lines are read for, asked when a line needs it.
pub(super) struct Here<'a> {
    source: Option<&'a dyn Source>,
    accounts: OnceCell<Accounts>,
}

impl<'a> Here<'a> {
    /// Without a source nothing is known of the host, and lines that need it are left out.
    pub(super) const fn new(source: Option<&'a dyn Source>) -> Self {
        Self { source, accounts: OnceCell::new() }
    }

    /// The text with specifiers replaced.
    ///
    /// # Errors
    /// A specifier that there is none of, or of which the host does not tell.
    pub(super) fn expanded(&self, text: &str) -> Result<String, Refused> {
        let mut out = String::with_capacity(text.len());
        let mut characters = text.chars();
        while let Some(character) = characters.next() {
            if character != '%' {
                out.push(character);
                continue;
            }
            match characters.next() {
                None => out.push('%'),
                Some('%') => out.push('%'),
                Some(specifier) if specifier.is_ascii_alphanumeric() => {
                    out.push_str(&self.specifier(specifier).ok_or(Refused)?);
                }
                Some(other) => out.extend(['%', other]),
            }
        }
        Ok(out)
    }

    /// tmpfiles.d(5), "Specifiers", for the system's own instance.
    fn specifier(&self, specifier: char) -> Option<String> {
        let fixed = match specifier {
            'u' | 'g' => "root",
            'U' | 'G' => "0",
            'h' => "/root",
            'C' => "/var/cache",
            'L' => "/var/log",
            'S' => "/var/lib",
            't' => "/run",
            'T' => "/tmp",
            'V' => "/var/tmp",
            _ => return self.of_host(specifier),
        };
        Some(fixed.to_owned())
    }

    fn of_host(&self, specifier: char) -> Option<String> {
        let found = match specifier {
            'a' => match self.source?.machine().architecture.known()?.as_str() {
                "x86_64" => "x86-64".to_owned(),
                "aarch64" => "arm64".to_owned(),
                "ppc64le" => "ppc64-le".to_owned(),
                other => other.to_owned(),
            },
            'b' => self.line("/proc/sys/kernel/random/boot_id")?.replace('-', ""),
            'm' => self.line("/etc/machine-id")?,
            'v' => self.line("/proc/sys/kernel/osrelease")?,
            'H' => self.line("/proc/sys/kernel/hostname")?,
            'l' => self.line("/proc/sys/kernel/hostname")?.split('.').next()?.to_owned(),
            // Fields that os-release may do without are empty then.
            'o' => self.release("ID")?.unwrap_or_else(|| "linux".to_owned()),
            'w' => self.release("VERSION_ID")?.unwrap_or_default(),
            'W' => self.release("VARIANT_ID")?.unwrap_or_default(),
            'B' => self.release("BUILD_ID")?.unwrap_or_default(),
            _ => return None,
        };
        Some(found)
    }

    fn line(&self, path: &str) -> Option<String> {
        let bytes = self.source?.read(path).into_known()?;
        let text = String::from_utf8_lossy(&bytes).trim().to_owned();
        (!text.is_empty()).then_some(text)
    }

    /// A field of os-release; the outer `None` is a host without that file.
    fn release(&self, field: &str) -> Option<Option<String>> {
        let read = |path: &str| self.source.and_then(|source| source.read(path).into_known());
        let bytes = read("/etc/os-release").or_else(|| read("/usr/lib/os-release"))?;
        let found = lines(&bytes).filter_map(|(_, line)| {
            let (key, value) = line.trim().split_once('=')?;
            (key == field).then(|| unquoted(value))
        });
        Some(found.last())
    }

    fn accounts(&self) -> &Accounts {
        self.accounts.get_or_init(|| {
            let bytes = |path: &str| self.source.and_then(|source| source.read(path).into_known()).unwrap_or_default();
            Accounts {
                users: accounts::parse_users(&bytes("/etc/passwd")),
                groups: accounts::parse_groups(&bytes("/etc/group")),
            }
        })
    }

    /// The number of a user; as the boot has it, from the files alone.
    pub(super) fn user(&self, name: &str) -> Option<u32> {
        number(name).or_else(|| {
            let users = &self.accounts().users;
            users.iter().find(|(_, user)| user.name == name).map(|(uid, _)| *uid)
        })
    }

    /// The number of a group.
    pub(super) fn group(&self, name: &str) -> Option<u32> {
        number(name).or_else(|| {
            let groups = &self.accounts().groups;
            groups.iter().find(|(_, group)| group.name == name).map(|(gid, _)| *gid)
        })
    }
}

/// A number, or the two names that systemd needs no file for.
fn number(name: &str) -> Option<u32> {
    match name {
        "root" => Some(0),
        "nobody" => Some(65534),
        // Two numbers mean "none" to the kernel.
        _ => {
            let canonical = name == "0" || !name.starts_with(['0', '+']);
            name.parse().ok().filter(|id| canonical && *id != 65535 && *id != u32::MAX)
        }
    }
}
