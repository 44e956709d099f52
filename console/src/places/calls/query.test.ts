import { describe, expect, it } from 'vitest'
import {
  commandOf,
  finished,
  isQuoteOpen,
  paramsOf,
  readQuery,
  spanOf,
  suggestionsFor,
  tokenText,
  withRange,
} from './query.ts'

const filtersOf = (text: string) => readQuery(text).filters
const problemsOf = (text: string) => readQuery(text).tokens.map(({ problem }) => problem)

describe('a query of calls', () => {
  it('becomes the filters of the list', () => {
    expect(filtersOf('status:error tool:Gmail.* duration:>500ms since:30m')).toEqual({
      state: 'error',
      tool: 'Gmail.*',
      slow: '501',
      since: '30m',
    })
    expect(filtersOf(' principal:key:ann  tenant:acme until:2026-01-31T10:00Z ')).toEqual({
      principal: 'key:ann',
      tenant: 'acme',
      until: '2026-01-31T10:00Z',
    })
    expect(filtersOf('status:failed,parked')).toEqual({ state: 'failed,parked' })
  })

  it('takes ids and quoted texts', () => {
    expect(finished('refund-A-1042')).toBe('id:refund-A-1042')
    expect(finished('00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01')).toMatch(/^id:00-/)
    expect(finished('run_ODwxteqhCsSM')).toBe('id:run_ODwxteqhCsSM')
    expect(finished('GetEmails')).toBe('tool:*GetEmails*')
    expect(finished('Crm.Find')).toBe('tool:*Crm.Find*')
    expect(filtersOf('error:"no such label" code:tool_failed')).toEqual({
      error: 'no such label',
      code: 'tool_failed',
    })
    expect(filtersOf(tokenText('error', 'no "such" label'))).toEqual({ error: 'no such label' })
    expect([isQuoteOpen('error:"no such'), isQuoteOpen('error:"no"')]).toEqual([true, false])
  })

  it('has the range of the page, unless it names times or an id', () => {
    const day = { last: '24h', lengthMs: 86_400_000 }
    expect(withRange({ state: 'error' }, day)).toEqual({ state: 'error', since: '24h' })
    expect(withRange({ until: '5m' }, day)).toEqual({ until: '5m' })
    expect(withRange({ id: 'x' }, day)).toEqual({ id: 'x' })
    expect(withRange({}, { sinceMs: 0, untilMs: 1_000 })).toEqual({
      since: '1970-01-01T00:00:00.000Z',
      until: '1970-01-01T00:00:01.000Z',
    })
  })

  it('reads durations with each comparison', () => {
    expect(filtersOf('duration:>=500ms duration:<2s')).toEqual({ slow: '500', quick: '2000' })
    expect(filtersOf('duration:<=1.5s')).toEqual({ quick: '1501' })
    expect(filtersOf('duration:>1m')).toEqual({ slow: '60001' })
    expect(filtersOf('duration:250')).toEqual({ slow: '251' })
  })

  it('keeps invalid words with an error message, and ignores them', () => {
    const text = 'status:lost duration:quick since:yesterday stat:x tool: tool:A tool:B'
    expect(filtersOf(text)).toEqual({ tool: 'A' })
    expect(problemsOf(text)).toEqual([
      'Unknown status "lost". Use error, running, parked, succeeded, failed, released, ambiguous, rejected, or several with commas.',
      'Expected a duration: >500ms, <2s or >=1m.',
      'Expected an age (30m, 12h, 7d) or a time (2026-01-31T10:00Z).',
      'Unknown filter "stat". Did you mean status?',
      'Write Gmail.* after tool.',
      undefined,
      'tool is set twice. Remove one.',
    ])
  })

  it('treats a word without a key as part of a tool name', () => {
    expect([finished('gmail'), finished('Gmail.*'), finished('status:error'), finished(' ')]).toEqual([
      ...['tool:*gmail*', 'tool:Gmail.*', 'status:error', ''],
    ])
    expect(filtersOf('Odd status:error')).toEqual({ tool: '*Odd*', state: 'error' })
    expect(readQuery('Odd').tokens).toEqual([{ text: 'tool:*Odd*', key: 'tool', value: '*Odd*' }])
  })

  it('is written as a command, quoted for a shell', () => {
    const filters = filtersOf("status:error tool:Gmail.* principal:key:o'hara since:30m")
    expect(commandOf(filters, true)).toBe(
      String.raw`collet calls --state error --tool 'Gmail.*' --principal 'key:o'\''hara' --since 30m --follow`,
    )
    expect(commandOf({}, false)).toBe('collet calls')
    expect(commandOf(filtersOf('until:1m'), true)).toBe('collet calls --until 1m')
  })

  it('resolves relative times when a request is sent', () => {
    const since = Date.parse(paramsOf(filtersOf('since:1h'), { limit: '5' }).get('since') ?? '')
    expect(Math.abs(Date.now() - 3_600_000 - since)).toBeLessThan(1_000)
    expect([
      spanOf({}),
      spanOf({ since: '1h' }),
      spanOf({ since: '7d' }),
      spanOf({ since: '2026-01-31' }),
    ]).toEqual([...['30 minutes', '1 hour', '7 days', 'this period']])
  })

  it('suggests keys, and then values', () => {
    const known = { tools: ['Gmail.GetEmails', 'Gmail.SendEmail', 'github.add_labels'] }
    const texts = (word: string) => suggestionsFor(word, known).map(({ text }) => text)
    expect(texts('s')).toEqual(['status:', 'since:', 'session:'])
    expect(texts('refund')).toEqual(['tool:*refund*', 'id:refund', 'error:refund'])
    expect(texts('code:tool_')).toEqual(['code:tool_failed', 'code:tool_timeout'])
    expect(texts('status:f')).toEqual(['status:failed'])
    expect(texts('tool:gm')).toEqual(['tool:Gmail.*', 'tool:Gmail.GetEmails', 'tool:Gmail.SendEmail'])
    expect(texts('nonsense:x')).toEqual([])
  })
})
