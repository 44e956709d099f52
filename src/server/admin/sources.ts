/**
 * Lists, adds, changes, refreshes, checks and removes sources of imported tools over HTTP (rule 29). The server and `collet import` both
 * serve these routes. Only options that cannot be secrets are shown (`describeOptions`).
 */
import {
  ADD_SOURCE,
  CHANGE_SOURCE,
  CHECK_SOURCE,
  FIND_SOURCES,
  LIST_SOURCES,
  PROBE_SOURCE,
  REFRESH_SOURCE,
  REMOVE_SOURCE,
  type Source,
  type SourceList,
} from '#admin-api/sources'
import type { Clock } from '#kernel/base/clock'
import type { ToolError } from '#kernel/base/errors'
import { canonicalJson, defined, isJsonObject, type JsonObject, type JsonValue } from '#kernel/base/json'
import { didYouMean } from '#kernel/base/nearest-name'
import { matchesGlob } from '#kernel/tool/toolsets'
import type { ServerRoute } from '#server/http/router'
import { type Bypass, upstreamIn } from '#server/import/bypass'
import { checkSource } from '#server/import/check-source'
import { probeReply } from '#server/import/source-probe'
import { type FoundOptions, type OpenSources, overridesOf } from '#server/sources'
import { ineffectiveOverrides } from '#sources/kit/overrides'
import { shownAddress, shownCommand } from '#sources/kit/source-facts'
import type { Sources, SourceView } from '#sources/kit/sources'
import { SOURCE_OPTIONS, type SourceOptions } from '#sources/source-types'
import type { PinStore, SourceStore } from '#store/imports'
import type { OperatorAccess } from './access.ts'
import { badRequest, serveOperation, serveReply, timeOf } from './admin-route.ts'

interface SourceRoutesOptions {
  /** The sources of a running server; absent if only the store is open, which running servers watch for changes. */
  readonly sources?: Sources
  readonly store: SourceStore
  readonly pins: Pick<PinStore, 'read'>
  readonly clock: Clock
  /** Whether the configuration has a source with this key, which takes precedence over the store. */
  isConfigured(key: string): boolean
  /** Needed to probe and check sources; present only in a running server. */
  readonly probes?: SourceProbes
}

interface SourceProbes extends Pick<OpenSources, 'find' | 'openBeside'> {
  /** Base folder for relative paths of files and programs. */
  folder(): string
  environment(): Readonly<Record<string, string | undefined>>
  /** Entries in the files of MCP clients on this machine that bypass this server. */
  bypasses(sources: readonly { readonly key: string; readonly options: JsonObject }[]): readonly Bypass[]
}

