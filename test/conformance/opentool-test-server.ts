import { rmSync } from 'node:fs'
import type { Settings } from '#config/settings'
import { Secret } from '#kernel/base/secret'
import { requireTools } from '#kernel/tool/prepare-tools'
import type { OpenToolServing } from '#protocols/opentool/call-routes'
import { startServer } from '#server/start-server'
import { testSettings } from '../test-settings.ts'
import { httpSend } from './http-send.ts'
import { opentoolFixtures } from './opentool-fixtures.ts'
import type { VectorResponse } from './otc-vectors.ts'

export interface OpentoolServerOptions extends OpenToolServing {
  readonly keys?: readonly string[]
  readonly tools?: readonly unknown[]
  readonly settingsOf?: (changes: Partial<Settings>) => Settings
  readonly server?: Partial<Settings['server']>
  readonly opentool?: Partial<Settings['opentool']>
}

export interface Answer extends VectorResponse {
  // biome-ignore lint/suspicious/noExplicitAny: tests look into arbitrary JSON
  readonly json: any
}

const JSON_BODY = { 'content-type': 'application/json' }

/** A real server with the six functions, or others. */
export async function startOpentoolServer(options: OpentoolServerOptions = {}) {
  const {
    keys = [],
    tools = opentoolFixtures(),
    settingsOf = testSettings,
    server: changes,
    opentool: reported,
    ...serving
  } = options
  const settings = settingsOf({
    tools: requireTools(tools),
    auth: {
      apiKeys: keys.map((key) => ({ id: key, key: new Secret(key), tenant: 'default', scopes: [] })),
      jwt: undefined,
    },
  })
  const server = await startServer(
    {
      ...settings,
      server: { ...settings.server, ...changes },
      opentool: { ...settings.opentool, title: 'Calculator', version: '1.2.3', ...reported },
    },
    { graceMs: 0, protocols: { opentool: serving } },
  )
  const send = httpSend(server.url)
  const ask = async (
    method: string,
    path: string,
    sent: { readonly headers?: Record<string, string>; readonly body?: unknown; readonly raw?: string } = {},
  ): Promise<Answer> => {
    const body = sent.raw ?? (sent.body === undefined ? undefined : JSON.stringify(sent.body))
    const headers = { ...(body === undefined ? {} : JSON_BODY), ...sent.headers }
    const response = await send({ method, path, headers, body })
    const isJson = response.headers['content-type']?.startsWith('application/json') && response.text !== ''
    return { ...response, json: isJson ? JSON.parse(response.text) : undefined }
  }
  const call = (method: string, params: unknown, headers: Record<string, string> = {}) =>
    ask('POST', '/opentool/call', { headers, body: { jsonrpc: '2.0', method, params, id: 'c1' } })
  return {
    url: server.url,
    send,
    ask,
    call,
    drain: server.drain,
    async close() {
      await server.close()
      rmSync(settings.dataFolder, { recursive: true })
    },
    async [Symbol.asyncDispose]() {
      await this.close()
    },
  }
}
