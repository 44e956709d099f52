export type PathParameters = Readonly<Record<string, string>>

const NO_PARAMETERS: PathParameters = Object.freeze({})

/**
 * A route's path, matched exactly: the router under us also accepts percent-encoded spellings of a path, and
 * two spellings of one resource are one too many for whoever guards it.
 */
export class RoutePath {
  readonly pattern: string
  /** `undefined` for a path without parameters. */
  readonly #segments: readonly string[] | undefined

  constructor(pattern: string) {
    this.pattern = pattern
    this.#segments = pattern.includes(':') ? pattern.split('/') : undefined
  }

  /** The decoded parameters, or `undefined` when the path is another one. */
  match(path: string): PathParameters | undefined {
    if (this.#segments === undefined) return path === this.pattern ? NO_PARAMETERS : undefined
    const given = path.split('/')
    if (given.length !== this.#segments.length) return undefined
    const parameters: Record<string, string> = {}
    for (const [place, wanted] of this.#segments.entries()) {
      const segment = given[place] ?? ''
      if (!wanted.startsWith(':')) {
        if (segment !== wanted) return undefined
      } else {
        const decoded = decode(segment)
        if (decoded === undefined || decoded === '') return undefined
        parameters[wanted.slice(1)] = decoded
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

/** The part after the path, with its question mark; empty when there is none. */
export function queryOf(target: string): string {
  const start = target.indexOf('?')
  return start === -1 ? '' : target.slice(start)
}

function decode(segment: string): string | undefined {
  if (!segment.includes('%')) return segment
  try {
    return decodeURIComponent(segment)
  } catch {
    return undefined
  }
}
