//~ use of deprecated unit variant `mcp_blocking::mcp_proto::Capability::Roots`: MCP SEP-2577; earliest removal: first revision released on or after 2027-07-28
//~ earliest removal: follows sampling (SEP-2577)
//~ ::list_roots`: MCP SEP-2577; earliest removal: first revision released on or after 2027-07-28

#![deny(deprecated)]

use mcp_blocking::Router;
use mcp_blocking::mcp_proto::model::IncludeContext;
use mcp_blocking::mcp_proto::{Capabilities, Capability};

fn main() {
    let _ = Capabilities::new().with(Capability::Roots);
    let _ = IncludeContext::AllServers;
    let mut router = Router::new("harbour", "1.0");
    router.tool("places", |cx, (): ()| cx.list_roots("places").map(|found| found.roots.len().to_string()));
}
