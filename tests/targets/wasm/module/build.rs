//! Bounds of the memory of a module, as arguments of the linker.

fn main() {
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("unknown") {
        // A host cannot be made to give more, whatever a peer sends: stack, constants, and a heap within `Limits::small`.
        println!("cargo::rustc-link-arg-cdylib=--max-memory=1048576");
        println!("cargo::rustc-link-arg-cdylib=-zstack-size=131072");
    }
    println!("cargo::rerun-if-changed=build.rs");
}
