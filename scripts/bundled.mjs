/**
 * Packages whose code is bundled into ours. As packages, the MCP client and its own dependencies are 9 MB, most of it
 * maps, a second module system and ways of signing in that we do not use (docs/internals/decisions/0053). The build writes
 * their licences beside the code, and `npm run audit` includes them.
 */
export const BUNDLED = [
  '@modelcontextprotocol/client',
  '@modelcontextprotocol/core',
  'eventsource',
  'eventsource-parser',
  'pkce-challenge',
]
