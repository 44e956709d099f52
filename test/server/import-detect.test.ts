import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type RequestListener } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js'
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js'
import { describe, expect, it, onTestFinished } from 'vitest'
import { Secret } from '#kernel/base/secret'
import { type DetectOptions, detectFile, detectUrl, foundCommand, suggestKey } from '#server/import/detect'
import { createImportFetch } from '#server/import/preview'
import { recognizeDocument } from '#server/import/probe'
import { sampleTool } from '../contracts/samples.ts'
import { startUpstream } from '../sources/upstream.ts'

async function detect(url: string, options: Partial<DetectOptions> = {}) {
  const send = createImportFetch(url)
  onTestFinished(() => send.close())
  const steps: string[] = []
  const detection = await detectUrl(url, {
    send,
    apiKey: undefined,
    signal: new AbortController().signal,
    onStep: (text) => steps.push(text),
    ...options,
  })
  return { ...detection, steps }
}

async function serve(listener: RequestListener): Promise<string> {
  const server = createServer(listener)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  const address = server.address()
  return `http://127.0.0.1:${typeof address === 'object' ? address?.port : 0}`
}

/** Serves texts by path; 404 for everything else. */
function serveTexts(texts: Readonly<Record<string, string>>): Promise<string> {
  return serve((request, response) => {
    const text = texts[request.url ?? '']
    response.writeHead(text === undefined ? 404 : 200).end(text ?? '')
  })
}

/** The official server on its own transport. */
function serveMcp(isJson: boolean): Promise<string> {
  return serve(async (request, response) => {
    if (request.url !== '/mcp') return response.writeHead(404).end()
    const server = new McpServer({ name: 'weather-server', version: '1.0.0' })
    server.registerTool('now', { description: 'Now.' }, () => ({ content: [] }))
    const transport = new StreamableHTTPServerTransport({
      sessionIdGenerator: () => 'session-1',
      enableJsonResponse: isJson,
    })
    response.on('close', () => void transport.close())
    await server.connect(transport)
    return await transport.handleRequest(request, response)
  })
}

const OPENAPI = JSON.stringify({
  openapi: '3.1.0',
  info: { title: 'Pet Store API', version: '1' },
  paths: {},
})

describe('detecting the kind of an address', () => {
  it('an OTC server, also by its list', async () => {
    const { url } = await startUpstream({ tools: [sampleTool('Math.Add@1.0.0', () => 1)] })
    const { found, steps } = await detect(url)
    expect(found).toMatchObject({
      type: 'otc',
      options: { type: 'otc', url },
      what: 'an OTC server (otc-1.0)',
    })
    expect(steps.at(-1)).toBe(`Asking ${url} for OTC`)
    expect((await detect(`${url}/tools`)).found?.options).toEqual({ type: 'otc', url })
  })

  it('an OpenTool server, by its path or when only OpenTool is requested', async () => {
    const { url } = await startUpstream({ tools: [sampleTool('Math.Add@1.0.0', () => 1)] })
    expect((await detect(`${url}/opentool`)).found).toMatchObject({
      type: 'opentool',
      options: { type: 'opentool', url: `${url}/opentool` },
      name: 'Collet',
    })
    expect((await detect(url, { only: 'opentool' })).found?.options).toEqual({ type: 'opentool', url })
  })

  it('a server that requires a key, with the key', async () => {
    const key = { id: 'us', key: new Secret('k-us'), tenant: 'default', scopes: [] }
    const { url } = await startUpstream({ auth: { apiKeys: [key], jwt: undefined } })
    const { found, seen } = await detect(url, { only: 'otc' })
    expect(found).toBeUndefined()
    expect(seen.join()).toMatch(/credential/i)
    expect((await detect(url, { apiKey: 'k-us' })).found?.options).toEqual({
      type: 'otc',
      url,
      apiKey: 'k-us',
    })
  })

  it.each([true, false])('an MCP server, answering as JSON: %s', async (isJson) => {
    const url = await serveMcp(isJson)
    const expected = {
      type: 'mcp',
      options: { type: 'mcp', url: `${url}/mcp` },
      what: 'an MCP server (2025-11-25)',
      name: 'weather-server',
    }
    expect((await detect(`${url}/mcp`)).found).toMatchObject(expected)
    expect((await detect(url)).found).toMatchObject(expected)
  })

  it('an MCP server behind a sign-in', async () => {
    const url = await serve((_, response) => {
      response
        .writeHead(401, { 'www-authenticate': 'Bearer resource_metadata="https://x.example/.well-known"' })
        .end()
    })
    expect((await detect(`${url}/mcp`)).found).toMatchObject({
      type: 'mcp',
      notes: [expect.stringContaining('authorization')],
    })
  })

  it.each([
    ['JSON', OPENAPI, 'an OpenAPI 3.1.0 document'],
    ['YAML', 'swagger: "2.0"\ninfo:\n  title: Pet Store API\n', 'a Swagger 2.0 document'],
  ])('an OpenAPI document in %s, there or in one of the usual places', async (_title, text, what) => {
    const url = await serveTexts({ '/spec': text, '/openapi.json': text })
    expect((await detect(`${url}/spec`)).found).toMatchObject({
      type: 'openapi',
      options: { type: 'openapi', url: `${url}/spec` },
      what,
      name: 'Pet Store API',
    })
    expect((await detect(url)).found?.options).toEqual({ type: 'openapi', url: `${url}/openapi.json` })
  })

  it('an openwop host, which cannot be called from outside', async () => {
    const url = await serveTexts({
      '/.well-known/openwop': JSON.stringify({ supportedEnvelopes: [], implementation: { name: 'other' } }),
    })
    const { found, seen } = await detect(url)
    expect(found).toBeUndefined()
    expect(seen.at(-1)).toContain('is an openwop host (other)')
  })

  it('a web page is no known kind', async () => {
    const url = await serve((_, response) => response.setHeader('content-type', 'text/html').end('<p>hi'))
    expect((await detect(url)).found).toBeUndefined()
  })

  it('rule 33: the entered host may be local, but redirects to no other host', async () => {
    let hits = 0
    const inner = await serve((_, response) => {
      hits += 1
      response.end(OPENAPI)
    })
    const outer = await serve((_, response) => response.writeHead(302, { location: inner }).end())
    const { found, seen } = await detect(outer)
    expect([found, hits]).toEqual([undefined, 0])
    expect(seen.join()).toContain('127.0.0.1')
  })

  it('ends with its signal', async () => {
    await expect(
      detect('http://127.0.0.1:1', { signal: AbortSignal.abort(new Error('stop')) }),
    ).rejects.toThrow('stop')
  })
})

