import { ToolError } from '#kernel/base/errors'
import { checkCallKey, parseToolName, type ToolRef } from '#kernel/base/ids'
import { isJsonObject, type JsonValue } from '#kernel/base/json'
import { type Batch, type CallPlan, visibleTool, withoutNulls } from './differential-calls.ts'
import type { Observation } from './differential-observation.ts'

/** How a protocol changes a call before the gateway sees it. */
export type Reading =
  | {
      readonly kind: 'call'
      readonly ref: ToolRef
      readonly input: JsonValue | undefined
      readonly key: string | undefined
      /** The input for the tool, where it differs from the request. */
      readonly adapted?: JsonValue
    }
  | { readonly kind: 'refusal'; readonly observation: Observation }

export type Read = (batch: Batch, call: CallPlan) => Reading

/** Protocols that read a call differently, each with its ledger row. All others read it as written. */
export const READINGS = {
  /** Versions are none, `x` or `x.y.z` (OTC-43). */
  'as written': (_batch, call) => readAs(call, call.input),
  /** null for an optional member equals an absent one (OTC/T-24). */
  'as OTC': (_batch, call) => readAs(call, call.input ?? undefined),
  /** The execute drafts know `@latest` too (C-15). */
  'as the execute drafts': (_batch, call) =>
    readAs(call.suffix === '@latest' ? { ...call, suffix: '' } : call, call.input ?? undefined),
  /**
   * Functions have no versions, so the newest is called; `params` is an object, and null is none (OTS-36); null for
   * an optional parameter that does not take it is no argument (OTS-43).
   */
  'as OpenTool': (batch, call) => {
    const newest = { ...call, suffix: '' }
    const input = call.input ?? {}
    if (!isJsonObject(input)) return refuse(call, '"params" must be an object of arguments by name.')
    const read = readAs(newest, input)
    // Also where nothing changes: a recorded call is looked up under every possible reading of its input.
    return read.kind === 'refusal'
      ? read
      : { ...read, adapted: withoutNulls(visibleTool(batch, newest), input) }
  },
  /** Tools have no versions here either; arguments are an object or absent (MCP-60). */
  'as MCP': (_batch, call) => {
    const input = call.input === undefined ? {} : call.input
    if (!isJsonObject(input)) return refuse(call, 'params.arguments must be an object.')
    return readAs({ ...call, suffix: '' }, input)
  },
} satisfies Record<string, Read>

export type ReadingName = keyof typeof READINGS

function readAs(call: CallPlan, input: JsonValue | undefined): Reading {
  const id = call.base + call.suffix
  const ref = parseToolName(id)
  if (ref === undefined) {
    const forms =
      'its id, Toolkit.Tool, Toolkit.Tool@1 or Toolkit.Tool@1.0.0, or another name it is listed under'
    return refuse(call, `${JSON.stringify(id)} is not the name of a tool. Write ${forms}.`)
  }
  const problem = keyProblem(call.key)
  if (problem !== undefined) return refuse(call, problem)
  return { kind: 'call', ref, input, key: call.key }
}

/** Rule 6: a refused request has an id too, its own if valid. */
function refuse({ key }: CallPlan, message: string): Reading {
  const callId = key === undefined || keyProblem(key) !== undefined ? 'made' : 'as asked'
  const error = { message, canRetry: false }
  const observation = { decision: 'granted', code: 'request_invalid', callId, error, isUnread: true } as const
  return { kind: 'refusal', observation }
}

/** Rule 4; the check is the core's own. */
export function keyProblem(key: string | undefined): string | undefined {
  if (key === undefined) return undefined
  try {
    checkCallKey(key)
    return undefined
  } catch (error) {
    if (error instanceof ToolError) return error.message
    throw error
  }
}
