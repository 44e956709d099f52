import { describe, expect, it } from 'vitest'
import { connect } from '#client/index'
import { breakConnection, failWith, refuse, scriptedFetch, succeed } from './scripted-fetch.ts'

const URL = 'http://127.0.0.1:4100'
const TOOLS = [{ id: 'A.B@1.0.0', name: 'A_B', description: 'd', version: '1.0.0' }]
const FLAKY = { message: 'm', can_retry: true, retry_after_ms: 700 }

function ids(requests: readonly { readonly call: object }[]) {
  return requests.map(({ call }) => Object.entries(call).find(([name]) => name === 'call_id')?.[1])
}

describe('failures with can_retry', () => {
  it('OTC-94, OTC-95, OTC/T-04, OTC/T-06: are resent at most twice, each with a new id, after the requested wait', async () => {
    const script = scriptedFetch(TOOLS, failWith(FLAKY))
    const tried = await connect(URL, script).tryCall('A.B@1.0.0', {}, { traceId: 't' })
    expect(tried).toMatchObject({ ok: false, error: { class: 'tool', canRetry: true, retries: 2 } })
    expect(new Set(ids(script.requests)).size).toBe(3)
    expect(script.requests.map(({ call }) => call.trace_id)).toEqual(['t', 't', 't'])
    for (const wait of script.waits) expect(wait).toBeGreaterThanOrEqual(700)
    expect(script.waits).toHaveLength(2)
  })

  it("keep a caller's own id, so that repeating the call later cannot run the tool again", async () => {
    const script = scriptedFetch(TOOLS, failWith(FLAKY), succeed(1))
    const result = await connect(URL, script).call('A.B@1.0.0', {}, { callId: 'invoice-7' })
    expect(result).toMatchObject({ value: 1, callId: 'invoice-7', retries: 1 })
    expect(ids(script.requests)).toEqual(['invoice-7', 'invoice-7'])
  })

  it('OTC/T-06: wait 500 ms and then double if no wait is requested', async () => {
    const script = scriptedFetch(TOOLS, failWith({ message: 'm', can_retry: true }))
    await connect(URL, script).tryCall('A.B@1.0.0')
    const [first = 0, second = 0] = script.waits
    expect(first).toBeGreaterThanOrEqual(500)
    expect(first).toBeLessThan(1_000)
    expect(second).toBeGreaterThanOrEqual(1_000)
  })

  it.each([
    ['OTC-93: without can_retry', { message: 'm' }],
    [
      'OTC/T-06: with prompt content',
      { message: 'm', can_retry: true, additional_prompt_content: 'use ids a, b' },
    ],
    ['with a wait of over a minute', { message: 'm', can_retry: true, retry_after_ms: 60_001 }],
  ])('%s: go to the caller at once', async (_title, error) => {
    const script = scriptedFetch(TOOLS, failWith(error))
    expect(await connect(URL, script).tryCall('A.B@1.0.0')).toMatchObject({
      ok: false,
      error: { retries: 0 },
    })
    expect(script.requests).toHaveLength(1)
  })

  const ASKING = { ...FLAKY, additional_prompt_content: 'use ids a, b' }

  it('OTC-96: are sent again with the input that onRetry returns, after the requested wait', async () => {
    const script = scriptedFetch(TOOLS, failWith(ASKING), succeed(1))
    const asked: (string | undefined)[] = []
    const result = await connect(URL, script).call(
      'A.B@1.0.0',
      { id: 'x' },
      {
        callId: 'ring-1',
        onRetry: async ({ additionalPromptContent }) => {
          asked.push(additionalPromptContent)
          return { id: 'a' }
        },
      },
    )
    expect(result).toMatchObject({ value: 1, callId: 'ring-1', retries: 1 })
    expect(asked).toEqual(['use ids a, b'])
    expect(script.requests.map(({ call }) => call.input)).toEqual([{ id: 'x' }, { id: 'a' }])
    expect(ids(script.requests)).toEqual(['ring-1', 'ring-1'])
    expect(script.waits[0]).toBeGreaterThanOrEqual(700)
  })

  it('OTC-96: go to the caller if onRetry returns nothing, and after maxRetries', async () => {
    const declined = scriptedFetch(TOOLS, failWith(ASKING))
    const onRetry = () => undefined
    expect(await connect(URL, declined).tryCall('A.B@1.0.0', {}, { onRetry })).toMatchObject({
      error: { retries: 0, additionalPromptContent: 'use ids a, b' },
    })
    const failing = scriptedFetch(TOOLS, failWith(ASKING))
    let times = 0
    await connect(URL, { ...failing, maxRetries: 1 }).tryCall(
      'A.B@1.0.0',
      {},
      {
        onRetry: () => {
          times += 1
          return { times }
        },
      },
    )
    expect([times, failing.requests.length]).toEqual([1, 2])
  })

  it('maxRetries 0 turns all resending off', async () => {
    const flaky = scriptedFetch(TOOLS, failWith(FLAKY))
    await connect(URL, { ...flaky, maxRetries: 0 }).tryCall('A.B@1.0.0')
    const broken = scriptedFetch(TOOLS, breakConnection)
    await connect(URL, { ...broken, maxRetries: 0 }).tryCall('A.B@1.0.0')
    expect([flaky.requests.length, broken.requests.length]).toEqual([1, 1])
  })
})

