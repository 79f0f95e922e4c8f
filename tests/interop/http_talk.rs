//! Conversations over HTTP: those of `talk`, between ours and every SDK, in both directions and over both transports

use crate::talk::{Pair, Sdk, Wire};

const PEERS_LEGACY: [Sdk; 4] = [Sdk::Typescript1, Sdk::Typescript2, Sdk::Python, Sdk::Rmcp];
const PEERS_MODERN: [Sdk; 3] = [Sdk::Typescript2, Sdk::Python, Sdk::Rmcp];
/// Those that still have the transport of 2024-11-05 on both sides; the newer TypeScript SDK has the client alone.
const PEERS_SSE: [Sdk; 2] = [Sdk::Typescript1, Sdk::Python];

#[test]
fn our_server_asks_legacy_clients_over_http() {
    for peer in PEERS_LEGACY {
        Pair::over(Wire::Http, peer, Sdk::Ours, "legacy").talks();
    }
}

#[test]
fn our_server_asks_modern_clients_over_http() {
    for peer in PEERS_MODERN {
        Pair::over(Wire::Http, peer, Sdk::Ours, "modern").talks();
    }
}

#[test]
fn our_client_answers_legacy_servers_over_http() {
    for peer in PEERS_LEGACY {
        Pair::over(Wire::Http, Sdk::Ours, peer, "legacy").talks();
    }
}

#[test]
fn our_client_answers_modern_servers_over_http() {
    for peer in PEERS_MODERN {
        Pair::over(Wire::Http, Sdk::Ours, peer, "modern").talks();
    }
}

#[test]
fn our_server_asks_over_http_and_sse() {
    for peer in [Sdk::Typescript1, Sdk::Typescript2, Sdk::Python] {
        Pair::over(Wire::Sse, peer, Sdk::Ours, "legacy").talks();
    }
}

#[test]
fn our_client_answers_over_http_and_sse() {
    for peer in PEERS_SSE {
        Pair::over(Wire::Sse, Sdk::Ours, peer, "legacy").talks();
    }
}

#[test]
fn their_clients_go_on_after_a_cut() {
    for peer in PEERS_LEGACY {
        Pair::over(Wire::Http, peer, Sdk::Ours, "legacy").goes_on_after_a_cut();
    }
}

// `rmcp` has no way to do this to its clients.
#[test]
fn our_client_goes_on_after_a_cut() {
    for peer in [Sdk::Typescript1, Sdk::Typescript2, Sdk::Python] {
        Pair::over(Wire::Http, Sdk::Ours, peer, "legacy").goes_on_after_a_cut();
    }
}
