import { hash } from 'node:crypto'
import { fault } from '#kernel/base/errors'
import { isJsonObject, type JsonObject } from '#kernel/base/json'
import {
  isSameSkill,
  pathInside,
  SKILL_SCHEME,
  type SkillFile,
  skillFiles,
  skillProblem,
  skillRoot,
} from '#protocols/mcp/codec-skill'
import { MCP_CODES } from '#protocols/mcp/wire'
import type { Invocation } from '#sources/kit/source'
import { isWireArray, isWireObject, textOf } from './connection.ts'

/**
 * Skills of an MCP server (SEP-2640): selects the usable ones of its list, builds the requests of their calls, and compares the
 * results with the definitions that an operator accepted. `entries.ts` and `call-tool.ts` use it.
 * Invariant: a file of a skill reaches a caller only if its digest is the accepted one (MCP-203).
 */

/** Methods that the entry of a skill accepts. */
export const SKILL_METHODS = ['skills/get', 'resources/read', 'resources/directory/read'] as const

/** The usable skills of a list by their native names, such as `skill/pdf` for `skill://pdf/SKILL.md`. Leaves out skills with the same address. */
export function usableSkills(
  listed: readonly JsonObject[],
  warnings: string[],
): ReadonlyMap<string, JsonObject> {
  const usable = new Map<string, JsonObject>()
  const twice = new Set<string>()
  for (const skill of listed) {
    const uri = textOf(skill.uri) ?? 'without a uri'
    const problem = skillProblem(skill)
    const name = nativeNameOf(uri)
    if (problem !== undefined) warnings.push(`the skill ${uri} is left out: ${problem}`)
    else if (usable.has(name)) twice.add(name)
    else usable.set(name, skill)
  }
  for (const name of twice) {
    usable.delete(name)
    warnings.push(`the skill "${name}" is left out: its address is listed twice`)
  }
  return usable
}

function nativeNameOf(uri: string): string {
  const root = skillRoot(uri) ?? uri
  return `skill/${root.startsWith(SKILL_SCHEME) ? root.slice(SKILL_SCHEME.length) : root}`
}

/** The request for a call of a skill. Throws if the file is not in the accepted list. */
export function skillRequest({
  binding,
  input,
  accepted,
}: Pick<Invocation, 'binding' | 'input' | 'accepted'>) {
  const { method, uri = binding.uri ?? '', cursor } = input
  const skill = accepted?.offered.entry?.definition
  const asked = String(uri)
  const files = skill === undefined ? undefined : skillFiles(skill)
  const file = files === undefined ? undefined : fileAt(files, String(binding.uri), asked)
  if (method === 'resources/read' && files !== undefined && file === undefined) throw unknownFile(asked)
  return {
    method: String(method),
    params: { uri: file?.uri ?? asked, ...(cursor === undefined ? {} : { cursor }) },
  }
}

export function unknownFile(uri: string): Error {
  return fault('tool_failed', `Unknown resource: ${uri}`, { errorNumber: MCP_CODES.resourceNotFound })
}

function fileAt(files: readonly SkillFile[], manifest: string, uri: string): SkillFile | undefined {
  const root = skillRoot(manifest)
  const path = root === undefined ? undefined : pathInside(root, uri)
  if (root === undefined || path === undefined) return undefined
  return files.find((file) => pathInside(root, file.uri) === path)
}

/**
 * Checks the result of a skill's call against the accepted definition; returns results of other calls unchanged. Before it refuses a
 * changed skill or file, it calls `onChanged`, so that the definitions are read again and an operator can accept the change.
 */
export function acceptedResult(
  invocation: Invocation,
  result: JsonObject,
  onChanged: () => void,
): JsonObject {
  const { binding, accepted, input } = invocation
  const skill = accepted?.offered.entry?.definition
  if (binding.entry !== 'skill' || skill === undefined) return result
  const refuse = (what: string): never => {
    onChanged()
    throw changedSkill(what)
  }
  if (input.method === 'skills/get') {
    if (!isWireObject(result.skill) || !isSameSkill(skill, result.skill)) refuse('the skill')
    return result
  }
  const files = skillFiles(skill)
  const file = files && fileAt(files, String(skill.uri), String(input.uri ?? skill.uri))
  if (input.method !== 'resources/read' || file === undefined) return result
  const contents = isWireArray(result.contents) ? result.contents : []
  const [content] = contents.filter(isJsonObject)
  if (content === undefined || contents.length > 1) return refuse(file.uri)
  const { size, digest } = digestOf(content)
  if (size !== file.size || digest !== file.digest) refuse(file.uri)
  // The server may spell the address differently.
  return { ...result, contents: [{ ...content, uri: file.uri }] }
}

function digestOf({ text, blob }: JsonObject) {
  const bytes = typeof text === 'string' ? Buffer.from(text) : Buffer.from(String(blob ?? ''), 'base64')
  return { size: bytes.length, digest: `sha256:${hash('sha256', bytes, 'hex')}` }
}

function changedSkill(what: string): Error {
  const message = `${what} differs from the accepted version, so it is not passed on. An operator must accept the change first.`
  const developerMessage = 'Show the change with `collet pins diff`; accept it with `collet pins accept`.'
  return fault('upstream_failed', message, { developerMessage })
}
