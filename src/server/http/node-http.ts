/**
 * `node:http`, without its ESM face: an `import` of that reads every export, and a few of them load the whole of Node's `fetch`
 * on the way, a tenth of a cold start. What listens, and nothing that reaches out (rule 33).
 */
export const { createServer, IncomingMessage, ServerResponse, STATUS_CODES } =
  process.getBuiltinModule('node:http')
