//! An adapter of your own: a hundred lines on plain `poll(2)`, in `adapter.rs`. Each connection has a thread, and handlers run
//! on the loop.
//!
//! The suites of [`mcp_std::testing::adapter`] run as the tests of this program. [The contract] has the rules of its loop.
//!
//! ```sh
//! cargo run -p mcp-std --example poll_adapter
//! cargo run -p mcp-std --example poll_adapter -- hello world
//! cargo run -p mcp-probe -- call echo text=hello tcp://127.0.0.1:7000
//! ```
//!
//! [The contract]: https://docs.rs/mcp-proto/latest/mcp_proto/guide/contract/

#[cfg(unix)]
extern crate alloc;

#[cfg(unix)]
mod adapter;

#[cfg(unix)]
use adapter::Result;
use mcp_proto::RpcError;
use mcp_proto::model::CallToolResult;
use mcp_proto::server::Call;

#[derive(serde::Deserialize)]
struct Echo {
    text: String,
}

#[derive(serde::Serialize)]
struct Text<'a> {
    text: &'a str,
}

fn text_of<'a>(result: &'a CallToolResult<'_>) -> &'a str {
    result.content.first().and_then(|block| block.as_text()).unwrap_or_default()
}

/// Runs the tools `echo` and `endless`, which goes on until its call is cancelled.
fn answer(call: &Call) -> core::result::Result<Option<CallToolResult<'static>>, RpcError> {
    let tool = call.tool_call()?;
    match &*tool.name {
        "echo" => Ok(Some(CallToolResult::text(tool.parse::<Echo>()?.text))),
        "endless" => Ok(None),
        other => Err(RpcError::invalid_params(format!("unknown tool: {other}"))),
    }
}

const ADDRESS: &str = "127.0.0.1:7000";

/// Serves clients, or calls `echo` of a server with each of the arguments.
#[cfg(unix)]
fn main() -> Result<()> {
    use mcp_proto::{Capabilities, Capability, client, server};

    let texts: Vec<String> = std::env::args().skip(1).collect();
    if !texts.is_empty() {
        let arguments: Vec<Text<'_>> = texts.iter().map(|text| Text { text }).collect();
        let socket = std::net::TcpStream::connect(ADDRESS)?;
        for result in adapter::call_all(client::Config::new("poll-adapter", "1"), socket, "echo", &arguments)?
        {
            println!("{}", text_of(&result?));
        }
        return Ok(());
    }
    let listener = std::net::TcpListener::bind(ADDRESS)?;
    loop {
        let (socket, from) = listener.accept()?;
        let tools = Capabilities::new().with(Capability::Tools);
        let config = server::Config::new("poll-adapter", "1").capabilities(tools);
        std::thread::spawn(move || {
            if let Err(error) = adapter::serve(config, socket, answer) {
                eprintln!("{from}: {error}");
            }
        });
    }
}

#[cfg(not(unix))]
fn main() {
    let _ = (answer, text_of, Text { text: ADDRESS }.text);
}

#[cfg(all(test, unix))]
mod tests {
    use std::net::TcpStream;

    use mcp_proto::{client, server};
    use mcp_std::testing::adapter::{Adapter, Outcome};

    struct PollAdapter;

    impl Adapter for PollAdapter {
        fn serve(config: server::Config, stream: TcpStream) -> Outcome<()> {
            super::adapter::serve(config, stream, super::answer)
        }

        fn talk(
            config: client::Config,
            stream: TcpStream,
            tool: &str,
            texts: &[&str],
        ) -> Outcome<Vec<Outcome<String>>> {
            let arguments: Vec<_> = texts.iter().map(|text| super::Text { text }).collect();
            let results = super::adapter::call_all(config, stream, tool, &arguments)?;
            Ok(results.into_iter().map(|result| Ok(super::text_of(&result?).to_owned())).collect())
        }
    }

    mcp_std::adapter_tests!(PollAdapter);
}
