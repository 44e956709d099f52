import type { JsonObject } from '#core/json'
import type { JsonRpcId } from '#protocols/json-rpc'
import type { WireError } from './wire.ts'

/** `resultJson` is the result's own bytes. */
export function encodeResult(id: JsonRpcId, resultJson: string): string {
  return `{"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":${resultJson}}`
}

/** MCP-04: without a readable id there is none, not null (T-7). */
export function encodeError(id: JsonRpcId | undefined, error: WireError): string {
  const shown = id === undefined ? '' : `"id":${JSON.stringify(id)},`
  return `{"jsonrpc":"2.0",${shown}"error":${JSON.stringify(error)}}`
}

export function encodeNotification(method: string, params?: JsonObject): string {
  return JSON.stringify({ jsonrpc: '2.0', method, ...(params === undefined ? {} : { params }) })
}

export function encodeRequest(id: JsonRpcId, method: string, params: JsonObject): string {
  return JSON.stringify({ jsonrpc: '2.0', id, method, params })
}

/** MCP-16: one message an event; JSON has no line ends of its own. */
export function encodeEvent(json: string): string {
  return `event: message\ndata: ${json}\n\n`
}
