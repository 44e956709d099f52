/**
 * The token that makes the session's cookie count. The server gives it once, to the page that signs in: in the answer to a key, or in
 * the fragment of the address that a link or a provider leads to. It is kept where only pages of this origin read it, all windows
 * alike; other ports of the host get the cookie, and never the token.
 */
export const sessionToken = {
  get(): string | null {
    return read(localStorageOf, TOKEN()) ?? inMemory
  },
  /** Nothing is taken away by `null`: another window may have signed in meanwhile. */
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

/** A browser that keeps nothing is signed in until the page is left. */
let inMemory: string | null = null

/**
 * Takes the token out of the address, before anything else reads it. One that a provider led here with counts only in the window
 * that left for it; without that only an operator's link may bring one. Else another program could sign this browser in as someone
 * else.
 */
export function takeTokenFromAddress(): void {
  const brought = new URLSearchParams(location.hash.slice(1))
  const token = brought.get('session')
  if (token === null) return
  history.replaceState(history.state, '', location.pathname + location.search)
  const way = brought.get('way')
  const isOwn = way === null ? token.startsWith('operator.') : way === read(sessionStorageOf, WAY)
  write(sessionStorageOf, WAY, null)
  if (isOwn) sessionToken.keep(token)
}

/** Where to sign in with a provider; it leads back to the page that is open now. */
export function leaveForProvider(): void {
  const bytes = crypto.getRandomValues(new Uint8Array(24))
  const way = [...bytes].map((byte) => byte.toString(16).padStart(2, '0')).join('')
  write(sessionStorageOf, WAY, way)
  const to = encodeURIComponent(location.pathname + location.search)
  location.assign(addressOf(`/console/sign-in?way=${way}&to=${to}`))
}

/** An address of the server, which may be below a path: the page's base is `…/console/`. */
export function addressOf(path: string): string {
  return new URL(path.replace(/^\//, ''), new URL('..', document.baseURI)).href
}

const WAY = 'collet-way-out'
/** Several servers may share an origin, each below a path of its own. */
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
    // A browser that keeps nothing does without.
  }
}
