/**
 * The exports of `node:http` for listening. An `import` of that module reads every export, and some of them load all of Node's
 * `fetch`, which takes a tenth of a cold start. Nothing here opens connections (rule 33).
 */
export const { createServer, IncomingMessage, ServerResponse, STATUS_CODES } =
  process.getBuiltinModule('node:http')
