import { isJsonObject, type JsonObject } from '#kernel/base/json'
import type { Tool } from '#kernel/tool/tool'
import { innerSkillUri, outerSkill, SKILL_SCHEME } from './codec-skill.ts'
import { innerUri } from './codec-tool.ts'
import { type Revision, TRAITS } from './wire.ts'

/*
 * Writes the value of a call of an entry (a prompt, a resource, a skill …) as the members of a result.
 * `reply.ts` uses it.
 * Invariant: what was asked for under an address that names its source keeps that address (MCP-146, MCP-202).
 */

/** What a method calls; the errors of a request name it. */
export type CallNoun = 'tool' | 'prompt' | 'resource' | 'completion' | 'skill' | 'folder'

interface EntryTarget {
  readonly noun: CallNoun
  readonly revision: Revision
  /** As the client wrote it: the address, for what has one. */
  readonly name: string
  readonly tool: Tool | undefined
}

/** What is read says how long it may be cached in the newest revision, and not before it (MCP-116). */
export function entryMembers(valueJson: string, target: EntryTarget): string {
  const { noun, revision } = target
  if (noun === 'prompt' || noun === 'completion') return valueJson.slice(1, -1)
  const { ttlMs = 0, cacheScope = 'private', ...members }: JsonObject = JSON.parse(valueJson)
  const rest = noun === 'skill' ? withOuterSkill(members, target) : withOuterAddresses(members, target)
  return JSON.stringify(TRAITS[revision].hasResultType ? { ...rest, ttlMs, cacheScope } : rest).slice(1, -1)
}

/** Callers of native names ask for the address that the skill has at its server, and get that. */
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
