import { afterAll, beforeEach, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { ToolError } from '#kernel/base/errors'
import { CALL_WAYS, type CallWay } from './call-ways.ts'
import { endTalks, startTalk, type Talk } from './mcp-talk.ts'

let ran: string[] = []
let talk: Talk

const write = (id: string, more: object = {}) => ({
  id,
  description: 'Writes.',
  input: z.object({ a: z.number().describe('A number.'), b: z.string().optional().describe('More.') }),
  output: z.string(),
  policy: { safetyTier: 'write' },
  run: ({ a }: { a: number }) => {
    ran.push(id)
    return `${id} ${a}`
  },
  ...more,
})

/** The doorbell tool of the documentation, with two bells. */
const doorbell = {
  id: 'Doorbell.Ring@0.1.0',
  description: 'Rings a doorbell.',
  input: z.object({ doorbell_id: z.string().describe('Which.') }),
  output: null,
  policy: { safetyTier: 'write' },
  run: ({ doorbell_id: bell }: { doorbell_id: string }) => {
    ran.push(bell)
    if (bell === 'doorbell42') return
    throw new ToolError('Doorbell ID not found', {
      canRetry: true,
      retryAfterMs: 500,
      additionalPromptContent: 'ids: doorbell42,doorbell84',
    })
  },
}

const calculator = {
  id: 'Calculator.Add@1.0.0',
  description: 'Adds.',
  input: z.object({ a: z.number().describe('One.'), b: z.number().describe('Other.') }),
  output: z.number(),
  policy: { safetyTier: 'pure', replay: 'deterministic' },
  run: ({ a, b }: { a: number; b: number }) => a + b,
}

beforeEach(async () => {
  ran = []
  talk ??= await startTalk([write('Kit.Tool@1.0.0'), write('Kit.Tool@1.1.0'), doorbell, calculator])
})
afterAll(endTalks)

let keys = 0
const freshKey = () => {
  keys += 1
  return `key-${keys}`
}

/** All of these select the newest version. */
const NAMES = ['Kit.Tool', 'Kit.Tool@1.1.0', 'Kit_Tool', 'openwop:Kit.Tool', 'Kit_Tool@1.1.0']
const WAYS: readonly [string, CallWay][] = Object.entries(CALL_WAYS)
const PAIRS = WAYS.flatMap(([first, make]) =>
  WAYS.map(([second, repeat]) => [first, second, make, repeat] as const),
)

describe('rules 4 and 5: one key is one call', () => {
  it.each(PAIRS)('made by %s and replayed by %s, in every spelling', async (_1, _2, make, repeat) => {
    for (const first of NAMES) {
      for (const second of NAMES) {
        ran = []
        const key = freshKey()
        const made = await make(talk.server.url, { tool: first, input: { a: 1 }, key })
        const found = await repeat(talk.server.url, { tool: second, input: { a: 1 }, key })
        expect([first, made.code, made.value]).toEqual([first, 'ok', 'Kit.Tool@1.1.0 1'])
        expect([second, found.code, found.value]).toEqual([second, 'ok', 'Kit.Tool@1.1.0 1'])
        expect(ran).toEqual(['Kit.Tool@1.1.0'])
      }
    }
  })

  it.each(WAYS)(
    '%s: it is found without a version, and not with a version other than the recorded one',
    async (_way, call) => {
      const key = freshKey()
      const { url } = talk.server
      expect((await call(url, { tool: 'Kit.Tool@1.0.0', input: { a: 1 }, key })).value).toBe(
        'Kit.Tool@1.0.0 1',
      )
      expect((await call(url, { tool: 'Kit_Tool', input: { a: 1 }, key })).value).toBe('Kit.Tool@1.0.0 1')
      expect((await call(url, { tool: 'Kit.Tool@1', input: { a: 1 }, key })).value).toBe('Kit.Tool@1.0.0 1')
      expect((await call(url, { tool: 'Kit.Tool@1.1.0', input: { a: 1 }, key })).code).toBe('key_conflict')
      expect(ran).toEqual(['Kit.Tool@1.0.0'])
    },
  )

  it('OTS-43: null for an optional argument of OpenTool equals an absent one on other protocols', async () => {
    const key = freshKey()
    const { url } = talk.server
    const tool = 'Kit.Tool'
    expect((await CALL_WAYS.OpenTool(url, { tool, input: { a: 1, b: null }, key })).code).toBe('ok')
    expect((await CALL_WAYS.OTC(url, { tool, input: { a: 1 }, key })).code).toBe('ok')
    expect((await CALL_WAYS.OpenTool(url, { tool, input: { a: 1, b: null }, key })).code).toBe('ok')
    expect(ran).toHaveLength(1)
  })

  it('a lost reply is replayed by every name after the tool is removed', async () => {
    const mine = await startTalk([write('Gone.Soon@1.0.0', { catalogId: 'openwop:gone/soon' })])
    const asked = { input: { a: 1 }, key: freshKey() }
    expect((await CALL_WAYS.OTC(mine.server.url, { tool: 'Gone.Soon@1.0.0', ...asked })).code).toBe('ok')
    await mine.server.close()
    const { startServer } = await import('#server/start-server')
    const after = await startServer({ ...mine.settings, tools: [] }, { graceMs: 0 })
    try {
      for (const tool of ['Gone.Soon@1.0.0', 'Gone.Soon', 'Gone_Soon', 'openwop:gone/soon']) {
        for (const [way, call] of WAYS) {
          const reported = await call(after.url, { tool, ...asked })
          expect([way, tool, reported.code]).toEqual([way, tool, 'ok'])
        }
      }
    } finally {
      await after.close()
    }
    expect(ran).toEqual(['Gone.Soon@1.0.0'])
  })
})

describe('rule 1: a conflict is reported last', () => {
  it.each(WAYS)(
    '%s: an error in the request itself is reported first, and nothing runs',
    async (_way, call) => {
      const { url } = talk.server
      const key = freshKey()
      expect((await call(url, { tool: 'Kit.Tool', input: { a: 1 }, key })).code).toBe('ok')
      expect((await call(url, { tool: 'Kit.Toll', input: { a: 1 }, key })).code).toBe('tool_not_found')
      expect((await call(url, { tool: 'Kit.Tool@7.0.0', input: { a: 1 }, key })).code).toBe('tool_not_found')
      expect((await call(url, { tool: 'Kit.Tool', input: { a: 'x' }, key })).code).toBe('input_invalid')
      expect((await call(url, { tool: 'Kit.Tool', input: { a: 2 }, key })).code).toBe('key_conflict')
      expect((await call(url, { tool: 'Doorbell.Ring', input: { doorbell_id: 'x' }, key })).code).toBe(
        'key_conflict',
      )
      expect((await call(url, { tool: 'Kit.Tool', input: { a: 1 }, key })).code).toBe('ok')
      expect(ran).toHaveLength(1)
    },
  )

  it('OTC-57 to OTC-94: the samples of OTC 1.0 give their documented answers in print order, with the call ids they print', async () => {
    const call = async (request: object) => {
      const response = await fetch(`${talk.server.url}/tools/call`, {
        method: 'POST',
        headers: { 'Content-Type': 'application/json' },
        body: JSON.stringify({ $schema: 'otc://1.0', request }),
      })
      const body = await response.json()
      return { status: response.status, body: JSON.parse(JSON.stringify(body)) }
    }
    const id = { call_id: '123e4567-e89b-12d3-a456-426614174000' }
    const one = await call({ tool_id: 'Calculator.Add@1.0.0', ...id, input: { a: 10, b: 5 } })
    expect(one).toMatchObject({ status: 200, body: { result: { ...id, success: true, value: 15 } } })
    const two = await call({ tool_id: 'Calculator.Add@2.0.0', ...id })
    expect(two).toMatchObject({ status: 400, body: { message: expect.stringContaining('was not found') } })
    const three = await call({ tool_id: 'Calculator.Add@1.0.0', ...id, input: { a: 10, b: 'infinity' } })
    expect(three).toMatchObject({ status: 422, body: { parameter_errors: { b: 'Must be a number' } } })
    const other = { call_id: '723e4567-e89b-12d3-a456-426614174006' }
    const bell = { tool_id: 'Doorbell.Ring@0.1.0', ...other }
    const four = await call({ ...bell, input: { doorbell_id: 'doorbell1' } })
    const error = { message: 'Doorbell ID not found', can_retry: true, retry_after_ms: 500 }
    expect(four).toMatchObject({ status: 200, body: { result: { ...other, success: false, error } } })
    const corrected = await call({ ...bell, input: { doorbell_id: 'doorbell42' } })
    expect(corrected).toMatchObject({ status: 200, body: { result: { ...other, success: true } } })
  })
})

describe('rule 9: can_retry', () => {
  it.each(WAYS)(
    '%s: is true while a repeat can run; the last failure asks for a new call id',
    async (_way, call) => {
      const key = freshKey()
      const ring = () =>
        call(talk.server.url, { tool: 'Doorbell.Ring', input: { doorbell_id: 'doorbell1' }, key })
      const reported = [await ring(), await ring(), await ring(), await ring()]
      expect(ran).toHaveLength(3)
      expect(reported.map(({ code }) => code)).toEqual(Array(4).fill('tool_failed'))
      for (const { message } of reported.slice(0, 2)) expect(message).not.toContain('new call id')
      for (const { message, retry } of reported.slice(2)) {
        expect(message).toContain('use a new call id')
        expect(retry).toEqual({ can_retry: undefined, retry_after_ms: undefined })
      }
      const [first] = reported
      if (first?.retry.can_retry !== undefined)
        expect(first.retry).toEqual({ can_retry: true, retry_after_ms: 500 })
    },
  )

  it.each(WAYS)('%s: a released id accepts corrected input of the same tool', async (_way, call) => {
    const { url } = talk.server
    const key = freshKey()
    const ring = (bell: string) => call(url, { tool: 'Doorbell.Ring', input: { doorbell_id: bell }, key })
    expect((await ring('doorbell1')).code).toBe('tool_failed')
    expect((await call(url, { tool: 'Kit.Tool', input: { a: 1 }, key })).code).toBe('key_conflict')
    expect((await ring('doorbell42')).code).toBe('ok')
    expect((await ring('doorbell42')).code).toBe('ok')
    // The original input is a different request now.
    expect((await ring('doorbell1')).code).toBe('key_conflict')
    expect(ran).toEqual(['doorbell1', 'doorbell42'])
  })
})
