import { describe, expect, it } from 'vitest'
import { otlpEndpoint, toOtlpSettings } from './otlp.ts'

const TELEMETRY = {
  otlpEndpoint: undefined,
  exports: ['traces', 'metrics'] as ('traces' | 'metrics')[],
  metricsIntervalMs: 60_000,
  tenantLabel: false,
}

describe('the variables of OpenTelemetry', () => {
  it('name addresses, headers, the interval and the resource', () => {
    const variables = {
      OTEL_EXPORTER_OTLP_ENDPOINT: 'http://a.example:4318',
      OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: 'https://b.example/traces',
      OTEL_EXPORTER_OTLP_HEADERS: 'authorization=Bearer%20key, x-team = a',
      OTEL_METRIC_EXPORT_INTERVAL: '5000',
      OTEL_RESOURCE_ATTRIBUTES: 'service.name=other,deployment.environment.name=prod',
      OTEL_SERVICE_NAME: 'front',
    }
    expect(otlpEndpoint(variables, { ...TELEMETRY, otlpEndpoint: 'http://c.example' })).toBe(
      'http://a.example:4318',
    )
    const { headers = {}, ...settings } = toOtlpSettings(variables, TELEMETRY)
    expect(settings).toEqual({
      traces: 'https://b.example/traces',
      metricsIntervalMs: 5_000,
      resource: { 'service.name': 'front', 'deployment.environment.name': 'prod' },
    })
    expect(Object.entries(headers).map(([name, value]) => [name, value.reveal()])).toEqual([
      ['authorization', 'Bearer key'],
      ['x-team', 'a'],
    ])
    expect(JSON.stringify(headers)).not.toContain('key')
  })

  it('turn off traces, metrics or both', () => {
    expect(toOtlpSettings({ OTEL_TRACES_EXPORTER: 'none' }, TELEMETRY)).toEqual({
      traces: false,
      metricsIntervalMs: 60_000,
    })
    expect(toOtlpSettings({ OTEL_SDK_DISABLED: 'true' }, TELEMETRY)).toMatchObject({
      traces: false,
      metrics: false,
    })
    const onlyMetrics = { ...TELEMETRY, exports: ['metrics' as const] }
    expect(toOtlpSettings({}, onlyMetrics)).toMatchObject({ traces: false })
    expect(toOtlpSettings({ OTEL_TRACES_EXPORTER: 'otlp' }, onlyMetrics)).not.toHaveProperty('traces')
  })

  it.each([
    ['OTEL_EXPORTER_OTLP_METRICS_ENDPOINT', 'collector:4318'],
    ['OTEL_EXPORTER_OTLP_HEADERS', 'no pair'],
    ['OTEL_RESOURCE_ATTRIBUTES', '=value'],
    ['OTEL_METRIC_EXPORT_INTERVAL', '5'],
    ['OTEL_TRACES_EXPORTER', 'zipkin'],
  ])('%s is refused if it is %s', (name, value) => {
    expect(() => toOtlpSettings({ [name]: value }, TELEMETRY)).toThrow(name)
  })
})
