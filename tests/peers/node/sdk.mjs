// Both generations of the official client, for programs outside of this folder.
export { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js';
export { StreamableHTTPClientTransport as HttpV1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
export { ResourceUpdatedNotificationSchema } from '@modelcontextprotocol/sdk/types.js';
export { Client as ClientV2, StreamableHTTPClientTransport as HttpV2 } from '@modelcontextprotocol/client';
