//! What is for sale in a shop, and for how much.

#![forbid(unsafe_code)]

use mcp_blocking::{Client, Error};
use serde_json::{Value, json};

/// Returns the price of a ware in cents; `None` if the shop does not sell it.
pub fn price(shop: &Client, ware: &str) -> Result<Option<u64>, Error> {
    let answer = shop.call_tool("price", &json!({ "of": ware }))?;
    if answer.is_error == Some(true) {
        return Ok(None);
    }
    let price = answer.structured_content.as_ref().and_then(|price| price.parse::<Value>().ok());
    Ok(price.and_then(|price| price["cents"].as_u64()))
}
