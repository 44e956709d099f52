import { SOURCE_OPTIONS } from '#config/schema'
import { fault } from '#core/errors'
import type { SourceDesk, SourceView } from '#core/imports/sources'
import { isJsonObject, type JsonValue } from '#core/json'
import type { SourceStore } from '#core/ports/import-store'
import type { Clock } from '#core/runtime'
import type { HttpReply, HttpRequest } from '#protocols/http-exchange'
import { jsonReply } from './message-reply.ts'
import { type OperatorAccess, requireServerScope } from './operator-access.ts'
import { refuseWithMessage, type ServerRoute } from './server-route.ts'

const SCOPE = 'admin:sources'
const KEY = /^[A-Za-z0-9_]{1,64}$/

export interface SourceRoutesOptions {
  readonly desk: SourceDesk
  readonly store: SourceStore
  readonly clock: Clock
  /** Whether the configuration has this key: it wins, so the store's would never be used. */
  isConfigured(key: string): boolean
}

/** Sources over HTTP, for the start token and the scope `admin:sources` (rule 29). Options are never shown: they may hold secrets. */
export function createSourceRoutes(
  { desk, store, clock, isConfigured }: SourceRoutesOptions,
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
      requireServerScope(request.principal, SCOPE, access)
      return handle(request)
    },
  })
  return [
    route('GET', '/admin/sources', async () => jsonReply(200, { sources: desk.status().map(renderSource) })),
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
      await desk.sync()
      await desk.firstReading(key)
      return jsonReply(201, {
        source:
          desk
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
      await desk.sync()
      return jsonReply(200, { key, removed: true })
    }),
    route('POST', '/admin/sources/:key/refresh', async ({ params }) => {
      const key = params.key ?? ''
      if (!(await desk.refresh(key))) throw unknown(key)
      return jsonReply(200, {
        source:
          desk
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
export function renderSource(source: SourceView) {
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
