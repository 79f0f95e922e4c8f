//~ `Rc<i32>` cannot be sent between threads safely

use std::rc::Rc;

use mcp_threads::Router;

fn main() {
    let mut router = Router::new("calc", "1.0");
    let shared = Rc::new(3);
    router.tool("three", move |_, (): ()| *shared);
}
