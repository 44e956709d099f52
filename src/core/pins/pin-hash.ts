import { hash } from 'node:crypto'
import { canonicalJson } from '#core/canonical-json'
import { copyJson } from '#core/copy-json'
import type { JsonObject, JsonValue } from '#core/json'
import type { OfferedTool } from '#core/ports/source'
import type { ToolRequirements } from '#core/tool'

/**
 * What a pin is about (rule 32): who the upstream is, what the tool is called and says, what it takes and gives, and
 * everything that decides what is sent where. The operator's own policy is not in it.
 */
export function pinHash(identity: JsonObject, offered: OfferedTool): string {
  return hash('sha256', canonicalJson(pinnedFacts(identity, offered)), 'base64url')
}

export function pinnedFacts(identity: JsonObject, offered: OfferedTool): JsonObject {
  const { nativeName, title, description, inputSchema, outputSchema, requirements, binding } = offered
  return {
    identity,
    nativeName,
    ...(title === undefined ? {} : { title }),
    description,
    inputSchema,
    outputSchema,
    ...(requirements === undefined ? {} : { requirements: requirementsJson(requirements) }),
    binding,
  }
}

/** Requirements are open, so their type promises nothing about further members. */
export function requirementsJson(requirements: ToolRequirements | undefined): JsonValue {
  if (requirements === undefined) return {}
  const copied = copyJson(requirements)
  return copied.ok ? copied.value : copied.problem
}
