import { compareVersions, isToolVersion, LATEST, parseToolName, plainVersion } from '#kernel/base/ids'
import { defined } from '#kernel/base/json'
import {
  API_KEY_HEADERS,
  type ApiKeyHeader,
  detectWire,
  type FoundTools,
  PINNED_WIRES,
  type RemoteTool,
  readFoundTools,
  readToolList,
  type ServerWire,
  VERSION_HEADER,
  versionHeaders,
} from '#protocols/otc/codec-client'
import { readRefusal } from '#protocols/otc/codec-client-reply'
import { CallFailure } from './failure.ts'
import { awaitShared, type HttpAnswer } from './http.ts'
import type { ClientSettings } from './options.ts'
import { sendOrFail } from './retries.ts'

/**
 * The tool list of an OTC server, read once and shared by all calls of a client. It also detects the dialect and
 * the header for API keys. Invariant: concurrent readers share one request, and a tool counts as unknown only after a
 * fresh list.
 */

export type { FoundTools }

/** The answer to `GET /tools`. */
export interface Listing {
  readonly tools: readonly RemoteTool[]
  readonly wire: ServerWire
  /** The header in which the key was accepted, if it is not the default header. */
  readonly keyHeader?: ApiKeyHeader
  readonly listedAtMs: number
  /** Finds a tool by any of its names. */
  readonly find: (requested: string) => RemoteTool | undefined
}

/** A list that is older is read again before a tool counts as unknown. */
const FRESH_MS = 60_000

/** Statuses with which servers of other protocols answer `GET /tools`. */
const REFUSALS: ReadonlySet<number> = new Set([401, 404, 405])

export class ToolDirectory {
  readonly #settings: ClientSettings
  #known: Listing | undefined
  #loading: Promise<Listing> | undefined
  #isRefused = false

  constructor(settings: ClientSettings) {
    this.#settings = settings
  }

  /** True if no list was ever read and the last answer was a refusal. */
  get isRefused(): boolean {
    return this.#isRefused && this.#known === undefined
  }

  /** The list as last read; reads it first if necessary. */
  async current(signal?: AbortSignal): Promise<Listing> {
    return this.#known ?? (await this.refresh(signal))
  }

  /** Reads the list again; concurrent callers share one request. */
  async refresh(signal?: AbortSignal): Promise<Listing> {
    const loading = this.#loading ?? this.#load()
    this.#loading = loading
    // All waiters may have left by the time the request fails.
    loading.catch(() => undefined)
    return await awaitShared(loading, signal, 'Listing the tools')
  }

  /** Asks the server which tools fit a text. */
  async search(
    text: string,
    { limit, signal }: { readonly limit?: number | undefined; readonly signal?: AbortSignal | undefined },
  ): Promise<FoundTools> {
    const { keyHeader } = await this.current(signal)
    const query = new URLSearchParams(defined({ q: text, limit: limit?.toString() }))
    const asked = this.#get(keyHeader, `?${query}`)
    const answer = await awaitShared(asked, signal, 'Searching the tools')
    const { status, body = null } = answer
    if (status < 200 || status > 299) throw refusedList(answer)
    const found = readFoundTools(body)
    if (found !== undefined) return found
    throw new CallFailure(
      'transport',
      'The server answered a search with something that is not a tool list.',
      {
        status,
      },
    )
  }

  /** Finds a tool by any of its names; on the wire it has its full id (OTC/C-15). */
  async find(id: string, signal?: AbortSignal): Promise<RemoteTool | undefined> {
    const listing = await this.current(signal)
    const found = listing.find(id)
    if (found !== undefined || this.#settings.now() - listing.listedAtMs < FRESH_MS) return found
    return (await this.refresh(signal)).find(id)
  }

  async #load(): Promise<Listing> {
    try {
      this.#known = await this.#read()
      return this.#known
    } finally {
      this.#loading = undefined
    }
  }

