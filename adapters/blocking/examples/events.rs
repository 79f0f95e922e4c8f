//! An HTTP server with the events `tide.turned` at `http://127.0.0.1:PORT/mcp` (default port: 8080): polled by `events/poll`,
//! and streamed by `events/stream`. A thread publishes one each second.

use core::time::Duration;
use std::thread;

use mcp_blocking::Router;
use mcp_blocking::mcp_proto::{RawJson, http};
use mcp_events::server::{Event, Events};
use serde_json::{Value, json};

fn main() -> Result<(), Box<dyn core::error::Error>> {
    let port = std::env::args().nth(1).unwrap_or_else(|| "8080".into());
    let events = Events::new()?;

    // Clients choose a harbour by their arguments; with `schemars`, `Event::typed` takes the schemas from types.
    let arguments = RawJson::new(r#"{"type":"object","properties":{"harbour":{"type":"string"}}}"#)?;
    let payload = RawJson::new(
        r#"{"type":"object","properties":{"harbour":{"type":"string"},"state":{"enum":["high","low"]}}}"#,
    )?;
    let turned = Event::<Value, Value>::with_schemas("tide.turned", arguments, payload)
        .description("The tide has turned in a harbour")
        .matching(|wanted, tide| wanted["harbour"].is_null() || wanted["harbour"] == tide["harbour"]);
    let turned = events.add(turned)?;

    thread::spawn(move || {
        for state in ["high", "low"].into_iter().cycle() {
            thread::sleep(Duration::from_secs(1));
            for harbour in ["Cobh", "Kinsale"] {
                if let Err(error) = turned.publish(&json!({"harbour": harbour, "state": state})) {
                    eprintln!("not published: {error}");
                }
            }
        }
    });

    let mut router = Router::new("tides", "1.0.0");
    router.extension(events);
    Ok(router.serve_http(format!("127.0.0.1:{port}"), http::server::Config::new())?)
}
