//! The router of `mcp-smol`, whose handlers are async closures.

use alloc::rc::Rc;
use core::cell::RefCell;

use mcp_proto::router::schema::NoArguments;
use mcp_smol::{Cx, Router};

#[test]
fn handler_may_hold_state_that_is_not_send() {
    let mut router = Router::new("x", "1");
    let count = Rc::new(RefCell::new(0));
    router.tool("count", async move |_: &mut Cx, _: NoArguments| *count.borrow_mut() += 1).description("");
    router.check().unwrap();
    assert!(router.config().is_ok());
}
