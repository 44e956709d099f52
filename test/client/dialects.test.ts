import { describe, expect, it } from 'vitest'
import { connect } from '#client/index'
import { CLIENT_DIALECTS, type ClientDialect } from '#protocols/otc/codec-client'
import { DIALECT_HANDLERS } from './dialect-handlers.ts'
import { sendJson, startFakeToolServer } from './fake-tool-server.ts'

const INPUT = { a: 10, b: 5 }

function toolIdOf(dialect: ClientDialect): string {
  return dialect === 'uts' ? 'add@1.0.0' : 'Calculator.Add@1.0.0'
}

describe.each(CLIENT_DIALECTS)('a server that speaks only %s', (dialect) => {
  it('C-01, C-02, C-03, C-07, C-08, C-09, C-16: is listed and called without a configured dialect', async () => {
    await using server = await startFakeToolServer(DIALECT_HANDLERS[dialect])
    const client = connect(server.url)
    const [tool] = await client.list()
    expect(tool).toMatchObject({ id: toolIdOf(dialect), version: '1.0.0' })
    expect(tool?.input).toMatchObject({ type: 'object', required: ['a', 'b'] })
    const result = await client.call(toolIdOf(dialect), INPUT)
    expect(result).toMatchObject({ value: 15, toolId: toolIdOf(dialect), retries: 0 })
  })

  it('§3.2 item 5: is called without a list when the dialect is pinned', async () => {
    await using server = await startFakeToolServer(DIALECT_HANDLERS[dialect])
    const result = await connect(server.url, { dialect }).call(toolIdOf(dialect), INPUT)
    expect(result.value).toBe(15)
    expect(server.requests.every(({ method }) => method === 'POST')).toBe(true)
  })
})

describe('call paths', () => {
  it('C-01: the path that worked is remembered', async () => {
    await using server = await startFakeToolServer(DIALECT_HANDLERS.execute)
    const client = connect(server.url)
    await client.call('Calculator.Add@1.0.0', INPUT)
    await client.call('Calculator.Add@1.0.0', INPUT)
    expect(server.requests.map(({ path }) => path)).toEqual([
      '/tools',
      '/tools/call',
      '/call',
      '/tools/execute',
      '/execute',
      '/execute',
    ])
  })

  it('C-01, C-23: a 404 that names a tool is an answer, not a missing path', async () => {
    await using server = await startFakeToolServer(DIALECT_HANDLERS.uts)
    const tried = await connect(server.url).tryCall('add@9.0.0', INPUT)
    expect(tried).toMatchObject({
      ok: false,
      error: { class: 'server', status: 404, message: 'Tool add@9.0.0 not found' },
    })
    expect(server.requests.filter(({ method }) => method === 'POST')).toHaveLength(1)
  })

  it('C-01: a server without any call path is reported', async () => {
    await using server = await startFakeToolServer((request, response) =>
      sendJson(
        response,
        request.path === '/tools' ? 200 : 404,
        request.path === '/tools' ? { items: [] } : {},
      ),
    )
    const tried = await connect(server.url).tryCall('A.B@1.0.0')
    expect(tried).toMatchObject({
      ok: false,
      error: { class: 'server', message: expect.stringContaining('none of the call paths') },
    })
  })

  it('C-08: a base path is kept', async () => {
    await using server = await startFakeToolServer((request, response) => {
      const path = request.path.replace('/uts', '')
      DIALECT_HANDLERS.uts({ ...request, path }, response)
    })
    const result = await connect(`${server.url}/uts/`).call('add@1.0.0', INPUT)
    expect(result).toMatchObject({ value: 15, callId: 'made-by-the-server' })
    expect(server.requests.map(({ path }) => path)).toEqual(['/uts/tools', '/uts/tools/call'])
  })

  it('OTC-08, C-31: GET /tools has no body', async () => {
    await using server = await startFakeToolServer(DIALECT_HANDLERS['oxp-1.0'])
    await connect(server.url).list()
    expect(server.requests[0]).toMatchObject({ method: 'GET', text: '' })
  })

  it('OTC-20: a pinned header dialect names its version when it lists', async () => {
    await using server = await startFakeToolServer(DIALECT_HANDLERS['oxp-header'])
    await connect(server.url, { dialect: 'oxp-header' }).list()
    expect(server.requests[0]?.headers['oxp-version']).toBe('1.0')
  })
})
