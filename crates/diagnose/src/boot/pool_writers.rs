//! Lines that write a pool at boot outside the files made for it, and files that nothing reads.

use std::collections::BTreeSet;

use hugewise_engines::EngineKind;
use hugewise_model::configuration::{IgnoredFile, PoolWriter, Unheeding};
use hugewise_model::{Host, Instance, PageSize};

use super::{default_size, not_in_menu, refused};

/// Lines that may write a pool at boot, beside the files made for it, in no known order.
pub fn pool_writers(host: &Host, page: PageSize) -> impl Iterator<Item = &PoolWriter> {
    let all = host.configuration.pool_writers.as_slice();
    let default = if all.is_empty() { None } else { default_size(host) };
    all.iter().filter(move |writer| writer.may_write_pool(page, default))
}

/// Whether there is such a line.
pub fn is_written(host: &Host, page: PageSize) -> bool {
    pool_writers(host, page).next().is_some()
}

/// The line of a server's own service that writes a pool each time it is started (`ExecStartPre=`).
pub(crate) fn written_by_start<'a>(
    host: &'a Host,
    instance: &Instance,
    page: PageSize,
) -> Option<&'a PoolWriter> {
    let unit = crate::ipc_privileges::unit_of(host, instance)?;
    let is_of_unit = |writer: &&PoolWriter| {
        let place = writer.by.as_ref().unwrap_or(&writer.place);
        unit.files.contains(&place.file)
    };
    pool_writers(host, page).find(is_of_unit)
}

/// The line that writes a pool once a server has started at the boot, where all that write it do:
/// what it finds is what the files made for it bring.
pub(crate) fn find_late_writer<'a>(
    host: &'a Host,
    instance: &Instance,
    page: PageSize,
) -> Option<&'a PoolWriter> {
    let kind = EngineKind::for_engine(instance.engine);
    let starts_it = |scripts: &BTreeSet<String>| scripts.iter().any(|name| kind.is_service(name));
    let mut writers = pool_writers(host, page);
    let first = writers.next().filter(|writer| starts_it(&writer.after_scripts))?;
    writers.all(|writer| starts_it(&writer.after_scripts)).then_some(first)
}

/// Why these files (`sysctl.d`) count for nothing, where they do.
pub fn find_ignored_files<'a>(host: &'a Host, files: &str) -> Option<&'a IgnoredFile> {
    host.configuration.unheeded.iter().find(|unheeded| unheeded.files == files)
}

/// Whether nothing that starts this host reads these files; a masked service can be unmasked.
pub fn is_not_read(host: &Host, files: &str) -> bool {
    find_ignored_files(host, files)
        .is_some_and(|ignored_file| matches!(ignored_file.why, Unheeding::NotRead(_)))
}

/// Why nothing sets a pool of that size, where something could: `no file sets any`, or what the
/// kernel refuses.
pub(crate) fn nothing_sets(host: &Host, page: PageSize) -> String {
    if let Some(waiting) = not_in_menu(host, page) {
        return waiting;
    }
    if let Some(refused) = refused::explain_refused_pool(host, page) {
        return refused;
    }
    let service = |ignored_file: &IgnoredFile| match ignored_file.why {
        Unheeding::Masked { service, .. } => Some(service),
        Unheeding::NotRead(_) => None,
    };
    let masked: Vec<&str> = host.configuration.unheeded.iter().filter_map(service).collect();
    match masked.as_slice() {
        [] => "no file sets any".to_owned(),
        [one] => format!("{one} is masked, and no other file sets any"),
        [first, ..] => {
            format!("{first} and what carries out tmpfiles.d are masked, and nothing else sets any")
        }
    }
}

#[cfg(test)]
mod tests {
    use hugewise_model::Observed;
    use hugewise_model::configuration::{FileLocation, WrittenPool};

    use super::super::{pool_of_files, predict_pool_steps};
    use super::*;
    use crate::testing::{quiet, sysctl};

    #[test]
    fn a_pool_that_something_else_writes_is_not_known() {
        let mut case = quiet();
        case.host.configuration.sysctl = Observed::Known(vec![sysctl("vm.nr_hugepages", "540")]);
        let place = FileLocation { file: "/etc/rc.local".into(), line: 3 };
        let known = |pool: WrittenPool, page| {
            let mut host = case.host.clone();
            host.configuration.pool_writers = vec![PoolWriter {
                pool,
                place: place.clone(),
                by: None,
                after_scripts: BTreeSet::new(),
            }];
            assert_eq!(pool_of_files(&host, PageSize::MIB_2).unwrap()[0].value, 540);
            super::super::predict_pool_steps(&host, page).is_ok()
        };
        let answers = [WrittenPool::Default, WrittenPool::Of(PageSize::GIB_1), WrittenPool::Any]
            .map(|pool| (known(pool, PageSize::MIB_2), known(pool, PageSize::GIB_1)));
        assert_eq!(answers, [(false, true), (true, false), (false, false)]);
        assert!(predict_pool_steps(&case.host, PageSize::MIB_2).is_ok());
    }
}
