import { randomBytes } from 'node:crypto'
import { rmSync } from 'node:fs'
import type { Settings } from '#config/settings'
import { DEFAULT_APPROVAL_RULES } from '#kernel/approval/approvals'
import { Secret } from '#kernel/base/secret'
import { startServer } from '#server/start-server'
import { sampleTool } from '../contracts/samples.ts'
import { testSettings } from '../test-settings.ts'

const key = () => randomBytes(32).toString('hex')

/** All principals of these tests, by API key. */
export const KEYS = {
  alice: key(),
  bob: key(),
  eve: key(),
  mallory: key(),
  stranger: key(),
  auditor: key(),
  reader: key(),
}

export const AUTH: Settings['auth'] = {
  apiKeys: [
    { id: 'alice', key: new Secret(KEYS.alice), tenant: 'acme', scopes: [] },
    { id: 'bob', key: new Secret(KEYS.bob), tenant: 'acme', scopes: ['approvals:respond'] },
    { id: 'eve', key: new Secret(KEYS.eve), tenant: 'acme', scopes: ['approvals:*'] },
    { id: 'mallory', key: new Secret(KEYS.mallory), tenant: 'acme', scopes: ['other:scope'] },
    { id: 'stranger', key: new Secret(KEYS.stranger), tenant: 'rival', scopes: ['approvals:*'] },
    { id: 'auditor', key: new Secret(KEYS.auditor), tenant: 'acme', scopes: ['audit:read'] },
    {
      ...{ id: 'reader', key: new Secret(KEYS.reader), tenant: 'acme' },
      scopes: ['approvals:read', 'admin:calls'],
    },
  ],
  jwt: undefined,
}

export interface Answer {
  readonly status: number
  readonly headers: Headers
  readonly text: string
  // biome-ignore lint/suspicious/noExplicitAny: tests look into arbitrary JSON
  readonly json: any
}

export interface Asking {
  readonly as?: keyof typeof KEYS | undefined
  readonly method?: string
  readonly body?: unknown
  readonly headers?: Record<string, string>
}

/** A server with one tool that needs approval, and one of a tier that no link may decide. */
export async function startApprovalServer(
  changes: Partial<Settings> = {},
  settingsOf: typeof testSettings = testSettings,
) {
  const ran: unknown[] = []
  const run = (input: unknown) => ran.push(input)
  const pay = sampleTool('Bank.Pay@1.0.0', run, { policy: { approval: 'always' } })
  const shell = sampleTool('Host.Shell@1.0.0', run, {
    source: 'host-extension',
    policy: { approval: 'always', safetyTier: 'exec' },
  })
  const settings = settingsOf({
    tools: [pay, shell],
    auth: AUTH,
    approvals: DEFAULT_APPROVAL_RULES,
    // Off, so that start links lead to the approval pages whether or not the console is built in this checkout.
    console: { enabled: false },
    ...changes,
  })
  const server = await startServer(settings, { graceMs: 0 })
  const ask = async (path: string, { as, method, body, headers = {} }: Asking = {}): Promise<Answer> => {
    const response = await fetch(path.startsWith('http') ? path : `${server.url}${path}`, {
      method: method ?? (body === undefined ? 'GET' : 'POST'),
      headers: {
        ...(as === undefined ? {} : { authorization: `Bearer ${KEYS[as]}` }),
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      redirect: 'manual',
    })
    const text = await response.text()
    const isJson = response.headers.get('content-type')?.includes('json') === true
    return {
      status: response.status,
      headers: response.headers,
      text,
      json: isJson ? JSON.parse(text) : undefined,
    }
  }
  const pays = (callId: string | undefined, input: object = { amount: 5 }, asking: Asking = {}) =>
    ask('/tools/call', {
      as: 'alice',
      body: {
        request: {
          tool_id: 'Bank.Pay@1.0.0',
          ...(callId === undefined ? {} : { call_id: callId }),
          input,
        },
      },
      ...asking,
    })
  return {
    url: server.url,
    settings,
    ran,
    ask,
    pay: pays,
    /** Parks a call and returns the answer of its caller. */
    async park(callId: string, input?: object): Promise<{ id: string; runId: string; check: string }> {
      const { json, headers } = await pays(callId, input)
      const { id, check_url: check } = json.missing_requirements.approval
      return { id, runId: headers.get('collet-run') ?? '', check }
    },
    async events(runId: string) {
      const { json } = await ask(`/v1/runs/${runId}/events/poll`, { as: 'alice' })
      return json.events
    },
    /** Ends the server and keeps its data, so that another server can begin with it. */
    stop: () => server.close(),
    async close(): Promise<void> {
      await server.close()
      rmSync(settings.dataFolder, { recursive: true, force: true })
    },
  }
}

export type ApprovalServer = Awaited<ReturnType<typeof startApprovalServer>>
