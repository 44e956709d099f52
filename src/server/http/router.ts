import type { RequestHeaders } from '#auth/authenticator'
import type { Principal } from '#kernel/base/principal'
import type { MaybePromise } from '#kernel/base/waiting'
import type { HttpRoute } from '#protocols/http-exchange'

/*
 * Finds the route of a request by method and path. Used by the HTTP app and the in-process client of the admin API.
 * Invariant: paths match exactly as sent, and a fixed segment wins over a parameter.
 */

/** A route of a protocol or of the server itself; routes of the server may authenticate differently. */
export interface ServerRoute extends HttpRoute {
  /** Replaces the authentication of the server. */
  readonly authenticate?: (headers: RequestHeaders) => MaybePromise<Principal>
}

export type PathParameters = Readonly<Record<string, string>>

export const NO_PARAMETERS: PathParameters = Object.freeze({})

export interface FoundRoute {
  readonly route: ServerRoute
  readonly params: PathParameters
}

interface RouteEntry {
  readonly route: ServerRoute
  readonly path: RoutePath
}

interface MethodRoutes {
  /** Paths without parameters, found by one look-up. */
  readonly exact: Map<string, FoundRoute>
  /** Paths with parameters, the most specific first. */
  readonly patterns: RouteEntry[]
}

/** The routes of one port. Paths are not normalised, so a resource has one spelling, and access checks cover only that spelling. */
export class Router {
  readonly #entries: readonly RouteEntry[]
  readonly #byMethod = new Map<string, MethodRoutes>()
  /** Routes that own a path, the longest path first. */
  readonly #owners: readonly ServerRoute[]

  constructor(routes: readonly ServerRoute[]) {
    this.#owners = routes
      .filter(({ owns }) => owns !== undefined)
      .toSorted((left, right) => (right.owns ?? '').length - (left.owns ?? '').length)
    this.#entries = routes.map((route) => ({ route, path: new RoutePath(route.path) }))
    for (const entry of this.#entries) for (const method of methodsOf(entry.route)) this.#add(method, entry)
    for (const { patterns } of this.#byMethod.values())
      patterns.sort((left, right) => (left.path.rank < right.path.rank ? -1 : 1))
  }

  find(method: string, path: string): FoundRoute | undefined {
    const routes = this.#byMethod.get(method)
    if (routes === undefined) return undefined
    const exact = routes.exact.get(path)
    if (exact !== undefined) return exact
    for (const { route, path: pattern } of routes.patterns) {
      const params = pattern.match(path)
      if (params !== undefined) return { route, params }
    }
    return undefined
  }

  /** Every route of this path, with any method. */
  at(path: string): readonly ServerRoute[] {
    return this.#entries.filter((entry) => entry.path.match(path) !== undefined).map(({ route }) => route)
  }

  /** The route that owns the longest prefix of this path. */
  ownerOf(path: string): ServerRoute | undefined {
    return this.#owners.find(({ owns = '' }) => path === owns || path.startsWith(`${owns}/`))
  }

  #add(method: string, entry: RouteEntry): void {
    const routes: MethodRoutes = this.#byMethod.get(method) ?? { exact: new Map(), patterns: [] }
    this.#byMethod.set(method, routes)
    const { route, path } = entry
    const isTaken = path.hasParameters
      ? routes.patterns.some((other) => other.path.rank === path.rank)
      : routes.exact.has(path.pattern)
    if (isTaken) throw new Error(`Two routes serve ${method} ${path.pattern}.`)
    if (path.hasParameters) routes.patterns.push(entry)
    else routes.exact.set(path.pattern, { route, params: NO_PARAMETERS })
  }
}

/** The methods of these routes, for the `Allow` header. */
export function allowedMethods(routes: readonly ServerRoute[]): string {
  return [...new Set(routes.flatMap(methodsOf))].sort().join(', ')
}

function methodsOf({ method }: ServerRoute): readonly string[] {
  return method === 'GET' ? ['GET', 'HEAD'] : [method]
}

/** The path of a route, for example `/calls/:id`. Case, slashes and percent-encoding of fixed segments must match exactly. */
export class RoutePath {
  readonly pattern: string
  readonly hasParameters: boolean
  /** Sorts a fixed segment before a parameter in the same position; equal for patterns that match the same paths. */
  readonly rank: string
  readonly #segments: readonly string[]
  /** The pattern up to its first parameter. */
  readonly #start: string

  constructor(pattern: string) {
    this.pattern = pattern
    this.hasParameters = pattern.includes(':')
    this.#segments = pattern.split('/')
    this.rank = this.#segments.map((segment) => (segment.startsWith(':') ? '\uffff' : segment)).join('/')
    this.#start = pattern.replace(/:.*$/, '')
  }

  /** The decoded parameters; `undefined` if the path does not match. */
  match(path: string): PathParameters | undefined {
    if (!this.hasParameters) return path === this.pattern ? NO_PARAMETERS : undefined
    if (!path.startsWith(this.#start)) return undefined
    const segments = path.split('/')
    if (segments.length !== this.#segments.length) return undefined
    const parameters: Record<string, string> = {}
    for (const [index, expected] of this.#segments.entries()) {
      const segment = segments[index] ?? ''
      if (!expected.startsWith(':')) {
        if (segment !== expected) return undefined
      } else {
        const decoded = percentDecoded(segment)
        if (decoded === undefined || decoded === '') return undefined
        parameters[expected.slice(1)] = decoded
      }
    }
    return parameters
  }
}

/** The part of a request target before its query. */
export function pathOf(target: string): string {
  const end = target.indexOf('?')
  return end === -1 ? target : target.slice(0, end)
}

/** Returns `undefined` if the percent-encoding is not valid UTF-8. */
export function percentDecoded(text: string): string | undefined {
  if (!text.includes('%')) return text
  try {
    return decodeURIComponent(text)
  } catch {
    return undefined
  }
}
