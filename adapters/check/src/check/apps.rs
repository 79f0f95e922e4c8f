//! Checks of apps: `_meta.ui` of tools and the pages that they name.

use alloc::collections::BTreeSet;

use mcp_proto::model::{ReadResourceResult, Tool, UiResourceMeta, UiToolMeta, is_ui_mime_type};
use mcp_proto::{EntryKind, RawJson};
use serde_json::json;

use super::conversation::{CheckAnswer, CheckConversation};
use super::lists::ServerLists;
use super::rules::rules_of;

rules_of! {
    RULES
    APP_TOOL "app-tool" Error [Spec Hosted] ["APP-001" "APP-005" "APP-007"]
        "what a tool says about its app in `_meta.ui` is valid"
        "name the page as `ui://…` in `resourceUri`, and the parties as strings in `visibility`"
    APP_PAGE "app-page" Error [Spec Hosted] ["APP-002" "APP-004" "APP-009"]
        "the page that a tool names can be read and is `text/html;profile=mcp-app`"
        "offer the resource with that media type, and with members of the right type in `_meta.ui`"
}

/// Maximum number of pages that are read.
const MAX_PAGES: usize = 20;

/// Checks what tools say about apps, and reads the pages.
pub(super) fn check_apps(conversation: &mut CheckConversation<'_>, lists: &ServerLists) {
    let mut read = BTreeSet::new();
    for tool in lists.entries(EntryKind::Tool).iter().filter_map(|tool| tool.parse::<Tool>().ok()) {
        let location = format!("tool `{}`", tool.name);
        match UiToolMeta::from_tool(&tool) {
            Err(error) => conversation.report.add(APP_TOOL, &location, error.to_string()),
            Ok(UiToolMeta { resource_uri: Some(uri), .. }) if read.len() < MAX_PAGES => {
                if read.insert(uri.clone()) {
                    check_page(conversation, &location, &uri);
                }
            }
            Ok(_) => {}
        }
    }
}

fn check_page(conversation: &mut CheckConversation<'_>, location: &str, uri: &str) {
    let problem = match conversation.request("resources/read", json!({"uri": uri})) {
        CheckAnswer::None => return,
        CheckAnswer::Error(failed) => {
            format!("reading its page `{uri}` got the error {}", failed.summary())
        }
        CheckAnswer::Result(result) => match page_problem(&result) {
            None => return,
            Some(problem) => format!("its page `{uri}`: {problem}"),
        },
    };
    conversation.report.add(APP_PAGE, location, problem);
}

/// Returns why the result of reading a page is not one.
fn page_problem(result: &RawJson) -> Option<String> {
    let contents = match result.parse::<ReadResourceResult<'_>>() {
        Err(error) => return Some(error.to_string()),
        Ok(read) => read.contents,
    };
    let [contents] = &contents[..] else {
        return Some(format!("it has {} contents instead of one", contents.len()));
    };
    match contents.mime_type() {
        Some(mime_type) if is_ui_mime_type(mime_type) => {
            UiResourceMeta::from_contents(contents).err().map(|error| error.to_string())
        }
        Some(mime_type) => Some(format!("its media type is {mime_type:?}")),
        None => Some("it has no media type".into()),
    }
}
