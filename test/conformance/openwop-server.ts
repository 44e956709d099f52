import { rmSync } from 'node:fs'
import { expect } from 'vitest'
import type { Settings } from '#config/settings'
import { openwopOpenApi, openwopSettings } from '#protocols/openwop/routes'
import { type StartOptions, startServer } from '#server/start-server'
import { testSettings } from '../test-settings.ts'
import { httpSend } from './http-send.ts'
import { DocumentCheck } from './openapi-check.ts'
import { openwopFixtures, TWO_TENANTS } from './openwop-fixtures.ts'

export interface OpenwopAnswer {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly text: string
  // biome-ignore lint/suspicious/noExplicitAny: tests look into arbitrary JSON
  readonly json: any
}

export interface OpenwopServer {
  readonly url: string
  /** Sends without a key by default; every JSON answer is also checked against the OpenAPI document. */
  ask(path: string, options?: AskOptions): Promise<OpenwopAnswer>
  close(): Promise<void>
}

interface AskOptions {
  readonly key?: string
  readonly method?: string
  readonly headers?: Record<string, string>
  readonly body?: string
  /** For answers that the OpenAPI document leaves to HTTP. */
  readonly isUndocumented?: boolean
}

const openApi = new DocumentCheck(openwopOpenApi(openwopSettings({ serverVersion: '0.0.0-test' })))

/** The complete server with the fixture tools, on a real port. */
export async function startOpenwopServer(
  changes: Partial<Settings> = {},
  options: StartOptions & { readonly settingsOf?: typeof testSettings } = {},
): Promise<OpenwopServer> {
  const { settingsOf = testSettings, ...start } = options
  const settings = settingsOf({ tools: openwopFixtures(), auth: TWO_TENANTS, ...changes })
  const server = await startServer(settings, { graceMs: 0, ...start })
  const send = httpSend(server.url)
  return {
    url: server.url,
    async ask(path, { key, method = 'GET', headers = {}, body, isUndocumented = false } = {}) {
      const credential = key === undefined ? {} : { authorization: `Bearer ${key}` }
      const answer = await send({ method, path, headers: { ...credential, ...headers }, body })
      const isJson =
        answer.headers['content-encoding'] === undefined &&
        answer.headers['content-type'] !== 'text/event-stream' &&
        answer.text !== ''
      if ((isJson || isOfRuns(path)) && (method === 'GET' || isOfRuns(path)) && !isUndocumented) {
        expect(openApi.findings({ method, path: templateOf(path), ...answer })).toEqual([])
      }
      return { ...answer, json: isJson ? JSON.parse(answer.text) : undefined }
    },
    async close() {
      await server.close()
      rmSync(settings.dataFolder, { recursive: true })
    },
  }
}

function templateOf(path: string): string {
  return path
    .replace(/\?.*$/, '')
    .replace(/^\/v1\/tools\/.*$/, '/v1/tools/:toolId')
    .replace(/^\/v1\/runs\/[^/]*/, '/v1/runs/:runId')
    .replace(/^\/v1\/sessions\/.*$/, '/v1/sessions/:sessionId')
    .replace(/^\/v1\/schemas\/.*$/, '/v1/schemas/:name')
}

/** Paths with more methods than GET. */
function isOfRuns(path: string): boolean {
  return /^\/v1\/(?:runs|sessions)\b/.test(path)
}

/** An answer without the parts that differ each time: the clock and the trace. */
export function stablePartsOf({ status, headers, text }: OpenwopAnswer): object {
  const { date: _date, traceparent: _trace, ...others } = headers
  return { status, headers: others, text }
}
