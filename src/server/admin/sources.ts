import type { Clock } from '#kernel/base/clock'
import { canonicalJson, isJsonObject, type JsonObject, type JsonValue } from '#kernel/base/json'
import { didYouMean } from '#kernel/base/nearest-name'
import { matchesGlob } from '#kernel/tool/toolsets'
import type { HttpReply, HttpRequest } from '#protocols/http-exchange'
import { jsonReply } from '#server/http/exchange'
import type { ServerRoute } from '#server/http/router'
import { type Bypass, upstreamIn } from '#server/import/bypass'
import { checkSource } from '#server/import/check-source'
import { probeReply } from '#server/import/source-probe'
import { type FoundOptions, type OpenSources, overridesOf } from '#server/sources'
import { idleOverrides } from '#sources/kit/overrides'
import { shownAddress, shownCommand } from '#sources/kit/source-facts'
import type { Sources, SourceView } from '#sources/kit/sources'
import { SOURCE_OPTIONS, type SourceOptions } from '#sources/source-types'
import type { PinStore, SourceStore } from '#store/imports'
import { adminRoute, badRequest, momentOf, type OperatorAccess, requireServerScope } from './access.ts'

const SCOPE = 'admin:sources'
const KEY = /^[A-Za-z0-9_]{1,64}$/

interface SourceRoutesOptions {
  /** The sources of a running server; absent where only the store is open, which running servers watch. */
  readonly sources?: Sources
  readonly store: SourceStore
  readonly pins: Pick<PinStore, 'read'>
  readonly clock: Clock
  /** Whether the configuration has this key: it wins, so the store's would never be used. */
  isConfigured(key: string): boolean
  /** What only a running server can do: look at sources, also at new ones. */
  readonly looking?: SourceLooking
}

interface SourceLooking extends Pick<OpenSources, 'find' | 'openBeside'> {
  /** Relative files and programs are looked for from here. */
  folder(): string
  environment(): Readonly<Record<string, string | undefined>>
  /** Entries of MCP clients on this machine that do not lead to this server. */
  bypasses(sources: readonly { readonly key: string; readonly options: JsonObject }[]): readonly Bypass[]
}

