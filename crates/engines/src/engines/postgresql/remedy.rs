//! How a PostgreSQL server is made to ask for huge pages.

use hugewise_model::escape::shell;
use hugewise_model::{Host, HugePageMode, Instance, PageSize};

use super::socket_of;

/// `ALTER SYSTEM`, as the server's owner; it does not change what the command line sets.
pub(super) fn huge_page_commands(_: &Host, instance: &Instance, must: bool) -> Vec<String> {
    let value = if must { "on" } else { "try" };
    let mut settings = Vec::new();
    if instance.asked == HugePageMode::Cannot {
        settings.push(("shared_memory_type", "mmap"));
    }
    let asks =
        instance.setting_value("huge_pages").is_some_and(|value| value.eq_ignore_ascii_case("try"));
    if must || instance.asked != HugePageMode::Cannot || !asks {
        settings.push(("huge_pages", value));
    }
    let port = psql_target(instance);
    let command = |(name, value): (&str, &str)| {
        let sql = format!("\"ALTER SYSTEM SET {name} = '{value}'\"");
        if instance.settings.get(name).is_some_and(|setting| setting.is_on_command_line()) {
            format!(
                "# its command line sets {name}, which beats every file: set it to {value} in the \
                 unit or script that starts it"
            )
        } else if instance.containered {
            format!("# inside its container: psql{port} -c {sql}")
        } else if instance.owner_is_number() {
            format!(
                "# as user {}, who is in no local account file: psql{port} -c {sql}",
                instance.owner
            )
        } else {
            format!("runuser -u {} -- psql{port} -c {sql}", shell::quote_word(&instance.owner))
        }
    };
    settings.into_iter().map(command).collect()
}

/// `huge_page_size=0`, the default, takes the host's.
pub(super) fn names_page_size(instance: &Instance) -> bool {
    instance.setting_value("huge_page_size").is_some_and(|value| {
        value.trim_start().starts_with(|character: char| ('1'..='9').contains(&character))
    })
}

/// `huge_page_size` came with PostgreSQL 14.
pub(super) fn takes_page_size(instance: &Instance) -> bool {
    let major = instance.version.as_known().and_then(|version| super::demand::parse_major(version));
    instance.asked_page_size.is_known() && major.is_some_and(|major| major >= 14)
}

/// In a unit that it takes: `kB`, `MB`, `GB` (PostgreSQL's manual, "Parameter Names and Values").
pub(super) fn page_size_assignment(page: PageSize) -> String {
    let kib = page.bytes().get() >> 10;
    let (count, unit) = match kib {
        _ if kib.is_multiple_of(1 << 20) => (kib >> 20, "GB"),
        _ if kib.is_multiple_of(1 << 10) => (kib >> 10, "MB"),
        _ => (kib, "kB"),
    };
    format!("huge_page_size = '{count}{unit}'")
}

/// `huge_pages=on` and memory that cannot be on them keep it from starting.
pub(super) fn refuses_start(instance: &Instance, asked: HugePageMode) -> bool {
    let on =
        |value: &str| ["on", "true", "yes", "1"].contains(&value.to_ascii_lowercase().as_str());
    asked == HugePageMode::Cannot && instance.setting_value("huge_pages").is_some_and(on)
}

/// Where psql finds a server: ` -h FOLDER -p PORT` of its socket, else its port.
fn psql_target(instance: &Instance) -> String {
    let socket = socket_of(instance);
    let port = instance.endpoints.iter().find(|endpoint| endpoint.parse::<u16>().is_ok());
    match (socket, port) {
        (Some((folder, port)), _) => {
            format!(" -h {} -p {}", shell::quote_word(folder), shell::quote_word(port))
        }
        (None, Some(port)) => format!(" -p {port}"),
        (None, None) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{files, host, only};
    use super::*;

    #[test]
    fn alter_system_goes_through_its_own_socket() {
        let instance = only(&host(PageSize::KIB_4), &files());
        let told = "runuser -u postgres -- psql -h /var/run/postgresql -p 5432 -c \"ALTER SYSTEM \
            SET huge_pages = 'on'\"";
        assert_eq!(huge_page_commands(&Host::default(), &instance, true), [told]);
        assert!(takes_page_size(&instance));
    }

    #[test]
    fn a_page_size_is_written_in_units_that_it_takes() {
        let sizes = [PageSize::GIB_1, PageSize::MIB_2, PageSize::from_kib(64).unwrap()];
        let lines = sizes.map(page_size_assignment);
        let [gib, mib, kib] =
            ["1GB", "2MB", "64kB"].map(|size| format!("huge_page_size = '{size}'"));
        assert_eq!(lines, [gib, mib, kib]);
    }

    #[test]
    fn what_the_command_line_decides_is_left_to_people() {
        let mut host = host(PageSize::KIB_4);
        let command = "postgres -D /var/lib/postgresql/15/main -c huge_pages=off"
            .split(' ')
            .map(String::from);
        crate::testing::processes(&mut host)[0].command =
            hugewise_model::Observed::Known(command.collect());
        let told = huge_page_commands(&host, &only(&host, &files()), false);
        assert_eq!(told.len(), 1);
        assert!(told[0].starts_with("# its command line sets huge_pages"), "{told:?}");
    }
}
