//! Tests of the `mcp-probe` executable: arguments, both outputs and the exit code.

extern crate alloc;

#[cfg(target_os = "linux")]
mod agent;
#[cfg(unix)]
mod authorization;
#[cfg(unix)]
mod authorization_options;
mod basics;
#[cfg(unix)]
mod bench;
#[cfg(unix)]
mod bridge;
#[cfg(target_os = "linux")]
mod bridge_leaks;
#[cfg(unix)]
mod bridge_share;
#[cfg(unix)]
mod call_http;
#[cfg(unix)]
mod chaos;
#[cfg(unix)]
mod check;
mod check_http;
#[cfg(unix)]
mod check_profiles;
#[cfg(unix)]
mod check_protection;
mod config_file;
#[cfg(target_os = "linux")]
mod connect;
mod demo;
#[cfg(unix)]
mod doctor;
#[cfg(unix)]
mod doctor_http;
#[cfg(unix)]
mod era_cache;
mod events;
#[cfg(unix)]
mod events_webhooks;
mod everything;
mod everything_fixtures;
mod everything_wire;
mod failures;
#[cfg(unix)]
mod gateway;
#[cfg(unix)]
mod gateway_boundary;
#[cfg(unix)]
mod gateway_reload;
mod gateway_search;
#[cfg(unix)]
mod generate;
mod headers;
#[cfg(unix)]
mod hostile_servers;
#[cfg(unix)]
mod http;
mod input;
#[cfg(unix)]
mod json_output;
mod listen;
#[cfg(unix)]
mod mock;
mod pages;
mod pins;
#[cfg(unix)]
mod protected_server;
#[cfg(unix)]
mod protection;
mod recording_server;
#[cfg(unix)]
mod refusals;
mod requests;
#[cfg(unix)]
mod roots;
#[cfg(unix)]
mod runtimes;
#[cfg(unix)]
mod serve_options;
mod shell;
#[cfg(unix)]
mod shell_server;
#[cfg(target_os = "linux")]
mod shell_terminal;
#[cfg(target_os = "linux")]
mod signals;
#[cfg(unix)]
mod skills;
mod steps;
#[cfg(target_os = "linux")]
mod streams;
#[cfg(unix)]
mod suite;
mod support;
mod tap;
#[cfg(target_os = "linux")]
mod terminal;
#[cfg(unix)]
mod tls;
mod tool_arguments;
mod trace_views;
#[cfg(unix)]
mod unread;
mod usage;
