//! What hugewise said, beside what the server and the kernel said at the same moment.

#![allow(clippy::indexing_slicing, reason = "a JSON value gives null for what it does not have")]

use serde_json::Value;

use super::ConsoleReport;
use hugewise_testkit::tools::Failure;

/// What was said at one place.
type Place = std::collections::BTreeMap<String, String>;

/// Judges one host: a row for each start, and all that is not as the server and the kernel have it.
pub(super) fn host(
    told: &ConsoleReport,
    rows: &mut Vec<String>,
    wrong: &mut Vec<String>,
) -> Result<(), Failure> {
    let host = told.get("host").ok_or("nothing about the host")?;
    let (kernel, default) = (text(host, "kernel")?, number(host, "default")?);
    if rows.is_empty() {
        rows.push(
            "| kernel | huge page | needs | pool | PostgreSQL says | kernel maps | check | size | \
                 verify |"
                .to_owned(),
        );
        rows.push("|---|---|--:|--:|---|--:|---|--:|---|".to_owned());
    }
    let mut sizes: Vec<u64> = told.keys().filter_map(|name| name.parse().ok()).collect();
    sizes.sort_unstable();
    if !sizes.contains(&default) || sizes.len() < 2 {
        return Err(format!("{kernel}: pages of {sizes:?} KiB were played").into());
    }
    for kib in sizes {
        let described = told.get(&kib.to_string()).ok_or("no size")?;
        let needs = number(described, "needs")?;
        Must { place: format!("{kernel}, {}", size(kib)), wrong }
            .described(described, kib, needs)?;
        for (pool, expected) in [("none", 0), ("short", needs.saturating_sub(1)), ("enough", needs)]
        {
            // One page too few is none.
            if pool == "short" && needs == 1 {
                continue;
            }
            let look = told
                .get(&format!("{kib}-{pool}"))
                .ok_or_else(|| format!("{kernel}: no start with {pool}"))?;
            let mut must =
                Must { place: format!("{kernel}, {}, a pool of {expected}", size(kib)), wrong };
            must.be("the pool", &number(look, "set")?, &expected);
            let seen = must.compare_server(look, host, kib, needs)?;
            rows.push(format!("| {kernel} | {} | {needs} | {expected} | {seen} |", size(kib)));
        }
    }
    Ok(())
}

/// What has to be, at a place.
struct Must<'a> {
    place: String,
    wrong: &'a mut Vec<String>,
}

impl Must<'_> {
    /// Notes it unless both are the same.
    fn be<T: PartialEq + std::fmt::Display>(&mut self, what: &str, said: &T, right: &T) {
        if said != right {
            self.wrong.push(format!("{}: {what}: {said} where {right} is right", self.place));
        }
    }

    /// The server is down. Its own program says what it needs, or a formula where it does not
    /// answer in time on a busy machine: the number is the same.
    fn described(&mut self, place: &Place, kib: u64, needs: u64) -> Result<(), Failure> {
        let (_, size) = answer(place, "described")?;
        let server = &size["instances"][0];
        self.be("size of the server that is down", &&server["demand_pages"], &&Value::from(needs));
        self.be("its pages", &&server["page_bytes"], &&Value::from(kib << 10));
        self.be("its pool", &pool(&size["pools"], kib)["pages"], &Value::from(needs));
        Ok(())
    }

    /// The server runs; the cells of a row.
    fn compare_server(
        &mut self,
        place: &Place,
        host: &Place,
        kib: u64,
        needs: u64,
    ) -> Result<String, Failure> {
        let ((check_code, check), (_, sized), (verify_code, verify)) =
            (answer(place, "check")?, answer(place, "size")?, answer(place, "verify")?);
        let on = number(place, "set")? >= needs;
        let status = text(place, "status")?;
        self.be("PostgreSQL's huge_pages_status", &status, &if on { "on" } else { "off" });
        let mapped = mapped(text(place, "mapped")?, kib);
        self.be("KiB that the kernel maps", &mapped, &if on { needs * kib } else { 0 });
        self.host(&check["host"], host)?;
        self.pools(&check["host"]["pools"], text(place, "pools")?)?;

        let server = &check["instances"][0];
        let word = |on: bool| Value::from(if on { "all" } else { "none" });
        self.be("check's engine", &&server["engine"], &&Value::from("postgresql"));
        // Without asking the server nothing but its release is to be had, from PG_VERSION.
        let release = text(host, "version")?.split('.').next().unwrap_or_default();
        self.be("check's version", &&server["version"], &&Value::from(release));
        self.be("check's huge_pages", &&server["huge_pages"], &&word(on));
        self.be("check now", &&server["moments"]["now"]["state"], &&word(on));
        self.be("check after a restart", &&server["moments"]["restart"]["state"], &&word(on));
        self.be("check's pages", &&server["demand"]["needed_pages"], &&Value::from(needs));
        self.be("check's page size", &&server["demand"]["page_bytes"], &&Value::from(kib << 10));
        let segments = server["segments"].as_array().map(Vec::as_slice).unwrap_or_default();
        let huge: u64 = segments
            .iter()
            .filter(|json| json["huge"] == true)
            .filter_map(|json| json["size_bytes"].as_u64())
            .sum();
        self.be("check's segments on huge pages, KiB", &(huge >> 10), &mapped);
        // Some process may have come or gone between the two.
        let (tables, right) = (
            server["page_tables_bytes"].as_u64().unwrap_or_default() >> 10,
            number(place, "tables")?,
        );
        if tables.abs_diff(right) * 10 > right {
            self.be("check's page tables, KiB", &tables, &right);
        }

        self.be("size", &&sized["instances"][0]["demand_pages"], &&Value::from(needs));
        self.be("size's pool", &pool(&sized["pools"], kib)["pages"], &Value::from(needs));
        self.be("verify", &&verify["verdict"], &&word(on));
        self.be("verify's exit code", &verify_code, &i32::from(!on));
        let codes: Vec<&str> = check["findings"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|json| json["code"].as_str())
            .collect();
        Ok(format!(
            "{status} | {} MiB | {check_code}: {} {} | {} | {verify_code}: {} |",
            mapped >> 10,
            server["huge_pages"].as_str().unwrap_or_default(),
            codes.join(" "),
            sized["instances"][0]["demand_pages"],
            verify["verdict"].as_str().unwrap_or_default(),
        )
        .trim_end_matches(" |")
        .to_owned())
    }

    fn host(&mut self, said: &Value, right: &Place) -> Result<(), Failure> {
        self.be("architecture", &&said["architecture"], &&Value::from(text(right, "machine")?));
        self.be("kernel", &&said["kernel"], &&Value::from(text(right, "kernel")?));
        self.be("processors", &&said["processors"], &&Value::from(number(right, "processors")?));
        self.be(
            "base page",
            &&said["base_page_bytes"],
            &&Value::from(number(right, "base")? << 10),
        );
        self.be(
            "default huge page",
            &&said["default_huge_page_bytes"],
            &&Value::from(number(right, "default")? << 10),
        );
        self.be("memory", &&said["memory_bytes"], &&Value::from(number(right, "memory")? << 10));
        Ok(())
    }

    /// `right`: KiB, total, free and reserved of each, as sysfs has them.
    fn pools(&mut self, said: &Value, right: &str) -> Result<(), Failure> {
        for pool_of in right.split_ascii_whitespace() {
            let numbers: Vec<u64> = pool_of.split(':').map(str::parse).collect::<Result<_, _>>()?;
            let &[kib, total, free, reserved] = numbers.as_slice() else {
                return Err(format!("a pool as `{pool_of}`").into());
            };
            let pool = pool(said, kib);
            for (what, right) in
                [("total_pages", total), ("free_pages", free), ("reserved_pages", reserved)]
            {
                self.be(&format!("{what} of {}", size(kib)), &&pool[what], &&Value::from(right));
            }
        }
        Ok(())
    }
}

