//! Tests that run the body of every fuzz target over its seeds and over generated inputs.

use std::path::Path;

use mcp_tests::harness::{Rng, rounds};

/// The library of the package `mcp-proto-fuzz`, which has a workspace of its own.
#[path = "../fuzz/src/lib.rs"]
#[expect(unreachable_pub, reason = "the targets call them")]
mod bodies;

/// Returns the seeds of a target.
fn seeds(target: &str) -> Vec<Vec<u8>> {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/seeds").join(target);
    let files = std::fs::read_dir(seeds).expect("seeds of the target");
    files.map(|f| std::fs::read(f.expect("a file").path()).expect("its content")).collect()
}

fn run(target: &str, body: fn(&[u8])) {
    body(b"");
    let seeds = seeds(target);
    assert!(!seeds.is_empty(), "no seeds of {target}");
    for seed in &seeds {
        body(seed);
    }
    let mut random = Rng::new(target.len() as u64);
    // Random bytes drive the lists of operations; mutated seeds reach the other targets.
    for n in 0..rounds(200) as usize {
        let noise: Vec<u8> = (0..random.next_high() % 400).map(|_| random.next_high() as u8).collect();
        body(&noise);
        let mut seed = seeds[n % seeds.len()].clone();
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

#[test]
fn line_target_accepts_seeds_and_noise() {
    run("line", bodies::line);
}

#[test]
fn sse_target_accepts_seeds_and_noise() {
    run("sse", bodies::sse);
}

#[test]
fn fields_target_accepts_seeds_and_noise() {
    run("fields", bodies::fields);
}

#[test]
fn http_server_ops_target_accepts_seeds_and_noise() {
    run("http_server_ops", bodies::http_server_ops);
    // Long lists of operations reach states that short ones do not.
    let mut random = Rng::new(5);
    for _ in 0..rounds(300) {
        let noise: Vec<u8> = (0..4_000).map(|_| random.next_high() as u8).collect();
        bodies::http_server_ops(&noise);
    }
}

#[test]
fn http_client_ops_target_accepts_seeds_and_noise() {
    run("http_client_ops", bodies::http_client_ops);
    // Many states lie behind a few valid steps, which takes many attempts.
    let mut random = Rng::new(7);
    for _ in 0..rounds(3_000) {
        let noise: Vec<u8> = (0..random.next_high() % 800).map(|_| random.next_high() as u8).collect();
        bodies::http_client_ops(&noise);
    }
}

#[test]
fn scanner_target_accepts_seeds_and_noise() {
    run("scanner", bodies::scanner);
}

#[test]
fn snapshot_target_accepts_seeds_and_noise() {
    run("snapshot", bodies::snapshot);
}

#[test]
fn seal_target_accepts_seeds_and_noise() {
    run("seal", bodies::seal);
}

#[test]
fn h1_server_target_accepts_seeds_and_noise() {
    run("h1_server", bodies::h1_server);
}

#[test]
fn h1_client_target_accepts_seeds_and_noise() {
    run("h1_client", bodies::h1_client);
}

#[test]
fn server_pipe_target_accepts_seeds_and_noise() {
    run("server_pipe", bodies::server_pipe);
}

#[test]
fn client_pipe_target_accepts_seeds_and_noise() {
    run("client_pipe", bodies::client_pipe);
}

#[test]
fn server_ops_target_accepts_seeds_and_noise() {
    run("server_ops", bodies::server_ops);
}

#[test]
fn task_ops_target_accepts_seeds_and_noise() {
    run("task_ops", bodies::task_ops);
    // Long lists of operations reach states that short ones do not.
    let mut random = Rng::new(9);
    for _ in 0..rounds(300) {
        let noise: Vec<u8> = (0..1_200).map(|_| random.next_high() as u8).collect();
        bodies::task_ops(&noise);
    }
}

#[test]
fn input_task_ops_target_accepts_seeds_and_noise() {
    run("input_task_ops", bodies::input_task_ops);
    // Long lists of operations reach states that short ones do not.
    let mut random = Rng::new(11);
    for _ in 0..rounds(100) {
        let noise: Vec<u8> = (0..1_200).map(|_| random.next_high() as u8).collect();
        bodies::input_task_ops(&noise);
    }
}

#[test]
fn pair_ops_target_accepts_seeds_and_noise() {
    run("pair_ops", bodies::pair_ops);
}

#[test]
fn reader_target_accepts_seeds_and_noise() {
    run("reader", bodies::reader);
}

#[test]
fn model_target_accepts_seeds_and_noise() {
    run("model", bodies::model);
}

#[test]
fn template_target_accepts_seeds_and_noise() {
    run("template", bodies::template);
}

/// Inputs found by the fuzzer.
#[test]
fn template_target_accepts_past_findings() {
    bodies::template(b"\x0dx:{+r}{;m}{a}x::;y=1A");
    bodies::template(b"\x10x:{?x,y}{fz}{#f}x:?y=1&$$$$$$$$$\xca\x9d");
}

#[test]
fn challenge_target_accepts_seeds_and_noise() {
    run("challenge", bodies::challenge);
}

#[test]
fn url_target_accepts_seeds_and_noise() {
    run("url", bodies::url);
}

#[test]
fn media_types_target_accepts_seeds_and_noise() {
    run("media_types", bodies::media_types);
}

#[test]
fn auth_challenge_target_accepts_seeds_and_noise() {
    run("auth_challenge", bodies::auth_challenge);
}

#[test]
fn auth_document_target_accepts_seeds_and_noise() {
    run("auth_document", bodies::auth_document);
}

#[test]
fn auth_redirect_target_accepts_seeds_and_noise() {
    run("auth_redirect", bodies::auth_redirect);
}

#[test]
fn auth_token_target_accepts_seeds_and_noise() {
    run("auth_token", bodies::auth_token);
}

#[test]
fn auth_record_target_accepts_seeds_and_noise() {
    run("auth_record", bodies::auth_record);
}

#[test]
fn auth_flow_target_accepts_seeds_and_noise() {
    run("auth_flow", bodies::auth_flow);
}

#[test]
fn form_target_accepts_seeds_and_noise() {
    run("form", bodies::form);
}

#[test]
fn router_target_accepts_seeds_and_noise() {
    run("router", bodies::router);
}
