//! Every target over its seeds and over inputs made up on the spot, so that `cargo test` has run it.

use alloc::string::String;
use alloc::vec::Vec;
use std::path::Path;

use super::dice::Random;

/// The files of a target, where they came with the source
fn seeds(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/seeds").join(target);
    let Ok(files) = std::fs::read_dir(folder) else { return Vec::new() };
    files.map(|f| std::fs::read(f.expect("a file").path()).expect("its content")).collect()
}

fn run(target: &str, body: fn(&[u8])) {
    body(b"");
    let seeds = seeds(target);
    for seed in &seeds {
        body(seed);
    }
    let mut random = Random::new(target.len() as u64);
    // Bytes without a plan drive the lists of operations; a change here and there is the plan for the rest.
    for n in 0..200 {
        let noise: Vec<u8> = (0..random.next() % 400).map(|_| random.next() as u8).collect();
        body(&noise);
        if let Some(seed) = seeds.get(n % seeds.len().max(1)) {
            let mut seed = seed.clone();
            for _ in 0..1 + random.next() % 4 {
                let at = random.next() as usize % (seed.len() + 1);
                match random.next() % 3 {
                    0 if at < seed.len() => seed[at] = random.next() as u8,
                    1 => seed.truncate(at),
                    _ => seed.insert(at, b"{}[]\",:\n01a"[random.next() as usize % 11]),
                }
            }
            body(&seed);
        }
    }
}

#[test]
fn line() {
    run("line", super::line);
}

#[test]
fn sse() {
    run("sse", super::sse);
}

#[cfg(feature = "http")]
#[test]
fn fields() {
    run("fields", super::fields);
}

#[cfg(feature = "http")]
#[test]
fn http_server_ops() {
    run("http_server_ops", super::http_server_ops);
    // Long lists of operations reach what short ones do not.
    let mut random = Random::new(5);
    for _ in 0..300 {
        let noise: Vec<u8> = (0..4_000).map(|_| random.next() as u8).collect();
        super::http_server_ops(&noise);
    }
}

#[cfg(feature = "http")]
#[test]
fn http_client_ops() {
    run("http_client_ops", super::http_client_ops);
    // Much of it lies behind a few right steps.
    let mut random = Random::new(7);
    for _ in 0..3_000 {
        let noise: Vec<u8> = (0..random.next() % 800).map(|_| random.next() as u8).collect();
        super::http_client_ops(&noise);
    }
}

#[test]
fn scanner() {
    run("scanner", super::scanner);
}

#[cfg(feature = "crypto")]
#[test]
fn seal() {
    run("seal", super::seal);
}

#[cfg(feature = "http")]
#[test]
fn h1_server() {
    run("h1_server", super::h1_server);
}

#[cfg(feature = "http")]
#[test]
fn h1_client() {
    run("h1_client", super::h1_client);
}

#[test]
fn server_pipe() {
    run("server_pipe", super::server_pipe);
}

#[test]
fn client_pipe() {
    run("client_pipe", super::client_pipe);
}

#[test]
fn server_ops() {
    run("server_ops", super::server_ops);
}

#[test]
fn pair_ops() {
    run("pair_ops", super::pair_ops);
}

#[test]
fn model() {
    run("model", super::model);
}

#[test]
fn template() {
    run("template", super::template);
}

/// What runs of the fuzzer found
#[test]
fn what_was_found_for_templates_holds() {
    super::template(b"\x0dx:{+r}{;m}{a}x::;y=1A");
    super::template(b"\x10x:{?x,y}{fz}{#f}x:?y=1&$$$$$$$$$\xca\x9d");
}

#[test]
fn router() {
    run("router", super::router);
}

#[test]
fn cuts_lose_nothing() {
    let text: String = "abcdefghij".repeat(100);
    for cut in super::dice::Cut::all(7) {
        assert_eq!(cut.pieces(text.as_bytes()).concat(), text.as_bytes());
    }
}
