import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import {
  type Answer,
  key,
  type PrincipalsServer,
  startPrincipalsServer,
  wholeOf,
} from './principals-server.ts'

let server: PrincipalsServer

beforeAll(async () => {
  server = await startPrincipalsServer({
    auth: {
      apiKeys: [
        key('root', ['*']),
        key('narrow', []),
        key('listed', ['*'], { tools: ['openwop:Open.Say', 'openwop:Files.Read'] }),
        key('viewer', [], { roles: ['viewer', 'reader'] }),
        key('ended', ['*'], { expiresAtMs: 1 }),
        key('auditor', ['audit:read']),
        // One principal for each request, because repeated denials of one principal are recorded once.
        ...REQUESTS.map((_way, index) => key(`way-${index}`, [])),
        // Two keys of one principal, one of them with fewer tools.
        { ...key('wide', ['mail:send']), id: 'twin' },
        { ...key('slim', []), id: 'twin' },
      ],
      jwt: undefined,
      roles: new Map([['viewer', { scopes: ['fs:*:read'] }]]),
    },
  })
})

afterAll(() => server.stop())

const CLAIM = {
  'io.modelcontextprotocol/protocolVersion': '2026-07-28',
  'io.modelcontextprotocol/clientInfo': { name: 'test', version: '1.0.0' },
  'io.modelcontextprotocol/clientCapabilities': {},
}

/** Every request that names a tool, on every protocol. */
const REQUESTS: readonly [string, (name: string, credential: string) => Promise<Answer>][] = [
  [
    'OTC call',
    (name, credential) => {
      const body = { $schema: 'urn:oxp:1.0', request: { tool_id: name, call_id: 'c1', input: {} } }
      return server.ask('/tools/call', { method: 'POST', key: credential, body })
    },
  ],
  [
    'OTC call of a version',
    (name, credential) => {
      const body = { $schema: 'urn:oxp:1.0', request: { tool_id: `${name}@1.0.0`, call_id: 'c1', input: {} } }
      return server.ask('/tools/call', { method: 'POST', key: credential, body })
    },
  ],
  [
    'OpenTool call',
    (name, credential) => {
      const body = { jsonrpc: '2.0', method: name.replace('.', '_'), params: {}, id: 'x' }
      return server.ask('/opentool/call', { method: 'POST', key: credential, body })
    },
  ],
  [
    'MCP call',
    (name, credential) => {
      const called = name.replace('.', '_')
      const params = { name: called, arguments: {}, _meta: CLAIM }
      const body = { jsonrpc: '2.0', id: 1, method: 'tools/call', params }
      const headers = { 'mcp-protocol-version': '2026-07-28', 'mcp-method': 'tools/call', 'mcp-name': called }
      return server.ask('/mcp', { method: 'POST', key: credential, headers, body })
    },
  ],
  ['openwop descriptor', (name, credential) => server.ask(`/v1/tools/openwop:${name}`, { key: credential })],
  [
    'openwop session',
    (name, credential) =>
      server.ask('/v1/sessions', { method: 'POST', key: credential, body: { toolId: `openwop:${name}` } }),
  ],
]

/** Both names have equal length, so answers that repeat the name are equal once it is removed. */
const withoutName = (answer: Answer, name: string): object => {
  const form = (text: string) => text.replaceAll(name, '?').replaceAll(name.replace('.', '_'), '?')
  const whole = wholeOf({ ...answer, text: form(answer.text) })
  return JSON.parse(form(JSON.stringify(whole)))
}