/** Sources over HTTP, for the start token and the scope `admin:sources` (rule 29). Options are never shown: they may hold secrets. */
export function createSourceRoutes(
  { sources, store, pins, clock, isConfigured, looking }: SourceRoutesOptions,
  access: OperatorAccess,
): readonly ServerRoute[] {
  const route = (
    method: 'GET' | 'POST' | 'DELETE',
    path: string,
    handle: (request: HttpRequest) => Promise<HttpReply>,
  ): ServerRoute =>
    adminRoute(access, method, path, (request) => {
      requireServerScope(request.principal, SCOPE, access)
      return handle(request)
    })
  const status = () =>
    (sources?.status() ?? []).map((source) => ({
      ...renderSource(source),
      ...describe(looking?.find(source.key)),
    }))
  const one = (key: string) => ({ source: status().find((source) => source.key === key) ?? null })
  return [
    route('GET', '/admin/sources', async () => {
      const listed = status()
      return jsonReply(200, { sources: listed, around: around(listed.map(({ key }) => key)) })
    }),
    route('POST', '/admin/sources', async ({ body, principal }) => {
      const { key, options, replace } = readAddition(body)
      if (isConfigured(key))
        throw badRequest(`"${key}" is a source in the configuration, which takes precedence.`)
      const done = await store.put({ key, options, replace, addedBy: principal.id, addedMs: clock.nowMs() })
      if (done === 'exists')
        throw badRequest(
          `There is a source "${key}" already. Choose another key, or replace it: "replace": true, or collet import --replace.`,
        )
      await sources?.sync()
      await sources?.firstReading(key)
      return jsonReply(201, one(key))
    }),
    route('POST', '/admin/sources/find', async ({ body }) => {
      const wanted = readWanted(body)
      const stored = await store.list()
      const known = Map.groupBy(stored, ({ options }) => upstreamOf(options))
      const taken = new Set([...stored.map(({ key }) => key), ...status().map(({ key }) => key)])
      const found = wanted.map((options) =>
        (known.get(upstreamOf(options)) ?? []).map((source) => ({
          key: source.key,
          changed: changedCredentials(source.options, options),
        })),
      )
      return jsonReply(200, { found, taken: [...taken] })
    }),
    route('POST', '/admin/sources/:key/set', async ({ params, body, principal }) => {
      const key = params.key ?? ''
      if (isConfigured(key)) throw badRequest(`"${key}" is a source in the configuration: change it there.`)
      const stored = await store.list()
      const known = stored.find((source) => source.key === key)
      if (known === undefined) {
        const meant = didYouMean(
          key,
          stored.map((source) => source.key),
        )
        throw badRequest(`There is no imported source "${key}".${meant}`)
      }
      const changes = readChanges(body)
      const options = changedOptions(known.options, changes)
      if (upstreamOf(options) !== upstreamOf(known.options))
        throw badRequest(
          'This would make it another upstream: only new values of its credentials can be set. Import the other one with collet import, and --replace to put it in the place of this one.',
        )
      const parsed = readOptions(options)
      await refuseUnknown(key, { changes, before: known.options, after: parsed })
      await store.put({ key, options, replace: true, addedBy: principal.id, addedMs: clock.nowMs() })
      await sources?.sync()
      await sources?.firstReading(key)
      const { source } = one(key)
      const idle = idleOverrides(overridesOf(key, parsed, NO_RULES), await namesOf(key))
      const warnings = source?.warnings ?? idle.map(({ text }) => text)
      return jsonReply(200, { key, source, warnings })
    }),
    route('DELETE', '/admin/sources/:key', async ({ params, principal }) => {
      const key = params.key ?? ''
      if (isConfigured(key)) throw badRequest(`"${key}" is a source in the configuration: remove it there.`)
      const removed = await store.remove({ key, by: principal.id, atMs: clock.nowMs() })
      if (!removed) throw badRequest(`There is no source "${key}".`)
      await sources?.sync()
      return jsonReply(200, { key, removed: true })
    }),
    ...(looking === undefined ? [] : lookingRoutes(looking)),
    route('POST', '/admin/sources/:key/refresh', async ({ params }) => {
      const key = params.key ?? ''
      if ((await sources?.refresh(key)) !== true) throw badRequest(`There is no source "${key}".`)
      return jsonReply(200, one(key))
    }),
  ]

  /** Entries of clients on this machine that reach sources of ours without us. */
  function around(keys: readonly string[]) {
    const bypasses = looking?.bypasses(
      keys.map((key) => ({ key, options: upstreamIn(looking.find(key)?.options) })),
    )
    return (bypasses ?? []).flatMap(({ title, client, file, name, source, clear }) =>
      source === undefined ? [] : [{ client, title, file, name, source, clear }],
    )
  }

  function lookingRoutes({ find, openBeside, folder, environment }: SourceLooking): readonly ServerRoute[] {
    return [
      route('POST', '/admin/sources/probe', (request) =>
        probeReply(request, {
          ...{ clock, folder: folder(), environment: environment() },
          noteLook: (target) => store.noteLook({ target, by: request.principal.id, atMs: clock.nowMs() }),
        }),
      ),
      route('POST', '/admin/sources/:key/check', async ({ params }) => {
        const key = params.key ?? ''
        const found = find(key)
        if (found === undefined) throw badRequest(`There is no source "${key}".`)
        const checked = await checkSource(key, found.options, {
          ...{ clock, folder: folder(), path: environment().PATH },
          signal: AbortSignal.timeout(MAX_CHECK_MS),
          view: sources?.status().find((source) => source.key === key),
          open: () => openBeside(key, found.options),
        })
        return jsonReply(200, checked)
      }),
    ]
  }

  /** Names of its tools that are known, and whether its upstream was read by this process. */
  async function namesOf(key: string) {
    const { pins: seen } = await pins.read(key)
    const read = sources?.namesRead(key)
    const native = new Set([...seen.map(({ nativeName }) => nativeName), ...(read ?? [])])
    return { native, tools: [], isRead: read !== undefined }
  }

  /** A wrong name in a change would guard nothing, or take the whole source offline. */
  async function refuseUnknown(
    key: string,
    { changes, before, after }: { changes: JsonObject; before: JsonObject; after: SourceOptions },
  ): Promise<void> {
    const known = await namesOf(key)
    if (known.native.size === 0) return
    const named = namesIn(changes)
    const idle = idleOverrides(overridesOf(key, after, NO_RULES), { ...known, isRead: true })
    const unknown = idle.find(
      ({ name, isPattern }) => named.has(name) && !isPattern && (known.isRead || !mayBeLeftOut(name, before)),
    )
    if (unknown !== undefined)
      throw badRequest(`${key} has no tool "${unknown.name}".${unknown.meant} Nothing was changed.`)
  }
}