export function createSourceRoutes(
  access: OperatorAccess,
  { sources, store, pins, clock, isConfigured, probes }: SourceRoutesOptions,
): readonly ServerRoute[] {
  const list = (): readonly Source[] =>
    (sources?.status() ?? []).map((source) => ({
      ...renderSource(source),
      ...describeOptions(probes?.find(source.key)),
    }))
  const replyFor = (key: string) => ({ source: list().find((source) => source.key === key) ?? null })
  /** Writes a source to the store and waits until this server has read it. */
  const put = async (source: Omit<Parameters<SourceStore['put']>[0], 'addedMs'>) => {
    const result = await store.put({ ...source, addedMs: clock.nowMs() })
    if (result !== 'exists') {
      await sources?.sync()
      await sources?.firstReading(source.key)
    }
    return result
  }
  const routes: ServerRoute[] = [
    serveOperation(access, LIST_SOURCES, async () => {
      const listed = list()
      return { sources: listed, bypasses: bypassesOf(listed.map(({ key }) => key)) }
    }),
    serveOperation(access, ADD_SOURCE, async ({ principal, body: { key, options, replace } }) => {
      readOptions(options)
      if (isConfigured(key))
        throw badRequest(`"${key}" is a source in the configuration, which takes precedence.`)
      if ((await put({ key, options, replace, addedBy: principal.id })) === 'exists')
        throw badRequest(
          `A source "${key}" already exists. Choose another key, or replace it: "replace": true, or collet import --replace.`,
        )
      return replyFor(key)
    }),
    serveOperation(access, FIND_SOURCES, async ({ body }) => {
      const stored = await store.list()
      const known = Map.groupBy(stored, ({ options }) => upstreamOf(options))
      const taken = new Set([...stored.map(({ key }) => key), ...list().map(({ key }) => key)])
      const found = body.options.map((options) =>
        (known.get(upstreamOf(options)) ?? []).map((source) => ({
          key: source.key,
          changed: changedCredentials(source.options, options),
        })),
      )
      return { found, taken: [...taken] }
    }),
    serveOperation(access, CHANGE_SOURCE, async ({ id: key, principal, body: { changes } }) => {
      if (isConfigured(key)) throw badRequest(`"${key}" is a source in the configuration: change it there.`)
      const stored = await store.list()
      const known = stored.find((source) => source.key === key)
      if (known === undefined) {
        const keys = stored.map((source) => source.key)
        throw badRequest(`There is no imported source "${key}".${didYouMean(key, keys)}`)
      }
      const options = changedOptions(known.options, changes)
      if (upstreamOf(options) !== upstreamOf(known.options))
        throw badRequest(
          'This would connect the source to another upstream: of the options that identify an upstream, only the values of credentials can be changed. To replace this source, import the other upstream with collet import --replace.',
        )
      const parsed = readOptions(options)
      await refuseUnknown(key, { changes, before: known.options, after: parsed })
      await put({ key, options, replace: true, addedBy: principal.id })
      const { source } = replyFor(key)
      const ineffective = ineffectiveOverrides(overridesOf(key, parsed, NO_RULES), await namesOf(key))
      return { key, source, warnings: source?.warnings ?? ineffective.map(({ text }) => text) }
    }),
    serveOperation(access, REMOVE_SOURCE, async ({ id: key, principal }) => {
      if (isConfigured(key)) throw badRequest(`"${key}" is a source in the configuration: remove it there.`)
      const removed = await store.remove({ key, by: principal.id, atMs: clock.nowMs() })
      if (!removed) throw noSuchSource(key)
      await sources?.sync()
      return { key, removed: true }
    }),
    serveOperation(access, REFRESH_SOURCE, async ({ id: key }) => {
      if ((await sources?.refresh(key)) !== true) throw noSuchSource(key)
      return replyFor(key)
    }),
  ]
  return probes === undefined ? routes : [...routes, ...probeRoutes(probes)]

  /** Entries of MCP clients on this machine that reach this server's sources directly. */
  function bypassesOf(keys: readonly string[]): SourceList['bypasses'] {
    const bypasses = probes?.bypasses(
      keys.map((key) => ({ key, options: upstreamIn(probes.find(key)?.options) })),
    )
    return (bypasses ?? []).flatMap(({ title, client, file, name, source, clear }) =>
      source === undefined ? [] : [{ client, title, file, name, source, clear }],
    )
  }

  function probeRoutes({ find, openBeside, folder, environment }: SourceProbes): readonly ServerRoute[] {
    return [
      serveReply(access, PROBE_SOURCE, ({ principal, body }) =>
        probeReply(body, {
          ...{ clock, folder: folder(), environment: environment() },
          recordProbe: (target) => store.recordProbe({ target, by: principal.id, atMs: clock.nowMs() }),
        }),
      ),
      serveOperation(access, CHECK_SOURCE, async ({ id: key }) => {
        const found = find(key)
        if (found === undefined) throw noSuchSource(key)
        return await checkSource(key, found.options, {
          ...{ clock, folder: folder(), path: environment().PATH },
          view: sources?.status().find((source) => source.key === key),
          open: () => openBeside(key, found.options),
        })
      }),
    ]
  }

  /** Known names of the source's tools, and whether this process has read its upstream. */
  async function namesOf(key: string) {
    const { pins: seen } = await pins.read(key)
    const read = sources?.namesRead(key)
    const native = new Set([...seen.map(({ nativeName }) => nativeName), ...(read ?? [])])
    return { native, tools: [], isRead: read !== undefined }
  }

  /** Refuses unknown names of tools: a misspelled name would protect nothing, or take the source offline. */
  async function refuseUnknown(
    key: string,
    { changes, before, after }: { changes: JsonObject; before: JsonObject; after: SourceOptions },
  ): Promise<void> {
    const known = await namesOf(key)
    if (known.native.size === 0) return
    const named = namesIn(changes)
    const ineffective = ineffectiveOverrides(overridesOf(key, after, NO_RULES), { ...known, isRead: true })
    const unknown = ineffective.find(
      ({ name, isPattern }) => named.has(name) && !isPattern && (known.isRead || !mayBeLeftOut(name, before)),
    )
    if (unknown !== undefined)
      throw badRequest(`${key} has no tool "${unknown.name}".${unknown.suggestion} Nothing was changed.`)
  }
}

const NO_RULES = { approvals: { perTool: new Map(), whenPerTool: new Map() }, tools: [], sources: [] }

function namesIn({ tools, include, exclude }: JsonObject): ReadonlySet<JsonValue> {
  const lists = [include, exclude].flatMap((list) => (Array.isArray(list) ? list : []))
  return new Set([...(isJsonObject(tools) ? Object.keys(tools) : []), ...lists])
}

