import type { Finding, Report } from '#kernel/base/errors'
import {
  byVersion,
  hostExtensionId,
  isSemanticVersion,
  isToolVersion,
  parseToolId,
  parseToolName,
  plainVersion,
  type ToolId,
} from '#kernel/base/ids'
import {
  childPointer,
  copyJson,
  defined,
  describeValue,
  isJsonObject,
  isRecord,
  type JsonObject,
  type JsonValue,
} from '#kernel/base/json'
import { didYouMean, misspelledName } from '#kernel/base/nearest-name'
import { isDefinedTool, type SessionDefinition } from './define.ts'
import {
  type AuthorizationRequirement,
  POLICY_FIELDS,
  type SessionHooks,
  type SourceKind,
  type Tool,
  type ToolRequirements,
} from './tool.ts'

/**
 * Checks for the members of a tool definition: ids, names, requirements, session, uses, parameters. `prepare-tool.ts` calls them
 * for one definition, `prepare-tools.ts` compares versions.
 * A check reports each problem with a fix and continues, so that an author sees all findings at once.
 */

/** References to the tools that a workflow may call, without duplicates. */
export function readUses(written: unknown, report: Report): readonly string[] {
  const fix = "Write the tools it may call: `uses: [sendMail, 'Mail.Send@1.0.0']`."
  if (!Array.isArray(written) || written.length === 0) {
    report('uses', `Is ${describeValue(written)}.`, fix)
    return []
  }
  const known = new Set<string>()
  for (const used of written) {
    const ref: unknown = isDefinedTool(used) ? used.id : used
    if (typeof ref === 'string' && parseToolName(ref) !== undefined) known.add(ref)
    else report('uses', `Contains ${describeValue(ref)}.`, fix)
  }
  return Object.freeze([...known])
}

/** Rule 21: callers choose the version, so an older version with weaker requirements would bypass the newer one. */
export function checkLaxerVersions(tools: readonly Tool[], acknowledged: readonly string[]): Finding[] {
  const findings: Finding[] = []
  for (const versions of Map.groupBy(tools, ({ parts }) => parts.base).values()) {
    const inOrder = versions.toSorted(byVersion)
    for (const [index, older] of inOrder.entries()) {
      if (acknowledged.some((written) => names(written, older))) continue
      const newer = inOrder.slice(index + 1).find((candidate) => laxerRules(older, candidate).length > 0)
      if (newer === undefined) continue
      findings.push({
        toolId: older.id,
        where: 'policy',
        problem: `Is laxer than ${newer.id}: ${laxerRules(older, newer).join(', ')}. Callers could choose it instead.`,
        fix: `Remove the old version, make it as strict, or list "${older.id}" in \`acknowledgeLaxerVersions\`.`,
      })
    }
  }
  return findings
}

/** An acknowledgement is for one version, so a name without a version matches no tool. */
function names(written: string, { parts, name, catalogId }: Tool): boolean {
  const ref = parseToolName(written)
  if (ref?.version !== plainVersion(parts.version)) return false
  return [parts.base, name, catalogId].includes(ref.base)
}

function laxerRules({ policy: older }: Tool, { policy: newer }: Tool): readonly string[] {
  const found = (['approval', 'safetyTier'] as const).flatMap((field) => {
    // Both fields list their choices from lax to strict.
    const choices: readonly string[] = POLICY_FIELDS[field].choices
    const isLaxer = choices.indexOf(older[field]) < choices.indexOf(newer[field])
    return isLaxer ? [`${field} is '${older[field]}', not '${newer[field]}'`] : []
  })
  const missing = newer.scopes.filter((scope) => !older.scopes.includes(scope))
  return missing.length === 0 ? found : [...found, `it does not ask for ${missing.join(' and ')}`]
}

const LOCAL = '(?:[A-Za-z0-9._/-]|%[0-9A-Fa-f]{2})+'
const LABEL = '[a-z][a-z0-9-]*'
const MAX_LENGTH = 256

/** openwop §7.1: the form of catalog ids by source. */
const FORMS = {
  'node-pack': { pattern: new RegExp(`^openwop:${LOCAL}$`), example: 'openwop:Toolkit.Name' },
  workflow: { pattern: new RegExp(`^workflow:${LOCAL}$`), example: 'workflow:daily-report' },
  mcp: { pattern: new RegExp(`^mcp:[A-Za-z0-9_-]+\\.${LOCAL}$`), example: 'mcp:github.create_issue' },
  connector: { pattern: new RegExp(`^connector:${LOCAL}$`), example: 'connector:slack.post' },
  'host-extension': {
    pattern: new RegExp(`^(?:x-host-${LABEL}-${LABEL}|${LABEL}\\.${LABEL}:${LOCAL})$`),
    example: 'x-host-acme-shell',
  },
} satisfies Record<SourceKind, { readonly pattern: RegExp; readonly example: string }>

