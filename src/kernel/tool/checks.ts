import type { Finding, Report } from '#kernel/base/errors'
import {
  compareVersions,
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
  describeValue,
  isJsonObject,
  isRecord,
  type JsonObject,
  type JsonValue,
} from '#kernel/base/json'
import { didYouMean, misspelledName } from '#kernel/base/nearest-name'
import { isDefinedTool, type SessionDefinition } from './define.ts'
import type {
  Approval,
  AuthorizationRequirement,
  SafetyTier,
  SecretRequirement,
  SessionHooks,
  SourceKind,
  Tool,
  ToolRequirements,
} from './tool.ts'

/**
 * Checks of the members of a tool definition: ids, names, requirements, session, uses, parameters. `prepare-tool.ts` calls them
 * for one definition, `prepare-tools.ts` compares versions.
 * A check reports each problem with a fix and continues, so that an author sees all findings at once.
 */

/** References to the tools a workflow may call, without duplicates. */
export function readUses(written: unknown, report: Report): readonly string[] {
  const fix = "Write the tools it may call: `uses: [sendMail, 'Mail.Send@1.0.0']`."
  if (!Array.isArray(written) || written.length === 0) {
    report('uses', `Is ${describeValue(written)}.`, fix)
    return []
  }
  const refs = written.map((used: unknown) => (isDefinedTool(used) ? used.id : used))
  const known = refs.filter(
    (ref): ref is string => typeof ref === 'string' && parseToolName(ref) !== undefined,
  )
  for (const ref of refs) {
    if (known.some((id) => id === ref)) continue
    report('uses', `Holds ${describeValue(ref)}.`, fix)
  }
  return Object.freeze([...new Set(known)])
}

const APPROVALS = { never: 0, conditional: 1, always: 2 } as const satisfies Record<Approval, number>
const TIERS = { pure: 0, read: 1, write: 2, exec: 3 } as const satisfies Record<SafetyTier, number>

/** Rule 21: callers choose the version, so an older version with weaker requirements would bypass the newer one. */
export function checkLaxerVersions(tools: readonly Tool[], acknowledged: readonly string[]): Finding[] {
  const findings: Finding[] = []
  for (const versions of Map.groupBy(tools, ({ parts }) => parts.base).values()) {
    const inOrder = versions.toSorted((left, right) =>
      compareVersions(left.parts.version, right.parts.version),
    )
    for (const [index, older] of inOrder.entries()) {
      if (acknowledged.some((written) => names(written, older))) continue
      const newer = inOrder.slice(index + 1).find((candidate) => laxities(older, candidate).length > 0)
      if (newer === undefined) continue
      findings.push({
        toolId: older.id,
        where: 'policy',
        problem: `Is laxer than ${newer.id}: ${laxities(older, newer).join(', ')}. Callers could choose it instead.`,
        fix: `Remove the old version, make it as strict, or list "${older.id}" in \`acknowledgeLaxerVersions\`.`,
      })
    }
  }
  return findings
}

/** An acknowledgement is for one version, so a name without a version matches none. */
function names(written: string, { parts, name, catalogId }: Tool): boolean {
  const ref = parseToolName(written)
  if (ref?.version !== plainVersion(parts.version)) return false
  return [parts.base, name, catalogId].includes(ref.base)
}

