import { describe, expect, it } from 'vitest'
import { formatTraceparent, openTrace } from './trace-context.ts'

const TRACE = '0af7651916cd43dd8448eb211c80319c'
const SPAN = 'b7ad6b7169203331'

describe('openTrace', () => {
  it('continues a valid traceparent with a new span', () => {
    const trace = openTrace(`00-${TRACE}-${SPAN}-01`, false)
    expect(trace).toMatchObject({ traceId: TRACE, parentSpanId: SPAN, isSampled: true })
    expect(trace.spanId).toMatch(/^[0-9a-f]{16}$/)
    expect(trace.spanId).not.toBe(SPAN)
    expect(formatTraceparent(trace)).toBe(`00-${TRACE}-${trace.spanId}-01`)
  })

  it('keeps the decision not to sample', () => {
    expect(openTrace(`00-${TRACE}-${SPAN}-00`, true).isSampled).toBe(false)
  })

  it('reads the known part of a later version', () => {
    expect(openTrace(`cc-${TRACE}-${SPAN}-01-what-follows`, false).traceId).toBe(TRACE)
  })

  it.each([
    undefined,
    '',
    'garbage',
    `00-${TRACE.toUpperCase()}-${SPAN}-01`,
    `00-${'0'.repeat(32)}-${SPAN}-01`,
    `00-${TRACE}-${'0'.repeat(16)}-01`,
    `ff-${TRACE}-${SPAN}-01`,
    `00-${TRACE}-${SPAN}-01-extra`,
    `00-${TRACE}-${SPAN}-01, 00-${TRACE}-${SPAN}-01`,
  ])('starts a new trace for %s', (traceparent) => {
    const trace = openTrace(traceparent, true)
    expect(trace.traceId).toMatch(/^[0-9a-f]{32}$/)
    expect(trace.traceId).not.toBe(TRACE)
    expect(trace).toMatchObject({ parentSpanId: undefined, isSampled: true })
  })

  it('never uses an id twice', () => {
    const ids = Array.from({ length: 5_000 }, () => openTrace(undefined, false)).flatMap((trace) => [
      trace.traceId,
      trace.spanId,
    ])
    expect(new Set(ids).size).toBe(10_000)
  })
})