const DEFAULT_IDS: Partial<Record<SourceKind, (parts: ToolId, vendor: string) => string>> = {
  'node-pack': ({ base }) => `openwop:${base}`,
  workflow: ({ base }) => `workflow:${base}`,
  'host-extension': ({ toolkit, name }, vendor) => hostExtensionId(vendor, toolkit, name),
}

/** The catalog id of a tool: as written, or derived from its toolkit and name. */
export function readCatalogId(
  written: unknown,
  { parts, source, vendor }: { readonly parts: ToolId; readonly source: SourceKind; readonly vendor: string },
  report: Report,
): string | undefined {
  const id = written ?? DEFAULT_IDS[source]?.(parts, vendor)
  const { pattern, example } = FORMS[source]
  if (typeof id === 'string' && id.length <= MAX_LENGTH && pattern.test(id)) return id
  const rule = `at most ${MAX_LENGTH} characters; characters other than A-Z a-z 0-9 . _ - / are percent-encoded`
  const fix = `Write an id like \`${example}\` for a tool of source ${source} (${rule}).`
  return report('catalogId', `Is ${describeValue(id)}.`, fix)
}

const KEYS = Object.keys({ open: true, close: true, idleMs: true, isOptional: true } satisfies Record<
  keyof SessionDefinition,
  true
>)

const DEFAULT_IDLE_MS = 15 * 60_000
const MAX_IDLE_MS = 24 * 3_600_000

/** The session of a stateful tool; `undefined` for other tools. */
export function readSession(written: unknown, report: Report): SessionHooks | undefined {
  if (written === undefined) return undefined
  if (!isRecord(written)) {
    const fix = 'Write `session: { open: () => …, close: (state) => … }`.'
    return report('session', `Is ${describeValue(written)}.`, fix)
  }
  checkKeys(written, KEYS, 'session', report)
  const { open, close = () => {}, isOptional } = written
  const idleMs = readIdle(written.idleMs, report)
  const isOpen = isFunction<SessionHooks['open']>(open)
  const isClose = isFunction<SessionHooks['close']>(close)
  if (!isOpen)
    report('session/open', `Is ${describeValue(open)}.`, 'Write a function that returns the state.')
  if (!isClose) {
    const fix = 'Write a function that releases the state, or leave it out.'
    report('session/close', `Is ${describeValue(close)}.`, fix)
  }
  if (!isOpen || !isClose) return undefined
  return Object.freeze({
    open: open.bind(written),
    close: close.bind(written),
    idleMs,
    isOptional: isOptional === true,
  })
}

function readIdle(value: unknown, report: Report): number {
  if (value === undefined) return DEFAULT_IDLE_MS
  if (typeof value === 'number' && Number.isInteger(value) && value >= 1 && value <= MAX_IDLE_MS) return value
  const fix = `Write a whole number of milliseconds from 1 to ${MAX_IDLE_MS}.`
  return report('session/idleMs', `Is ${describeValue(value)}.`, fix) ?? DEFAULT_IDLE_MS
}

/** A function's parameters cannot be checked at run time, so only `typeof` is checked. */
export function isFunction<Wanted extends (...args: never[]) => unknown>(value: unknown): value is Wanted {
  return typeof value === 'function'
}

const FORMS_OF_ENTRIES = {
  authorization: "`{ id: 'provider', oauth2: { scopes: ['…'] } }`",
  secrets: "`{ id: 'NAME' }`",
}

/**
 * OTC-37…41: the object and its entries are open, but the members read here must have the right form. `userIdKey` is `userId`
 * in code and `user_id` on the wire. `json` is the value as written, for publishing and hashing. Returns `undefined` if nothing
 * is required or findings were reported.
 */
