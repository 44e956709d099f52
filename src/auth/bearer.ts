const SCHEME = 'bearer '

/** The credential of an `Authorization: Bearer` header; `undefined` for any other scheme or an empty one. */
export function readBearer(authorization: string): string | undefined {
  if (authorization.slice(0, SCHEME.length).toLowerCase() !== SCHEME) return undefined
  const credential = authorization.slice(SCHEME.length).trim()
  return credential === '' ? undefined : credential
}
