import { canonicalJson, isJsonObject, type JsonObject, type JsonValue } from '#kernel/base/json'

/*
 * Skills in the format of the MCP extension (SEP-2640): checks their entries, and converts the addresses of skills and files.
 * The feature that serves skills and our own MCP client use it.
 * Invariant: a file belongs to a skill only if its address is inside the skill's folder, however its name is percent-encoded.
 */

export const SKILLS_EXTENSION = 'io.modelcontextprotocol/skills'
export const SKILL_SCHEME = 'skill://'
const DIRECTORY_TYPE = 'inode/directory'

const MANIFEST = '/SKILL.md'
const DIGEST = /^sha256:[\da-f]{64}$/
const NAME = /^[\da-z]+(?:-[\da-z]+)*$/
const MAX_NAME = 64
const MAX_DESCRIPTION = 1_024
const MAX_COMPATIBILITY = 500

/** One file in the list of a skill. */
export interface SkillFile {
  readonly uri: string
  readonly digest: string
  readonly size: number
}

/** True for capabilities of a server that has skills. */
export function hasSkills({ extensions }: JsonObject): boolean {
  return isJsonObject(extensions) && isJsonObject(extensions[SKILLS_EXTENSION])
}

/** The problem with an entry of `skills/list`; `undefined` if clients accept it (MCP-200). */
export function skillProblem({ uri, frontmatter, resources }: JsonObject): string | undefined {
  const root = typeof uri === 'string' ? skillRoot(uri) : undefined
  if (root === undefined) return 'its uri is not the address of a SKILL.md in a folder'
  if (!isJsonObject(frontmatter)) return 'it has no frontmatter'
  const { name, description, compatibility, metadata } = frontmatter
  if (typeof name !== 'string' || name.length > MAX_NAME || !NAME.test(name))
    return 'its name is not made of at most 64 lower-case letters, digits and single hyphens'
  if (folderName(root) !== name) return `its folder is not called "${name}"`
  if (!isText(description, MAX_DESCRIPTION))
    return 'its description is not a string of at most 1024 characters'
  if (compatibility !== undefined && !isText(compatibility, MAX_COMPATIBILITY))
    return 'its compatibility is not a string of at most 500 characters'
  if (metadata !== undefined && !isTexts(metadata)) return 'its metadata is not an object of strings'
  return resources === 'dynamic' ? undefined : filesProblem(resources, root)
}

function isText(value: JsonValue | undefined, maxLength: number): boolean {
  return typeof value === 'string' && value !== '' && [...value].length <= maxLength
}

function isTexts(value: JsonValue): boolean {
  return isJsonObject(value) && Object.values(value).every((member) => typeof member === 'string')
}

function filesProblem(resources: JsonValue | undefined, root: string): string | undefined {
  if (!Array.isArray(resources)) return 'its resources are neither a list nor "dynamic"'
  const files = resources.filter(isSkillFile)
  if (files.length < resources.length) return 'a file has no uri, sha256 digest and size'
  const paths = files.map(({ uri }) => pathInside(root, uri))
  if (paths.includes(undefined)) return 'a file is outside of its folder'
  if (new Set(paths).size < paths.length) return 'a file is listed twice'
  return paths.includes(MANIFEST.slice(1)) ? undefined : 'its files do not include its SKILL.md'
}

function isSkillFile(value: JsonValue): value is JsonObject & SkillFile {
  if (!isJsonObject(value)) return false
  const { uri, digest, size } = value
  const isSize = typeof size === 'number' && Number.isSafeInteger(size) && size >= 0
  return typeof uri === 'string' && typeof digest === 'string' && DIGEST.test(digest) && isSize
}

/** The files of a valid entry; `undefined` for a skill whose files have no digests. */
export function skillFiles({ resources }: JsonObject): readonly SkillFile[] | undefined {
  return Array.isArray(resources) ? resources.filter(isSkillFile) : undefined
}

/** True if both entries name the same skill with the same frontmatter and the same files. */
export function isSameSkill(left: JsonObject, right: JsonObject): boolean {
  const parts = ({ uri = null, frontmatter = null, resources = null }: JsonObject) =>
    canonicalJson([uri, frontmatter, resources])
  return parts(left) === parts(right)
}

/** The address of the folder of a SKILL.md, without a slash at its end; `undefined` for another address. */
export function skillRoot(uri: string): string | undefined {
  const href = URL.parse(uri)?.href
  if (href === undefined || !href.endsWith(MANIFEST)) return undefined
  const root = href.slice(0, -MANIFEST.length)
  return root.endsWith('/') ? undefined : root
}

function folderName(root: string): string {
  return decoded(root.slice(root.lastIndexOf('/') + 1))
}

