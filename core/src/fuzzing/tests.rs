//! Tests that run every fuzz target over its seeds and over generated inputs.

use alloc::string::String;
use alloc::vec::Vec;
use std::path::Path;

use crate::testing::{Rng, rounds};

/// Returns the seeds of a target; the repository contains them, the package of the core does not.
fn seeds(target: &str) -> Vec<Vec<u8>> {
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz");
    if !fuzz.join("Cargo.toml").exists() {
        std::eprintln!("NOT CHECKED: seeds of the fuzz target {target}, which are in the repository only");
        return Vec::new();
    }
    let files = std::fs::read_dir(fuzz.join("seeds").join(target)).expect("seeds of the target");
    files.map(|f| std::fs::read(f.expect("a file").path()).expect("its content")).collect()
}

fn run(target: &str, body: fn(&[u8])) {
    body(b"");
    let seeds = seeds(target);
    for seed in &seeds {
        body(seed);
    }
    let mut random = Rng::new(target.len() as u64);
    // Random bytes drive the lists of operations; mutated seeds reach the other targets.
    for n in 0..rounds(200) as usize {
        let noise: Vec<u8> = (0..random.next_high() % 400).map(|_| random.next_high() as u8).collect();
        body(&noise);
        if let Some(seed) = seeds.get(n % seeds.len().max(1)) {
            let mut seed = seed.clone();
            for _ in 0..1 + random.next_high() % 4 {
                let at = random.next_high() as usize % (seed.len() + 1);
                match random.next_high() % 3 {
                    0 if at < seed.len() => seed[at] = random.next_high() as u8,
                    1 => seed.truncate(at),
                    _ => seed.insert(at, b"{}[]\",:\n01a"[random.next_high() as usize % 11]),
                }
            }
            body(&seed);
        }
    }
}

#[test]
fn line_target_accepts_seeds_and_noise() {
    run("line", super::line);
}

#[test]
fn sse_target_accepts_seeds_and_noise() {
    run("sse", super::sse);
}

#[cfg(feature = "http")]
#[test]
fn fields_target_accepts_seeds_and_noise() {
    run("fields", super::fields);
}

#[cfg(feature = "http")]
#[test]
fn http_server_ops_target_accepts_seeds_and_noise() {
    run("http_server_ops", super::http_server_ops);
    // Long lists of operations reach states that short ones do not.
    let mut random = Rng::new(5);
    for _ in 0..rounds(300) {
        let noise: Vec<u8> = (0..4_000).map(|_| random.next_high() as u8).collect();
        super::http_server_ops(&noise);
    }
}

#[cfg(feature = "http")]
#[test]
fn http_client_ops_target_accepts_seeds_and_noise() {
    run("http_client_ops", super::http_client_ops);
    // Many states lie behind a few valid steps, which takes many attempts.
    let mut random = Rng::new(7);
    for _ in 0..rounds(3_000) {
        let noise: Vec<u8> = (0..random.next_high() % 800).map(|_| random.next_high() as u8).collect();
        super::http_client_ops(&noise);
    }
}

#[test]
fn scanner_target_accepts_seeds_and_noise() {
    run("scanner", super::scanner);
}

#[cfg(feature = "crypto")]
#[test]
fn seal_target_accepts_seeds_and_noise() {
    run("seal", super::seal);
}

#[cfg(feature = "http")]
#[test]
fn h1_server_target_accepts_seeds_and_noise() {
    run("h1_server", super::h1_server);
}

#[cfg(feature = "http")]
#[test]
fn h1_client_target_accepts_seeds_and_noise() {
    run("h1_client", super::h1_client);
}

#[test]
fn server_pipe_target_accepts_seeds_and_noise() {
    run("server_pipe", super::server_pipe);
}

#[test]
fn client_pipe_target_accepts_seeds_and_noise() {
    run("client_pipe", super::client_pipe);
}

#[test]
fn server_ops_target_accepts_seeds_and_noise() {
    run("server_ops", super::server_ops);
}

#[cfg(feature = "crypto")]
#[test]
fn task_ops_target_accepts_seeds_and_noise() {
    run("task_ops", super::task_ops);
    // Long lists of operations reach states that short ones do not.
    let mut random = Rng::new(9);
    for _ in 0..rounds(300) {
        let noise: Vec<u8> = (0..1_200).map(|_| random.next_high() as u8).collect();
        super::task_ops(&noise);
    }
}

#[cfg(feature = "crypto")]
#[test]
fn input_task_ops_target_accepts_seeds_and_noise() {
    run("input_task_ops", super::input_task_ops);
    // Long lists of operations reach states that short ones do not.
    let mut random = Rng::new(11);
    for _ in 0..rounds(100) {
        let noise: Vec<u8> = (0..1_200).map(|_| random.next_high() as u8).collect();
        super::input_task_ops(&noise);
    }
}

#[test]
fn pair_ops_target_accepts_seeds_and_noise() {
    run("pair_ops", super::pair_ops);
}

#[test]
fn model_target_accepts_seeds_and_noise() {
    run("model", super::model);
}

#[test]
fn template_target_accepts_seeds_and_noise() {
    run("template", super::template);
}

/// Inputs found by the fuzzer.
#[test]
fn template_target_accepts_past_findings() {
    super::template(b"\x0dx:{+r}{;m}{a}x::;y=1A");
    super::template(b"\x10x:{?x,y}{fz}{#f}x:?y=1&$$$$$$$$$\xca\x9d");
}

#[cfg(feature = "http")]
#[test]
fn challenge_target_accepts_seeds_and_noise() {
    run("challenge", super::challenge);
}

#[cfg(feature = "http")]
#[test]
fn url_target_accepts_seeds_and_noise() {
    run("url", super::url);
}

#[cfg(feature = "http")]
#[test]
fn media_types_target_accepts_seeds_and_noise() {
    run("media_types", super::media_types);
}

#[cfg(feature = "auth")]
#[test]
fn auth_challenge_target_accepts_seeds_and_noise() {
    run("auth_challenge", super::auth_challenge);
}

#[cfg(feature = "auth")]
#[test]
fn auth_document_target_accepts_seeds_and_noise() {
    run("auth_document", super::auth_document);
}

#[cfg(feature = "auth")]
#[test]
fn auth_redirect_target_accepts_seeds_and_noise() {
    run("auth_redirect", super::auth_redirect);
}

#[cfg(feature = "auth")]
#[test]
fn auth_token_target_accepts_seeds_and_noise() {
    run("auth_token", super::auth_token);
}

#[cfg(feature = "auth")]
#[test]
fn auth_record_target_accepts_seeds_and_noise() {
    run("auth_record", super::auth_record);
}

#[cfg(feature = "auth")]
#[test]
fn auth_flow_target_accepts_seeds_and_noise() {
    run("auth_flow", super::auth_flow);
}

#[test]
fn form_target_accepts_seeds_and_noise() {
    run("form", super::form);
}

#[test]
fn router_target_accepts_seeds_and_noise() {
    run("router", super::router);
}

#[test]
fn chunking_preserves_input() {
    let text: String = "abcdefghij".repeat(100);
    for cut in super::input::Chunking::all(7) {
        assert_eq!(cut.pieces(text.as_bytes()).concat(), text.as_bytes());
    }
}
