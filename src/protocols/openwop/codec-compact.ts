import type { Tool } from '#core/tool'
import { compactSchema } from './codec-compact-schema.ts'
import type { WireCompactToolDescriptor } from './wire.ts'

/** What RFC 0112 considers for a model-facing summary. */
const LONGEST_DESCRIPTION = 256

/** The descriptor for a model's context: no tool is left out, only what cannot be said simply (OWP-25). */
export function toCompactDescriptor(tool: Tool): WireCompactToolDescriptor {
  const { title } = tool
  const inputSchema = compactSchema(tool.inputSchema)
  return {
    toolId: tool.catalogId,
    source: tool.source,
    safetyTier: tool.policy.safetyTier,
    ...(title === undefined ? {} : { title }),
    description: shorten(tool.description),
    ...(inputSchema === undefined ? {} : { inputSchema }),
  }
}

/** Cut between words where there are any, never inside a character. */
function shorten(text: string): string {
  if (text.length <= LONGEST_DESCRIPTION) return text
  const head = text.slice(0, LONGEST_DESCRIPTION - 1)
  const words = head.replace(/\s+\S*$/, '')
  const kept = words === '' ? head : words
  return `${kept.isWellFormed() ? kept : kept.slice(0, -1)}…`
}
