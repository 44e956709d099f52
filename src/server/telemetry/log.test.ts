import { describe, expect, it } from 'vitest'
import { fault } from '#kernel/base/errors'
import { Secret } from '#kernel/base/secret'
import { createLog } from './log.ts'

function lines(
  level: Parameters<typeof createLog>[0],
  write: (log: ReturnType<typeof createLog>) => void,
): string[] {
  const written: string[] = []
  write(createLog(level, { write: (line) => written.push(line) }))
  return written
}

describe('createLog', () => {
  it('writes one JSON line with level and time', () => {
    const [line = ''] = lines('info', (log) => log.info({ port: 1 }, 'listening'))
    expect(JSON.parse(line)).toMatchObject({
      level: 'info',
      port: 1,
      msg: 'listening',
      time: expect.stringMatching(/Z$/),
    })
  })

  it('OTC-103: redacts credentials and call contents by field name, at any depth', () => {
    const fields = {
      authorization: 'Bearer s3cr3t',
      'X-API-Key': 's3cr3t',
      headers: { 'oxp-api-key': 's3cr3t', list: [{ token: 's3cr3t', deeper: { password: 's3cr3t' } }] },
      input: { text: 's3cr3t' },
      value: 's3cr3t',
      wrapped: new Secret('s3cr3t'),
      tool: 'Mail.Send@1.0.0',
    }
    const [line = ''] = lines('info', (log) => log.info(fields, 'call'))
    expect(line).not.toContain('s3cr3t')
    expect(line).toContain('Mail.Send@1.0.0')
  })

  it('describes an error and its causes without their own properties', () => {
    const cause = Object.assign(new Error('socket closed'), {
      code: 'ECONNRESET',
      request: { body: 's3cr3t' },
    })
    const [line = ''] = lines('info', (log) => log.error({ err: fault('internal', 'outer', { cause }) }))
    expect(JSON.parse(line).err).toMatchObject({
      type: 'ToolError',
      message: 'outer',
      code: 'internal',
      cause: { message: 'socket closed', code: 'ECONNRESET', stack: expect.stringContaining('log.test') },
    })
    expect(line).not.toContain('s3cr3t')
  })

  it('writes a line for fields with a circular reference', () => {
    const circle: Record<string, unknown> = {}
    circle.self = circle
    expect(lines('info', (log) => log.info({ circle }))).toHaveLength(1)
  })

  it('writes nothing below its level, and nothing if silent', () => {
    expect(lines('warn', (log) => log.info({}))).toEqual([])
    expect(lines('silent', (log) => log.error({}))).toEqual([])
  })
})
