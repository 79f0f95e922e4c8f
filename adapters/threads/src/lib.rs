//! Model Context Protocol servers and clients on threads: any thread calls, and none waits for another's answer
//!
//! The protocol is [`mcp_proto`]'s, processes and byte streams are [`mcp_std`]'s; this crate has threads of its own move
//! the bytes between them. `mcp-blocking` has the same surface with no thread at all, `mcp-smol` has it as futures.

#![forbid(unsafe_code)]
