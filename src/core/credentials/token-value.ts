import { Secret } from '#core/secret'
import { StoreError } from '#core/store-error'

/** What the vault keeps as the value of a token: the access token, and what renews it. */
export interface TokenValue {
  readonly accessToken: Secret
  readonly refreshToken: Secret | undefined
}

export function packToken({ accessToken, refreshToken }: TokenValue): Secret {
  return new Secret(JSON.stringify([accessToken.reveal(), refreshToken?.reveal() ?? null]))
}

export function unpackToken(value: Secret): TokenValue {
  const [access, refresh] = parse(value)
  if (typeof access !== 'string' || access === '')
    throw new StoreError('unreadable', 'a token in the vault is damaged')
  return {
    accessToken: new Secret(access),
    refreshToken: typeof refresh === 'string' ? new Secret(refresh) : undefined,
  }
}

/** The parser's own message would quote the value. */
function parse(value: Secret): readonly unknown[] {
  try {
    const parsed: unknown = JSON.parse(value.reveal())
    return Array.isArray(parsed) ? parsed : []
  } catch {
    return []
  }
}
