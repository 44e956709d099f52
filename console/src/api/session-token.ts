/**
 * The token without which a session's cookie is not accepted. The server sends it once to the page that signs in: in the answer to
 * a key, or in the fragment of the address after a sign-in by link or provider. It is stored per origin, for all windows. Other
 * ports of the host receive the cookie, but never the token.
 */
export const sessionToken = {
  get(): string | null {
    return read(localStorageOf, TOKEN()) ?? inMemory
  },
  /** Does nothing for `null`, because another window may have signed in in the meantime. */
  keep(token: string | null): void {
    if (token === null) return
    inMemory = token
    write(localStorageOf, TOKEN(), token)
  },
  forget(): void {
    inMemory = null
    write(localStorageOf, TOKEN(), null)
  },
}

/** Used if the browser has no storage: the session then ends when the page is left. */
let inMemory: string | null = null

/**
 * Takes the token out of the address before other code reads it. A token from a provider is accepted only in the window that left
 * for that provider, and a token without a provider only from an operator's link. Otherwise another program could sign this
 * browser in as someone else.
 */
export function takeTokenFromAddress(): void {
  const fragment = new URLSearchParams(location.hash.slice(1))
  const token = fragment.get('session')
  if (token === null) return
  history.replaceState(history.state, '', location.pathname + location.search)
  const pageNonce = fragment.get('page_nonce')
  const isExpected =
    pageNonce === null ? token.startsWith('operator.') : pageNonce === read(sessionStorageOf, NONCE_NAME)
  write(sessionStorageOf, NONCE_NAME, null)
  if (isExpected) sessionToken.keep(token)
}

/** Goes to the provider's sign-in, which returns to this page. */
export function leaveForProvider(): void {
  const bytes = crypto.getRandomValues(new Uint8Array(24))
  const pageNonce = [...bytes].map((byte) => byte.toString(16).padStart(2, '0')).join('')
  write(sessionStorageOf, NONCE_NAME, pageNonce)
  const to = encodeURIComponent(location.pathname + location.search)
  location.assign(addressOf(`/console/sign-in?page_nonce=${pageNonce}&to=${to}`))
}

/** The URL of a path on the server. The server itself may be below a path: the page's base is `…/console/`. */
export function addressOf(path: string): string {
  return new URL(path.replace(/^\//, ''), new URL('..', document.baseURI)).href
}

const NONCE_NAME = 'collet-sign-in-nonce'
/** The path is part of the name, because several servers may share an origin. */
const TOKEN = (): string => `collet-session ${new URL(addressOf('/')).pathname}`

const localStorageOf = (): Storage => localStorage
const sessionStorageOf = (): Storage => sessionStorage

function read(storage: () => Storage, name: string): string | null {
  try {
    return storage().getItem(name)
  } catch {
    return null
  }
}

function write(storage: () => Storage, name: string, text: string | null): void {
  try {
    if (text === null) storage().removeItem(name)
    else storage().setItem(name, text)
  } catch {
    // Storage is unavailable; the token stays in memory.
  }
}
