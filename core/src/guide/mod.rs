//! The guide: pages about the use of this crate, its errors and its security.

#[doc = include_str!("security.md")]
pub mod security {}

#[doc = include_str!("security_deployment.md")]
pub mod security_deployment {}

#[doc = include_str!("troubleshooting.md")]
pub mod troubleshooting {}

#[doc = include_str!("troubleshooting_http.md")]
pub mod troubleshooting_http {}

#[doc = include_str!("troubleshooting_entries.md")]
pub mod troubleshooting_entries {}

#[doc = include_str!("troubleshooting_authorization.md")]
pub mod troubleshooting_authorization {}
