//! Links the unwinder into the program, so that it needs nothing but the C library.

use std::path::PathBuf;

fn main() -> std::io::Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var_os("CARGO_CFG_TARGET_ENV").is_none_or(|libc| libc != "gnu") {
        return Ok(());
    }
    // The standard library asks for `-lgcc_s`. A linker script of that name, found first,
    // sends the linker to the static archive instead.
    let folder = PathBuf::from(std::env::var_os("OUT_DIR").unwrap_or_default());
    std::fs::write(folder.join("libgcc_s.so"), "INPUT(-lgcc_eh -lgcc)\n")?;
    println!("cargo::rustc-link-search=native={}", folder.display());
    Ok(())
}
