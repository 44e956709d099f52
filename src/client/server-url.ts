import { configFailure } from './call-failure.ts'

/** Where a server lives: `base` has no trailing slash. */
export interface ServerUrl {
  readonly base: string
  readonly origin: string
  /** Whether credentials may travel there: TLS, or this machine (OTC-101). */
  readonly mayCarryCredentials: boolean
}

export function parseServerUrl(text: string | URL): ServerUrl {
  const url = URL.parse(String(text))
  if (url === null) {
    throw configFailure(
      'The server URL is not an absolute URL; write for example https://tools.example.com or http://127.0.0.1:4100.',
    )
  }
  if (url.protocol !== 'https:' && url.protocol !== 'http:') {
    throw configFailure(`The server URL must start with https:// or http://, not ${url.protocol}//.`)
  }
  if (url.username !== '' || url.password !== '') {
    throw configFailure(
      'The server URL must not contain a user name or password; pass apiKey or jwt instead.',
    )
  }
  if (url.search !== '' || url.hash !== '') {
    throw configFailure('The server URL must end with its path; remove everything from ? or # on.')
  }
  return {
    base: url.origin + url.pathname.replace(/\/+$/, ''),
    origin: url.origin,
    mayCarryCredentials: url.protocol === 'https:' || isLoopback(url.hostname),
  }
}

function isLoopback(hostname: string): boolean {
  return (
    hostname === 'localhost' ||
    hostname.endsWith('.localhost') ||
    hostname === '[::1]' ||
    /^127(?:\.\d{1,3}){3}$/.test(hostname)
  )
}
