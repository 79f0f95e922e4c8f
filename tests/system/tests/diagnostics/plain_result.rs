//~ `Sum` cannot be the result of a tool
//~ wrap a value that implements `Serialize` in `Json`, or in `Typed` to declare its schema as well: `Typed(value)`

use mcp_blocking::{Router, schemars};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Add {
    a: i64,
    b: i64,
}

#[derive(serde::Serialize)]
struct Sum {
    sum: i64,
}

fn main() {
    let mut router = Router::new("calc", "1.0");
    router.tool("add", |_, Add { a, b }: Add| Sum { sum: a + b });
}
