//! Lists the tools of a server and calls `echo`: `cargo run --example client -- PROGRAM [ARGUMENTS…]`.

use mcp_blocking::{Client, Error, Program, Stderr};

fn main() -> Result<(), Error> {
    let mut command = std::env::args().skip(1);
    let program = command.next().unwrap_or_else(|| "target/debug/examples/echo".into());
    let client = Client::spawn(Program::new(program).args(command).stderr(Stderr::Capture))?;
    for tool in client.list_tools()? {
        println!("{}: {}", tool.name, tool.description.unwrap_or_default());
    }
    let result = client.call_tool("echo", &serde_json::json!({"text": "hello"}))?;
    println!("{:?}", result.content.iter().filter_map(|block| block.as_text()).collect::<Vec<_>>());
    if let Some(report) = client.close()? {
        println!("the server {report}");
    }
    Ok(())
}
