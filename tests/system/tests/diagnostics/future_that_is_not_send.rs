//~ this handler cannot run on a router of `SendFutures`
//~ what it holds across an `.await` has to be `Send` (`Arc` instead of `Rc`, no `RefCell` guard)
//~ what it captures has to be `Clone + Send + Sync`: put it into an `Arc`, or use `with_state`
//~ handlers that stay on one thread run on a router of `LocalFutures`

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
