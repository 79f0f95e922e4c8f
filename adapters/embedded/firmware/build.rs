//! Puts the memory map of the machine where the linker script finds it.

use std::path::PathBuf;
use std::{env, fs};

fn main() {
    let folder = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let map = match env::var("CARGO_CFG_TARGET_ARCH").as_deref() {
        Ok("arm") => "memory-mps2.x",
        Ok("riscv32") => "memory-virt.x",
        _ => return,
    };
    fs::copy(map, folder.join("memory.x")).expect("the memory map is copied");
    println!("cargo:rustc-link-search={}", folder.display());
    println!("cargo:rustc-link-arg-bins=--nmagic");
    println!("cargo:rustc-link-arg-bins=-T{}", if map == "memory-mps2.x" { "link.x" } else { "memory.x" });
    println!("cargo:rerun-if-changed={map}");
}