export function checkRequirements(
  value: unknown,
  userIdKey: 'userId' | 'user_id',
  report: Report,
): { readonly requirements: ToolRequirements; readonly json: JsonObject } | undefined {
  if (value === undefined) return undefined
  const copied = copyJson(value)
  if (!copied.ok) return report(`requirements${copied.pointer}`, copied.problem, 'Write plain JSON values.')
  const json = copied.value
  if (!isJsonObject(json)) {
    const fix = 'Write `{ authorization, secrets, userId }`, or leave it out.'
    return report('requirements', 'Is not an object.', fix)
  }
  const { authorization, secrets, [userIdKey]: userId, ...extra } = json
  checkUserId(userId, userIdKey, report)
  // Definitions from other parties may have any member.
  if (userIdKey === 'userId') checkSpelling(extra, report)
  const needed = defined({
    authorization: readEntries(authorization, 'authorization', report, readAuthorization),
    secrets: readEntries(secrets, 'secrets', report, (entry) => entry),
    userId: typeof userId === 'boolean' || userId === 'claimed' ? userId : undefined,
  })
  const entries = [...(needed.authorization ?? []), ...(needed.secrets ?? []), ...Object.keys(extra)]
  if (entries.length === 0 && (needed.userId ?? false) === false) return undefined
  return { requirements: { ...extra, ...needed }, json }
}

function checkUserId(userId: JsonValue | undefined, key: string, report: Report): void {
  if (userId === undefined || typeof userId === 'boolean') return
  // The wire format only states whether a user is needed (OTC-40).
  if (userId === 'claimed' && key === 'userId') return
  const claimed = key === 'userId' ? ", `'claimed'` if an unproven user id is enough" : ''
  report(`requirements/${key}`, 'Is not true or false.', `Write \`${key}: true\`${claimed}, or leave it out.`)
}

/** Unknown members are kept (OTC-41), but a misspelled requirement would be published and never checked. */
function checkSpelling(extra: JsonObject, report: Report): void {
  for (const name of Object.keys(extra)) {
    const meant = misspelledName(name, ['authorization', 'secrets', 'userId'])
    if (meant === undefined) continue
    const place = `requirements${childPointer('', name)}`
    report(place, `Is an unknown requirement. Did you mean "${meant}"?`, `Write \`${meant}\`.`)
  }
}

type WithId = JsonObject & { readonly id: string }

function readEntries<Entry>(
  value: JsonValue | undefined,
  kind: 'authorization' | 'secrets',
  report: Report,
  read: (entry: WithId, where: string, report: Report) => Entry,
): readonly Entry[] | undefined {
  if (value === undefined) return undefined
  const where = `requirements/${kind}`
  const form = FORMS_OF_ENTRIES[kind]
  if (!Array.isArray(value)) return report(where, 'Is not a list.', `Write a list of ${form}.`)
  const entries = new Map<string, Entry>()
  for (const [index, entry] of value.entries()) {
    const place = `${where}/${index}`
    if (!isJsonObject(entry)) report(place, 'Is not an object.', `Write ${form}.`)
    else if (!hasId(entry)) report(`${place}/id`, 'Is missing or not a string.', `Write ${form}.`)
    else if (entries.has(entry.id))
      report(`${place}/id`, `"${entry.id}" is already required.`, 'Merge the two entries.')
    else entries.set(entry.id, read(entry, place, report))
  }
  return [...entries.values()]
}

function hasId(entry: JsonObject): entry is WithId {
  return isText(entry.id)
}

function readAuthorization(entry: WithId, where: string, report: Report): AuthorizationRequirement {
  const { oauth2, ...rest } = entry
  const plain = { ...rest, id: entry.id }
  if (oauth2 === undefined) return plain
  if (!isJsonObject(oauth2)) {
    return report(`${where}/oauth2`, 'Is not an object.', "Write `oauth2: { scopes: ['…'] }`.") ?? plain
  }
  const { scopes = [] } = oauth2
  const texts = Array.isArray(scopes) ? scopes.filter(isText) : []
  if (!Array.isArray(scopes) || texts.length < scopes.length) {
    report(`${where}/oauth2/scopes`, 'Is not a list of strings.', "Write `scopes: ['…']`.")
  }
  return { ...plain, oauth2: { ...oauth2, scopes: texts } }
}

/**
 * An input schema lists named parameters, each with a description (OTC-32, OTC-33). `describeParameters` is `false` for tools
 * from other parties (OTC/C-10), and if the config says so.
 */
export function checkParameters(
  schema: JsonObject,
  where: string,
  report: Report,
  { describeParameters }: { readonly describeParameters: boolean },
): void {
  if (Object.keys(schema).length === 0) return
  if (schema.type !== 'object') {
    report(
      where,
      'An input is an object of named parameters, and this schema does not have `"type": "object"`.',
      'Put the value under a name: `z.object({ value: … })`, or `{}` if there are no parameters.',
    )
  }
  if (!describeParameters) return
  const { properties = {} } = schema
  for (const [name, parameter] of isJsonObject(properties) ? Object.entries(properties) : []) {
    if (isJsonObject(parameter) && isText(parameter.description)) continue
    report(
      `${where}${childPointer('/properties', name)}`,
      `The parameter "${name}" has no description.`,
      'Describe it: `.describe("…")` in a library, `"description": "…"` in JSON Schema. To turn this check off, set `authoring: { describeParameters: false }` in the config.',
    )
  }
}

