import { SOURCE_OPTIONS } from '#config/schema'
import { fault } from '#core/errors'
import type { PinDiff, PinView } from '#core/imports/pin-view'
import type { PinDecided, Pins } from '#core/imports/pins'
import type { Difference } from '#core/imports/schema-diff'
import type { Sources, SourceView } from '#core/imports/sources'
import { isJsonObject, type JsonObject, type JsonValue } from '#core/json'
import type { SourceStore } from '#core/ports/import-store'
import type { Clock } from '#core/runtime'
import type { HttpReply, HttpRequest } from '#protocols/http-exchange'
import { httpFault, jsonReply, refuseWithMessage } from '#server/http/replies'
import type { ServerRoute } from '#server/http/router'
import { type OperatorAccess, requireServerScope } from './access.ts'

const SCOPE_IN_ADMIN_SOURCES = 'admin:sources'
const KEY = /^[A-Za-z0-9_]{1,64}$/

interface SourceRoutesOptions {
  readonly sources: Sources
  readonly store: SourceStore
  readonly clock: Clock
  /** Whether the configuration has this key: it wins, so the store's would never be used. */
  isConfigured(key: string): boolean
}

/** Sources over HTTP, for the start token and the scope `admin:sources` (rule 29). Options are never shown: they may hold secrets. */
export function createSourceRoutes(
  { sources, store, clock, isConfigured }: SourceRoutesOptions,
  access: OperatorAccess,
): readonly ServerRoute[] {
  const route = (
    method: 'GET' | 'POST' | 'DELETE',
    path: string,
    handle: (request: HttpRequest) => Promise<HttpReply>,
  ): ServerRoute => ({
    access: 'authenticated',
    authenticate: access.authenticate,
    refuse: refuseWithMessage,
    method,
    path,
    body: method === 'POST' ? 'json' : 'never',
    handle: (request) => {
      requireServerScope(request.principal, SCOPE_IN_ADMIN_SOURCES, access)
      return handle(request)
    },
  })
  return [
    route('GET', '/admin/sources', async () =>
      jsonReply(200, { sources: sources.status().map(renderSource) }),
    ),
    route('POST', '/admin/sources', async ({ body, principal }) => {
      const { key, options, replace } = readAddition(body)
      if (isConfigured(key))
        throw fault('request_invalid', `"${key}" is a source of the configuration, which wins.`)
      const done = await store.put({ key, options, replace, addedBy: principal.id, addedMs: clock.nowMs() })
      if (done === 'exists')
        throw fault(
          'request_invalid',
          `There is a source "${key}". Send "replace": true to put this in its place.`,
        )
      await sources.sync()
      await sources.firstReading(key)
      return jsonReply(201, {
        source:
          sources
            .status()
            .filter((source) => source.key === key)
            .map(renderSource)[0] ?? null,
      })
    }),
    route('DELETE', '/admin/sources/:key', async ({ params, principal }) => {
      const key = params.key ?? ''
      if (isConfigured(key))
        throw fault('request_invalid', `"${key}" is a source of the configuration: take it out there.`)
      const removed = await store.remove({ key, by: principal.id, atMs: clock.nowMs() })
      if (!removed) throw unknown(key)
      await sources.sync()
      return jsonReply(200, { key, removed: true })
    }),
    route('POST', '/admin/sources/:key/refresh', async ({ params }) => {
      const key = params.key ?? ''
      if (!(await sources.refresh(key))) throw unknown(key)
      return jsonReply(200, {
        source:
          sources
            .status()
            .filter((source) => source.key === key)
            .map(renderSource)[0] ?? null,
      })
    }),
  ]
}

function unknown(key: string) {
  return fault('request_invalid', `There is no source "${key}".`)
}

function readAddition(body: JsonValue | undefined) {
  if (!isJsonObject(body)) throw fault('request_invalid', 'Send { "key": "Name", "options": { "type": … } }.')
  const { key, options, replace = false } = body
  if (typeof key !== 'string' || !KEY.test(key))
    throw fault('request_invalid', '"key" must be 1 to 64 letters, digits and "_".')
  const parsed = SOURCE_OPTIONS.safeParse(options)
  if (!parsed.success || !isJsonObject(options)) {
    const said = parsed.error?.issues.map(({ path, message }) => `${path.join('.')}: ${message}`) ?? [
      'is no object',
    ]
    throw fault('request_invalid', `"options" cannot be used: ${said.join('; ')}`)
  }
  return { key, options, replace: replace === true }
}

/** A source as operators see it. */
function renderSource(source: SourceView) {
  return {
    key: source.key,
    type: source.type,
    kind: source.kind,
    state: source.state,
    reason: source.reason ?? null,
    tools: source.tools,
    offered: source.offered ?? null,
    waiting: source.waiting,
    read_at: source.readAtMs === undefined ? null : new Date(source.readAtMs).toISOString(),
    warnings: source.warnings,
    oddities: source.oddities.map(({ toolId, problem }) => ({ tool: toolId, problem })),
    left_out: source.findings.map(({ toolId, problem, fix }) => ({ tool: toolId, problem, fix })),
  }
}

const SCOPE = 'admin:pins'
const NO_STORE = { 'cache-control': 'no-store' }

