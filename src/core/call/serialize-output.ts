import { ShownValue, shownBytes, writeShown } from '#core/content-blocks'
import type { JsonValue } from '#core/json'
import type { CallError, Shown } from '#core/outcome'
import type { Tool } from '#core/tool'

/** UTF-8 needs at most this many bytes per UTF-16 unit, so most results need no exact count. */
const MOST_BYTES_PER_UNIT = 3

export type SerializedOutput =
  | { readonly ok: true; readonly valueJson: string; readonly shown?: Shown }
  | { readonly ok: false; readonly error: CallError }

/** OTC-90, T-14: what is checked is exactly what is sent. A tool without output has its value dropped. */
export function serializeOutput(tool: Tool, value: unknown, maxBytes: number): SerializedOutput {
  if (tool.outputSchema === null) return { ok: true, valueJson: 'null' }
  if (value instanceof ShownValue) return serializeShown(tool, value, maxBytes)
  const serialized = toJson(value)
  if (serialized === undefined) return invalid(tool, 'the value cannot be written as JSON')
  const { valueJson, sent } = serialized
  const problems = tool.checkOutput(sent)
  if (problems.length > 0) return invalid(tool, problems.join('; '))
  if (valueJson.length * MOST_BYTES_PER_UNIT > maxBytes && byteLength(valueJson) > maxBytes) {
    return tooLarge(tool, byteLength(valueJson), maxBytes)
  }
  return { ok: true, valueJson }
}

/** Both halves together are within the limit. */
function serializeShown(tool: Tool, { value, shown }: ShownValue, maxBytes: number): SerializedOutput {
  const output = serializeOutput(tool, value, maxBytes)
  if (!output.ok) return output
  const written = writeShown(shown)
  const bytes = byteLength(output.valueJson) + shownBytes(written)
  return bytes > maxBytes ? tooLarge(tool, bytes, maxBytes) : { ...output, shown: written }
}

function toJson(value: unknown): { readonly valueJson: string; readonly sent: JsonValue } | undefined {
  if (typeof value === 'number') {
    return Number.isFinite(value)
      ? { valueJson: String(Object.is(value, -0) ? 0 : value), sent: value }
      : undefined
  }
  if (value === undefined || value === null) return { valueJson: 'null', sent: null }
  try {
    const valueJson: string | undefined = JSON.stringify(value)
    if (valueJson === undefined) return undefined
    const sent: JsonValue = typeof value === 'object' ? JSON.parse(valueJson) : value
    return { valueJson, sent }
  } catch {
    return undefined
  }
}

function byteLength(text: string): number {
  return Buffer.byteLength(text)
}

function invalid(tool: Tool, why: string): SerializedOutput {
  return {
    ok: false,
    error: {
      code: 'output_invalid',
      message: `${tool.name} ran, but gave a result that does not fit its output schema.`,
      developerMessage: `Output of ${tool.id}: ${why}.`,
      canRetry: false,
    },
  }
}

function tooLarge(tool: Tool, bytes: number, maxBytes: number): SerializedOutput {
  return {
    ok: false,
    error: {
      code: 'result_too_large',
      message: `${tool.name} ran, but its result has ${bytes} bytes and at most ${maxBytes} are allowed. Ask for less.`,
      developerMessage: 'Raise calls.maxResultBytes in the config, or let the tool give back less.',
      canRetry: false,
    },
  }
}