/** Whether the source's filters may be the reason why a tool with this name was never pinned. */
function mayBeLeftOut(name: string, { include, exclude, tags, methods }: JsonObject): boolean {
  const isIn = (list: readonly JsonValue[]) => list.some((glob) => matchesGlob(name, String(glob)))
  if (tags !== undefined || methods !== undefined) return true
  return (Array.isArray(include) && !isIn(include)) || (Array.isArray(exclude) && isIn(exclude))
}

function noSuchSource(key: string): ToolError {
  return badRequest(`There is no source "${key}".`)
}

/** Options that identify an upstream; the other options set how its tools are served. */
const UPSTREAM_OPTIONS = ['type', 'command', 'args', 'cwd', 'file', 'document', 'baseUrl'] as const
const QUERY_SECRET = /key|token|secret|password|auth|sig/i

/**
 * Identifies an upstream. Values of credentials do not count, so a renewed credential does not make it another upstream; two accounts at
 * one upstream are two sources only if an operator gives them two keys.
 */
function upstreamOf(options: JsonObject): string {
  const { url } = options
  const address = typeof url === 'string' ? URL.parse(url) : null
  for (const name of [...(address?.searchParams.keys() ?? [])])
    if (QUERY_SECRET.test(name)) address?.searchParams.set(name, '')
  return canonicalJson({
    ...Object.fromEntries(UPSTREAM_OPTIONS.map((name) => [name, options[name] ?? null])),
    url: address?.href ?? null,
    credentials: [...credentialsOf(options).keys()].sort(),
  })
}

function credentialsOf({ env, headers, apiKey, token }: JsonObject): ReadonlyMap<string, JsonValue> {
  const named = (where: string, values: JsonValue | undefined): readonly (readonly [string, JsonValue])[] =>
    Object.entries(isJsonObject(values) ? values : {}).map(([name, value]) => [`${where}.${name}`, value])
  return new Map([
    ...named('env', env),
    ...named('headers', headers),
    ...Object.entries<JsonValue>(defined({ apiKey, token })),
  ])
}

function changedCredentials(before: JsonObject, after: JsonObject): readonly string[] {
  const old = credentialsOf(before)
  const changed = [...credentialsOf(after)].filter(([name, value]) => old.get(name) !== value)
  return [...changed.map(([name]) => name), ...(before.url === after.url ? [] : ['url'])]
}

/** Changes objects member by member; `null` removes a member, and objects that become empty are removed too. */
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

function readOptions(options: JsonObject): SourceOptions {
  const parsed = SOURCE_OPTIONS.safeParse(options)
  if (parsed.success) return parsed.data
  const problems = parsed.error.issues.map(({ path, message }) => `${path.join('.')}: ${message}`)
  throw badRequest(`"options" cannot be used: ${problems.join('; ')}`)
}

/** Shows only the address and the tool settings; the other options may contain secrets. */
function describeOptions(
  found: FoundOptions | undefined,
): Partial<Pick<Source, 'target' | 'configured' | 'settings'>> {
  if (found === undefined) return {}
  const { options, isConfigured } = found
  const shared = { target: targetOf(options), configured: isConfigured }
  if (options.type === 'custom') return shared
  const { include, exclude, policy } = options
  return {
    ...shared,
    settings: {
      ...(options.type === 'mcp' && { trust: options.trust, connect_timeout_ms: options.connectTimeoutMs }),
      include: include ?? null,
      exclude,
      approval: policy?.approval ?? null,
      tier: policy?.safetyTier ?? null,
    },
  }
}

/** The source's address or command, without parts that may be secrets. */
function targetOf(options: SourceOptions): string | null {
  if ('url' in options && typeof options.url === 'string') return shownAddress(options.url)
  if ('file' in options && typeof options.file === 'string') return options.file
  if (options.type !== 'mcp' || options.command === undefined) return null
  return shownCommand(options.command, options.args)
}

function renderSource(source: SourceView): Source {
  return {
    key: source.key,
    type: source.type,
    kind: source.kind,
    state: source.state,
    reason: source.reason ?? null,
    since: timeOf(source.sinceMs),
    tools: source.tools,
    prompts: source.prompts,
    templates: source.templates,
    skills: source.skills,
    offered: source.offered ?? null,
    waiting: source.waiting,
    read_at: timeOf(source.readAtMs),
    next_read_at: timeOf(source.nextReadAtMs),
    warnings: source.warnings,
    tool_warnings: source.toolWarnings.map(({ toolId, problem }) => ({ tool: toolId, problem })),
    left_out: source.findings.map(({ toolId, problem, fix }) => ({ tool: toolId, problem, fix })),
  }
}
