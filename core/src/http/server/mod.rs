//! A server of Streamable HTTP, and of HTTP+SSE.
