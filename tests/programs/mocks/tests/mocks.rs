//! The shop is a file.

use std::path::Path;
use std::sync::Arc;

use mcp_blocking::mcp_proto::client::Config;
use mcp_blocking::{Client, testing};
use mcp_mock::{Content, Definition, Setup};
use mcp_mocks::price;

const SHOP: &str = r#"{
    "server": {"name": "shop", "version": "1.0"},
    "tools": [{
        "name": "price", "inputSchema": {"type": "object"},
        "answers": [
            {"arguments": {"of": "tea"}, "structured": {"cents": 250}},
            {"text": "not for sale", "isError": true}, // all other wares
        ],
    }],
}"#;

fn shop(content: Content) -> Client {
    let setup = Setup::new(content, |note| panic!("{note}"));
    let (router, _) = mcp_mock::blocking::router(&setup);
    testing::pair(router, Client::options(Config::new("visitor", "1"))).expect("a connection")
}

#[test]
fn client_is_tested_against_a_file() {
    let definition =
        Definition::from_file(SHOP.as_bytes(), Path::new("shop.json"), "").expect("a definition");
    let shop = shop(Content::Defined(Arc::new(definition)));
    assert_eq!(price(&shop, "tea").expect("an answer"), Some(250));
    assert_eq!(price(&shop, "air").expect("an answer"), None);
    shop.close().expect("the end");
}

#[test]
fn everything_is_there() {
    let server = shop(Content::Everything);
    let names: Vec<String> =
        server.list_tools().expect("tools").iter().map(|tool| tool.name.clone()).collect();
    for name in ["echo", "count", "sign", "write_note", "slow_compute"] {
        assert!(names.iter().any(|other| other == name), "{name} in {names:?}");
    }
    server.close().expect("the end");
}

#[test]
fn file_that_is_wrong_is_explained_by_its_line() {
    let wrong = "{\"tools\": [\n  {\"name\": \"a\", \"answers\": [{\"texts\": \"x\"}]}]}";
    let error =
        Definition::from_file(wrong.as_bytes(), Path::new("a.json"), "see the manual").expect_err("a member");
    let text = error.to_string();
    assert!(text.contains("tools[0].answers[0].texts") && text.contains("(line 2)"), "{text}");
    assert_eq!(error.hint, Some("see the manual"));
}
