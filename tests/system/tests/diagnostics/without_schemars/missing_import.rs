//~ unresolved import `mcp_blocking::schemars`
//~ the item is gated behind the `schemars` feature

use mcp_blocking::{Router, schemars};

fn main() {
    Router::new("calc", "1.0");
}