/** Pinned definitions over HTTP: for the start token, and for the scope `admin:pins`. */
export function createPinRoutes(pins: Pins, access: OperatorAccess): readonly ServerRoute[] {
  const handled = (handle: (request: HttpRequest) => Promise<HttpReply>) => {
    return async (request: HttpRequest): Promise<HttpReply> => {
      requireServerScope(request.principal, SCOPE, access)
      return await handle(request)
    }
  }
  const list = async ({ query }: HttpRequest): Promise<HttpReply> => {
    const all = await pins.list(query.get('source') ?? undefined)
    const shown = query.get('waiting') === 'true' ? all.filter(({ waiting }) => waiting !== undefined) : all
    return jsonReply(200, { pins: shown.map(renderPin) }, NO_STORE)
  }
  const diff = async ({ params }: HttpRequest): Promise<HttpReply> =>
    jsonReply(200, await diffOf(pins, toolOf(params)), NO_STORE)
  const decide = (verb: 'accept' | 'reject') => {
    return async ({ params, body, principal }: HttpRequest): Promise<HttpReply> => {
      const tool = toolOf(params)
      const { hash } = readBody(body, ['hash'])
      if (hash !== undefined && typeof hash !== 'string') throw wrong('`hash` is a text.')
      const answer = { by: principal.id, ...(hash === undefined ? {} : { hash }) }
      checkDecided(await pins[verb](tool, answer), tool)
      return jsonReply(200, await diffOf(pins, tool))
    }
  }
  const acceptAll = async ({ body, principal }: HttpRequest): Promise<HttpReply> => {
    const { source, suspicious = false } = readBody(body, ['source', 'suspicious'])
    if (typeof source !== 'string' || typeof suspicious !== 'boolean') {
      throw wrong('Send `{ "source": KEY }`, and `"suspicious": true` to let in suspicious changes too.')
    }
    return jsonReply(200, { accepted: await pins.acceptAll(source, { by: principal.id, suspicious }) })
  }
  const shared = {
    access: 'authenticated',
    authenticate: access.authenticate,
    refuse: refuseWithMessage,
  } as const
  return [
    { ...shared, method: 'GET', path: '/admin/pins', body: 'never', handle: handled(list) },
    { ...shared, method: 'GET', path: '/admin/pins/:tool', body: 'never', handle: handled(diff) },
    { ...shared, method: 'POST', path: '/admin/pins/accept', body: 'json', handle: handled(acceptAll) },
    {
      ...shared,
      method: 'POST',
      path: '/admin/pins/:tool/accept',
      body: 'json',
      handle: handled(decide('accept')),
    },
    {
      ...shared,
      method: 'POST',
      path: '/admin/pins/:tool/reject',
      body: 'json',
      handle: handled(decide('reject')),
    },
  ]
}

/** Sources serve every tenant, so one tenant's own operator does not decide about them. */
async function diffOf(pins: Pins, tool: string) {
  const diff = await pins.diff(tool)
  if (diff === undefined) throw httpFault(404, unknownPin(tool))
  return renderPinDiff(diff)
}

/** Throws unless it was decided; in words for whoever wanted it. */
export function checkDecided(decided: PinDecided, tool: string): void {
  switch (decided) {
    case 'decided':
      return
    case 'not_found':
      throw httpFault(404, unknownPin(tool))
    case 'not_waiting':
      throw httpFault(
        400,
        `Nothing waits for a decision about ${tool}: what the upstream offers is what is served.`,
      )
    case 'other_hash':
      throw httpFault(
        400,
        `Another change than the one you looked at waits for ${tool}. Look again: collet pins diff ${tool}`,
      )
  }
}

export function unknownPin(tool: string): string {
  return `No tool ${tool} is pinned; collet pins list shows those that are.`
}

function toolOf(params: Readonly<Record<string, string | undefined>>): string {
  return params.tool ?? ''
}

function readBody(body: JsonValue | undefined, members: readonly string[]): JsonObject {
  if (!isJsonObject(body)) throw wrong('Send a JSON object.')
  const stranger = Object.keys(body).find((name) => !members.includes(name))
  if (stranger !== undefined)
    throw wrong(`Only ${members.map((name) => `\`${name}\``).join(' and ')} may be sent.`)
  return body
}

function wrong(message: string): Error {
  return fault('request_invalid', message)
}

/** A pinned tool on the wire of operators. */
export function renderPin(view: PinView) {
  const { waiting } = view
  return {
    source: view.source,
    tool: view.tool,
    native_name: view.nativeName,
    state: view.state,
    version: view.version ?? null,
    hash: view.hash ?? null,
    accepted_by: view.acceptedBy ?? null,
    accepted_at: momentOf(view.acceptedAtMs),
    waiting:
      waiting === undefined
        ? null
        : {
            kind: waiting.kind,
            class: waiting.class,
            reasons: waiting.reasons,
            hash: waiting.hash,
            renamed_from: waiting.renamedFrom ?? null,
            seen_at: momentOf(waiting.seenAtMs),
            rejected_by: waiting.rejectedBy ?? null,
          },
  }
}

export function renderPinDiff(diff: PinDiff) {
  return {
    ...renderPin(diff),
    next_version: diff.nextVersion ?? null,
    differences: diff.differences.map(renderDifference),
  }
}

function renderDifference({ where, class: found, says, before, after }: Difference) {
  return {
    where,
    class: found,
    says,
    ...(before === undefined ? {} : { before }),
    ...(after === undefined ? {} : { after }),
  }
}

function momentOf(atMs: number | undefined): string | null {
  return atMs === undefined ? null : new Date(atMs).toISOString()
}
