import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import type { ColletConfig } from '#config/collet-config'
import { tool } from '#core/define-tool'
import { serve } from '#server/create-gateway'
import { httpSend } from './http-send.ts'

const TOOL_ID = 'openwop:Calculator.Add'
const PATHS = ['/v1/tools', `/v1/tools/${encodeURIComponent(TOOL_ID)}`]

const add = tool({
  id: 'Calculator.Add@1.0.0',
  description: 'Adds.',
  input: { type: 'object', properties: { a: { type: 'number', description: 'One.' } } },
  output: { type: 'number' },
  run: () => 1,
})

interface Answer {
  readonly status: number
  // biome-ignore lint/suspicious/noExplicitAny: tests look into arbitrary JSON
  readonly json: any
}

type Ask = (path: string, method?: string) => Promise<Answer>

/** A whole server from a config that says this about openwop, asked over a socket. */
async function withConfig(
  openwop: ColletConfig['openwop'],
  look: (ask: Ask) => Promise<void>,
): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'collet-openwop-'))
  const config: ColletConfig = {
    tools: [add],
    server: { port: 0 },
    store: 'memory:',
    log: { level: 'silent' },
    ...(openwop === undefined ? {} : { openwop }),
  }
  const server = await serve(config, { folder })
  const send = httpSend(server.url)
  try {
    await look(async (path, method = 'GET') => {
      const { status, text } = await send({ method, path, headers: {}, body: undefined })
      return { status, json: JSON.parse(text) }
    })
  } finally {
    await server.close()
    rmSync(folder, { recursive: true })
  }
}

/** What the discovery document claims, each claim held against the routes. */
async function expectAgreement(ask: Ask): Promise<{ catalog: boolean; compactView: boolean }> {
  const { toolCatalog } = (await ask('/.well-known/openwop')).json
  const catalog = toolCatalog?.supported === true
  const compactView = toolCatalog?.compactView === true
  const { paths } = (await ask('/v1/openapi.json')).json
  expect(Object.keys(paths).some((path) => path.startsWith('/v1/tools'))).toBe(catalog)
  expect(/compact/i.test(JSON.stringify(paths))).toBe(compactView)
  for (const path of PATHS) {
    const standard = await ask(path)
    expect(standard.status).toBe(catalog ? 200 : 404)
    const compact = await ask(`${path}?view=compact`)
    if (compactView) expect(compact.json).not.toEqual(standard.json)
    else expect(compact).toEqual(standard)
    if (!catalog) {
      const { status, json } = await ask(path, 'POST')
      expect([standard.json.error, status, json.error]).toEqual(['not_found', 404, 'not_found'])
    }
  }
  return { catalog, compactView }
}

describe('the openwop switches of a config', () => {
  it.each([
    [undefined, { catalog: true, compactView: true }],
    [{}, { catalog: true, compactView: true }],
    [{ compactView: false }, { catalog: true, compactView: false }],
    [{ catalog: false }, { catalog: false, compactView: false }],
    [
      { catalog: false, compactView: true },
      { catalog: false, compactView: false },
    ],
  ])('OWP-05, OWP-06, OWP-26: with %j the document and the routes agree', async (openwop, served) => {
    await withConfig(openwop, async (ask) => {
      expect(await expectAgreement(ask)).toEqual(served)
    })
  })

  it('OWP-06: without a catalog the other protocols still serve the tools', async () => {
    await withConfig({ catalog: false }, async (ask) => {
      expect((await ask('/tools')).json).toMatchObject({ tools: [{ id: 'Calculator.Add@1.0.0' }] })
    })
  })
})
