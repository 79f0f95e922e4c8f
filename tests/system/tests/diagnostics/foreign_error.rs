//~ `Storm` cannot be the error of a handler
//~ use a type that implements `Error + Send + Sync`, text, `Box<dyn Error + Send + Sync>` or `anyhow::Error`

use mcp_blocking::Router;

struct Storm;

fn main() {
    let mut router = Router::new("harbour", "1.0");
    router.tool("tide", |_, (): ()| Err::<&str, Storm>(Storm));
}