/** Reports unknown members of a closed object (OTC-41). */
export function checkKeys(value: object, known: readonly string[], where: string, report: Report): void {
  for (const key of Object.keys(value)) {
    if (known.includes(key)) continue
    const place = where === '' ? key : `${where}/${key}`
    report(
      place,
      `"${key}" is not a known member.${didYouMean(key, known)}`,
      `Known members: ${known.join(', ')}.`,
    )
  }
}

const NAME = /^[A-Za-z0-9_-]{1,64}$/
const NAME_RULE = 'Write 1 to 64 characters of A-Z, a-z, 0-9, `_` and `-`.'

export function checkId(id: unknown, report: Report): ToolId | undefined {
  const parts = typeof id === 'string' ? parseToolId(id) : undefined
  if (parts !== undefined && isSemanticVersion(parts.version)) return parts
  if (parts !== undefined) {
    const fix = 'Write three numbers without leading zeros, each of at most 15 digits: `@1.0.0`.'
    return report('id', `Is ${describeValue(id)}, whose version is not a semantic version.`, fix)
  }
  const text = typeof id === 'string' ? id : ''
  const asName = NAME.test(text) ? ` For the name that models call, add \`name: '${text}'\`.` : ''
  const fix = `Write \`Toolkit.Name@x.y.z\`, for example "${suggestId(text)}".${asName}`
  return report('id', `Is ${describeValue(id)}.`, fix)
}

function suggestId(text: string): string {
  const [, base = 'Calculator.Add'] = /^([A-Za-z0-9_]{1,64}\.[A-Za-z0-9_]{1,64})(?:@|$)/.exec(text) ?? []
  const [, version = '1.0.0'] = /@v?([0-9]{1,9}\.[0-9]{1,9}\.[0-9]{1,9})/.exec(text) ?? []
  return `${base}@${version}`
}

/** Checks the function name for models (OTC-25). */
export function checkName(name: unknown, report: Report): string | undefined {
  if (typeof name === 'string' && NAME.test(name)) return name
  return report('name', `Is ${describeValue(name)}.`, NAME_RULE)
}

/** `Toolkit_Name`, if it is short enough (OTC-25). */
export function defaultName({ toolkit, name }: ToolId, report: Report): string | undefined {
  const made = `${toolkit}_${name}`
  if (NAME.test(made)) return made
  const problem = `The name derived from the id has ${made.length} characters; the maximum is 64.`
  return report('name', problem, `Add a shorter one: \`name: '${made.slice(0, 64)}'\`.`)
}

export function checkDescription(description: unknown, report: Report): string | undefined {
  if (isText(description)) return description
  const fix = 'Write a sentence about what the tool does, for people and for models.'
  return report('description', `Is ${describeValue(description)}.`, fix)
}

export function checkTitle(title: unknown, report: Report): string | undefined {
  if (title === undefined || isText(title)) return title
  return report('title', `Is ${describeValue(title)}.`, 'Write a short name for people, or leave it out.')
}

const TAG = /^[\p{L}\p{N}._-]{1,64}$/u

/** Tags only decide in which toolsets a tool is, so they are not part of the definition hash. */
export function checkTags(tags: unknown, report: Report): readonly string[] | undefined {
  if (tags === undefined) return undefined
  const found = Array.isArray(tags) ? tags.filter((tag) => typeof tag === 'string' && TAG.test(tag)) : []
  if (Array.isArray(tags) && found.length === tags.length) return Object.freeze(found)
  const fix = "Write words of letters, digits, '.', '_' and '-': tags: ['crm']."
  return report('tags', 'Is not a list of words.', fix)
}

/** The version must equal the version in the id (OTC-28, OTC/T-11). */
export function checkVersion(version: unknown, parts: ToolId | undefined, report: Report): void {
  if (typeof version !== 'string' || !isToolVersion(version)) {
    const fix = `Write exactly three integers: "${parts?.version ?? '1.0.0'}".`
    report('version', `Is ${describeValue(version)}.`, fix)
  } else if (parts !== undefined && version !== parts.version) {
    const problem = `Is "${version}", but the id says "${parts.version}".`
    report('version', problem, `Write "${parts.version}", or change the id.`)
  }
}

export function isText(value: unknown): value is string {
  return typeof value === 'string' && value.trim() !== '' && value.isWellFormed()
}
