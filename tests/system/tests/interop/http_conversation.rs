//! The conversations over HTTP, with each SDK in both directions and over both HTTP transports.

use crate::interop::conversation::{Implementation, ImplementationPair, InteropTransport};

const PEERS_LEGACY: [Implementation; 4] =
    [Implementation::Typescript1, Implementation::Typescript2, Implementation::Python, Implementation::Rmcp];
const PEERS_MODERN: [Implementation; 3] =
    [Implementation::Typescript2, Implementation::Python, Implementation::Rmcp];
/// Peers that have the transport of 2024-11-05 on both sides. The newer TypeScript SDK has only the client.
const PEERS_SSE: [Implementation; 2] = [Implementation::Typescript1, Implementation::Python];

#[test]
fn own_server_conversation_with_legacy_sdk_clients_over_http() {
    for peer in PEERS_LEGACY {
        ImplementationPair::with_transport(InteropTransport::Http, peer, Implementation::Own, "legacy")
            .assert_conversation();
    }
}

#[test]
fn own_server_conversation_with_modern_sdk_clients_over_http() {
    for peer in PEERS_MODERN {
        ImplementationPair::with_transport(InteropTransport::Http, peer, Implementation::Own, "modern")
            .assert_conversation();
    }
}

#[test]
fn own_client_conversation_with_legacy_sdk_servers_over_http() {
    for peer in PEERS_LEGACY {
        ImplementationPair::with_transport(InteropTransport::Http, Implementation::Own, peer, "legacy")
            .assert_conversation();
    }
}

#[test]
fn own_client_conversation_with_modern_sdk_servers_over_http() {
    for peer in PEERS_MODERN {
        ImplementationPair::with_transport(InteropTransport::Http, Implementation::Own, peer, "modern")
            .assert_conversation();
    }
}

#[test]
fn own_server_conversation_with_sdk_clients_over_http_sse() {
    for peer in [Implementation::Typescript1, Implementation::Typescript2, Implementation::Python] {
        ImplementationPair::with_transport(InteropTransport::Sse, peer, Implementation::Own, "legacy")
            .assert_conversation();
    }
}

#[test]
fn own_client_conversation_with_sdk_servers_over_http_sse() {
    for peer in PEERS_SSE {
        ImplementationPair::with_transport(InteropTransport::Sse, Implementation::Own, peer, "legacy")
            .assert_conversation();
    }
}

#[test]
fn sdk_clients_resume_after_cut() {
    for peer in PEERS_LEGACY {
        ImplementationPair::with_transport(InteropTransport::Http, peer, Implementation::Own, "legacy")
            .assert_resumes_after_cut();
    }
}

// `rmcp` offers its clients no way to do this.
#[test]
fn own_client_resumes_after_cut() {
    for peer in [Implementation::Typescript1, Implementation::Typescript2, Implementation::Python] {
        ImplementationPair::with_transport(InteropTransport::Http, Implementation::Own, peer, "legacy")
            .assert_resumes_after_cut();
    }
}