function laxities({ policy: older }: Tool, { policy: newer }: Tool): readonly string[] {
  const missing = newer.scopes.filter((scope) => !older.scopes.includes(scope))
  return [
    ...(APPROVALS[older.approval] < APPROVALS[newer.approval]
      ? [`approval is '${older.approval}', not '${newer.approval}'`]
      : []),
    ...(TIERS[older.safetyTier] < TIERS[newer.safetyTier]
      ? [`safetyTier is '${older.safetyTier}', not '${newer.safetyTier}'`]
      : []),
    ...(missing.length === 0 ? [] : [`it does not ask for ${missing.join(' and ')}`]),
  ]
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

/** The catalog id of a tool: as written, or made from its toolkit and name. */
export function readCatalogId(
  written: unknown,
  { parts, source, vendor }: { readonly parts: ToolId; readonly source: SourceKind; readonly vendor: string },
  report: Report,
): string | undefined {
  const id = written ?? DEFAULT_IDS[source]?.(parts, vendor)
  const { pattern, example } = FORMS[source]
  if (typeof id === 'string' && id.length <= MAX_LENGTH && pattern.test(id)) return id
  const rule = `at most ${MAX_LENGTH} characters; others than A-Z a-z 0-9 . _ - / are percent-encoded`
  report(
    'catalogId',
    `Is ${describeValue(id)}.`,
    `Write an id like \`${example}\` for a tool of source ${source} (${rule}).`,
  )
  return undefined
}

const KEYS = Object.keys({ open: true, close: true, idleMs: true, isOptional: true } satisfies Record<
  keyof SessionDefinition,
  true
>)

const USUAL_IDLE_MS = 15 * 60_000
const MAX_IDLE_MS = 24 * 3_600_000

/** The session of a stateful tool; `undefined` for other tools. */
export function readSession(written: unknown, report: Report): SessionHooks | undefined {
  if (written === undefined) return undefined
  if (!isRecord(written)) {
    report(
      'session',
      `Is ${describeValue(written)}.`,
      'Write `session: { open: () => …, close: (state) => … }`.',
    )
    return undefined
  }
  checkKeys(written, KEYS, 'session', report)
  const { open, close } = written
  const idleMs = readIdle(written.idleMs, report)
  if (!isOpen(open))
    report('session/open', `Is ${describeValue(open)}.`, 'Write a function that gives the state.')
  if (close !== undefined && !isClose(close)) {
    report(
      'session/close',
      `Is ${describeValue(close)}.`,
      'Write a function that ends the state, or leave it out.',
    )
  }
  if (!isOpen(open)) return undefined
  const end = isClose(close) ? close.bind(written) : () => {}
  const isOptional = written.isOptional === true
  return Object.freeze({ open: open.bind(written), close: end, idleMs, isOptional })
}

function readIdle(value: unknown, report: Report): number {
  if (value === undefined) return USUAL_IDLE_MS
  if (typeof value === 'number' && Number.isInteger(value) && value >= 1 && value <= MAX_IDLE_MS) return value
  report(
    'session/idleMs',
    `Is ${describeValue(value)}.`,
    `Write a whole number of milliseconds from 1 to ${MAX_IDLE_MS}.`,
  )
  return USUAL_IDLE_MS
}

function isOpen(value: unknown): value is SessionHooks['open'] {
  return typeof value === 'function'
}

function isClose(value: unknown): value is SessionHooks['close'] {
  return typeof value === 'function'
}

/** The requirements of a definition, and their JSON as written, for publishing and hashing. */
interface CheckedRequirements {
  readonly requirements: ToolRequirements
  readonly json: JsonObject
}

const AUTHORIZATION_ENTRY = "`{ id: 'provider', oauth2: { scopes: ['…'] } }`"
const SECRET_ENTRY = "`{ id: 'NAME' }`"

/**
 * OTC-37…41: the object and its entries are open, but the members read here must have the right form. `userIdKey` is `userId`
 * in code and `user_id` on the wire. `undefined` = needs nothing, or findings were reported.
 */
export function checkRequirements(
  value: unknown,
  userIdKey: 'userId' | 'user_id',
  report: Report,
): CheckedRequirements | undefined {
  if (value === undefined) return undefined
  const copied = copyJson(value)
  if (!copied.ok) {
    report(`requirements${copied.pointer}`, copied.problem, 'Write plain JSON values.')
    return undefined
  }
  const json = copied.value
  if (!isJsonObject(json)) {
    report(
      'requirements',
      'Is not an object.',
      'Write `{ authorization, secrets, userId }`, or leave it out.',
    )
    return undefined
  }
  const { authorization, secrets, [userIdKey]: userId, ...extra } = json
  checkUserId(userId, userIdKey, report)
  // Definitions of other parties may have any member.
  if (userIdKey === 'userId') checkSpelling(extra, report)
  const needed = {
    authorization: readEntries(authorization, 'authorization', report, readAuthorization),
    secrets: readEntries(secrets, 'secrets', report, readSecret),
  }
  const needsUser = userId === true || userId === 'claimed'
  const nothing = needed.authorization.length + needed.secrets.length === 0 && !needsUser
  if (nothing && Object.keys(extra).length === 0) return undefined
  const requirements: ToolRequirements = {
    ...extra,
    ...(authorization === undefined ? {} : { authorization: needed.authorization }),
    ...(secrets === undefined ? {} : { secrets: needed.secrets }),
    ...(typeof userId === 'boolean' || userId === 'claimed' ? { userId } : {}),
  }
  return { requirements, json }
}

function checkUserId(userId: JsonValue | undefined, key: string, report: Report): void {
  if (userId === undefined || typeof userId === 'boolean') return
  // The wire only says whether a user is needed (OTC-40).
  if (userId === 'claimed' && key === 'userId') return
  const claimed = key === 'userId' ? ", `'claimed'` where the caller's word is enough" : ''
  report(`requirements/${key}`, 'Is not true or false.', `Write \`${key}: true\`${claimed}, or leave it out.`)
}

/** OTC-41 keeps unknown members, but a misspelled requirement would be published and never checked. */
function checkSpelling(extra: JsonObject, report: Report): void {
  for (const name of Object.keys(extra)) {
    const meant = misspelledName(name, ['authorization', 'secrets', 'userId'])
    if (meant === undefined) continue
    const place = `requirements${childPointer('', name)}`
    report(place, `Is not a requirement that is checked. Did you mean "${meant}"?`, `Write \`${meant}\`.`)
  }
}

function readEntries<Entry extends { readonly id: string }>(
  value: JsonValue | undefined,
  kind: string,
  report: Report,
  read: (entry: JsonObject & { readonly id: string }, where: string, report: Report) => Entry,
): readonly Entry[] {
  if (value === undefined) return []
  const where = `requirements/${kind}`
  const form = kind === 'secrets' ? SECRET_ENTRY : AUTHORIZATION_ENTRY
  if (!Array.isArray(value)) {
    report(where, 'Is not a list.', `Write a list of ${form}.`)
    return []
  }
  const entries = new Map<string, Entry>()
  for (const [index, entry] of value.entries()) {
    const place = `${where}/${index}`
    if (!isJsonObject(entry)) report(place, 'Is not an object.', `Write ${form}.`)
    else if (!hasId(entry)) report(`${place}/id`, 'Is missing or not a text.', `Write ${form}.`)
    else if (entries.has(entry.id))
      report(`${place}/id`, `"${entry.id}" is already required.`, 'Join the two entries.')
    else entries.set(entry.id, read(entry, place, report))
  }
  return [...entries.values()]
}

function hasId(entry: JsonObject): entry is JsonObject & { readonly id: string } {
  return isText(entry.id)
}

function readSecret(entry: JsonObject & { readonly id: string }): SecretRequirement {
  return entry
}

function readAuthorization(
  entry: JsonObject & { readonly id: string },
  where: string,
  report: Report,
): AuthorizationRequirement {
  const { oauth2, ...rest } = entry
  if (oauth2 === undefined) return { ...rest, id: entry.id }
  const scopes = isJsonObject(oauth2) ? oauth2.scopes : undefined
  if (!isJsonObject(oauth2)) {
    report(`${where}/oauth2`, 'Is not an object.', "Write `oauth2: { scopes: ['…'] }`.")
    return { ...rest, id: entry.id }
  }
  if (scopes === undefined) return { ...rest, id: entry.id, oauth2: { ...oauth2, scopes: [] } }
  const texts = Array.isArray(scopes) ? scopes.filter(isText) : []
  if (!Array.isArray(scopes) || texts.length < scopes.length) {
    report(`${where}/oauth2/scopes`, 'Is not a list of texts.', "Write `scopes: ['…']`.")
  }
  return { ...rest, id: entry.id, oauth2: { ...oauth2, scopes: texts } }
}

interface ParameterOptions {
  /** `false` only for tools that another party wrote (OTC/C-10). */
  readonly describeParameters: boolean
}

/** An input schema lists named parameters, each with a description (OTC-32, OTC-33). */
export function checkParameters(
  schema: JsonObject,
  where: string,
  report: Report,
  options: ParameterOptions,
): void {
  if (Object.keys(schema).length === 0) return
  if (schema.type !== 'object') {
    report(
      where,
      'An input is an object of named parameters, and this schema does not say `"type": "object"`.',
      'Put the value under a name: `z.object({ value: … })`, or `{}` if there are no parameters.',
    )
  }
  if (!options.describeParameters) return
  const { properties = {} } = schema
  for (const [name, parameter] of isJsonObject(properties) ? Object.entries(properties) : []) {
    if (isJsonObject(parameter) && isText(parameter.description)) continue
    report(
      `${where}${childPointer('/properties', name)}`,
      `The parameter "${name}" has no description.`,
      'Say what it means: `.describe("…")` in a library, `"description": "…"` in JSON Schema. To go without, set `authoring: { describeParameters: false }` in the config.',
    )
  }
}

/** Reports unknown members of a closed object (OTC-41). */
export function checkKeys(value: object, known: readonly string[], where: string, report: Report): void {
  for (const key of Object.keys(value)) {
    if (known.includes(key)) continue
    const place = where === '' ? key : `${where}/${key}`
    report(place, `"${key}" is not known here.${didYouMean(key, known)}`, `Known are: ${known.join(', ')}.`)
  }
}

const NAME = /^[A-Za-z0-9_-]{1,64}$/
const NAME_RULE = 'Write 1 to 64 characters of A-Z, a-z, 0-9, `_` and `-`.'

export function checkId(id: unknown, report: Report): ToolId | undefined {
  const parts = typeof id === 'string' ? parseToolId(id) : undefined
  if (parts !== undefined && isSemanticVersion(parts.version)) return parts
  if (parts !== undefined) {
    const fix = 'Write three numbers without leading zeros, each of at most 15 digits: `@1.0.0`.'
    report('id', `Is ${describeValue(id)}, whose version is not a semantic version.`, fix)
    return undefined
  }
  const asName =
    typeof id === 'string' && NAME.test(id) ? ` For the name that models call, add \`name: '${id}'\`.` : ''
  report(
    'id',
    `Is ${describeValue(id)}.`,
    `Write \`Toolkit.Name@x.y.z\`, for example "${suggestId(id)}".${asName}`,
  )
  return undefined
}

function suggestId(id: unknown): string {
  const text = typeof id === 'string' ? id : ''
  const [, base] = /^([A-Za-z0-9_]{1,64}\.[A-Za-z0-9_]{1,64})(?:@|$)/.exec(text) ?? []
  const [, version] = /@v?([0-9]{1,9}\.[0-9]{1,9}\.[0-9]{1,9})/.exec(text) ?? []
  return `${base ?? 'Calculator.Add'}@${version ?? '1.0.0'}`
}

/** The function name for models (OTC-25). */
export function checkName(name: unknown, report: Report): string | undefined {
  if (typeof name === 'string' && NAME.test(name)) return name
  report('name', `Is ${describeValue(name)}.`, NAME_RULE)
  return undefined
}

/** `Toolkit_Name`, if it is short enough (OTC-25). */
export function defaultName({ toolkit, name }: ToolId, report: Report): string | undefined {
  const made = `${toolkit}_${name}`
  if (NAME.test(made)) return made
  report(
    'name',
    `The name made from the id has ${made.length} characters, and 64 is the most.`,
    `Add a shorter one: \`name: '${made.slice(0, 64)}'\`.`,
  )
  return undefined
}

export function checkDescription(description: unknown, report: Report): string | undefined {
  if (isText(description)) return description
  report(
    'description',
    `Is ${describeValue(description)}.`,
    'Say in a sentence what the tool does, for people and for models.',
  )
  return undefined
}

export function checkTitle(title: unknown, report: Report): string | undefined {
  if (title === undefined || isText(title)) return title
  report('title', `Is ${describeValue(title)}.`, 'Write a short name for people, or leave it out.')
  return undefined
}

const TAG = /^[\p{L}\p{N}._-]{1,64}$/u

/** Operators may change who sees a tool, so tags are not part of the definition hash. */
export function checkTags(tags: unknown, report: Report): readonly string[] | undefined {
  if (tags === undefined) return undefined
  const found = Array.isArray(tags) ? tags.filter((tag) => typeof tag === 'string' && TAG.test(tag)) : []
  if (Array.isArray(tags) && found.length === tags.length) return Object.freeze(found)
  report(
    'tags',
    'Is not a list of words.',
    "Write words of letters, digits, '.', '_' and '-': tags: ['crm'].",
  )
  return undefined
}

/** The version must equal the one in the id (OTC-28, OTC/T-11). */
export function checkVersion(version: unknown, parts: ToolId | undefined, report: Report): void {
  if (typeof version !== 'string' || !isToolVersion(version)) {
    report(
      'version',
      `Is ${describeValue(version)}.`,
      `Write exactly three integers: "${parts?.version ?? '1.0.0'}".`,
    )
  } else if (parts !== undefined && version !== parts.version) {
    report(
      'version',
      `Is "${version}", but the id says "${parts.version}".`,
      `Write "${parts.version}", or change the id.`,
    )
  }
}

export function isText(value: unknown): value is string {
  return typeof value === 'string' && value.trim() !== '' && value.isWellFormed()
}
