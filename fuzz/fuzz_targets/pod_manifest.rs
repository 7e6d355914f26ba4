//! A Kubernetes manifest, judged and corrected for any node.
#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| {
    let _ = hugewise_pods::judge_manifest("manifest.yaml", text, None);
});
