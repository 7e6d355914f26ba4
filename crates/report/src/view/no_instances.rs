use hugewise_model::Host;

pub(crate) fn none_runs() -> String {
    let named = hugewise_engines::all_kinds().iter().flat_map(|kind| kind.names);
    let names = named.map(|(_, name)| *name).collect::<Vec<_>>().join(", ");
    format!(
        "No database runs here. Looked for {names}, and for any other processes that share a \
             segment over 256 MiB."
    )
}

pub(crate) fn why_no_instance(host: &Host) -> String {
    match host.processes.reason_text() {
        Some(_) if host.processes.is_absent() => {
            "No instance can be recognised: neither the processes' files under /proc nor the \
                 output of ps is here."
                .into()
        }
        Some(why) => {
            format!(
                "No instance can be recognised: the processes of this host could not be read \
                 ({why})."
            )
        }
        None => none_runs(),
    }
}