describe('a tool that a principal may not call', () => {
  it.each(REQUESTS)(
    'OWP-22, OWP-57, rule 2: gets the answer of an unknown tool, byte for byte, by %s',
    async (_title, ask) => {
      const hidden = ['Mail.Send', 'Note.Keep']
      for (const credential of ['k-narrow', 'k-listed']) {
        for (const name of hidden) {
          const unknown = name.replace('.', '.X').slice(0, name.length)
          const [hiddenAnswer, unknownAnswer] = [await ask(name, credential), await ask(unknown, credential)]
          expect(withoutName(hiddenAnswer, name)).toEqual(withoutName(unknownAnswer, unknown))
          expect(hiddenAnswer.headers['www-authenticate']).toBeUndefined()
        }
      }
    },
  )

  it('OWP-21, OWP-57: is in no list and no document', async () => {
    for (const path of ['/tools', '/v1/tools', '/opentool/load']) {
      const { text } = await server.ask(path, { key: 'k-listed' })
      expect(text).toMatch(/Open.Say/)
      expect(text).toMatch(/Files.Read/)
      expect(text).not.toMatch(/Mail|Note/)
      expect((await server.ask(path, { key: 'k-root' })).text).toMatch(/Mail.Send/)
    }
  })

  it('OWP-60, OWP-61: a role grants its scopes, and an undefined role grants nothing', async () => {
    const { text } = await server.ask('/v1/tools', { key: 'k-viewer' })
    expect(text).toMatch(/Files.Read/)
    expect(text).not.toMatch(/Mail|Note/)
  })

  it('OWP-12: an expired key is refused like a wrong key', async () => {
    const answer = await server.ask('/v1/tools', { key: 'k-ended' })
    expect(wholeOf(answer)).toEqual(wholeOf(await server.ask('/v1/tools', { key: 'k-wrong' })))
    expect(answer.status).toBe(401)
  })

  it('OWP-22: costs the store as many changes as an unknown one, for every caller and number of requests', async () => {
    const one = await startPrincipalsServer(
      { auth: { apiKeys: [key('narrow', []), key('seer', ['metrics:read'])], jwt: undefined } },
      'sqlite',
    )
    // Changes, not commits: how many changes share a commit depends on the load of the machine, not on the tool.
    const changes = async () => {
      const { text } = await one.ask('/metrics', { key: 'k-seer' })
      return Number(/^collet_store_commit_rows_sum (\d+)$/m.exec(text)?.[1])
    }
    const atStart = await changes()
    const ids = ['Mail.Xend', 'Mail.Send', 'Mail.Send', 'Mail.Xend']
    for (const [at, id] of ids.entries()) {
      const body = { $schema: 'urn:oxp:1.0', request: { tool_id: id, input: {} } }
      const asked = await one.ask('/tools/call', { method: 'POST', key: 'k-narrow', body })
      expect(asked.headers['collet-error-code']).toBe('tool_not_found')
      // One change of the audit stream and one of the counts of rejected requests.
      await expect.poll(changes, { timeout: 20_000 }).toBe(atStart + 2 * (at + 1))
    }
    await one.stop()
  })

  it('rule 30a, OWP-62: is audited, opaque and coalesced, where its caller cannot read', async () => {
    for (let time = 0; time < 5; time += 1) {
      await server.ask('/v1/tools/openwop:Files.Read', { key: 'k-narrow' })
      await server.ask('/v1/tools/openwop:Nobody.Knows', { key: 'k-narrow' })
    }
    const read = () => server.ask('/admin/audit?limit=1000', { key: 'k-auditor' })
    const found = async () =>
      (await read()).json.events.filter(
        (event: { resource: string; action: string }) =>
          event.resource === 'openwop:Files.Read' && event.action === 'tool.read',
      )
    await expect.poll(async () => (await found()).length, { timeout: 10_000 }).toBe(1)
    expect(await found()).toEqual([
      {
        no: expect.any(Number),
        type: 'authorization.decided',
        at: expect.any(String),
        tenant: 'acme',
        principal: expect.stringMatching(/^prn_[\w-]+$/),
        action: 'tool.read',
        resource: 'openwop:Files.Read',
        reason: 'scope',
        count: 1,
        allowed: false,
      },
    ])
    const { text } = await read()
    expect(text).not.toMatch(/Nobody|narrow/)
    expect(text).toMatch(/"reason":"allowlist"/)
    expect((await server.ask('/admin/audit', { key: 'k-narrow' })).status).toBe(403)
    expect((await server.ask('/admin/audit')).status).toBe(401)
  })

  it.each(REQUESTS.map(([title, ask], index) => [title, ask, `k-way-${index}`] as const))(
    'rule 30a: is audited for every kind of request: %s',
    async (_title, ask, credential) => {
      const one = await server.ask('/admin/audit?limit=1000', { key: 'k-auditor' })
      const last = Math.max(0, ...one.json.events.map(({ no }: { no: number }) => no))
      await ask('Mail.Send', credential)
      await ask('Mail.Xend', credential)
      const reported = async () => {
        const { json } = await server.ask('/admin/audit?limit=1000', { key: 'k-auditor' })
        return json.events
          .filter(({ no }: { no: number }) => no > last)
          .map(({ resource }: { resource: string }) => resource)
      }
      await expect.poll(reported, { timeout: 10_000 }).toEqual(['openwop:Mail.Send'])
    },
  )

  it('rule 30a: leaves nothing in a run that its caller reads', async () => {
    const body = { $schema: 'urn:oxp:1.0', request: { tool_id: 'Mail.Send', input: {} } }
    const headers = { 'collet-run': 'my-run' }
    await server.ask('/tools/call', { method: 'POST', key: 'k-narrow', headers, body })
    const hidden = await server.ask('/v1/runs/my-run/events/poll', { key: 'k-narrow' })
    const unknown = await server.ask('/v1/runs/no-run/events/poll', { key: 'k-narrow' })
    expect(wholeOf(hidden)).toEqual(wholeOf(unknown))
  })

  it('rules 1 and 2: has no calls either, not even those that another key of the same principal made', async () => {
    const body = { $schema: 'urn:oxp:1.0', request: { tool_id: 'Mail.Send', call_id: 'twin-1', input: {} } }
    const call = (credential: string) => server.ask('/tools/call', { method: 'POST', key: credential, body })
    expect((await call('k-wide')).json.result.success).toBe(true)
    expect((await server.ask('/calls/twin-1', { key: 'k-wide' })).status).toBe(200)
    expect((await call('k-slim')).headers['collet-error-code']).toBe('tool_not_found')
    for (const method of ['GET', 'DELETE']) {
      const hidden = await server.ask('/calls/twin-1', { method, key: 'k-slim' })
      const unknown = await server.ask('/calls/twin-2', { method, key: 'k-slim' })
      expect(wholeOf(hidden)).toEqual(wholeOf(unknown))
      expect(hidden.status).toBe(404)
    }
  })

  it('OWP-55: is not invoked, and no capability announces an event of the refusal', async () => {
    const body = { $schema: 'urn:oxp:1.0', request: { tool_id: 'Mail.Send', call_id: 'not-run', input: {} } }
    await server.ask('/tools/call', { method: 'POST', key: 'k-narrow', body })
    expect((await server.ask('/calls/not-run', { key: 'k-narrow' })).status).toBe(404)
    expect((await server.ask('/.well-known/openwop')).json.toolHooks?.perToolAuthorization).toBeUndefined()
  })

  it('OWP-34: a descriptor names exactly the scopes that the gate requires', async () => {
    const { json } = await server.ask('/v1/tools', { key: 'k-root' })
    for (const { toolId, auth } of json) {
      const scopes: string[] = auth?.scopes ?? []
      const seenWith = async (held: string[]) => {
        const one = await startPrincipalsServer({ auth: { apiKeys: [key('one', held)], jwt: undefined } })
        const { status } = await one.ask(`/v1/tools/${toolId}`, { key: 'k-one' })
        await one.stop()
        return status
      }
      expect(await seenWith(scopes)).toBe(200)
      if (scopes.length > 0) expect(await seenWith(scopes.slice(1))).toBe(404)
    }
  })
})
