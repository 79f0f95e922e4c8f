//! Tests of the calls over a backend without a connection.

use core::future::{pending, ready};

use super::blocking_calls::complete;
use crate::error::Error;

#[test]
fn future_that_is_ready_completes() {
    assert_eq!(complete(ready(Ok::<_, Error>(7))).unwrap(), 7);
    assert!(matches!(complete(ready(Err::<(), _>(Error::Busy))), Err(Error::Busy)));
}

#[test]
fn future_that_is_not_ready_is_an_internal_error_and_no_hang() {
    let error = complete(pending::<Result<(), Error>>()).unwrap_err();
    assert!(error.to_string().contains("internal error"), "{error}");
}
