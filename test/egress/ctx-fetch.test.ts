import { rmSync } from 'node:fs'
import { afterEach, describe, expect, it } from 'vitest'
import { z } from 'zod'
import type { Settings } from '#config/settings'
import { isToolError } from '#kernel/base/errors'
import { Secret } from '#kernel/base/secret'
import { type DefinedTool, tool } from '#kernel/tool/define'
import { requireTools } from '#kernel/tool/prepare-tools'
import type { SafetyTier } from '#kernel/tool/tool'
import { startServer } from '#server/start-server'
import { egressTo, testSettings } from '../test-settings.ts'
import { startSite } from './local-site.ts'

const closing: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const close of closing.splice(0).toReversed()) await close()
})

function asking(safetyTier: SafetyTier = 'read'): DefinedTool {
  return tool({
    id: 'Web.Ask@1.0.0',
    description: 'Asks a URL.',
    input: z.object({ url: z.string().describe('Where.') }),
    output: z.string(),
    policy: { safetyTier, replay: 'non-deterministic', egress: 'safe-fetch' },
    run: async ({ url }, { fetch }) => await (await fetch(url)).text(),
  })
}

async function start(definition: DefinedTool, changes: Partial<Settings> = {}) {
  const settings = testSettings({ tools: requireTools([definition]), ...changes })
  const server = await startServer(settings, { graceMs: 0 })
  closing.push(async () => {
    await server.close()
    rmSync(settings.dataFolder, { recursive: true })
  })
  const call = async (url: string, headers: Record<string, string> = {}) => {
    const response = await fetch(`${server.url}/tools/call`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      body: JSON.stringify({ request: { tool_id: 'Web.Ask', input: { url } } }),
    })
    return { code: response.headers.get('collet-error-code'), json: JSON.parse(await response.text()) }
  }
  return { server, call }
}

async function startUpstream() {
  const site = await startSite((_visit, response) => response.end('hello'))
  closing.push(site.close)
  return { site, url: `http://127.0.0.1:${site.port}/` }
}

describe('ctx.fetch', () => {
  it('OWP-80: reaches nothing local unless the operator allows it', async () => {
    const { site, url } = await startUpstream()
    const closed = await start(asking())
    const refused = await closed.call(url)
    expect(refused.code).toBe('egress_denied')
    expect(refused.json.result.error.message).not.toMatch(/127|loopback/)
    expect(refused.json.result.error.developer_message).toMatch(/ssrf_blocked/)
    expect(site.connections()).toBe(0)
    const open = await start(asking(), { egress: egressTo(`127.0.0.1:${site.port}`) })
    expect((await open.call(url)).json).toMatchObject({ result: { value: 'hello' } })
  })

  it('rule 33: never reaches the server itself, whatever is allowed', async () => {
    const changes = testSettings({ egress: egressTo('127.0.0.0/8', 'localhost', '::1') })
    const { server, call } = await start(asking(), {
      egress: changes.egress,
      server: { ...changes.server, metricsPort: 0 },
    })
    const ports = [server.url, server.metricsUrl ?? ''].map((url) => new URL(url).port)
    for (const host of ['127.0.0.1', 'localhost', '127.1', '127.0.0.9', '[::1]']) {
      for (const port of ports) {
        const { code, json } = await call(`http://${host}:${port}/metrics`)
        expect(code).toBe('egress_denied')
        expect(json.result.error.developer_message).toContain('it is a listener of this server')
      }
    }
  })

  it('OWP-82: discovery shows the guard and its limits', async () => {
    const egress = { ...egressTo(), maxResponseBytes: 2048, timeoutMs: 1500 }
    const { server } = await start(asking(), { egress })
    const response = await fetch(`${server.url}/.well-known/openwop`)
    const document: unknown = await response.json()
    expect(document).toMatchObject({
      httpClient: { supported: true, ssrfGuard: true, maxResponseBodyBytes: 2048, requestTimeoutMs: 1500 },
    })
  })

  it('OWP-85: a received credential is not sent out', async () => {
    const { site, url } = await startUpstream()
    const key = 'k-alice-0123456789-0123456789-0123'
    const auth = {
      apiKeys: [{ id: 'alice', key: new Secret(key), tenant: 'default', scopes: [] }],
      jwt: undefined,
    }
    const { call } = await start(asking(), { auth, egress: egressTo('127.0.0.1') })
    for (const headers of [
      { authorization: `Bearer ${key}` },
      { 'oxp-api-key': key },
      { 'x-api-key': key },
    ]) {
      const { json } = await call(url, {
        ...headers,
        cookie: 'session=s3cret',
        'proxy-authorization': 'Basic cHJveHk=',
      })
      expect(json).toMatchObject({ result: { value: 'hello' } })
    }
    expect(site.visits).toHaveLength(3)
    for (const visit of site.visits) {
      expect(JSON.stringify(visit)).not.toMatch(/k-alice|s3cret|cHJveHk|alice/)
      expect(Object.keys(visit.headers).sort()).toEqual([
        'accept',
        'accept-encoding',
        'connection',
        'host',
        'traceparent',
        'user-agent',
      ])
    }
  })

  it.each([
    ['read', true],
    ['write', false],
  ] as const)('rule 9: a %s tool whose request was not sent can be retried: %s', async (tier, canRetry) => {
    const gone = await startSite(() => undefined)
    await gone.close()
    const { call } = await start(asking(tier), { egress: egressTo('127.0.0.1') })
    const { code, json } = await call(`http://127.0.0.1:${gone.port}/`)
    expect(code).toBe('upstream_failed')
    expect(json.result.error.can_retry ?? false).toBe(canRetry)
  })

  it('ends with the signal of a Request of the tool’s own', async () => {
    const site = await startSite(() => abort.abort(new DOMException('enough', 'AbortError')))
    closing.push(site.close)
    const abort = new AbortController()
    const definition = tool({
      id: 'Web.Ask@1.0.0',
      description: 'Asks a URL.',
      input: z.object({ url: z.string().describe('Where.') }),
      output: z.string(),
      run: async ({ url }, { fetch }) =>
        await fetch(new Request(url, { signal: abort.signal })).then(
          () => 'answered',
          (error: unknown) => String(error),
        ),
    })
    const { call } = await start(definition, { egress: egressTo('127.0.0.1') })
    const { json } = await call(`http://127.0.0.1:${site.port}/`)
    expect(json.result.value).toBe('AbortError: enough')
  })

  it('throws an error that the tool can read', async () => {
    const seen: unknown[] = []
    const definition = tool({
      id: 'Web.Ask@1.0.0',
      description: 'Asks a URL.',
      input: z.object({ url: z.string().describe('Where.') }),
      output: z.string(),
      run: async ({ url }, { fetch }) => {
        await fetch(url).catch((error: unknown) => seen.push(isToolError(error) && error.code))
        return 'done'
      },
    })
    const { call } = await start(definition)
    await call('http://169.254.169.254/latest/meta-data/')
    expect(seen).toEqual(['egress_denied'])
  })
})
