//! The apps of a server: each tool with a page, who may call it, and what the page asks of its sandbox.

use alloc::collections::BTreeMap;

use mcp_proto::RawJson;
use mcp_proto::model::{
    Tool, UiResourceCsp, UiResourceMeta, UiResourcePermissions, UiToolMeta, is_ui_mime_type,
};
use serde::Serialize;

use crate::escape;
use crate::paint::Paint;
use crate::session::ClientSession;

/// Maximum number of pages that are read.
const MAX_PAGES: usize = 100;

/// A tool that says something about apps.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AppReport {
    tool: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    resource_uri: Option<String>,
    /// Parties that may call the tool.
    visibility: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    page: Option<PageReport>,
    /// Reason why the members of the tool or the page are not valid.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

/// The page of a tool, as it was read.
#[derive(Clone, Serialize)]
#[serde(rename_all = "camelCase")]
struct PageReport {
    mime_type: Option<String>,
    /// `_meta.ui` of the contents, or else of the listed resource.
    #[serde(skip_serializing_if = "Option::is_none")]
    ui: Option<UiResourceMeta>,
}

/// Reads the pages of all tools.
pub(super) fn collect(
    session: &mut ClientSession,
    tools: &[RawJson],
    resources: &[RawJson],
) -> Vec<AppReport> {
    let mut pages = BTreeMap::new();
    let mut apps = Vec::new();
    for tool in tools.iter().filter_map(|tool| tool.parse::<Tool>().ok()) {
        let named = UiToolMeta::from_tool(&tool);
        if matches!(&named, Ok(ui) if *ui == UiToolMeta::new()) {
            continue;
        }
        let mut app = AppReport {
            tool: tool.name,
            resource_uri: None,
            visibility: Vec::new(),
            page: None,
            problem: None,
        };
        match named {
            Err(error) => app.problem = Some(error.to_string()),
            Ok(ui) => {
                app.visibility = match ui.visibility {
                    Some(parties) => parties.iter().map(|party| party.as_str().to_owned()).collect(),
                    None => vec!["model".to_owned(), "app".to_owned()],
                };
                app.resource_uri = ui.resource_uri;
            }
        }
        if let Some(uri) = &app.resource_uri {
            let page = match pages.get(uri) {
                Some(page) => Result::clone(page),
                None if pages.len() >= MAX_PAGES => {
                    Err(format!("not read: it is one of more than {MAX_PAGES} pages"))
                }
                None => {
                    let page = read_page(session, uri, resources);
                    pages.insert(uri.clone(), page.clone());
                    page
                }
            };
            match page {
                Ok(page) => app.page = Some(page),
                Err(problem) => app.problem = Some(problem),
            }
        }
        apps.push(app);
    }
    apps
}

/// # Errors
///
/// The reason why the page cannot be read, or is none.
fn read_page(session: &mut ClientSession, uri: &str, resources: &[RawJson]) -> Result<PageReport, String> {
    let read =
        session.client.read_resource(uri).map_err(|error| format!("the page cannot be read: {error}"))?;
    let [contents] = &read.contents[..] else {
        return Err(format!("the page has {} contents instead of one", read.contents.len()));
    };
    let mime_type = contents.mime_type();
    if !mime_type.is_some_and(is_ui_mime_type) {
        return Err(format!("the media type of the page is {}", mime_type.unwrap_or("missing")));
    }
    let of_contents =
        UiResourceMeta::from_contents(contents).map_err(|error| format!("the page: {error}"))?;
    let listed = || {
        let entry = resources.iter().find(|entry| {
            entry.member("uri").and_then(|member| member.string()).is_some_and(|member| member == *uri)
        })?;
        UiResourceMeta::from_resource(&entry.parse().ok()?).ok()?
    };
    Ok(PageReport { mime_type: mime_type.map(str::to_owned), ui: of_contents.or_else(listed) })
}

/// Appends the apps as text.
pub(super) fn push_apps(out: &mut String, apps: &[AppReport], paint: Paint) {
    if apps.is_empty() {
        return;
    }
    out.push_str(&format!("\n{} ({})\n", paint.bold("apps"), apps.len()));
    for app in apps {
        let page = app.resource_uri.as_deref().unwrap_or("(no page)");
        out.push_str(&format!("  {}  {}\n", paint.name(escape::line(&app.tool)), escape::line(page)));
        let mut note = |what: &str, text: &str| {
            if !text.is_empty() {
                out.push_str(&format!("      {} {}\n", paint.dim(format!("{what:8}")), escape::line(text)));
            }
        };
        let ui = app.page.as_ref().and_then(|page| page.ui.as_ref());
        if app.problem.is_none() {
            let parties = app.visibility.join(" and ");
            note("for", if parties.is_empty() { "nobody" } else { &parties });
        }
        note("reaches", &ui.and_then(|ui| ui.csp.as_ref()).map(describe_csp).unwrap_or_default());
        note(
            "asks for",
            &ui.and_then(|ui| ui.permissions.as_ref()).map(describe_permissions).unwrap_or_default(),
        );
        note("domain", ui.and_then(|ui| ui.domain.as_deref()).unwrap_or_default());
        if let Some(problem) = &app.problem {
            out.push_str(&format!("      {}\n", paint.bad(escape::line(problem))));
        }
    }
}

fn describe_csp(csp: &UiResourceCsp) -> String {
    let kinds = [
        ("connections", &csp.connect_domains),
        ("resources", &csp.resource_domains),
        ("frames", &csp.frame_domains),
        ("base URIs", &csp.base_uri_domains),
    ];
    let kinds = kinds.iter().filter(|(_, domains)| !domains.is_empty());
    kinds.map(|(kind, domains)| format!("{kind}: {}", domains.join(" "))).collect::<Vec<_>>().join("; ")
}

fn describe_permissions(permissions: &UiResourcePermissions) -> String {
    let features = [
        ("camera", permissions.camera.is_some()),
        ("microphone", permissions.microphone.is_some()),
        ("geolocation", permissions.geolocation.is_some()),
        ("clipboard", permissions.clipboard_write.is_some()),
    ];
    let asked = features.iter().filter(|(_, asked)| *asked);
    asked.map(|(feature, _)| *feature).collect::<Vec<_>>().join(", ")
}
