//! Nothing but its tests: `mcp-proto` built without an era, or without change notifications.
