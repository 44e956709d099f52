import { readFileSync } from 'node:fs'
import { Ajv2020 } from 'ajv/dist/2020.js'
import { expect } from 'vitest'
import type { Settings } from '#config/settings'
import type { WireRunEvent } from '#protocols/openwop/wire'
import type { StartOptions } from '#server/start-server'
import { NO_LIMITS } from '#stages/limits/settings'
import type { testSettings } from '../test-settings.ts'
import { KEYS, TWO_TENANTS } from './openwop-fixtures.ts'
import { type OpenwopAnswer, type OpenwopServer, startOpenwopServer } from './openwop-server.ts'
import { runTools } from './run-tools.ts'

const ajv = new Ajv2020({ strict: false, validateFormats: false })
const schemaFile = new URL('../../docs/internals/specs/data/run-event.schema.json', import.meta.url)
const validateEvent = ajv.compile(JSON.parse(readFileSync(schemaFile, 'utf8')))

export interface Caller {
  readonly key?: string
  readonly run?: string
  readonly session?: string
  readonly headers?: Record<string, string>
  /** The idempotency key. */
  readonly id?: string
}

export interface RunServer extends OpenwopServer {
  /** Actions of the tools, in order. */
  readonly done: string[]
  readonly hung: { readonly asked: number; readonly letGo: number }
  /** A call over OTC, on any of its paths. */
  otc(tool: string, input?: object, caller?: Caller & { readonly path?: string }): Promise<OpenwopAnswer>
  /** A call over OpenTool. */
  opentool(name: string, input?: object, caller?: Caller): Promise<OpenwopAnswer>
  /** All events of a run so far; each valid, in order and without gaps (OWP-99). */
  events(runId: string, key?: string): Promise<readonly WireRunEvent[]>
  /** `POST /v1/sessions`. */
  open(body: unknown, key?: string): Promise<OpenwopAnswer>
}

const JSON_BODY = { 'content-type': 'application/json' }

/** A complete server with tools that record their actions. Two more principals share the first one's tenant. */
export async function startRunServer(
  options: StartOptions & {
    readonly settingsOf?: typeof testSettings
    readonly hooks?: Settings['hooks']
    readonly limits?: Settings['limits']
    readonly budgets?: Settings['budgets']
  } = {},
): Promise<RunServer> {
  const { hooks = {}, limits = NO_LIMITS, budgets = [], ...start } = options
  const { tools, done, hung } = runTools()
  const server = await startOpenwopServer({ tools, auth: TWO_TENANTS, hooks, limits, budgets }, start)
  const index = ({ run, session, headers }: Caller) => ({
    ...JSON_BODY,
    ...(run === undefined ? {} : { 'collet-run': run }),
    ...(session === undefined ? {} : { 'collet-session': session }),
    ...headers,
  })
  return {
    ...server,
    done,
    hung,
    otc(tool, input = {}, caller = {}) {
      const { key = KEYS.root, id, path = '/tools/call' } = caller
      const request = { tool_id: tool, input, ...(id === undefined ? {} : { call_id: id }) }
      return server.ask(path, {
        key,
        method: 'POST',
        headers: index(caller),
        body: JSON.stringify({ request }),
      })
    },
    opentool(name, input = {}, caller = {}) {
      const { key = KEYS.root, id } = caller
      return server.ask('/opentool/call', {
        key,
        method: 'POST',
        headers: { ...index(caller), ...(id === undefined ? {} : { 'idempotency-key': id }) },
        body: JSON.stringify({ jsonrpc: '2.0', method: name, params: input, id: 1 }),
      })
    },
    async events(runId, key = KEYS.root) {
      const path = `/v1/runs/${encodeURIComponent(runId)}/events/poll`
      const events: WireRunEvent[] = []
      for (;;) {
        const { status, json } = await server.ask(`${path}?lastSequence=${events.length - 1}`, { key })
        expect(status).toBe(200)
        if (json.events.length === 0) break
        events.push(...json.events)
      }
      expectWellFormed(events, runId)
      return events
    },
    open: (body, key = KEYS.root) =>
      server.ask('/v1/sessions', { key, method: 'POST', headers: JSON_BODY, body: JSON.stringify(body) }),
  }
}

/** The run that an answer names. */
export function runOf({ headers }: OpenwopAnswer): string {
  return decodeURIComponent(headers['collet-run'] ?? '')
}

export function typesOf(events: readonly WireRunEvent[]): readonly string[] {
  return events.map(({ type, payload: { outcome, status } }) =>
    [type, outcome ?? status].filter(Boolean).join(' '),
  )
}

export function expectWellFormed(events: readonly WireRunEvent[], runId: string): void {
  for (const event of events) {
    if (!validateEvent(event)) expect(ajv.errorsText(validateEvent.errors)).toBe('')
    expect(event.runId).toBe(runId)
    expect(new Date(event.timestamp).toISOString()).toBe(event.timestamp)
  }
  expect(events.map(({ sequence }) => sequence)).toEqual(events.map((_, index) => index))
  expect(new Set(events.map(({ eventId }) => eventId)).size).toBe(events.length)
}
