import { isJsonObject, type JsonValue } from '#kernel/base/json'
import { type HistoryEntry, type ShownCall, shownCalls } from './call-keys.ts'
import { toJson } from './toolset.ts'

/*
 * Reads the calls and results in messages of the AI SDK. `ai-sdk.ts` uses it, and `mastra.ts`, because Mastra has the same messages.
 * Invariant: unknown members are ignored, because the two libraries use different versions of the format.
 */

export function historyOf(messages: readonly object[]): readonly ShownCall[] {
  return shownCalls(messages.flatMap(entriesOf))
}

function entriesOf(message: object, turn: number): readonly HistoryEntry[] {
  const content = 'content' in message ? toJson(message.content) : []
  if (!Array.isArray(content)) return []
  return content.flatMap((part: JsonValue): readonly HistoryEntry[] => {
    if (!isJsonObject(part) || typeof part.toolCallId !== 'string') return []
    const { type, toolCallId: id, toolName: name, input = {}, output } = part
    if (type === 'tool-result') return [{ resultOf: id, text: outputText(output) }]
    return type === 'tool-call' ? [{ call: { id, name: String(name), input, turn } }] : []
  })
}

/** The beginning of a result. */
function outputText(output: JsonValue | undefined): string {
  const value = isJsonObject(output) ? output.value : output
  if (typeof value === 'string') return value
  const [first] = Array.isArray(value) ? value : []
  return isJsonObject(first) && typeof first.text === 'string' ? first.text : ''
}
