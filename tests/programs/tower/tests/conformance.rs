//! The official conformance suite against the server of `mcp-probe serve --everything`, mounted in axum.

use core::time::Duration;

use mcp_mock::ClockResource;
use mcp_tower::McpService;
use tokio::runtime::Runtime;

use crate::evaluation::SuiteRole;
use crate::{serve, sets};

/// Serves everything in axum. Returns the URL; the server stops with the runtime.
fn serve_everything(runtime: &Runtime) -> String {
    let (router, clock) = serve::router();
    let service = McpService::new(router).expect("a valid router");
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("a bound socket");
        // Calls whose client left and comes back go on between requests, and so do tasks.
        tokio::spawn(service.run());
        tokio::spawn(announce_ticks(service.clone(), clock));
        let app = axum::Router::new().route_service("/mcp", service);
        tokio::spawn(async move { axum::serve(listener, app).await });
        format!("http://{address}/mcp")
    })
}

/// Announces ticks of the clock. Never completes.
async fn announce_ticks(service: McpService, clock: ClockResource) {
    loop {
        tokio::time::sleep(clock.time_to_tick().unwrap_or(Duration::from_millis(100))).await;
        if clock.take_tick() {
            let _ = service.publish(&mcp_proto::Change::Resource(ClockResource::URI.into()));
        }
    }
}

/// Runs the sets of some revisions.
fn assert_server_conforms(url: &str, revisions: &[&str]) {
    for revision in revisions {
        sets::assert_conforms("axum", SuiteRole::Server, Some(revision), |suite, set, _, out| {
            suite.run_server(set, url, out);
            Vec::new()
        });
    }
}

// Two tests, which run at the same time: the suite waits more than it computes.

#[test]
fn server_conforms_in_axum_in_legacy_revisions() {
    let runtime = Runtime::new().expect("a runtime");
    let url = serve_everything(&runtime);
    assert_server_conforms(&url, &["2025-03-26", "2025-06-18", "2025-11-25"]);
}

#[test]
fn server_conforms_in_axum_in_2026_07_28() {
    let runtime = Runtime::new().expect("a runtime");
    let url = serve_everything(&runtime);
    assert_server_conforms(&url, &["2026-07-28"]);
    sets::assert_skills_conform("axum", SuiteRole::Server, |suite, set, names, out| {
        suite.run_server_scenarios(set, &url, names, out)
    });
}