  async #read(): Promise<Listing> {
    const { dialect, now } = this.#settings
    const { answer, keyHeader } = await this.#ask()
    const { status, headers, body = null } = answer
    this.#isRefused = REFUSALS.has(status)
    if (status < 200 || status > 299) throw refusedList(answer)
    const tools = readToolList(body)
    if (tools === undefined) {
      const message = 'The server answered GET /tools with something that is not a tool list.'
      throw new CallFailure('transport', message, { status })
    }
    const wire = dialect === undefined ? detectWire(body, headers.get(VERSION_HEADER)) : PINNED_WIRES[dialect]
    return { tools, wire, ...defined({ keyHeader }), listedAtMs: now(), find: indexTools(tools) }
  }

  /** Servers with other dialects read API keys from other headers, so a 401 is retried with those headers (OTC/C-25). */
  async #ask(): Promise<{ readonly answer: HttpAnswer; readonly keyHeader: ApiKeyHeader | undefined }> {
    const { credentials, dialect } = this.#settings
    const first = { answer: await this.#get(this.#known?.keyHeader), keyHeader: this.#known?.keyHeader }
    if (first.answer.status !== 401 || !credentials.usesApiKey || dialect !== undefined) return first
    for (const keyHeader of API_KEY_HEADERS.slice(1)) {
      const answer = await this.#get(keyHeader)
      if (answer.status !== 401) return { answer, keyHeader }
    }
    return first
  }

  async #get(keyHeader: ApiKeyHeader | undefined, query = ''): Promise<HttpAnswer> {
    const { server, credentials, dialect, signal } = this.#settings
    const request = {
      method: 'GET' as const,
      // There is no body, because fetch cannot send a body with GET (OTC/C-31).
      url: `${server.base}/tools${query}`,
      headers: async () => ({
        ...versionHeaders(dialect),
        ...(await credentials.headers(dialect, keyHeader)),
      }),
    }
    const rules = { settings: this.#settings, signal, dedupes: true, progress: { resent: 0 } }
    return await sendOrFail(request, rules)
  }
}

function refusedList({ status, body }: HttpAnswer): CallFailure {
  const refusal = readRefusal(status, body)
  const advice = ' This address has no GET /tools: check the URL, or pin `dialect` to call without a list.'
  const message = `Listing the tools failed: ${refusal.message}${status === 404 ? advice : ''}`
  return new CallFailure(refusal.class, message, { ...refusal, status })
}

/** Finds tools by any of their names (docs/names.md): first ids, then names for models, then catalog ids. */
export function indexTools(tools: readonly RemoteTool[]): (requested: string) => RemoteTool | undefined {
  const byId = new Map(tools.toReversed().map((tool) => [tool.id, tool]))
  const byName = [
    Map.groupBy(tools, ({ id }) => baseOf(id)),
    Map.groupBy(tools, ({ name }) => name),
    Map.groupBy(tools, ({ facts }) => facts?.catalogId),
  ]
  return (requested) => {
    const exact = byId.get(requested)
    if (exact !== undefined) return exact
    const { base, version } = parseToolName(requested) ?? { base: requested, version: LATEST }
    const named = byName.map((tools) => tools.get(base)).find((found) => found !== undefined)
    return named === undefined ? undefined : chooseVersion(named, version)
  }
}

/** Every name that `requested` of `indexTools` may take for a tool; another tool may have the same name. */
export function spellings({ id, name, facts }: RemoteTool): readonly string[] {
  const base = baseOf(id)
  if (base === id) return [...new Set([id, name])]
  const version = versionOf({ id })
  const bases = [base, name, ...(facts === undefined ? [] : [facts.catalogId])]
  const major = /^([0-9]+)\.0\.0$/.exec(version)?.[1]
  const versions = [version, ...(major === undefined ? [] : [major])]
  return [...new Set([...bases, ...bases.flatMap((each) => versions.map((at) => `${each}@${at}`))])]
}

/** If the tools are not versions of one tool, the server decides. */
function chooseVersion(named: readonly RemoteTool[], version: string): RemoteTool | undefined {
  const [first] = named
  if (first === undefined || named.some(({ id }) => baseOf(id) !== baseOf(first.id))) return undefined
  if (version !== LATEST) return named.find((tool) => plainVersion(versionOf(tool)) === version)
  if (baseOf(first.id) === first.id) return first
  return named.reduce((newest, tool) =>
    compareVersions(versionOf(tool), versionOf(newest)) > 0 ? tool : newest,
  )
}

/** The id without its version, if it ends with a version in Collet's format; other ids stay whole. */
function baseOf(id: string): string {
  const at = id.lastIndexOf('@')
  return at > 0 && isToolVersion(id.slice(at + 1)) ? id.slice(0, at) : id
}

function versionOf({ id }: Pick<RemoteTool, 'id'>): string {
  return id.slice(id.lastIndexOf('@') + 1)
}
