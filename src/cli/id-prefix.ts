import { cleanText } from '#kernel/base/json'
import { CommandFailure, EXIT } from './command.ts'
import { renderTable } from './output.ts'

/**
 * Resolves the beginning of an id, so that operators need not type whole ids. Commands on calls, approvals, keys,
 * pins and sources use it. Invariant: a prefix that matches several ids is refused with a list, because acting on the
 * wrong one may be irreversible.
 */

interface Named {
  readonly id: string
  /** Columns that distinguish it in a list. */
  readonly about: readonly string[]
}

interface IdKind {
  /** `call`, `approval` … */
  readonly noun: string
  /** The command that lists the ids: `collet calls`. */
  readonly listedBy: string
}

const MAX_SHOWN = 10

/** No id is shorter, so a text of this length is a whole id and needs no look-up. */
const MIN_WHOLE = 22

/** Resolves an id from its beginning. */
export async function resolveId(
  typed: string,
  known: () => Promise<readonly Named[]>,
  kind: IdKind,
): Promise<string> {
  return typed.length >= MIN_WHOLE ? typed : resolvePrefix(typed, await known(), kind)
}

/**
 * Resolves a name from its beginning. A text that begins no name is returned unchanged; the request then fails with
 * suggestions.
 */
export async function resolveName(
  typed: string,
  known: () => Promise<readonly string[]>,
  kind: IdKind,
): Promise<string> {
  const names = (await known()).map((id) => ({ id, about: [] }))
  return names.some(({ id }) => id.startsWith(typed)) ? resolvePrefix(typed, names, kind) : typed
}

function resolvePrefix(typed: string, known: readonly Named[], { noun, listedBy }: IdKind): string {
  const matches = known.filter(({ id }) => id.startsWith(typed))
  const exact = matches.find(({ id }) => id === typed)
  const [only, ...others] = exact === undefined ? matches : [exact]
  if (only === undefined)
    throw new CommandFailure(
      EXIT.usage,
      `There is no ${noun} whose id is "${typed}" or begins with it. ${listedBy} lists them.`,
    )
  if (others.length === 0) return only.id
  const rows = matches.slice(0, MAX_SHOWN).map(({ id, about }) => [id, ...about.map(cleanText)])
  const lines = renderTable(['', ...only.about.map(() => '')], rows).slice(1)
  const more = matches.length > MAX_SHOWN ? [`  and ${matches.length - MAX_SHOWN} more`] : []
  throw new CommandFailure(
    EXIT.usage,
    [
      `"${typed}" begins the ids of ${matches.length} ${noun}s. Type more of the one you mean:`,
      ...lines.map((line) => `  ${line}`),
      ...more,
    ].join('\n'),
  )
}
