import { hash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { join, relative, sep } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parse } from 'yaml'
import { fault, type Report } from '#kernel/base/errors'
import { copyJson, describeValue, isJsonObject, isRecord, type JsonObject } from '#kernel/base/json'
import { checkKeys } from '#kernel/tool/checks'
import { type DefinedTool, type EntryReader, markEntry, type WrittenMembers } from '#kernel/tool/define'
import { COMMON_KEYS, commonMembers, type EntryDefinition } from './entry-definition.ts'

/**
 * `skill()`: a folder with a `SKILL.md`, served to agents as instructions (MCP-207). The package exports it, and loaders find
 * skills in the same way as tools.
 * Invariant: the files are read once, when the server loads the definition, so that every digest is that of the content served.
 */

export interface SkillDefinition
  extends Pick<EntryDefinition, 'id' | 'title' | 'tags' | 'requirements' | 'policy'> {
  /** The folder that contains `SKILL.md`: an absolute path, or a `file:` address. */
  readonly folder: string | URL
}

/** Defines a skill. It only adds types and a mark: the folder is read and checked when the server loads it. */
export function skill<const Id extends string>(
  definition: SkillDefinition & { readonly id: Id },
): SkillDefinition & DefinedTool<Id> {
  return markEntry(definition, READER)
}

const { name: _name, description: _description, icons: _icons, ...SHARED_KEYS } = COMMON_KEYS
const KEYS = Object.keys({ ...SHARED_KEYS, folder: true } satisfies Record<keyof SkillDefinition, true>)

/** The extension's limits for one skill. */
const MAX_FILES = 512
const MAX_BYTES = 16 * 1_048_576
const NAME = /^[\da-z]+(?:-[\da-z]+)*$/
const UNKNOWN_RESOURCE = -32_002

const INPUT: JsonObject = {
  type: 'object',
  properties: {
    method: { enum: ['skills/get', 'resources/read'], description: 'What to do.' },
    uri: { type: 'string', description: 'Address of a file of the skill.' },
  },
  required: ['method'],
}

interface LoadedSkill {
  readonly definition: JsonObject
  readonly contents: ReadonlyMap<string, Buffer>
}

const READER: EntryReader = {
  read(written, report) {
    checkKeys(written, KEYS, '', report)
    const loaded = loadSkill(written, report)
    const { frontmatter } = loaded?.definition ?? {}
    const described = isJsonObject(frontmatter) ? { description: frontmatter.description } : {}
    const run = (input: unknown) => {
      const { method, uri } = isRecord(input) ? input : {}
      return method === 'skills/get' ? { skill: loaded?.definition ?? {} } : readFile(loaded, String(uri))
    }
    return {
      tool: { ...commonMembers({ ...written, ...described }, report), input: INPUT, output: {}, run },
      functions: [JSON.stringify(loaded?.definition)],
      list: ({ name }) => ({ kind: 'skill', name, definition: loaded?.definition ?? {} }),
    }
  },
}

function loadSkill({ folder }: WrittenMembers, report: Report): LoadedSkill | undefined {
  const path = folder instanceof URL && folder.protocol === 'file:' ? fileURLToPath(folder) : folder
  if (typeof path !== 'string' || path === '')
    return report(
      'folder',
      `Is ${describeValue(folder)}.`,
      'Write the path of the folder with SKILL.md, or its file URL: `folder: new URL(…)`.',
    )
  try {
    return readFolder(path)
  } catch (error) {
    const problem = error instanceof Error ? error.message : String(error)
    return report('folder', `Cannot be served: ${problem}`, 'Correct the folder, or leave the skill out.')
  }
}

function readFolder(folder: string): LoadedSkill {
  const entries = readdirSync(folder, { recursive: true, withFileTypes: true })
  const files = entries.filter((entry) => !entry.isDirectory())
  const special = files.find((entry) => !entry.isFile())
  if (special !== undefined) throw new Error(`${special.name} is not a plain file.`)
  if (files.length > MAX_FILES) throw new Error(`It has more than ${MAX_FILES} files.`)
  const paths = files.map((file) => relative(folder, join(file.parentPath, file.name)).split(sep).join('/'))
  const contents = new Map(paths.sort().map((path) => [path, readFileSync(join(folder, path))]))
  const bytes = [...contents.values()].reduce((sum, content) => sum + content.length, 0)
  if (bytes > MAX_BYTES) throw new Error('It has more than 16 MiB.')
  const frontmatter = readFrontmatter(contents.get('SKILL.md'))
  const root = `skill://${String(frontmatter.name)}`
  const addressOf = (path: string) => `${root}/${path.split('/').map(encodeURIComponent).join('/')}`
  const resources = [...contents].map(([path, content]) => ({
    uri: addressOf(path),
    digest: `sha256:${hash('sha256', content, 'hex')}`,
    size: content.length,
  }))
  return {
    definition: { uri: addressOf('SKILL.md'), frontmatter, resources },
    contents: new Map([...contents].map(([path, content]) => [addressOf(path), content])),
  }
}

function readFrontmatter(manifest: Buffer | undefined): JsonObject {
  if (manifest === undefined) throw new Error('It has no SKILL.md.')
  const [, yaml] = /^\uFEFF?---[ \t]*\r?\n([\s\S]*?)\r?\n---[ \t]*(?:\r?\n|$)/.exec(manifest.toString()) ?? []
  if (yaml === undefined) throw new Error('SKILL.md does not begin with frontmatter between lines of "---".')
  const copied = copyJson(parse(yaml))
  const frontmatter = copied.ok && isJsonObject(copied.value) ? copied.value : {}
  const { name, description } = frontmatter
  if (typeof name !== 'string' || name.length > 64 || !NAME.test(name))
    throw new Error('The name in SKILL.md must be at most 64 lower-case letters, digits and single hyphens.')
  if (typeof description !== 'string' || description === '' || description.length > 1_024)
    throw new Error('The description in SKILL.md must be a string of at most 1024 characters.')
  return frontmatter
}

function readFile(loaded: LoadedSkill | undefined, uri: string): JsonObject {
  const content = loaded?.contents.get(uri) ?? loaded?.contents.get(respelled(uri))
  if (content === undefined)
    throw fault('tool_failed', `Unknown resource: ${uri}`, { errorNumber: UNKNOWN_RESOURCE })
  const text = content.toString()
  const isText = Buffer.from(text).equals(content)
  const mimeType = uri.endsWith('.md') ? 'text/markdown' : isText ? 'text/plain' : 'application/octet-stream'
  return {
    contents: [{ uri, mimeType, ...(isText ? { text } : { blob: content.toString('base64') }) }],
  }
}

/** The address with the percent-encoding that this module uses, because clients may encode other characters. */
function respelled(uri: string): string {
  const [, root = '', path = ''] = /^(skill:\/\/[^/]*)\/(.*)$/s.exec(uri) ?? []
  const names = path.split('/').map((name) => {
    try {
      return encodeURIComponent(decodeURIComponent(name))
    } catch {
      return name
    }
  })
  return `${root}/${names.join('/')}`
}
