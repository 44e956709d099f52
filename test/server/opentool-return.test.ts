import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, vi } from 'vitest'
import { tool } from '#kernel/tool/define'
import { serve } from '#server/create-gateway'

it('OTS-38: the return name of an OpenTool server is kept when its functions are re-exported', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'collet-return-'))
  const shared = { server: { port: 0 }, log: { level: 'silent' as const } }
  const add = tool({
    id: 'Calc.Add@1.0.0',
    description: 'Adds.',
    input: { type: 'object', properties: { a: { type: 'number', description: 'A number.' } } },
    output: { type: 'number', title: 'sum' },
    policy: { safetyTier: 'pure', replay: 'deterministic' },
    run: () => 3,
  })
  const upstream = await serve({ ...shared, tools: [add] }, { folder: join(folder, 'far') })
  const egress = { allow: [new URL(upstream.url).host] }
  const sources = { far: { type: 'opentool', url: `${upstream.url}/opentool` } as const }
  const server = await serve({ ...shared, egress, sources }, { folder: join(folder, 'near') })
  try {
    const load = async () => Object(await (await fetch(`${server.url}/opentool/load`)).json())
    const [served] = await vi.waitFor(
      async () => {
        const { functions } = await load()
        expect(functions).toHaveLength(1)
        return functions
      },
      { timeout: 10_000 },
    )
    expect(served.return).toMatchObject({ name: 'sum', schema: { type: 'number' } })
    const body = JSON.stringify({ jsonrpc: '2.0', method: served.name, params: { a: 1 }, id: '1' })
    const headers = { 'content-type': 'application/json' }
    const reply = await fetch(`${server.url}/opentool/call`, { method: 'POST', headers, body })
    expect(await reply.json()).toMatchObject({ result: { sum: 3 } })
  } finally {
    await server.close()
    await upstream.close()
    rmSync(folder, { recursive: true })
  }
})

it('OTS-10: a function without a return value has none when it is re-exported, and its answer is kept', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'collet-return-'))
  const upstream = createServer((request, response) => {
    let body = ''
    request.on('data', (chunk) => {
      body += chunk
    })
    request.on('end', () => {
      const { id, method } = JSON.parse(body)
      const result = method === 'ring' ? {} : { said: 'more' }
      response.setHeader('content-type', 'application/json')
      response.end(JSON.stringify({ jsonrpc: '2.0', id, result }))
    })
  })
  await new Promise<void>((done) => upstream.listen(0, '127.0.0.1', done))
  const address = upstream.address()
  const host = `127.0.0.1:${typeof address === 'object' ? address?.port : ''}`
  const functions = ['ring', 'talk'].map((name) => ({ name, description: 'd', parameters: [], return: null }))
  const info = { title: 'Door', version: '1.0.0' }
  const document = { opentool: '1.1.0', info, server: { url: `http://${host}/opentool` }, functions }
  writeFileSync(join(folder, 'door.json'), JSON.stringify(document))
  const server = await serve(
    {
      server: { port: 0 },
      log: { level: 'silent' },
      egress: { allow: [host] },
      sources: { door: { type: 'opentool', document: 'door.json' } },
    },
    { folder },
  )
  try {
    const tools = await vi.waitFor(
      async () => {
        const { tools: listed } = Object(await (await fetch(`${server.url}/tools`)).json())
        expect(listed).toHaveLength(2)
        return listed
      },
      { timeout: 10_000 },
    )
    expect(tools.map((each: object) => Object(each).output_schema)).toEqual([null, null])
    const load = Object(await (await fetch(`${server.url}/opentool/load`)).json())
    for (const served of load.functions) expect(served).not.toHaveProperty('return')
    const call = async (name: string) => {
      const body = JSON.stringify({ jsonrpc: '2.0', method: name, params: {}, id: '1' })
      const headers = { 'content-type': 'application/json' }
      return Object(
        await (await fetch(`${server.url}/opentool/call`, { method: 'POST', headers, body })).json(),
      )
    }
    expect(await call('door_ring')).toMatchObject({ result: {} })
    expect(JSON.stringify((await call('door_talk')).result)).toContain('more')
  } finally {
    await server.close()
    upstream.close()
    rmSync(folder, { recursive: true })
  }
})
