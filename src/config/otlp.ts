import { Secret } from '#kernel/base/secret'
import { configError } from './load.ts'
import type { ParsedConfig } from './schema.ts'

/*
 * Where telemetry is exported. The standard variables of OpenTelemetry override the `telemetry` section of the config.
 * `to-settings.ts` uses it.
 * Invariant: headers, which may hold a credential, are secrets from here on.
 */

export interface OtlpSettings {
  /** URL for traces if it is not below the endpoint; false = traces are not exported. */
  readonly traces?: string | false
  /** URL for metrics if it is not below the endpoint; false = metrics are not exported. */
  readonly metrics?: string | false
  readonly headers?: Readonly<Record<string, Secret>>
  readonly metricsIntervalMs?: number
  /** Attributes of the resource besides those that Collet sets. */
  readonly resource?: Readonly<Record<string, string>>
}

type Variables = Readonly<Record<string, string | undefined>>
type Signal = 'traces' | 'metrics'

export function otlpEndpoint(variables: Variables, { otlpEndpoint: configured }: ParsedConfig['telemetry']) {
  return urlOf(variables, 'OTEL_EXPORTER_OTLP_ENDPOINT') ?? configured
}

export function toOtlpSettings(variables: Variables, telemetry: ParsedConfig['telemetry']): OtlpSettings {
  const name = variables.OTEL_SERVICE_NAME || undefined
  const resource = {
    ...pairsOf(variables, 'OTEL_RESOURCE_ATTRIBUTES'),
    ...(name === undefined ? {} : { 'service.name': name }),
  }
  const headers = Object.entries(pairsOf(variables, 'OTEL_EXPORTER_OTLP_HEADERS'))
  return {
    ...targetOf(variables, 'traces', telemetry.exports),
    ...targetOf(variables, 'metrics', telemetry.exports),
    ...(headers.length === 0
      ? {}
      : { headers: Object.fromEntries(headers.map(([key, value]) => [key, new Secret(value)])) }),
    metricsIntervalMs: intervalOf(variables) ?? telemetry.metricsIntervalMs,
    ...(Object.keys(resource).length === 0 ? {} : { resource }),
  }
}

/** `OTEL_SDK_DISABLED` and the exporter `none` turn a kind of telemetry off. */
function targetOf(
  variables: Variables,
  signal: Signal,
  exported: readonly Signal[],
): Pick<OtlpSettings, Signal> {
  const prefix = signal.toUpperCase()
  const exporter = variables[`OTEL_${prefix}_EXPORTER`] || undefined
  if (exporter !== undefined && exporter !== 'otlp' && exporter !== 'none')
    throw configError('expected "otlp" or "none".', { where: `OTEL_${prefix}_EXPORTER` })
  const isOff = exporter === undefined ? !exported.includes(signal) : exporter === 'none'
  if (isOff || variables.OTEL_SDK_DISABLED?.toLowerCase() === 'true') return { [signal]: false }
  const url = urlOf(variables, `OTEL_EXPORTER_OTLP_${prefix}_ENDPOINT`)
  return url === undefined ? {} : { [signal]: url }
}

function urlOf(variables: Variables, name: string): string | undefined {
  const text = variables[name] || undefined
  if (text === undefined || /^https?:$/.test(URL.parse(text)?.protocol ?? '')) return text
  throw configError('expected an http or https URL, for example "http://127.0.0.1:4318".', { where: name })
}

/** Pairs `name=value`, separated by commas, percent-encoded as in W3C Baggage. */
function pairsOf(variables: Variables, name: string): Readonly<Record<string, string>> {
  const parts = (variables[name] ?? '').split(',').filter((part) => part.trim() !== '')
  return Object.fromEntries(
    parts.map((part) => {
      const at = part.indexOf('=')
      const key = part.slice(0, at).trim()
      const value = decoded(part.slice(at + 1).trim())
      if (at > 0 && key !== '' && value !== undefined) return [key, value]
      throw configError('expected pairs "name=value", separated by commas.', { where: name })
    }),
  )
}

function decoded(text: string): string | undefined {
  try {
    return decodeURIComponent(text)
  } catch {
    return undefined
  }
}

const MIN_INTERVAL_MS = 1_000
const MAX_INTERVAL_MS = 3_600_000

function intervalOf(variables: Variables): number | undefined {
  const text = variables.OTEL_METRIC_EXPORT_INTERVAL || undefined
  if (text === undefined) return undefined
  const ms = Number(text)
  if (Number.isInteger(ms) && ms >= MIN_INTERVAL_MS && ms <= MAX_INTERVAL_MS) return ms
  const message = `expected milliseconds from ${MIN_INTERVAL_MS} to ${MAX_INTERVAL_MS}.`
  throw configError(message, { where: 'OTEL_METRIC_EXPORT_INTERVAL' })
}
