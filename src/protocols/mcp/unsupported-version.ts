import { MCP_CODES, NEW_REVISION, OLD_REVISIONS, type WireError } from './wire.ts'

/** T-8: only what can be used this way; older ones are named in the text (MCP-34). */
export function unsupportedVersion(requested: string): WireError {
  return {
    code: MCP_CODES.unsupportedVersion,
    message: `Unsupported protocol version. ${OLD_REVISIONS.join(' and ')} are served after initialize.`,
    data: { supported: [NEW_REVISION], requested },
  }
}
