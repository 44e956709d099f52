import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { startBenchServer } from '../../bench/bench-server.ts'
import { CONTENDERS } from '../../bench/contenders.ts'
import { ROWS } from '../../bench/rows.ts'
import { startContender } from '../../bench/running-contender.ts'

const ledger = readFileSync(new URL('../../docs/internals/specs/opentool.md', import.meta.url), 'utf8')

/** Requests per second at 10 connections, the second of the three numbers that follow `name`. */
function measured(name: string): number {
  const [, rate = ''] = new RegExp(`${name}[^\\d]*[\\d,]+ / ([\\d,]+) / [\\d,]+`).exec(ledger) ?? []
  return Number(rate.replaceAll(',', ''))
}

/** `npm run bench` measures and fails on a miss; these tests check that it measures the right thing. */
describe('the speed of /opentool/call', () => {
  it('OTS-90: has the targets of the ledger, relative to a bare server', () => {
    const share = measured('SDK server') / measured('same JSON work')
    expect(share).toBeCloseTo(0.125, 2)
    expect(ROWS.opentool.goals.must).toBeGreaterThanOrEqual(2 * share)
    expect(ROWS['opentool-memory'].goals.must).toBeGreaterThanOrEqual(3.5 * share)
  })

  it.each(['opentool', 'opentool-memory'] as const)(
    'OTS-90: %s is measured at 10 connections on both sides',
    (row) => {
      const { contender, against } = ROWS[row]
      expect([CONTENDERS[contender].connections, CONTENDERS[against].connections]).toEqual([10, 10])
    },
  )

  it('OTS-90: is measured with validation and authorization on, and survives the load', async () => {
    const server = await startBenchServer(CONTENDERS['opentool memory'].command)
    try {
      const { path, headers } = CONTENDERS['opentool memory'].request
      const url = `http://127.0.0.1:${server.port}${path}`
      const wrong = JSON.stringify({
        jsonrpc: '2.0',
        method: 'Calculator_Add',
        params: { a: 'two', b: 3 },
        id: 'c1',
      })
      const answer = await fetch(url, { method: 'POST', headers, body: wrong })
      expect(await answer.json()).toMatchObject({ error: { code: 400 } })
      const { authorization: _, ...anonymous } = headers
      expect((await fetch(url, { method: 'POST', headers: anonymous, body: wrong })).status).toBe(401)
    } finally {
      await server.stop()
    }
    const contender = await startContender(CONTENDERS['opentool memory'])
    try {
      expect((await contender.load(200)).latenciesMs.length).toBeGreaterThan(10)
    } finally {
      await contender.stop()
    }
  })
})