describe('transport failures', () => {
  it.each([
    ['a broken connection', breakConnection],
    ['408', refuse(408, {})],
    ['429', refuse(429, { message: 'slow down' })],
    ['500', refuse(500, {})],
    ['503', refuse(503, {})],
    ['a refusal with x-should-retry', refuse(400, { message: 'busy' }, { 'x-should-retry': 'true' })],
  ])('OTC/T-07: %s is resent with the same id', async (_title, step) => {
    const script = scriptedFetch(TOOLS, step, step, succeed(1))
    const result = await connect(URL, script).call('A.B@1.0.0')
    expect(result).toMatchObject({ value: 1, retries: 2 })
    expect(new Set(ids(script.requests)).size).toBe(1)
    expect(result.callId).toBe(ids(script.requests)[0])
  })

  it('C-24: waits as long as Retry-After states', async () => {
    const script = scriptedFetch(TOOLS, refuse(503, {}, { 'retry-after': '7' }), succeed(1))
    await connect(URL, script).call('A.B@1.0.0')
    expect(script.waits[0]).toBeGreaterThanOrEqual(7_000)
  })

  it('end after maxRetries, with the id for a later repetition', async () => {
    const script = scriptedFetch(TOOLS, breakConnection)
    const tried = await connect(URL, { ...script, maxRetries: 3 }).tryCall('A.B@1.0.0', {}, { callId: 'k-1' })
    expect(tried).toMatchObject({ ok: false, error: { class: 'transport', retries: 3, callId: 'k-1' } })
    if (!tried.ok) expect(tried.error.message).toContain('repeat it with call id k-1')
    expect(script.requests).toHaveLength(4)
  })

  it('are counted over the whole call, retries of the tool included', async () => {
    const script = scriptedFetch(
      TOOLS,
      breakConnection,
      failWith(FLAKY),
      breakConnection,
      failWith(FLAKY),
      breakConnection,
    )
    const tried = await connect(URL, script).tryCall('A.B@1.0.0')
    expect(tried).toMatchObject({ ok: false, error: { class: 'transport', retries: 4 } })
    const [first, second, third, fourth, fifth] = ids(script.requests)
    expect(first).toBe(second)
    expect(third).toBe(fourth)
    expect(new Set([first, third, fifth]).size).toBe(3)
  })

  it('400, 401 and 422 are not resent', async () => {
    for (const status of [400, 401, 422]) {
      const script = scriptedFetch(TOOLS, refuse(status, { message: 'm' }))
      await connect(URL, script).tryCall('A.B@1.0.0')
      expect(script.requests).toHaveLength(1)
    }
  })

  it('a refusal that outlasts all retries includes the time to wait', async () => {
    const script = scriptedFetch(
      TOOLS,
      refuse(400, { message: 'busy' }, { 'x-should-retry': 'true', 'retry-after': '90' }),
    )
    const tried = await connect(URL, script).tryCall('A.B@1.0.0')
    expect(tried).toMatchObject({
      ok: false,
      error: { class: 'server', message: 'busy', canRetry: true, retryAfterMs: 90_000, retries: 0 },
    })
  })

  it('a server that ignores call ids (uts) does not get a lost call twice', async () => {
    const script = scriptedFetch([], breakConnection)
    const tried = await connect(URL, { ...script, dialect: 'uts' }).tryCall('pay')
    expect(tried).toMatchObject({ ok: false, error: { class: 'transport', retries: 0 } })
    if (!tried.ok) expect(tried.error.message).toContain('check before you repeat it')
    expect(script.requests).toHaveLength(1)
  })

  it('a change of the input during the wait does not change the retry', async () => {
    const input = { amount: 1 }
    const flaky = failWith(FLAKY)
    const script = scriptedFetch(
      TOOLS,
      (request) => {
        input.amount = 1_000
        return flaky(request)
      },
      succeed(1),
    )
    await connect(URL, script).call('A.B@1.0.0', input)
    expect(script.requests.map(({ call }) => call.input)).toEqual([{ amount: 1 }, { amount: 1 }])
  })
})
