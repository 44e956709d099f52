import { describe, expect, it } from 'vitest'
import { Distribution } from './metrics.ts'
import { processMetrics, renderMetrics } from './prometheus.ts'

describe('the text format', () => {
  it('escapes labels and help, and writes cumulative buckets', () => {
    const seconds = new Distribution([0.1, 1])
    for (const value of [0.05, 0.5, 5]) seconds.add(value)
    const { text, contentType } = renderMetrics([
      {
        name: 'a_total',
        help: 'Two\nlines.',
        type: 'counter',
        samples: [{ labels: { tool: 'a"b\\c\n' }, value: 2 }],
      },
      {
        name: 'b_seconds',
        help: 'B.',
        type: 'histogram',
        series: [{ labels: { tool: 'x' }, distribution: seconds }],
      },
    ])
    expect(contentType).toBe('text/plain; version=0.0.4; charset=utf-8')
    expect(text).toBe(`# HELP a_total Two\\nlines.
# TYPE a_total counter
a_total{tool="a\\"b\\\\c\\n"} 2

# HELP b_seconds B.
# TYPE b_seconds histogram
b_seconds_bucket{le="0.1",tool="x"} 1
b_seconds_bucket{le="1",tool="x"} 2
b_seconds_bucket{le="+Inf",tool="x"} 3
b_seconds_sum{tool="x"} 5.55
b_seconds_count{tool="x"} 3
`)
  })

  it('reports the process, in numbers, under the names that dashboards use', async () => {
    const { text } = renderMetrics(await processMetrics((bounds) => new Distribution(bounds))())
    const values = new Map(
      [...text.matchAll(/^(\w+)(?:\{.*\})? (.*)$/gm)].map(([, name, value]) => [name, value]),
    )
    for (const name of [
      'process_cpu_seconds_total',
      'process_resident_memory_bytes',
      'process_start_time_seconds',
      'nodejs_heap_size_used_bytes',
      'nodejs_eventloop_lag_p99_seconds',
      'nodejs_gc_duration_seconds_count',
      'nodejs_version_info',
    ])
      expect([name, Number(values.get(name))]).toEqual([name, expect.any(Number)])
    expect(text).not.toMatch(/NaN|undefined/)
  })
})
