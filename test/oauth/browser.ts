const MAX_STEPS = 25

export interface Page {
  readonly url: string
  readonly status: number
  readonly text: string
  readonly headers: Headers
}

/** A user's behaviour at the authorization server. */
export interface Person {
  readonly login: string
  /** Presses "cancel" on the consent page. */
  readonly denies?: boolean
  /** Whether the user follows the link on Collet's own page. Default: true. */
  readonly clicks?: boolean
  /** Checks an address before the browser opens it; `true` keeps the browser on its page. */
  readonly stopsAt?: (url: string) => boolean
}

/** Follows redirects, keeps cookies per site and fills in the forms of the authorization server. */
export class Browser {
  readonly #cookies = new Map<string, Map<string, string>>()
  readonly visited: string[] = []

  cookiesOf(url: string): ReadonlyMap<string, string> {
    return this.#cookies.get(new URL(url).host) ?? new Map()
  }

  /** One request, no redirect followed. */
  async get(url: string, init: RequestInit = {}): Promise<Page> {
    this.visited.push(url)
    const jar = this.#jar(url)
    const cookie = [...jar].map(([name, value]) => `${name}=${value}`).join('; ')
    const response = await fetch(url, {
      ...init,
      redirect: 'manual',
      headers: { ...(cookie === '' ? {} : { cookie }), ...init.headers },
    })
    for (const line of response.headers.getSetCookie()) keep(jar, line)
    return { url, status: response.status, text: await response.text(), headers: response.headers }
  }

  /** Follows redirects, links and forms until none is left. */
  async visit(start: string, person: Person): Promise<Page> {
    let page = await this.get(start)
    for (let step = 0; step < MAX_STEPS; step += 1) {
      const next = await this.#next(page, person)
      if (next === undefined) return page
      page = next
    }
    throw new Error(`lost after ${MAX_STEPS} steps at ${page.url}`)
  }

  async #next(page: Page, person: Person): Promise<Page | undefined> {
    const location = page.headers.get('location')
    if (location !== null && page.status >= 300 && page.status < 400) {
      const url = new URL(location, page.url).href
      return person.stopsAt?.(url) === true ? undefined : await this.get(url)
    }
    const action = /<form[^>]*action="([^"]+)"/.exec(page.text)?.[1]
    if (action !== undefined) return await this.#submit(page, action, person)
    const link = /<a href="([^"]+\/start)"/.exec(page.text)?.[1]
    return link === undefined || person.clicks === false
      ? undefined
      : await this.get(link, { headers: { 'sec-fetch-site': 'same-origin' } })
  }

  async #submit(page: Page, action: string, person: Person): Promise<Page> {
    const url = new URL(action, page.url).href
    const hidden = [...page.text.matchAll(/<input type="hidden" name="(\w+)" value="([^"]*)"/g)]
    const fields = Object.fromEntries(hidden.map(([, name = '', value = '']) => [name, value]))
    if (fields.prompt === 'consent' && person.denies === true) return await this.get(`${url}/abort`)
    const body = new URLSearchParams({ ...fields, login: person.login, password: 'any' })
    return await this.get(url, { method: 'POST', body })
  }

  #jar(url: string): Map<string, string> {
    const { host } = new URL(url)
    const jar = this.#cookies.get(host) ?? new Map<string, string>()
    this.#cookies.set(host, jar)
    return jar
  }
}

function keep(jar: Map<string, string>, line: string): void {
  const [pair = '', ...attributes] = line.split(';')
  const at = pair.indexOf('=')
  const name = pair.slice(0, at).trim()
  const isGone = attributes.some((each) => /^\s*(max-age=0|expires=Thu, 01 Jan 1970)/i.test(each))
  if (isGone) jar.delete(name)
  else jar.set(name, pair.slice(at + 1).trim())
}
