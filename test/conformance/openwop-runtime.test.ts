import { Ajv2020 } from 'ajv/dist/2020.js'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { requireTools } from '#kernel/tool/prepare-tools'
import { KEYS } from './openwop-fixtures.ts'
import { type OpenwopServer, startOpenwopServer } from './openwop-server.ts'

const runs: string[] = []

function counted(id: string, more: object) {
  const run = () => runs.push(id)
  return { id, description: 'Counts its runs.', input: {}, output: {}, run, ...more }
}

const tools = requireTools([
  counted('Count.Scoped@1.0.0', { policy: { scopes: ['mail:send'] } }),
  counted('Count.Guarded@1.0.0', { policy: { approval: 'always' } }),
  counted('Count.Conditional@1.0.0', { policy: { approval: 'conditional' } }),
  counted('Count.Secret@1.0.0', { requirements: { secrets: [{ id: 'KEY' }] } }),
  counted('Count.Typed@1.0.0', {
    input: {
      type: 'object',
      properties: { n: { type: 'number', description: 'A number.' } },
      required: ['n'],
    },
  }),
  counted('Count.Free@1.0.0', { policy: { safetyTier: 'read', replay: 'non-deterministic' } }),
])

let server: OpenwopServer

beforeAll(async () => {
  server = await startOpenwopServer({ tools })
})

afterAll(() => server.close())

async function describedAs(name: string) {
  return (await server.ask(`/v1/tools/openwop:Count.${name}`, { key: KEYS.root })).json
}

async function callTool(name: string, key: string, callId?: string) {
  const before = runs.length
  const request = {
    tool_id: `Count.${name}`,
    input: {},
    ...(callId === undefined ? {} : { call_id: callId }),
  }
  const { status, json, headers } = await server.ask('/tools/call', {
    key,
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ request }),
  })
  return { status, json, code: headers['collet-error-code'], ran: runs.length - before }
}

describe('the catalog matches the behaviour of calls', () => {
  it('OWP-34: the scopes listed are the scopes enforced', async () => {
    expect((await describedAs('Scoped')).auth.scopes).toEqual(['mail:send'])
    expect(await callTool('Scoped', KEYS.other)).toMatchObject({ status: 200, ran: 1 })
    expect(await callTool('Scoped', KEYS.narrow)).toMatchObject({ code: 'tool_not_found', ran: 0 })
  })

  it('OWP-34: credentialRef means that a call without the credential does not run', async () => {
    expect((await describedAs('Secret')).auth.credentialRef).toBe(true)
    expect(await callTool('Secret', KEYS.root)).toMatchObject({ code: 'requirement_missing', ran: 0 })
    expect((await describedAs('Free')).auth.credentialRef).toBe(false)
    expect(await callTool('Free', KEYS.root)).toMatchObject({ status: 200, ran: 1 })
  })

  it.each(['Guarded', 'Conditional'])('OWP-35: %s does not run without a grant', async (name) => {
    expect((await describedAs(name)).approval).not.toBe('never')
    expect(await callTool(name, KEYS.root)).toMatchObject({ code: 'approval_required', ran: 0 })
  })

  it('OWP-59: input that violates the published schema runs nothing', async () => {
    const { inputSchema } = await describedAs('Typed')
    expect(new Ajv2020().validate(inputSchema, {})).toBe(false)
    expect(await callTool('Typed', KEYS.root)).toMatchObject({ code: 'input_invalid', ran: 0 })
  })

  it('OWP-36: a non-deterministic result is kept and repeated', async () => {
    expect((await describedAs('Free')).replayPolicy).toBe('non-deterministic')
    const first = await callTool('Free', KEYS.root, 'same')
    const second = await callTool('Free', KEYS.root, 'same')
    expect([first.ran, second.ran]).toEqual([1, 0])
    expect(second.json).toEqual(first.json)
  })

  it('OWP-11: reading the catalog runs nothing', async () => {
    const before = runs.length
    await server.ask('/v1/tools', { key: KEYS.root })
    await describedAs('Free')
    expect(runs.length).toBe(before)
  })
})