const NO_RULES = { approvals: { perTool: new Map(), whenPerTool: new Map() }, tools: [], sources: [] }

/** Names of tools in changes of options. */
function namesIn({ tools, include, exclude }: JsonObject): ReadonlySet<JsonValue> {
  const lists = [include, exclude].flatMap((list) => (Array.isArray(list) ? list : []))
  return new Set([...(isJsonObject(tools) ? Object.keys(tools) : []), ...lists])
}

/** Whether the filters of a source may be why a tool of this name was never pinned. */
function mayBeLeftOut(name: string, { include, exclude, tags, methods }: JsonObject): boolean {
  const isIn = (list: readonly JsonValue[]) => list.some((glob) => matchesGlob(name, String(glob)))
  if (tags !== undefined || methods !== undefined) return true
  return (Array.isArray(include) && !isIn(include)) || (Array.isArray(exclude) && isIn(exclude))
}

function readWanted(body: JsonValue | undefined): readonly JsonObject[] {
  const wanted = isJsonObject(body) ? body.options : undefined
  if (Array.isArray(wanted) && wanted.every(isJsonObject)) return wanted
  throw badRequest('Send { "options": [{ "type": … }] }.')
}

/** Options that say what an upstream is; the others say what is done with its tools. */
const OF_UPSTREAM = ['type', 'command', 'args', 'cwd', 'file', 'document', 'baseUrl'] as const
const QUERY_SECRET = /key|token|secret|password|auth|sig/i

/**
 * The same text for the same upstream: a credential that was renewed does not make it another one. So of credentials only the names
 * count, and two accounts at one upstream are two sources only if an operator gives them two keys.
 */
function upstreamOf(options: JsonObject): string {
  const { url } = options
  const address = typeof url === 'string' ? URL.parse(url) : null
  for (const name of [...(address?.searchParams.keys() ?? [])])
    if (QUERY_SECRET.test(name)) address?.searchParams.set(name, '')
  return canonicalJson({
    ...Object.fromEntries(OF_UPSTREAM.map((name) => [name, options[name] ?? null])),
    url: address?.href ?? null,
    credentials: [...credentialsOf(options).keys()].sort(),
  })
}

/** What is sent or given to an upstream, by name. */
function credentialsOf({ env, headers, apiKey, token }: JsonObject): ReadonlyMap<string, JsonValue> {
  const named = (where: string, values: JsonValue | undefined): readonly (readonly [string, JsonValue])[] =>
    Object.entries(isJsonObject(values) ? values : {}).map(([name, value]) => [`${where}.${name}`, value])
  return new Map([
    ...named('env', env),
    ...named('headers', headers),
    ...(apiKey === undefined ? [] : [['apiKey', apiKey] as const]),
    ...(token === undefined ? [] : [['token', token] as const]),
  ])
}

