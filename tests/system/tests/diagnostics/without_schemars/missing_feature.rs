//~ the schema of `Add` is not known, so it cannot be the arguments of a tool
//~ enable the feature `schemars` of the package of `Blocking`

use mcp_blocking::Router;

#[derive(serde::Deserialize)]
struct Add {
    a: i64,
    b: i64,
}

fn main() {
    let mut router = Router::new("calc", "1.0");
    router.tool("add", |_, Add { a, b }: Add| a + b);
}