/** The path of a file in a folder, equal for all spellings of its address; `undefined` if it is not in the folder. */
export function pathInside(root: string, uri: string): string | undefined {
  const url = URL.parse(uri)
  if (url === null || url.search !== '') return undefined
  url.hash = ''
  if (!url.href.startsWith(`${root}/`)) return undefined
  const names = url.href
    .slice(root.length + 1)
    .split('/')
    .map(decoded)
  const isSound = names.every((name) => name !== '' && name !== '.' && name !== '..' && !/[/\0]/.test(name))
  return isSound ? names.map(encodeURIComponent).join('/') : undefined
}

function decoded(segment: string): string {
  try {
    return decodeURIComponent(segment).toWellFormed()
  } catch {
    return segment
  }
}

const OTHER_SCHEME = /^([a-z][a-z0-9+.-]*):\/\//i

/**
 * Skills of different servers may have the same address, so the address that clients see begins with the source:
 * `skill://Docs/pdf/SKILL.md` for `skill://pdf/SKILL.md`. The folder keeps its name, as the extension requires; another scheme
 * becomes the first folder.
 */
export function outerSkillUri(toolkit: string, uri: string): string {
  const rest = uri.startsWith(SKILL_SCHEME)
    ? uri.slice(SKILL_SCHEME.length)
    : uri.replace(OTHER_SCHEME, (_all, scheme: string) => `${scheme}%3A/`)
  return `${SKILL_SCHEME}${toolkit}/${rest}`
}

/** Reverses `outerSkillUri`: the address at the source. */
export function innerSkillUri(uri: string): string {
  const rest = uri.slice(uri.indexOf('/', SKILL_SCHEME.length) + 1)
  const [, scheme, path] = /^([a-z][a-z0-9+.-]*)%3A\/(.*)$/is.exec(rest) ?? []
  return scheme === undefined ? `${SKILL_SCHEME}${rest}` : `${scheme}://${path}`
}

/** A skill's entry with the addresses that clients see. */
export function outerSkill(toolkit: string, skill: JsonObject): JsonObject {
  const { uri, resources } = skill
  const outer = (address: JsonValue | undefined) =>
    typeof address === 'string' ? outerSkillUri(toolkit, address) : (address ?? '')
  const files = Array.isArray(resources)
    ? resources.map((file) => (isJsonObject(file) ? { ...file, uri: outer(file.uri) } : file))
    : (resources ?? [])
  return { ...skill, uri: outer(uri), resources: files }
}

/** The direct children of a folder of a skill, from the list of its files; `undefined` if there is no such folder. */
export function skillFolder(skill: JsonObject, uri: string): readonly JsonObject[] | undefined {
  const root = skillRoot(String(skill.uri))
  const files = skillFiles(skill)
  const folder = uri.replace(/\/+$/, '')
  const path = root === undefined || folder === root ? '' : pathInside(root, folder)
  if (root === undefined || files === undefined || path === undefined) return undefined
  const prefix = path === '' ? '' : `${path}/`
  const children = new Map<string, JsonObject>()
  for (const file of files) {
    const inside = pathInside(root, file.uri)
    if (inside === undefined || !inside.startsWith(prefix)) continue
    const [first = '', ...deeper] = inside.slice(prefix.length).split('/')
    const name = decodeURIComponent(first)
    // The address of a folder is the beginning of the file's own address, so that it is spelled as its server spells it.
    const depth = deeper.length
    const address = depth === 0 ? file.uri : file.uri.split('/').slice(0, -depth).join('/')
    children.set(
      first,
      depth === 0
        ? { uri: address, name, mimeType: typeOfFile(name), size: file.size }
        : { uri: address, name, mimeType: DIRECTORY_TYPE },
    )
  }
  return children.size === 0 ? undefined : [...children.values()]
}

const TYPES: Readonly<Record<string, string>> = {
  md: 'text/markdown',
  txt: 'text/plain',
  json: 'application/json',
  yaml: 'application/yaml',
  yml: 'application/yaml',
  py: 'text/x-python',
  sh: 'application/x-sh',
  js: 'text/javascript',
  mjs: 'text/javascript',
  ts: 'text/typescript',
  html: 'text/html',
  css: 'text/css',
  csv: 'text/csv',
  xml: 'application/xml',
  svg: 'image/svg+xml',
  png: 'image/png',
  jpg: 'image/jpeg',
  jpeg: 'image/jpeg',
  gif: 'image/gif',
  webp: 'image/webp',
  pdf: 'application/pdf',
}

function typeOfFile(name: string): string {
  const dot = name.lastIndexOf('.')
  const extension = dot > 0 ? name.slice(dot + 1).toLowerCase() : ''
  return (Object.hasOwn(TYPES, extension) ? TYPES[extension] : undefined) ?? 'application/octet-stream'
}
