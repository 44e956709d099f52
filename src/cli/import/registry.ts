import { ADD_SOURCE, CHANGE_SOURCE, FIND_SOURCES } from '#admin-api/sources'
import { AdminClient, type AdminOption, isServerNamed } from '#cli/admin-client'
import { Arguments, type CommandContext, UsageError } from '#cli/command'
import { DEFAULT_URL, findServer, takesTokenOf } from '#cli/server-address'
import { chosenStore, configHere, ensureStore, hasStore } from '#cli/store-access'
import { defined, type JsonObject } from '#kernel/base/json'
import { createSourceRoutes } from '#server/admin/sources'
import { isOwnMcpAddress } from '#server/import/client-servers'

/**
 * Where imported sources are stored: on the server that `--url` names, or in the store, which running servers watch.
 * `collet import` and `collet sources set` use it. Invariant: config and database are created only when the first
 * source is added.
 */

/** A source that already has an upstream. */
export interface KnownSource {
  readonly key: string
  /** Credentials whose stored values differ from those of the import: `env.TOKEN`, `headers.Authorization`. */
  readonly changed: readonly string[]
}

export class SourceRegistry {
  readonly #args: Arguments<AdminOption>
  readonly #context: CommandContext
  readonly #client: AdminClient
  readonly #isServer: boolean

  /** `credential` is the option with the caller's key: in `collet import`, `--key` is the key of the source. */
  constructor(args: Arguments, credential: 'key' | 'credential', context: CommandContext) {
    const options = { url: 'url', key: credential, store: 'store', config: 'config' }
    const values = Object.entries(options).map(([name, option]) => [name, args.texts(option)] as const)
    this.#args = new Arguments([], new Map(values), new Set())
    this.#context = context
    this.#isServer = isServerNamed(this.#args)
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

  /** Finds, for each of these upstreams, the sources that have it already; and all keys in use. */
  async find(options: readonly JsonObject[]) {
    const configured = await this.configuredKeys()
    if (!this.#isServer && !(await hasStore(this.#args, this.#context)))
      return { found: options.map((): readonly KnownSource[] => []), taken: [...configured] }
    const { found, taken } = await this.#client.ask(FIND_SOURCES, { body: { options }, isReadOnly: true })
    return { found, taken: [...taken, ...configured] }
  }

  /** Adds a source; creates config and database before the first one. */
  async add(source: {
    readonly key: string
    readonly options: JsonObject
    readonly replace: boolean
  }): Promise<void> {
    if (!this.#isServer) await ensureStore(this.#args, this.#context)
    await this.#client.ask(ADD_SOURCE, { body: source })
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

  /** Replaces the credentials of a source with those in these options; nothing else changes. */
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

/** Returns the key; if it is taken, with the first free number appended: `Files2`. */
export function freeKey(wanted: string, taken: ReadonlySet<string>): string {
  let key = wanted
  for (let number = 2; taken.has(key); number += 1) key = `${wanted}${number}`
  return key
}
