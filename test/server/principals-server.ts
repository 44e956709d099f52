import { rmSync } from 'node:fs'
import { z } from 'zod'
import type { Settings } from '#config/settings'
import { Secret } from '#kernel/base/secret'
import { requireTools } from '#kernel/tool/prepare-tools'
import { type RunningServer, startServer } from '#server/start-server'
import { httpSend } from '../conformance/http-send.ts'
import { sqliteSettings, testSettings } from '../test-settings.ts'

export const TOOLS = requireTools([
  { ...tool('Open.Say@1.0.0'), policy: { safetyTier: 'pure', replay: 'deterministic' } },
  { ...tool('Mail.Send@1.0.0'), policy: { safetyTier: 'write', scopes: ['mail:send'] } },
  { ...tool('Mail.Send@2.0.0'), policy: { safetyTier: 'write', scopes: ['mail:send'] } },
  { ...tool('Files.Read@1.0.0'), policy: { safetyTier: 'read', scopes: ['fs:home:read'] } },
  {
    ...tool('Note.Keep@1.0.0'),
    policy: { safetyTier: 'write', scopes: ['notes:keep'] },
    session: { open: () => ({ count: 0 }) },
  },
])

function tool(id: string) {
  return { id, description: `Does ${id}.`, input: z.object({}), output: z.string(), run: () => 'done' }
}

export const key = (id: string, scopes: string[], more: object = {}) => ({
  id,
  key: new Secret(`k-${id}`),
  tenant: 'acme',
  scopes,
  ...more,
})

export interface Asking {
  readonly method?: string
  readonly key?: string
  readonly headers?: Record<string, string>
  readonly body?: unknown
}

export interface PrincipalsServer extends RunningServer {
  readonly settings: Settings
  ask(path: string, asking?: Asking): Promise<Answer>
  stop(): Promise<void>
}

export interface Answer {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly text: string
  // biome-ignore lint/suspicious/noExplicitAny: tests look into arbitrary JSON
  readonly json: any
}

export async function startPrincipalsServer(
  changes: Partial<Settings> = {},
  store: 'memory' | 'sqlite' = 'memory',
): Promise<PrincipalsServer> {
  const make = store === 'memory' ? testSettings : sqliteSettings
  const settings = make({ tools: TOOLS, ...changes })
  const server = await startServer(settings, { graceMs: 0 })
  const send = httpSend(server.url)
  return {
    ...server,
    settings,
    async ask(path, { method = 'GET', key: credential, headers = {}, body } = {}) {
      const answer = await send({
        method,
        path,
        headers: {
          ...(credential === undefined ? {} : { authorization: `Bearer ${credential}` }),
          ...(body === undefined ? {} : { 'content-type': 'application/json' }),
          ...headers,
        },
        body: body === undefined ? undefined : JSON.stringify(body),
      })
      return { ...answer, json: parse(answer.text) }
    },
    async stop() {
      await server.close()
      rmSync(settings.dataFolder, { recursive: true })
    },
  }
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** An answer without the parts that differ each time: the clock, the trace and ids created by the server. */
export function wholeOf({ status, headers, text }: Answer): object {
  const { date: _date, traceparent: _trace, 'collet-call-id': callId = '', ...others } = headers
  return { status, headers: others, text: callId === '' ? text : text.replaceAll(callId, '') }
}
