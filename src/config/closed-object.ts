import { z } from 'zod'
import { didYouMean } from '#core/nearest-name'

/** Separates the unknown keys of one object, which zod reports as one issue. */
export const LINE = '\n'

const HOME_OF: ReadonlyMap<string, string> = new Map(
  [
    ...['host', 'port', 'publicUrl', 'bodyLimitBytes', 'allowedOrigins', 'maxConnections', 'metricsPort'].map(
      (key) => `server.${key}`,
    ),
    ...['apiKeys', 'jwt', 'issuers', 'roles'].map((key) => `auth.${key}`),
    ...['retentionHours', 'defaultTimeoutMs', 'maxResultBytes'].map((key) => `calls.${key}`),
    'journal.retentionDays',
    ...['allow', 'maxResponseBytes', 'maxRedirects'].map((key) => `egress.${key}`),
    ...['stringIdsAreKeys', 'streaming'].map((key) => `opentool.${key}`),
    ...['instructions', 'pageSize'].map((key) => `mcp.${key}`),
    ...['perPrincipal', 'perTool', 'byPrincipal', 'byTool'].map((key) => `limits.${key}`),
    ...['providers', 'signIn', 'allowUnboundConsent'].map((key) => `oauth.${key}`),
    'telemetry.otlpEndpoint',
  ].map((path) => [path.slice(path.indexOf('.') + 1), path]),
)

/** An object that refuses keys it does not know, and says which one was probably meant. */
export function closed<Shape extends z.ZodRawShape>(shape: Shape) {
  const known = Object.keys(shape)
  return z.strictObject(shape, {
    error: (issue) => (issue.code === 'unrecognized_keys' ? unknownKeys(issue.keys, known) : undefined),
  })
}

function unknownKeys(keys: readonly string[], known: readonly string[]): string {
  return keys
    .map((key) => {
      const home = HOME_OF.get(key)
      const suggestion = home === undefined ? didYouMean(key, known) : ` Did you mean "${home}"?`
      return `unknown key "${key}".${suggestion === '' ? ` Known here: ${known.join(', ')}.` : suggestion}`
    })
    .join(LINE)
}