describe('detecting the kind of a file', () => {
  function fileOf(text: string): string {
    const folder = mkdtempSync(join(tmpdir(), 'collet-import-'))
    onTestFinished(() => rmSync(folder, { recursive: true }))
    const file = join(folder, 'file')
    writeFileSync(file, text)
    return file
  }

  it.each([
    ['an OpenAPI document', OPENAPI, 'openapi'],
    [
      'an OpenTool document with its server',
      '{"opentool":"1.1.0","info":{"title":"x","version":"1"},"server":{"url":"https://x.example"},"functions":[]}',
      'opentool',
    ],
  ])('%s', async (_title, text, type) => {
    expect((await detectFile(fileOf(text))).found?.type).toBe(type)
  })

  it('rule 33: an OpenTool document allows requests to its own host only', () => {
    const document = { opentool: '1.1.0', server: { url: 'http://127.0.0.1:80' } }
    const optionsAt = (index: { url: string } | { file: string }) => {
      const look = recognizeDocument(document, index)
      return look.kind === 'found' ? look.source.options : look.kind
    }
    const url = 'http://127.0.0.1/opentool'
    expect(optionsAt({ file: '/a.json' })).toEqual({ type: 'opentool', url, document: '/a.json' })
    const own = 'http://127.0.0.1/a.json'
    expect(optionsAt({ url: own })).toEqual({ type: 'opentool', url, document: own })
    const foreign = 'https://x.example/a.json'
    expect(optionsAt({ url: foreign })).toEqual({ type: 'opentool', document: foreign })
  })

  it.each([
    [
      'an OpenTool document without one',
      '{"opentool":"1.1.0"}',
      'does not contain the address of its server',
    ],
    ['other JSON', '{"a":1}', 'is not an OpenAPI'],
    ['a program', '#!/usr/bin/env node\nconst a = { b: [', 'collet import -- node'],
  ])('not %s', async (_title, text, expected) => {
    const { found, seen } = await detectFile(fileOf(text))
    expect(found).toBeUndefined()
    expect(seen[0]).toContain(expected)
  })
})

describe('the key of an import', () => {
  it.each([
    [{ name: 'Pet Store API', options: {} }, 'PetStore'],
    [{ name: "GitHub's official OpenAPI spec + Octokit extension", options: {} }, 'GitHub'],
    [
      { name: 'Orders, invoices and shipments of all the shops', options: {} },
      'OrdersInvoicesAndShipmentsAll',
    ],
    [{ options: { url: 'https://api.weather.gov/openapi.json' } }, 'WeatherGov'],
    [{ options: { url: 'http://127.0.0.1:4100' } }, 'Imported'],
    [{ name: 'каталог', options: { url: 'https://mcp.example.com' } }, 'Example'],
  ])('of %j is %s', (found, key) => {
    expect(suggestKey(found)).toBe(key)
  })

  it.each([
    [['npx', '-y', '@modelcontextprotocol/server-filesystem@2026.1.1', '/data'], 'Filesystem'],
    [['node', './tools/tide-tables.mjs'], 'TideTables'],
    [['/opt/bin/weather'], 'Weather'],
  ])('of the program %j is %s', (words, key) => {
    expect(suggestKey(foundCommand(words, '/x'))).toBe(key)
  })
})

it('shows an address without user, password and query, and requests the paths below it with its query', async () => {
  const asked: string[] = []
  const url = await serve((request, response) => {
    asked.push(request.url ?? '')
    response.writeHead(404).end()
  })
  const secret = new URL('/files?key=canary-query', url)
  const { found, seen, steps } = await detect(secret.href)
  expect(found).toBeUndefined()
  expect(JSON.stringify([seen, steps])).not.toContain('canary')
  expect(steps).toContain(`Asking ${url}/files/mcp for MCP`)
  expect(asked).toContain('/files/mcp?key=canary-query')
  expect(asked).toContain('/files/openapi.json?key=canary-query')
})

it('shows no user and password of an unreachable address', async () => {
  const url = await serveTexts({})
  const { seen, steps } = await detect(url.replace('//', '//ann:canary@'))
  expect(seen.length).toBeGreaterThan(0)
  expect(JSON.stringify([seen, steps])).not.toContain('canary')
})
