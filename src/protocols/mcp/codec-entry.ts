import { isJsonObject, type JsonObject } from '#kernel/base/json'
import type { Tool } from '#kernel/tool/tool'
import { innerSkillUri, outerSkill, SKILL_SCHEME } from './codec-skill.ts'
import { innerUri } from './codec-tool.ts'
import { type Revision, TRAITS } from './wire.ts'

/*
 * Converts the value of a call of an entry (a prompt, a resource, a skill …) to the members of an MCP result.
 * `reply.ts` uses it.
 * Invariant: the result contains the address that the client asked for, not the one at the source (MCP-146, MCP-202).
 */

/** The kind of item that a method calls, as error texts name it. */
export type CallNoun = 'tool' | 'prompt' | 'resource' | 'completion' | 'skill' | 'folder'

interface EntryTarget {
  readonly noun: CallNoun
  readonly revision: Revision
  /** The name or address as the client wrote it. */
  readonly name: string
  readonly tool: Tool | undefined
}

/** Only the newest revision says how long a resource may be cached (MCP-116). */
export function entryMembers(valueJson: string, target: EntryTarget): string {
  const { noun, revision } = target
  if (noun === 'prompt' || noun === 'completion') return valueJson.slice(1, -1)
  const { ttlMs = 0, cacheScope = 'private', ...members }: JsonObject = JSON.parse(valueJson)
  const rest = noun === 'skill' ? withOuterSkill(members, target) : withOuterAddresses(members, target)
  return JSON.stringify(TRAITS[revision].hasResultType ? { ...rest, ttlMs, cacheScope } : rest).slice(1, -1)
}

/** Callers that use native names ask for a skill's address at its own server, and get that address back. */
function withOuterSkill(members: JsonObject, { name, tool }: EntryTarget): JsonObject {
  const { skill } = members
  if (!isJsonObject(skill) || skill.uri === name || tool === undefined) return members
  return { ...members, skill: outerSkill(tool.parts.toolkit, skill) }
}

function withOuterAddresses(members: JsonObject, { noun, name }: EntryTarget): JsonObject {
  const inner = name.startsWith(SKILL_SCHEME) ? innerSkillUri(name) : innerUri(name).uri
  const member = noun === 'folder' ? 'resources' : 'contents'
  const listed = members[member]
  if (!Array.isArray(listed)) return members
  const parts = listed.map((part) => {
    if (!isJsonObject(part) || typeof part.uri !== 'string') return part
    if (part.uri === inner) return { ...part, uri: name }
    const isInside = noun === 'folder' && part.uri.startsWith(`${inner}/`)
    return isInside ? { ...part, uri: `${name}${part.uri.slice(inner.length)}` } : part
  })
  return { ...members, [member]: parts }
}
