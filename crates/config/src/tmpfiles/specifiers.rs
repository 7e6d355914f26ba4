//! What a line may leave to the host: `%v` and its like, names of users and groups.

use std::cell::OnceCell;

use hugewise_model::host::Accounts;

use super::fields::RefusedTmpfilesLine;
use crate::accounts;
use crate::files::numbered_lines;
use crate::identity::unquote_shell_word;
use hugewise_source::Source;

pub(super) struct SpecifierHost<'a> {
    source: Option<&'a dyn Source>,
    accounts: OnceCell<Accounts>,
}

impl<'a> SpecifierHost<'a> {
    /// Without a source nothing is known of the host, and lines that need it are left out.
    pub(super) const fn new(source: Option<&'a dyn Source>) -> Self {
        Self { source, accounts: OnceCell::new() }
    }

    /// An error for a specifier that there is none of, or of which the host does not tell.
    pub(super) fn expand_specifiers(&self, text: &str) -> Result<String, RefusedTmpfilesLine> {
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
                    out.push_str(&self.resolve_specifier(specifier).ok_or(RefusedTmpfilesLine)?);
                }
                Some(other) => out.extend(['%', other]),
            }
        }
        Ok(out)
    }

    /// tmpfiles.d(5), "Specifiers", for the system's own instance.
    fn resolve_specifier(&self, specifier: char) -> Option<String> {
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
            'a' => match self.source?.machine_facts().architecture.as_known()?.as_str() {
                "x86_64" => "x86-64".to_owned(),
                "aarch64" => "arm64".to_owned(),
                "ppc64le" => "ppc64-le".to_owned(),
                other => other.to_owned(),
            },
            'b' => self.read_trimmed("/proc/sys/kernel/random/boot_id")?.replace('-', ""),
            'm' => self.read_trimmed("/etc/machine-id")?,
            'v' => self.read_trimmed("/proc/sys/kernel/osrelease")?,
            'H' => self.read_trimmed("/proc/sys/kernel/hostname")?,
            'l' => self.read_trimmed("/proc/sys/kernel/hostname")?.split('.').next()?.to_owned(),
            // Fields that os-release may do without are empty then.
            'o' => self.os_release_field("ID")?.unwrap_or_else(|| "linux".to_owned()),
            'w' => self.os_release_field("VERSION_ID")?.unwrap_or_default(),
            'W' => self.os_release_field("VARIANT_ID")?.unwrap_or_default(),
            'B' => self.os_release_field("BUILD_ID")?.unwrap_or_default(),
            _ => return None,
        };
        Some(found)
    }

    fn read_trimmed(&self, path: &str) -> Option<String> {
        let bytes = self.source?.read(path).into_known()?;
        let text = String::from_utf8_lossy(&bytes).trim().to_owned();
        (!text.is_empty()).then_some(text)
    }

    /// A field of os-release; the outer `None` is a host without that file.
    fn os_release_field(&self, field: &str) -> Option<Option<String>> {
        let read = |path: &str| self.source.and_then(|source| source.read(path).into_known());
        let bytes = read("/etc/os-release").or_else(|| read("/usr/lib/os-release"))?;
        let found = numbered_lines(&bytes).filter_map(|(_, line)| {
            let (key, value) = line.trim().split_once('=')?;
            (key == field).then(|| unquote_shell_word(value))
        });
        Some(found.last())
    }

    fn accounts(&self) -> &Accounts {
        self.accounts.get_or_init(|| {
            let bytes = |path: &str| {
                self.source.and_then(|source| source.read(path).into_known()).unwrap_or_default()
            };
            Accounts {
                users: accounts::parse_users(&bytes("/etc/passwd")),
                groups: accounts::parse_groups(&bytes("/etc/group")),
            }
        })
    }

    /// The number of a user; as the boot has it, from the files alone.
    pub(super) fn user_id(&self, name: &str) -> Option<u32> {
        parse_account_id(name).or_else(|| {
            let users = &self.accounts().users;
            users.iter().find(|(_, user)| user.name == name).map(|(uid, _)| *uid)
        })
    }

    pub(super) fn group_id(&self, name: &str) -> Option<u32> {
        parse_account_id(name).or_else(|| {
            let groups = &self.accounts().groups;
            groups.iter().find(|(_, group)| group.name == name).map(|(gid, _)| *gid)
        })
    }
}

/// A number, or the two names that systemd needs no file for.
fn parse_account_id(name: &str) -> Option<u32> {
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
