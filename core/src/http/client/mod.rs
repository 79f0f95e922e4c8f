//! A client of Streamable HTTP, and of HTTP+SSE.
