import type { JsonRpcId } from '#protocols/json-rpc'
import type { WireError } from './wire.ts'

/** Begins every answer of one function that has a value; the value's own bytes follow (OTS-38). */
export function openAnswer(returnName: string): string {
  return `{"jsonrpc":"2.0","result":{${JSON.stringify(returnName)}:`
}

/** OTS-37, OTS-38: the value under the function's return name; nothing at all gives `{}`. */
export function encodeValue(id: JsonRpcId, opening: string, valueJson: string): string {
  return valueJson === 'null'
    ? `{"jsonrpc":"2.0","result":{},"error":null,"id":${JSON.stringify(id)}}`
    : `${opening}${valueJson}},"error":null,"id":${JSON.stringify(id)}}`
}

/** OTS-39: `result` is `{}` beside an error. */
export function encodeError(id: JsonRpcId | null, error: WireError): string {
  return `{"jsonrpc":"2.0","result":{},"error":${JSON.stringify(error)},"id":${JSON.stringify(id)}}`
}

/** Line ends to a pattern's dot, though not to JSON. */
const LINE_SEPARATORS = /[\u2028\u2029]/g

/**
 * OTS-51, to the letter: no space after the colons, LF only, JSON on one line. Clients match each chunk they
 * receive with a pattern and lose what does not fit.
 */
export function encodeEvent(name: 'start' | 'data' | 'error' | 'done', json: string): string {
  const line = json.replace(LINE_SEPARATORS, (mark) => (mark === '\u2028' ? '\\u2028' : '\\u2029'))
  return `event:${name}\ndata:${line}\n\n`
}
