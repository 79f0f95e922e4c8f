//! Many concurrent calls of random length, some of them cancelled, on each adapter and transport.
//!
//! Each test makes 20,000 calls. A full run of one combination:
//!
//! ```sh
//! cargo run --profile measure -p mcp-system-tests --bin soak -- --runtime blocking --transport http --calls 200000
//! ```

use std::process::Command;

#[track_caller]
fn soak(runtime: &str, transport: &str, era: &str) {
    let words = ["--runtime", runtime, "--transport", transport, "--era", era, "--calls", "20000"];
    let ran = Command::new(env!("CARGO_BIN_EXE_soak")).args(words).output().expect("the program starts");
    let (out, err) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    print!("{out}");
    assert!(ran.status.success(), "{words:?}: {err}");
}

// covers: BASE-006, BASE-008, CANC-010, CANC-012, CANC-013, CANC-014
#[test]
fn blocking_stdio() {
    soak("blocking", "stdio", "legacy");
}

// covers: CANC-013, CANC-017
#[test]
fn blocking_http() {
    soak("blocking", "http", "modern");
}

// covers: BASE-006, BASE-008, CANC-010, CANC-012, CANC-013, CANC-014
#[test]
fn threads_stdio() {
    soak("threads", "stdio", "modern");
}

// covers: CANC-013, CANC-017
#[test]
fn threads_http() {
    soak("threads", "http", "modern");
}

// covers: BASE-006, BASE-008, CANC-010, CANC-012, CANC-013, CANC-014
#[test]
fn smol_stdio() {
    soak("smol", "stdio", "modern");
}

// covers: CANC-013, CANC-017
#[test]
fn smol_http() {
    soak("smol", "http", "legacy");
}

// covers: BASE-006, BASE-008, CANC-010, CANC-012, CANC-013, CANC-014
#[test]
fn tokio_stdio() {
    soak("tokio", "stdio", "legacy");
}

// covers: CANC-013, CANC-017
#[test]
fn tokio_http() {
    soak("tokio", "http", "modern");
}
