import { z } from 'zod'
import { Secret } from '#core/secret'

const TEXT = z.string().min(1)
const LOOPBACK = /^(?:localhost|.+\.localhost|127(?:\.\d{1,3}){3}|\[::1\])$/

const SECRET = TEXT.transform((text) => new Secret(text))

/** Members of the options of every server that is asked over HTTP. */
export const SERVER_OPTIONS = {
  url: TEXT.refine(
    (text) => {
      const url = URL.parse(text)
      if (url === null || !/^https?:$/.test(url.protocol)) return false
      return url.username === '' && url.password === '' && url.search === '' && url.hash === ''
    },
    { error: 'expected an absolute http or https URL without user, query and fragment.' },
  ),
  /** The key of this server at the other one. */
  apiKey: SECRET.optional(),
  /** A bearer token instead. */
  token: SECRET.optional(),
}

export interface ServerCredentials {
  readonly url: string
  readonly apiKey?: Secret | undefined
  readonly token?: Secret | undefined
}

/** Keys in the clear could be anybody's, except on this machine (OTC-101). */
export function refuseOpenCredentials(
  { url, apiKey, token }: ServerCredentials,
  context: { addIssue(issue: { code: 'custom'; path: string[]; message: string }): void },
): void {
  const parsed = URL.parse(url)
  const isOpen = parsed !== null && parsed.protocol === 'http:' && !LOOPBACK.test(parsed.hostname)
  if (isOpen && (apiKey !== undefined || token !== undefined)) {
    const message = 'credentials are not sent over plain http; write the https address.'
    context.addIssue({ code: 'custom', path: ['url'], message })
  }
  if (apiKey !== undefined && token !== undefined) {
    context.addIssue({ code: 'custom', path: ['token'], message: 'write apiKey or token, not both.' })
  }
}
