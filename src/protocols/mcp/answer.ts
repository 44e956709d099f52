import type { JsonRpcId } from '#protocols/json-rpc'
import { encodeError, encodeResult } from './codec-answer.ts'
import type { WireError } from './wire.ts'

/** What a method gives back, before a transport carries it. */
export interface Answer {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  /** Absent when a request gets no answer because it was cancelled (MCP-85). */
  readonly json: string | undefined
}

const NO_HEADERS: Readonly<Record<string, string>> = Object.freeze({})

export function resultAnswer(id: JsonRpcId, resultJson: string, headers = NO_HEADERS): Answer {
  return { status: 200, headers, json: encodeResult(id, resultJson) }
}

export function errorAnswer(
  id: JsonRpcId | undefined,
  error: WireError,
  {
    status = 200,
    headers = NO_HEADERS,
  }: { readonly status?: number; readonly headers?: Answer['headers'] } = {},
): Answer {
  return { status, headers, json: encodeError(id, error) }
}

export const NO_ANSWER: Answer = { status: 200, headers: NO_HEADERS, json: undefined }
