//! The guide: errors of this crate, of the adapters and of `mcp-probe`, with their remedies.

#[doc = include_str!("troubleshooting.md")]
pub mod troubleshooting {}

#[doc = include_str!("troubleshooting_tls_and_tokens.md")]
pub mod troubleshooting_tls_and_tokens {}

#[doc = include_str!("troubleshooting_mcp_probe.md")]
pub mod troubleshooting_mcp_probe {}

#[doc = include_str!("troubleshooting_mcp_probe_tools.md")]
pub mod troubleshooting_mcp_probe_tools {}

#[doc = include_str!("troubleshooting_mcp_probe_test.md")]
pub mod troubleshooting_mcp_probe_test {}
