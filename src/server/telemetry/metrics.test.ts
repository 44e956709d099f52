import { describe, expect, it } from 'vitest'
import { createMetrics } from './metrics.ts'

describe('createMetrics', () => {
  it('counts calls by tool and outcome, and replays separately', async () => {
    const metrics = createMetrics()
    const call = { tool: 'A.B@1.0.0', tenant: 'acme', outcome: 'ok', durationMs: 4, isReplay: false }
    metrics.callEnded(call)
    metrics.callEnded(call)
    metrics.callEnded({ ...call, isReplay: true })
    metrics.callEnded({ ...call, outcome: 'tool_failed', durationMs: 90_000 })
    const { text, contentType } = await metrics.render()
    expect(contentType).toMatch(/^text\/plain; version=0\.0\.4/)
    expect(text).toContain('collet_calls_total{tool="A.B@1.0.0",outcome="ok",replayed="false"} 2\n')
    expect(text).toContain('collet_calls_total{tool="A.B@1.0.0",outcome="ok",replayed="true"} 1\n')
    expect(text).toContain('collet_calls_total{tool="A.B@1.0.0",outcome="tool_failed",replayed="false"} 1\n')
    expect(text).toContain('collet_call_duration_seconds_bucket{le="0.0025",tool="A.B@1.0.0"} 0\n')
    expect(text).toContain('collet_call_duration_seconds_bucket{le="0.005",tool="A.B@1.0.0"} 2\n')
    expect(text).toContain('collet_call_duration_seconds_bucket{le="60",tool="A.B@1.0.0"} 2\n')
    expect(text).toContain('collet_call_duration_seconds_bucket{le="+Inf",tool="A.B@1.0.0"} 3\n')
    expect(text).toContain('collet_call_duration_seconds_count{tool="A.B@1.0.0"} 3\n')
  })

  it('counts by tenant if enabled, and tenants beyond a thousand together', async () => {
    const metrics = createMetrics(true)
    const call = { tool: 'A.B@1.0.0', outcome: 'ok', durationMs: 4, isReplay: false }
    for (let nth = 0; nth < 1_003; nth += 1) metrics.callEnded({ ...call, tenant: `team-${nth}` })
    metrics.callEnded({ ...call, tenant: 'team-0' })
    const { text } = await metrics.render()
    expect(text).toContain(
      'collet_calls_total{tool="A.B@1.0.0",tenant="team-0",outcome="ok",replayed="false"} 2\n',
    )
    expect(text).toContain(
      'collet_calls_total{tool="A.B@1.0.0",tenant="other",outcome="ok",replayed="false"} 3\n',
    )
    expect(text.match(/^collet_calls_total/gm)).toHaveLength(1_001)
  })

  it('renders the same numbers twice, and zero at the start', async () => {
    const metrics = createMetrics()
    metrics.callStarted()
    metrics.requestAnswered('/tools', 'GET', 200)
    for (let round = 0; round < 2; round += 1) {
      const { text } = await metrics.render()
      expect(text).toContain('collet_calls_running 1\n')
      expect(text).toContain('collet_http_requests_total{route="/tools",method="GET",status="200"} 1\n')
    }
    metrics.callLeft()
    expect((await metrics.render()).text).toContain('collet_calls_running 0\n')
  })

  it('renders commit groups and process metrics', async () => {
    const metrics = createMetrics()
    metrics.groupCommitted(32, 0.3)
    const { text } = await metrics.render()
    expect(text).toContain('collet_store_commit_rows_sum 32\n')
    expect(text).toContain('collet_store_commit_duration_seconds_count 1\n')
    expect(text).toContain('process_cpu_seconds_total')
  })
})
