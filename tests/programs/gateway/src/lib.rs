//! Shows several MCP servers as one.

#![forbid(unsafe_code)]

use std::error::Error;
use std::net::SocketAddr;
use std::sync::mpsc::Sender;
use std::thread;

use mcp_proto::http::{client, server};
use mcp_proto_proxy::host::{Gateway, Http, Notice, Options, Stop, Upstream};

/// Serves clients at the returned address, with the servers of these names and URLs behind, until it is stopped. What happens is told.
pub fn serve(
    servers: &[(&str, &str)],
    told: Sender<String>,
    stop: Stop,
) -> Result<SocketAddr, Box<dyn Error>> {
    let options = Options::new(move |notice: &Notice<'_>| _ = told.send(notice.to_string()));
    let mut gateway = Gateway::new("own-gateway", "1.0", options);
    for (name, url) in servers {
        gateway.server(name, Upstream::http(client::Config::new(url)?))?;
    }
    let http = Http::bind("127.0.0.1:0", server::Config::new().document(gateway.health(true)))?;
    let address = http.address()?;
    thread::spawn(move || gateway.serve_http(http, &stop).expect("clients are served"));
    Ok(address)
}
