//! `caller legacy|modern N -- SERVER…`: N calls of `echo` by the rmcp client to a server process, one at a time.

use rmcp::model::{CallToolRequestParams, ProtocolVersion};
use rmcp::transport::TokioChildProcess;
use rmcp::{ClientLifecycleMode, ClientServiceExt};

const TEXT: &str =
    "The quick brown fox jumps over the lazy dog 0123456789 and then echoes this text back, please. The q";

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [era, n, _, program, rest @ ..] = &args[..] else { return Err("ERA N -- SERVER…".into()) };
    let lifecycle = match era.as_str() {
        "modern" => ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] },
        "legacy" => ClientLifecycleMode::Initialize,
        _ => return Err("`legacy` or `modern`".into()),
    };
    let mut command = tokio::process::Command::new(program);
    command.args(rest);
    let client = ().serve_with_lifecycle(TokioChildProcess::new(command)?, lifecycle).await?;
    let mut arguments = serde_json::Map::new();
    arguments.insert("text".into(), TEXT.into());
    for _ in 0..n.parse::<u32>()? {
        let ask = CallToolRequestParams::new("echo").with_arguments(arguments.clone());
        let result = client.call_tool(ask).await?;
        assert_eq!(result.content.len(), 1, "an answer");
    }
    client.cancel().await?;
    Ok(())
}
