/**
 * PostgreSQL addresses in the form that its own tools use: `postgres://user:password@host:5432/database?sslmode=…`. Omitted parts come
 * from the variables of those tools (`PGHOST`, `PGUSER`, `PGPASSWORD` …) or from their defaults. Messages never repeat an address,
 * because it may contain a password.
 */

export function problemOfAddress(text: string): string | undefined {
  const url = parse(text)
  if (url === undefined) return `expected ${EXAMPLE}; write "%40" for "@" inside a password.`
  if (url.hash !== '') return '"#" is not allowed here; write "%23" for "#" inside a password.'
  if (url.pathname.lastIndexOf('/') > 0) return `expected one database name after the host: ${EXAMPLE}.`
  // A mistyped `sslmode` must not lead to an unencrypted connection.
  for (const name of new Set(url.searchParams.keys())) {
    const [value = '', ...others] = url.searchParams.getAll(name)
    if (!PARAMETERS.includes(name))
      return `"${name.slice(0, 40)}" is not a known parameter. Known parameters: ${PARAMETERS.join(', ')}.`
    if (others.length > 0) return `"${name}" is given twice.`
    if (name === 'sslmode' && !SSL_MODES.has(value))
      return `sslmode must be one of ${[...SSL_MODES.keys()].join(', ')}.`
    if (name === DIRECT && directHost(value) === undefined) return 'direct must be HOST or HOST:PORT.'
    if (name === LEASE && leaseOf(value) === undefined)
      return `lease must be a whole number of seconds from ${MIN_LEASE_S} to ${MAX_LEASE_S}.`
  }
  return undefined
}

/** The address for display, without password and parameters. */
export function shownAddress(text: string): string {
  const url = parse(text)
  if (url === undefined) return 'postgres:'
  const { searchParams, username, hostname, port, pathname } = url
  const user = searchParams.get('user') ?? decoded(username)
  const host = searchParams.get('host') ?? decoded(hostname)
  const hostAndPort = [host, searchParams.get('port') ?? port].filter((part) => part !== '').join(':')
  return `postgres://${user === '' ? '' : `${user}@`}${hostAndPort}${decoded(pathname)}`
}

const LOCAL = /^(?:|localhost|127(?:\.\d{1,3}){3}|\[?::1\]?|\/.*)$/

/** `undefined` for an encrypted or local connection. */
export function unencryptedWarning(text: string): string | undefined {
  const url = parse(text)
  if (url === undefined) return undefined
  const host = url.searchParams.get('host') ?? decoded(url.hostname)
  const mode = url.searchParams.get('sslmode') ?? 'disable'
  if (LOCAL.test(host) || mode !== 'disable') return undefined
  return `The connection to PostgreSQL on ${host} is not encrypted. Add sslmode=require to the store's address, unless the network in between is private.`
}

/** The address for the driver. With TLS the certificate is always checked, even for `require`, because encryption alone does not protect. */
export function connectionAddress(text: string): string {
  const url = parse(text)
  if (url === undefined || url.search === '') return text
  const asked = url.searchParams.get('sslmode')
  if (asked !== null) url.searchParams.set('sslmode', SSL_MODES.get(asked) ?? asked)
  for (const name of [DIRECT, LEASE]) url.searchParams.delete(name)
  return url.href
}

/** The address of the database behind a pooler, if the parameter `direct` states its host and port. */
export function directAddress(text: string): string | undefined {
  const url = parse(text)
  const host = directHost(url?.searchParams.get(DIRECT) ?? '')
  if (url === undefined || host === undefined) return undefined
  for (const name of ['host', 'port']) url.searchParams.delete(name)
  url.host = host
  return connectionAddress(url.href)
}

/** The lease in milliseconds, from the address or the default. */
export function leaseOfAddress(text: string): number {
  const asked = parse(text)?.searchParams.get(LEASE) ?? ''
  return (leaseOf(asked) ?? DEFAULT_LEASE_S) * 1_000
}

const DIRECT = 'direct'
const LEASE = 'lease'
const DEFAULT_LEASE_S = 10
/** Dead writers are looked for every five seconds, and their calls must be settled within two leases. */
const MIN_LEASE_S = 5
const MAX_LEASE_S = 300

function leaseOf(value: string): number | undefined {
  const seconds = /^\d{1,3}$/.test(value) ? Number(value) : 0
  return seconds >= MIN_LEASE_S && seconds <= MAX_LEASE_S ? seconds : undefined
}

function directHost(value: string): string | undefined {
  return /^(?:\[[\da-fA-F:.]+\]|[^\s/?#@:[\]]+)(?::\d{1,5})?$/.test(value) ? value : undefined
}

const EXAMPLE = '"postgres://user:password@host:5432/database"'

const PARAMETERS = [
  'sslmode',
  'sslrootcert',
  'sslcert',
  'sslkey',
  'sslnegotiation',
  'host',
  'port',
  'user',
  'password',
  'application_name',
  DIRECT,
  LEASE,
]

/** The modes that an address may have, with the driver's mode for each. */
const SSL_MODES: ReadonlyMap<string, string> = new Map([
  ['disable', 'disable'],
  ['require', 'verify-full'],
  ['verify-ca', 'verify-full'],
  ['verify-full', 'verify-full'],
  ['no-verify', 'no-verify'],
])

function parse(text: string): URL | undefined {
  return /^postgres(?:ql)?:\/\//.test(text) ? (URL.parse(text) ?? undefined) : undefined
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}
