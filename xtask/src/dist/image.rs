//! The container image: the static binary alone, as an archive that every runtime loads without a
//! registry.
//!
//! It is written here: three small JSON documents and one layer, by
//! <https://github.com/opencontainers/image-spec/blob/main/image-layout.md>.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::{Release, packages, processor::Processor};
use hugewise_testkit::tools::{Failure, shell};

/// Media types of the three.
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

/// Where the image goes.
pub(super) fn file(release: &Release, processor: &Processor) -> PathBuf {
    release.out.join(format!("hugewise-{}-image-{}.tar", release.version, processor.machine))
}

/// Writes it.
pub(super) fn build(
    release: &Release,
    processor: &Processor,
    binary: &Path,
) -> Result<(), Failure> {
    let folder = release.build.join("image");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    let (top, layout) = (folder.join("root"), folder.join("layout"));
    fs::create_dir_all(top.join("usr/bin"))?;
    let program = top.join("usr/bin/hugewise");
    fs::copy(binary, &program)?;
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755))?;
    let plain = folder.join("layer.tar");
    shell::run(packages::tar(release).arg("-C").arg(&top).arg("-cf").arg(&plain).arg("usr"))?;
    let unpacked = digest(&fs::read(&plain)?);
    let packed = shell::output(shell::command("gzip").args(["-9n", "--stdout"]).arg(&plain))?;
    let created = created(release)?;
    layout_in(&layout, release, processor, &created, &packed, &unpacked)?;
    let mut tar = packages::tar(release);
    tar.arg("-C").arg(&layout).arg("-cf").arg(file(release, processor));
    shell::run(tar.args(["blobs", "index.json", "oci-layout"]))?;
    Ok(fs::remove_dir_all(folder)?)
}

/// The time of everything in the release, as RFC 3339 has it.
fn created(release: &Release) -> Result<String, Failure> {
    let mut date = shell::command("date");
    let told = shell::output(date.args([
        "--utc",
        &format!("--date=@{}", release.epoch),
        "+%Y-%m-%dT%H:%M:%SZ",
    ]))?;
    Ok(String::from_utf8(told)?.trim().to_owned())
}

/// The folder that the archive holds: `packed` is the layer, and `unpacked` what it hashes to
/// before gzip.
fn layout_in(
    layout: &Path,
    release: &Release,
    processor: &Processor,
    created: &str,
    packed: &[u8],
    unpacked: &str,
) -> Result<(), Failure> {
    let blobs = layout.join("blobs/sha256");
    fs::create_dir_all(&blobs)?;
    let labels = json!({
        "org.opencontainers.image.title": "hugewise",
        "org.opencontainers.image.description": "Huge pages for database hosts: check, size, set \
             up, prove",
        "org.opencontainers.image.licenses": "MIT OR Apache-2.0",
        "org.opencontainers.image.version": release.version,
        "org.opencontainers.image.created": created,
    });
    let config = json!({
        "created": created,
        "architecture": processor.image,
        "os": "linux",
        "config": {"Entrypoint": ["/usr/bin/hugewise"], "Env": ["PATH=/usr/bin"], "WorkingDir": "/", "Labels": labels},
        "rootfs": {"type": "layers", "diff_ids": [unpacked]},
        "history": [{"created": created, "created_by": "cargo xtask dist"}],
    });
    let config = blob(&blobs, CONFIG, config.to_string().as_bytes())?;
    let layer = blob(&blobs, LAYER, packed)?;
    let manifest = json!({
        "schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": [layer], "annotations": labels,
    });
    let mut manifest = blob(&blobs, MANIFEST, manifest.to_string().as_bytes())?;
    // `localhost/`: no runtime ever goes and asks a registry for an image of that name. Podman
    // reads the second, containerd the first.
    let name = format!("localhost/hugewise:{}", release.version);
    if let Some(manifest) = manifest.as_object_mut() {
        manifest.insert("platform".into(), json!({"architecture": processor.image, "os": "linux"}));
        let names =
            json!({"io.containerd.image.name": name, "org.opencontainers.image.ref.name": name});
        manifest.insert("annotations".into(), names);
    }
    let index = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [manifest],
    });
    fs::write(layout.join("index.json"), index.to_string())?;
    Ok(fs::write(layout.join("oci-layout"), json!({"imageLayoutVersion": "1.0.0"}).to_string())?)
}

/// Puts it where its digest says, and describes it.
fn blob(blobs: &Path, kind: &str, bytes: &[u8]) -> Result<Value, Failure> {
    let digest = digest(bytes);
    fs::write(blobs.join(digest.trim_start_matches("sha256:")), bytes)?;
    Ok(json!({"mediaType": kind, "digest": digest, "size": bytes.len()}))
}

fn digest(bytes: &[u8]) -> String {
    let hex: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::dist::processor::ARM64;

    fn built(folder: &Path) -> PathBuf {
        let (out, build) = (folder.join("out"), folder.join("build"));
        fs::create_dir_all(&out).unwrap();
        fs::create_dir_all(&build).unwrap();
        let binary = folder.join("hugewise");
        fs::write(&binary, "#!/bin/sh\n").unwrap();
        let release = Release { version: "1.2.3".into(), epoch: 1_000_000_000, out, build };
        super::build(&release, &ARM64, &binary).unwrap();
        file(&release, &ARM64)
    }

    fn sh(script: &str, folder: &Path) -> String {
        let output =
            Command::new("sh").arg("-euc").arg(script).current_dir(folder).output().unwrap();
        assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    #[test]
    fn each_blob_is_what_its_name_says_and_the_layer_holds_the_program_alone() {
        let folder = tempfile::tempdir().unwrap();
        let archive = built(folder.path());
        let said = sh(
            &format!(
                "mkdir i && tar -C i -xf {} && cd i/blobs/sha256 && sha256sum *",
                archive.display()
            ),
            folder.path(),
        );
        assert_eq!(said.lines().count(), 3, "{said}");
        assert!(
            said.lines().all(|line| line
                .split_whitespace()
                .collect::<Vec<_>>()
                .windows(2)
                .all(|two| two[0] == two[1])),
            "{said}"
        );
        let read = |path: &str| -> Value {
            serde_json::from_slice(&fs::read(folder.path().join("i").join(path)).unwrap()).unwrap()
        };
        let text_of = |described: &Value| {
            format!(
                "blobs/sha256/{}",
                described["digest"].as_str().unwrap().trim_start_matches("sha256:")
            )
        };
        let index = read("index.json");
        let manifest = read(&text_of(&index["manifests"][0]));
        let config = read(&text_of(&manifest["config"]));
        assert_eq!(config["architecture"], "arm64");
        assert_eq!(config["created"], "2001-09-09T01:46:40Z");
        let layer = text_of(&manifest["layers"][0]);
        let unpacked =
            sh(&format!("gzip -dc i/{layer} | sha256sum | cut -d' ' -f1"), folder.path());
        assert_eq!(config["rootfs"]["diff_ids"][0], format!("sha256:{}", unpacked.trim()));
        let listed = sh(&format!("TZ=UTC tar -tvzf i/{layer}"), folder.path());
        let program = listed.lines().last().unwrap();
        assert!(
            program.starts_with("-rwxr-xr-x 0/0")
                && program.ends_with("2001-09-09 01:46 usr/bin/hugewise"),
            "{listed}"
        );
        assert_eq!(listed.lines().count(), 3, "{listed}");
    }

    #[test]
    fn twice_is_the_same() {
        let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        assert!(fs::read(built(first.path())).unwrap() == fs::read(built(second.path())).unwrap());
    }
}
