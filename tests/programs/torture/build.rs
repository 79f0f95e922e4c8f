//! Exports the functions that replace those of libc: some callers find them by `dlsym`.

fn main() {
    println!("cargo:rustc-link-arg-bins=-rdynamic");
    println!("cargo:rerun-if-changed=build.rs");
}