/** Which credentials of the same upstream have another value, by name. */
function changedCredentials(before: JsonObject, after: JsonObject): readonly string[] {
  const old = credentialsOf(before)
  const changed = [...credentialsOf(after)].filter(([name, value]) => old.get(name) !== value)
  return [...changed.map(([name]) => name), ...(before.url === after.url ? [] : ['url'])]
}

function readChanges(body: JsonValue | undefined): JsonObject {
  const changes = isJsonObject(body) ? body.changes : undefined
  if (!isJsonObject(changes)) throw badRequest('Send { "changes": { "trust": "annotations" } }.')
  return changes
}

/** Members that are objects are changed member by member; `null` takes one away, and what is empty then goes too. */
function changedOptions(before: JsonObject, changes: JsonObject): JsonObject {
  const merged = Object.entries(changes).map(([name, value]): [string, JsonValue] => {
    const old = before[name]
    return [name, isJsonObject(value) ? changedOptions(isJsonObject(old) ? old : {}, value) : value]
  })
  const next = { ...before, ...Object.fromEntries(merged) }
  const isEmpty = (value: JsonValue): boolean =>
    value === null || (isJsonObject(value) && Object.keys(value).length === 0)
  return Object.fromEntries(Object.entries(next).filter(([, value]) => !isEmpty(value)))
}

function readAddition(body: JsonValue | undefined) {
  if (!isJsonObject(body)) throw badRequest('Send { "key": "Name", "options": { "type": … } }.')
  const { key, options, replace = false } = body
  if (typeof key !== 'string' || !KEY.test(key))
    throw badRequest('"key" must be 1 to 64 letters, digits and "_".')
  if (!isJsonObject(options)) throw badRequest('"options" cannot be used: is no object')
  readOptions(options)
  return { key, options, replace: replace === true }
}

function readOptions(options: JsonObject): SourceOptions {
  const parsed = SOURCE_OPTIONS.safeParse(options)
  if (parsed.success) return parsed.data
  const said = parsed.error.issues.map(({ path, message }) => `${path.join('.')}: ${message}`)
  throw badRequest(`"options" cannot be used: ${said.join('; ')}`)
}

const MAX_CHECK_MS = 90_000

/** Of its options what says where it is and what is done with its tools; the rest may hold secrets. */
function describe(found: FoundOptions | undefined) {
  if (found === undefined) return {}
  const { options, isConfigured } = found
  const shared = { target: targetOf(options), configured: isConfigured }
  if (options.type === 'custom') return shared
  const { include, exclude, policy } = options
  return {
    ...shared,
    settings: {
      ...(options.type === 'mcp' ? { trust: options.trust, connectTimeoutMs: options.connectTimeoutMs } : {}),
      include: include ?? null,
      exclude,
      approval: policy?.approval ?? null,
      tier: policy?.safetyTier ?? null,
    },
  }
}

/** Where a source is, without what may be a secret. */
function targetOf(options: SourceOptions): string | null {
  if ('url' in options && typeof options.url === 'string') return shownAddress(options.url)
  if ('file' in options && typeof options.file === 'string') return options.file
  if (options.type !== 'mcp' || options.command === undefined) return null
  return shownCommand(options.command, options.args)
}

/** A source as operators see it. */
export type RenderedSource = ReturnType<typeof renderSource>

function renderSource(source: SourceView) {
  return {
    key: source.key,
    type: source.type,
    kind: source.kind,
    state: source.state,
    reason: source.reason ?? null,
    since: new Date(source.sinceMs).toISOString(),
    tools: source.tools,
    offered: source.offered ?? null,
    waiting: source.waiting,
    read_at: momentOf(source.readAtMs),
    next_read_at: momentOf(source.nextReadAtMs),
    warnings: source.warnings,
    oddities: source.oddities.map(({ toolId, problem }) => ({ tool: toolId, problem })),
    left_out: source.findings.map(({ toolId, problem, fix }) => ({ tool: toolId, problem, fix })),
  }
}
