//! The `Mcp-*` header fields: their names, and how values are written and read (XHDR).
