import type { ApiKeySettings, JwtSettings } from '#config/settings'

const FEWEST_CHARACTERS = 32
const FEWEST_DISTINCT = 12

/** What is configured to know callers by; nobody's principal or scopes matter here. */
export interface Credentials {
  readonly apiKeys: readonly Pick<ApiKeySettings, 'id' | 'key' | 'tools'>[]
  readonly jwt?: Pick<JwtSettings, 'secret'> | undefined
}

/**
 * One sentence for each credential that is easy to guess (OTC-103). A warning on loopback, a reason not to
 * start elsewhere. Never contains the credential.
 */
export function findWeakCredentials(auth: Credentials): readonly string[] {
  const weak: string[] = []
  for (const { id, key } of auth.apiKeys) {
    const reason = weaknessOf(key.reveal())
    if (reason !== undefined) weak.push(`The API key of "${id}" ${reason}. ${ADVICE}`)
  }
  const reason = auth.jwt === undefined ? undefined : weaknessOf(auth.jwt.secret.reveal())
  if (reason !== undefined) weak.push(`The JWT secret ${reason}. ${ADVICE}`)
  return weak
}

const ADVICE = 'Use 32 random bytes or more, for example the output of: openssl rand -base64 32'

function weaknessOf(text: string): string | undefined {
  const bytes = Buffer.byteLength(text)
  if (bytes < FEWEST_CHARACTERS) return `has only ${bytes} bytes`
  const distinct = new Set(text).size
  return distinct < FEWEST_DISTINCT ? `repeats itself: only ${distinct} different characters` : undefined
}
