//~ this handler cannot run on a router of `Shared` handlers
//~ what a future holds across an `.await` has to be `Send` (`Arc` instead of `Rc`, no `RefCell` guard)
//~ what it captures has to be `Send + Sync`, and for a future also `Clone`: put it into an `Arc`
//~ handlers that stay on one thread run on a router of `Local` handlers

use std::rc::Rc;
use std::time::Duration;

use mcp_smol::SendRouter;

fn main() {
    let mut router = SendRouter::new("calc", "1.0");
    router.tool("three", async |cx, (): ()| {
        let three = Rc::new(3);
        cx.sleep(Duration::ZERO).await.map(|()| *three)
    });
}
