import { describe, expect, it } from 'vitest'
import { SYSTEM_CLOCK } from '#kernel/base/clock'
import { type Logger, SILENT_LOGGER } from '#kernel/base/logger'
import type { LoggedLines } from '#store/calls/call-logs'
import { CallLogs } from './call-logs.ts'

function open() {
  const added: LoggedLines[] = []
  const written: unknown[] = []
  const log: Logger = { ...SILENT_LOGGER, info: (...line: unknown[]) => void written.push(line) }
  const store = { add: async (lines: readonly LoggedLines[]) => void added.push(...lines), read: () => [] }
  return { logs: new CallLogs({ store, clock: SYSTEM_CLOCK, log }), added, written }
}
const textsOf = (added: readonly LoggedLines[]) =>
  added.map(({ record, lines }) => [record, lines.map(({ text }) => text)])

describe('logs of calls', () => {
  it('are the lines that name a call, and the server writes them too', async () => {
    const { logs, added, written } = open()
    logs.log.info('started')
    logs.log.info({ port: 1 }, 'listening')
    logs.log.info({ record: 'r1', tool: 'A.B@1.0.0' }, 'looking')
    logs.log.debug({ record: 'r1', rows: 3, password: 'hunter2' })
    logs.log.error({ record: 'r2', err: new Error('no such label') }, 'a tool threw')
    await logs.close()
    expect(written).toHaveLength(3)
    const [first, second] = textsOf(added)
    expect(first).toEqual(['r1', ['looking', '{"rows":3,"password":"[redacted]"}']])
    expect(second?.[0]).toBe('r2')
    expect(second?.[1]?.[0]).toMatch(/^a tool threw\nError: no such label\n {4}at /)
  })
  it('are limited in number and length', async () => {
    const { logs, added } = open()
    for (let n = 0; n < 500; n += 1) logs.log.info({ record: 'r1' }, `${n} ${'x'.repeat(10_000)}`)
    for (let n = 0; n < 2_000; n += 1) logs.log.info({ record: `s${n}` }, 'line')
    await logs.close()
    expect(added).toHaveLength(1_000)
    const lines = added[0]?.lines ?? []
    expect([lines.length, lines.at(-1)?.text]).toEqual([200, 'Further lines are left out.'])
    expect(lines[0]?.text.length).toBeLessThanOrEqual(4_001)
  })
})
