//! Suite: the checks for adapters of other packages ([`mcp_std::testing::adapter`]).
//!
//! `crate::line_streams::serve` and `crate::line_streams::talk_over` are a server and a client of the adapter under test.

use std::net::TcpStream;

use mcp_proto::{client, server};
use mcp_std::io::Socket;
use mcp_std::testing::adapter::{Adapter, Outcome};

use crate::line_streams::{serve, talk_over};

struct AdapterUnderTest;

impl Adapter for AdapterUnderTest {
    fn serve(config: server::Config, stream: TcpStream) -> Outcome<()> {
        Ok(serve(config, Box::new(Socket::tcp(stream)?), |_| {})?)
    }

    fn talk(
        config: client::Config,
        stream: TcpStream,
        tool: &str,
        texts: &[&str],
    ) -> Outcome<Vec<Outcome<String>>> {
        let answers = talk_over(config, Box::new(Socket::tcp(stream)?), tool, texts)?;
        Ok(answers.into_iter().map(|answer| Ok(answer?)).collect())
    }
}

mcp_std::adapter_tests!(AdapterUnderTest);
