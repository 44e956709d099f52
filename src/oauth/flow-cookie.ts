import { randomBytes, timingSafeEqual } from 'node:crypto'

const SECRET_BYTES = 32

/** Names what a cookie is about in its name, so that several flows in one browser never meet. */
export interface CookieJarOptions {
  /** Whether browsers reach us by https; only then can a cookie be kept to this very host. */
  readonly isSecure: boolean
  readonly maxAgeSeconds: number
}

/** The cookies of consent: one per way out, unreadable for scripts, gone within minutes (rule 25). */
export class FlowCookies {
  readonly #options: CookieJarOptions

  constructor(options: CookieJarOptions) {
    this.#options = options
  }

  newSecret(): string {
    return randomBytes(SECRET_BYTES).toString('base64url')
  }

  /** `Strict` cookies come only with clicks on our own pages, `Lax` ones also when another site sends the browser back. */
  set(name: string, value: string, sameSite: 'Lax' | 'Strict'): Readonly<Record<string, string>> {
    const { isSecure, maxAgeSeconds } = this.#options
    const secure = isSecure ? '; Secure' : ''
    const attributes = `Path=/; Max-Age=${maxAgeSeconds}; HttpOnly; SameSite=${sameSite}${secure}`
    return { 'set-cookie': `${this.#nameOf(name)}=${value}; ${attributes}` }
  }

  clear(name: string): Readonly<Record<string, string>> {
    const secure = this.#options.isSecure ? '; Secure' : ''
    return { 'set-cookie': `${this.#nameOf(name)}=; Path=/; Max-Age=0; HttpOnly; SameSite=Lax${secure}` }
  }

  /** `undefined` when the browser sent none, or two: nobody may plant a second one. */
  read(header: string | undefined, name: string): string | undefined {
    const wanted = this.#nameOf(name)
    const found = (header ?? '')
      .split(/[;,]/)
      .map((pair) => pair.trim().split('='))
      .filter(([key]) => key === wanted)
    return found.length === 1 ? found[0]?.[1] : undefined
  }

  #nameOf(name: string): string {
    return this.#options.isSecure ? `__Host-collet-${name}` : `collet-${name}`
  }
}

export function isSameText(left: string, right: string): boolean {
  const [one, other] = [Buffer.from(left), Buffer.from(right)]
  return one.length === other.length && timingSafeEqual(one, other)
}