/// That of the whole host, or nothing.
fn pool(pools: &Value, kib: u64) -> Value {
    let of_size = |pool: &&Value| pool["page_bytes"] == kib << 10 && pool["node"].is_null();
    pools.as_array().into_iter().flatten().find(of_size).cloned().unwrap_or_default()
}

/// KiB on pages of that size: `4:123 2048:456`.
fn mapped(text: &str, kib: u64) -> u64 {
    let pairs = text.split_ascii_whitespace().filter_map(|pair| pair.split_once(':'));
    pairs
        .filter(|(page, _)| *page == kib.to_string())
        .filter_map(|(_, sum)| sum.parse::<u64>().ok())
        .sum()
}

fn text<'a>(place: &'a Place, what: &str) -> Result<&'a str, Failure> {
    let text = place.get(what).map(String::as_str).filter(|text| !text.is_empty());
    text.ok_or_else(|| format!("the machine did not say `{what}`").into())
}

fn number(place: &Place, what: &str) -> Result<u64, Failure> {
    let text = text(place, what)?;
    text.parse().map_err(|_| format!("`{what}` is `{text}`").into())
}

/// Exit code and JSON of a command.
fn answer(place: &Place, what: &str) -> Result<(i32, Value), Failure> {
    let text = text(place, what)?;
    let (code, json) =
        text.split_once(' ').ok_or_else(|| format!("{what} ended with {text} and said nothing"))?;
    let json = serde_json::from_str(json).map_err(|error| format!("{what}: {error}: {json}"))?;
    Ok((code.parse()?, json))
}

/// As people say it.
fn size(kib: u64) -> String {
    match kib {
        0..1024 => format!("{kib} KiB"),
        1024..0x10_0000 => format!("{} MiB", kib >> 10),
        _ => format!("{} GiB", kib >> 20),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_maps_is_summed_by_size() {
        assert_eq!(mapped("16:48 2048:268288 ", 2048), 268_288);
        assert_eq!(mapped("4:270016", 2048), 0);
        assert_eq!([64, 2048, 1 << 20].map(size), ["64 KiB", "2 MiB", "1 GiB"]);
    }

    #[test]
    fn a_number_that_differs_is_wrong_with_its_place() {
        let mut wrong = Vec::new();
        let mut must = Must { place: "here".into(), wrong: &mut wrong };
        must.be("size", &7, &7);
        must.be("size", &6, &7);
        assert_eq!(wrong, ["here: size: 6 where 7 is right"]);
    }
}
