import { describe, expect, expectTypeOf, it } from 'vitest'
import type { ToolContext } from '#kernel/tool/tool'
import { ALICE, callRequest, openTestGateway } from '#testing/test-gateway'
import { sampleTool } from '../../../test/contracts/samples.ts'
import { boundLogger, type Logger, OutageLog, SILENT_LOGGER } from './logger.ts'

function spy(): { log: Logger; lines: unknown[][] } {
  const lines: unknown[][] = []
  const write =
    (level: string) =>
    (...values: unknown[]) =>
      void lines.push([level, ...values])
  return {
    lines,
    log: { debug: write('debug'), info: write('info'), warn: write('warn'), error: write('error') },
  }
}

describe('OutageLog', () => {
  it('rule 11: writes one error line a minute and the others at level debug', () => {
    const { log, lines } = spy()
    let nowMs = 0
    const outage = new OutageLog(log, { monotonicMs: () => nowMs })
    for (nowMs of [0, 1, 59_999, 60_000, 60_001]) outage.report({ nowMs }, 'away')
    expect(lines.map(([level]) => level)).toEqual(['error', 'debug', 'debug', 'error', 'debug'])
  })
})

describe('boundLogger', () => {
  it('accepts a text alone, fields, or both, and adds its own fields', () => {
    const { log, lines } = spy()
    const bound = boundLogger(log, { tool: 'A.B@1.0.0' })
    bound.debug('starting')
    bound.info({ port: 1 })
    bound.warn({ port: 1 }, 'slow')
    const { error } = bound
    error('failed')
    expect(lines).toEqual([
      ['debug', { tool: 'A.B@1.0.0' }, 'starting'],
      ['info', { tool: 'A.B@1.0.0', port: 1 }, undefined],
      ['warn', { tool: 'A.B@1.0.0', port: 1 }, 'slow'],
      ['error', { tool: 'A.B@1.0.0' }, 'failed'],
    ])
  })

  it('logs an error that is passed instead of fields', () => {
    const { log, lines } = spy()
    const err = new Error('socket closed')
    boundLogger(log, { tool: 'A.B@1.0.0' }).error(err, 'failed')
    expect(lines).toEqual([['error', { tool: 'A.B@1.0.0', err }, 'failed']])
  })

  it('has types for both forms', () => {
    expectTypeOf<ToolContext['log']['info']>().toBeCallableWith('text')
    expectTypeOf<ToolContext['log']['info']>().toBeCallableWith({ a: 1 }, 'text')
    // @ts-expect-error a text comes last or alone
    SILENT_LOGGER.info('text', { a: 1 })
  })
})

describe('ctx.log', () => {
  it('logs a text with the tool and the call', async () => {
    const { log, lines } = spy()
    const say = sampleTool('Log.Say@1.0.0', (_input, ctx) => ctx.log.info('half way'))
    const gateway = openTestGateway([say], { log })
    await gateway.call(ALICE, callRequest('Log.Say'))
    await gateway.drain(0)
    expect(lines).toContainEqual(['info', { tool: 'Log.Say@1.0.0', record: expect.any(String) }, 'half way'])
  })
})
