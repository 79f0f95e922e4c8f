//! HTTP/1.1 for both roles, over heads read by `httparse`; knows nothing of MCP.
