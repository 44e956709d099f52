import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { WireRunEvent } from '#protocols/openwop/wire'
import { sqliteSettings, testSettings } from '../test-settings.ts'
import { KEYS } from './openwop-fixtures.ts'
import { type RunServer, startRunServer } from './run-server.ts'

const WAYS = ['otc', 'opentool', 'execute', 'uts', 'own session', 'named session', 'failing'] as const
type Way = (typeof WAYS)[number]

describe.each([
  ['memory', testSettings],
  ['SQLite', sqliteSettings],
] as const)('the sequence of a run on %s', (_store, settingsOf) => {
  let server: RunServer
  let runs = 0

  beforeAll(async () => {
    server = await startRunServer({ settingsOf })
  })

  afterAll(() => server.close())

  async function act(way: Way, run: string): Promise<void> {
    if (way === 'otc') await server.otc('Echo.Write', {}, { run })
    if (way === 'opentool') await server.opentool('Echo_Say', {}, { run })
    if (way === 'execute') await server.otc('Echo.Say', {}, { run, path: '/execute' })
    if (way === 'uts') await server.otc('Echo.Write', {}, { run, path: '/uts/tools/call' })
    if (way === 'own session') await server.opentool('Box_Push', {}, { run })
    if (way === 'failing') await server.otc('Echo.Fail', {}, { run })
    if (way !== 'named session') return
    const { sessionId } = (await server.open({ toolId: 'openwop:Box.Push', runId: run })).json
    await Promise.all([1, 2].map(() => server.otc('Box.Push', {}, { session: sessionId })))
    await server.ask(`/v1/sessions/${sessionId}`, { key: KEYS.root, method: 'DELETE' })
  }

  it('OWP-40…42, OWP-45, OWP-47, OWP-50, OWP-99: has no gaps and complete brackets under concurrent requests', async () => {
    const catalog = (await server.ask('/v1/tools', { key: KEYS.root })).json
    const toolIds = new Set(catalog.map(({ toolId }: { readonly toolId: string }) => toolId))
    await fc.assert(
      fc.asyncProperty(fc.array(fc.constantFrom(...WAYS), { minLength: 1, maxLength: 12 }), async (ways) => {
        runs += 1
        const run = `concurrent ${runs}`
        await Promise.all(ways.map((way) => act(way, run)))
        const events = await server.events(run)
        expect(events).toHaveLength(ways.reduce((sum, way) => sum + eventsOf(way), 0))
        expectPairs(events)
        expectBrackets(events, toolIds)
      }),
      { numRuns: 25 },
    )
  })
})

function eventsOf(way: Way): number {
  if (way === 'named session') return 6
  return way === 'own session' ? 4 : 2
}

/** Every call has one event at its start and one at its end. */
function expectPairs(events: readonly WireRunEvent[]): void {
  const byCall = Map.groupBy(
    events.filter(({ type }) => type.startsWith('agent.')),
    ({ payload }) => payload.callId,
  )
  for (const pair of byCall.values()) {
    expect(pair.map(({ type }) => type)).toEqual(['agent.toolCalled', 'agent.toolReturned'])
    expect(pair[0]?.payload.toolName).toBe(pair[1]?.payload.toolName)
    expect(pair[0]?.nodeId).toBe(pair[1]?.nodeId)
  }
}

/** All events of a session are between its opened and closed events. */
function expectBrackets(events: readonly WireRunEvent[], toolIds: ReadonlySet<unknown>): void {
  const bySession = Map.groupBy(
    events.filter(({ payload }) => payload.sessionId !== undefined),
    ({ payload }) => payload.sessionId,
  )
  for (const reported of bySession.values()) {
    const [opened, ...rest] = reported
    const closed = rest.pop()
    expect([opened?.type, closed?.type]).toEqual(['tool.session.opened', 'tool.session.closed'])
    expect(opened?.payload.toolId).toBe(closed?.payload.toolId)
    expect(toolIds.has(opened?.payload.toolId)).toBe(true)
    expect(rest.length).toBeGreaterThanOrEqual(2)
    expect(rest.every(({ type }) => type.startsWith('agent.'))).toBe(true)
    expect(rest.every(({ payload }) => payload.toolName === opened?.payload.toolId)).toBe(true)
  }
}
