import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { sampleTool } from '../contracts/samples.ts'
import { KEYS } from './openwop-fixtures.ts'
import { OPENWOP_CONFORMANCE } from './openwop-host/host.ts'
import { type OpenwopServer, startOpenwopServer } from './openwop-server.ts'

const PATH = '/v1/host/sample/governance/approval-gate'

describe('the approval gate of the public suite', () => {
  let server: OpenwopServer
  beforeAll(async () => {
    const tools = [sampleTool('Bank.Pay@1.0.0', () => 'paid', { policy: { approval: 'always' } })]
    server = await startOpenwopServer({ tools }, { conformance: OPENWOP_CONFORMANCE })
  })
  afterAll(() => server.close())

  const drive = (body: object) =>
    server.ask(PATH, {
      key: KEYS.root,
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
      isUndocumented: true,
    })

  it('OWP-105: releases on a grant, and not for a principal without the scope', async () => {
    const granted = await drive({ scenario: 'grant', principal: 'bob' })
    expect(granted.json).toMatchObject({ released: true, event: { type: 'approval.granted' } })
    expect(granted.json.event.payload).toMatchObject({ quorumProgress: { granted: 1, required: 1 } })
    const refused = await drive({ scenario: 'unauthorized-grant', principal: 'mallory' })
    expect(refused.json).toEqual({ released: false })
  })

  it('OWP-105: records a rejection and an override with its reason', async () => {
    const rejected = await drive({ scenario: 'reject', principal: 'bob', reason: 'no' })
    expect(rejected.json).toMatchObject({
      released: false,
      event: { type: 'approval.rejected', payload: { reason: 'no' } },
    })
    const overridden = await drive({ scenario: 'override', principal: 'bob', reason: 'the house burns' })
    expect(overridden.json).toMatchObject({
      released: true,
      event: { type: 'approval.overridden', payload: { reason: 'the house burns' } },
    })
  })

  it('refuses unknown scenarios', async () => {
    expect((await drive({ scenario: 'toString' })).status).toBe(400)
    expect((await drive({})).status).toBe(400)
  })
})
