import { ADD_SOURCE, CHANGE_SOURCE, FIND_SOURCES } from '#admin-api/sources'
import { AdminClient, type AdminOption } from '#cli/admin-client'
import { Arguments, type CommandContext, UsageError } from '#cli/command'
import { DEFAULT_URL, findServer, takesTokenOf } from '#cli/server-address'
import { chosenStore, configHere, ensureStore, hasStore } from '#cli/store-access'
import { defined } from '#kernel/base/defined'
import type { JsonObject } from '#kernel/base/json'
import { createSourceRoutes } from '#server/admin/sources'
import { isOwnMcpAddress } from '#server/import/client-servers'

/**
 * Where imported sources are stored: on the server that `--url` names, or in the store, which running servers watch.
 * `collet import` and `collet sources set` use it. Invariant: config and database are created only when the first
 * source is added.
 */

/** `--key` names the source in `collet import`, so the caller's key is `credential`. */
interface RegistryAddress {
  /** `--url`: the server that stores them. */
  readonly url: string | undefined
  readonly credential: string | undefined
  readonly store: string | undefined
  readonly config: string | undefined
}

/** A source that already has an upstream. */
export interface KnownSource {
  readonly key: string
  /** Credentials whose values differ from the given ones: `env.TOKEN`, `headers.Authorization`. */
  readonly changed: readonly string[]
}

interface Found {
  /** For each upstream that was asked about, the sources that have it already. */
  readonly found: readonly (readonly KnownSource[])[]
  readonly taken: readonly string[]
}

interface NewSource {
  readonly key: string
  readonly options: JsonObject
  readonly replace: boolean
}

export class SourceRegistry {
  readonly #args: Arguments<AdminOption>
  readonly #context: CommandContext
  readonly #client: AdminClient
  readonly #isServer: boolean

  constructor({ url, credential, store, config }: RegistryAddress, context: CommandContext) {
    const given = Object.entries({ url, key: credential, store, config })
    const values = given.flatMap(([name, value]) => (value === undefined ? [] : [[name, [value]] as const]))
    this.#args = new Arguments([], new Map(values), new Set())
    this.#context = context
    this.#isServer = url !== undefined || credential !== undefined
    this.#client = new AdminClient(this.#args, context, {
      asksServer: this.#isServer,
      onStore: ({ store: { sources, pins }, access }) =>
        createSourceRoutes(access, { store: sources, pins, clock: context.clock, isConfigured: () => false }),
    })
  }

  /** Keys of sources in the config, which take precedence; none without a config. */
  async configuredKeys(): Promise<ReadonlySet<string>> {
    return new Set(
      this.#isServer ? [] : Object.keys((await configHere(this.#args, this.#context))?.config.sources ?? {}),
    )
  }

  /** Returns a test for addresses of this config's own MCP server. */
  async ownAddress(): Promise<(text: string) => boolean> {
    return isOwnMcpAddress(
      (await configHere(this.#args, this.#context))?.config.server.port ?? Number(new URL(DEFAULT_URL).port),
    )
  }

  /** Finds the sources that have these upstreams already, and all keys in use. */
  async find(options: readonly JsonObject[]): Promise<Found> {
    const configured = await this.configuredKeys()
    if (!this.#isServer && !(await hasStore(this.#args, this.#context)))
      return { found: options.map(() => []), taken: [...configured] }
    const { found, taken } = await this.#client.ask(FIND_SOURCES, { body: { options }, isQuestion: true })
    return { found, taken: [...taken, ...configured] }
  }

  /** Adds a source; creates config and database before the first one. */
  async add({ key, options, replace }: NewSource): Promise<void> {
    if (!this.#isServer) {
      const made = await ensureStore(this.#args, this.#context)
      if (made.length > 0) this.#context.output.note(`Made ${made.join(' and ')}.`)
    }
    await this.#client.ask(ADD_SOURCE, { body: { key, options, replace } })
  }

  /** The address of a running server that will serve the source. A failure to find it is ignored. */
  async runningServer(): Promise<string | undefined> {
    try {
      const server = await findServer(this.#args, this.#context)
      if (this.#isServer) return server.url
      const { dataFolder } = await chosenStore(this.#args, this.#context)
      return (await takesTokenOf(dataFolder, server, this.#context.services)) ? server.url : undefined
    } catch {
      return undefined
    }
  }

  /** Replaces the credentials of a source by those of these options; nothing else changes. */
  async renew(key: string, { env, headers, apiKey, token, url }: JsonObject): Promise<void> {
    await this.change(key, defined({ env, headers, apiKey, token, url }))
  }

  /** Changes the rules for the tools of a source; returns warnings. */
  async change(key: string, changes: JsonObject): Promise<readonly string[]> {
    if ((await this.configuredKeys()).has(key))
      throw new UsageError(`"${key}" is a source in the config: change it there.`)
    return (await this.#client.ask(CHANGE_SOURCE, { id: key, body: { changes } })).warnings
  }
}

export function renewedText({ key, changed }: KnownSource): string {
  return `${key} is updated: ${changed.join(', ')} ${changed.length === 1 ? 'has a new value' : 'have new values'}.`
}

/** The key itself, or with the first number that makes it free: `Files`, `Files2`. */
export function freeKey(wanted: string, taken: ReadonlySet<string>): string {
  if (!taken.has(wanted)) return wanted
  for (let number = 2; number <= taken.size + 2; number += 1) {
    const key = `${wanted}${number}`
    if (!taken.has(key)) return key
  }
  throw new UsageError(`"${wanted}" is taken. Choose another --key.`)
}
