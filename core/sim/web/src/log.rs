//! Prints what the module answers, for the comparison of WebAssembly with this machine.

fn main() {
    let fragment = std::env::args().nth(1).unwrap_or_default();
    println!("{}", mcp_sim_web::run_fragment(&fragment));
}
