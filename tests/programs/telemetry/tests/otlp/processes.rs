//! The processes under test.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

/// The client, the bridge and the server.
pub(crate) const SERVICES: &str = env!("CARGO_BIN_EXE_mcp-otlp");

/// Returns the `mcp-probe` under test: `MCP_PROBE`, or the one that cargo builds beside this test.
pub(crate) fn probe() -> &'static str {
    static PROBE: OnceLock<String> = OnceLock::new();
    PROBE.get_or_init(|| {
        if let Ok(given) = env::var("MCP_PROBE") {
            return given;
        }
        let profile = Path::new(SERVICES).parent().unwrap();
        let target = profile.parent().unwrap();
        // Built even if it exists: it may be older than the code.
        let mut build = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        build.current_dir(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../.."));
        build.args([
            "build",
            "--locked",
            "--quiet",
            "--package",
            "mcp-probe",
            "--bin",
            "mcp-probe",
            "--target-dir",
        ]);
        build.arg(target);
        if profile.ends_with("release") {
            build.arg("--release");
        }
        assert!(build.status().unwrap().success(), "mcp-probe is not built");
        profile.join(format!("mcp-probe{}", env::consts::EXE_SUFFIX)).to_str().unwrap().to_owned()
    })
}

/// Runs the client until it ends, with the endpoint of the exporters and further variables.
pub(crate) fn run_client(endpoint: &str, variables: &[(&str, &str)], arguments: &[&str]) -> Output {
    let mut client = Command::new(SERVICES);
    client.arg("client").args(arguments).env("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint);
    client.envs(variables.iter().copied()).output().unwrap()
}

/// Returns what a client has written to stdout and stderr. It must have succeeded.
pub(crate) fn success(output: Output) -> (String, String) {
    let [stdout, stderr] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    assert!(output.status.success(), "{}: {stderr}", output.status);
    (stdout, stderr)
}
