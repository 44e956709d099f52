import type { JsonObject } from '#core/json'
import { Arguments } from './arguments.ts'
import type { CommandContext } from './command.ts'
import { CommandFailure } from './command-failure.ts'
import { EXIT } from './exit-codes.ts'
import { loadProjectConfig } from './load-project.ts'
import { actAtStore, askAsOperator } from './operator-credential.ts'
import { withStore } from './operator-store.ts'

export interface ImportPlace {
  /** `--url`: a server that takes it. */
  readonly url: string | undefined
  readonly credential: string | undefined
  readonly store: string | undefined
  readonly config: string | undefined
}

export interface NewImport {
  readonly key: string
  readonly options: JsonObject
  readonly replace: boolean
}

/** Adds a source through the server that `--url` names, else in the store, which running servers watch. */
export async function saveSource(
  source: NewImport,
  place: ImportPlace,
  context: CommandContext,
): Promise<void> {
  const args = placeArguments(place)
  if (place.url === undefined) await saveInStore(source, args, context)
  else await saveThroughServer(source, args, context)
}

type PlaceOption = 'url' | 'key' | 'store' | 'config'

/** On `import`, `--key` is the source's; elsewhere it is the caller's. */
function placeArguments({ url, credential, store, config }: ImportPlace): Arguments<PlaceOption> {
  const given = Object.entries({ url, key: credential, store, config })
  const values = given.flatMap(([name, value]) => (value === undefined ? [] : [[name, [value]] as const]))
  return new Arguments([], new Map(values), new Set())
}

async function saveInStore(
  { key, options, replace }: NewImport,
  args: Arguments<PlaceOption>,
  context: CommandContext,
): Promise<void> {
  const source = { key, options, replace, addedBy: actAtStore(context), addedMs: context.clock.nowMs() }
  const result = await withStore(args, context, async (store) => store.sources.put(source))
  if (result !== 'exists') return
  throw new CommandFailure(
    EXIT.usage,
    `There is a source "${key}" already. Choose another --key, or --replace it.`,
  )
}

/** Rule 29: adding a source needs a credential, also on this machine. */
async function saveThroughServer(
  { key, options, replace }: NewImport,
  args: Arguments<PlaceOption>,
  context: CommandContext,
): Promise<void> {
  const body = { key, options, replace }
  await askAsOperator({ method: 'POST', path: '/admin/sources', body }, args, context)
}

/** Keys of the configuration's own sources, which win; none when no configuration is in play. */
export async function configuredKeys(
  { store, config }: ImportPlace,
  context: CommandContext,
): Promise<ReadonlySet<string>> {
  if (store !== undefined && config === undefined) return new Set()
  const loaded: object = (await loadProjectConfig(config, context)).config
  const sources: unknown = 'sources' in loaded ? loaded.sources : undefined
  return new Set(typeof sources === 'object' && sources !== null ? Object.keys(sources) : [])
}
