import { type Arguments, type CommandContext, UsageError } from '#cli/command'
import { confirm } from '#cli/input'
import type { JsonObject } from '#kernel/base/json'
import { freeKey, type KnownSource, renewedText, type SourceRegistry } from './registry.ts'

/**
 * Decides under which key an import is stored: as a new source, or as the source that already has this upstream.
 * `commands/import.ts` uses it. Invariant: credentials of an existing source change only with consent, and a key of
 * the config is never used.
 */

interface PlacementOptions {
  readonly args: Arguments<'key' | 'print' | 'replace' | 'yes'>
  readonly registry: SourceRegistry
}

interface ChosenKey {
  readonly key: string
  /** The source that has this upstream already, with the same credentials or with older ones. */
  readonly known?: KnownSource
}

/** Chooses the key. `--key` names the source to update, or a second account at the same upstream. */
export async function chooseKey(
  suggested: string,
  options: JsonObject,
  { args, registry }: PlacementOptions,
  { output }: CommandContext,
): Promise<ChosenKey> {
  const named = args.text('key')
  const wanted = named ?? suggested
  if (args.flag('print')) return { key: wanted }
  if (named === undefined) await refuseConfigured(wanted, registry)
  if (args.flag('replace')) return { key: wanted }
  const { found, taken } = await registry.find([options])
  const [all = []] = found
  const known = named === undefined ? all : all.filter(({ key }) => key === named)
  const same = known.find(({ changed }) => changed.length === 0)
  const [match = same, ...others] = same === undefined ? known : []
  if (others.length > 0)
    throw new UsageError(
      `Several sources have this upstream, each with its own credentials: ${known.map(({ key }) => key).join(', ')}. Name the one to update with --key, or choose a new --key for another account.`,
    )
  if (match !== undefined) return { key: match.key, known: match }
  const key = freeKey(wanted, new Set(taken))
  if (key !== wanted)
    output.note(
      `"${wanted}" is another source already, so this one becomes "${key}". --replace replaces the other source.`,
    )
  return { key }
}

/** Ends an import of a known source: it gets its new credentials if it has any, and nothing else changes. */
export async function updateKnownSource(
  known: KnownSource,
  options: JsonObject,
  { args, registry }: PlacementOptions,
  context: CommandContext,
): Promise<void> {
  const { output, json } = context
  const { key, changed } = known
  if (changed.length > 0) {
    const question = `"${key}" is imported already. Update ${changed.join(', ')}?`
    if (!args.flag('yes') && !(await confirm(context, question)))
      throw new UsageError('Nothing was updated. Use --yes to do it without being asked.')
    await registry.renew(key, options)
  }
  if (json) output.json({ key, known: true, changed })
  else if (changed.length > 0) output.done(`${renewedText(known)} For another account, choose another --key.`)
  else
    output.note(
      `This is imported already, as "${key}". To read its tools again: collet sources refresh ${key}. To change what is imported: collet sources set ${key}, or --replace.`,
    )
}

/** Refuses a key of the config, which takes precedence over imported sources. */
export async function refuseConfigured(key: string, registry: SourceRegistry): Promise<void> {
  if (!(await registry.configuredKeys()).has(key)) return
  throw new UsageError(
    `"${key}" is a source in the config, which takes precedence: what you import under this key would never be used. Choose another --key.`,
  )
}
