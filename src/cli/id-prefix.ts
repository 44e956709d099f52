import { cleanText } from '#kernel/base/json'
import { CommandFailure, EXIT } from './command.ts'
import { renderTable } from './output.ts'

/** One thing that an id may mean. */
interface Named {
  readonly id: string
  /** What tells it from others, beside its id. */
  readonly about: readonly string[]
}

interface Meant {
  /** `call`, `approval` … */
  readonly noun: string
  /** What lists the ids: `collet calls`. */
  readonly listedBy: string
}

const MAX_SHOWN = 10

/** No id of ours is shorter: whoever typed as much typed all of it, and nobody needs to be asked. */
const MIN_WHOLE = 22

/** The id that somebody means who typed it, or the beginning of it. */
export async function resolveId(
  typed: string,
  known: () => Promise<readonly Named[]>,
  meant: Meant,
): Promise<string> {
  return typed.length >= MIN_WHOLE ? typed : idMeantBy(typed, await known(), meant)
}

/** The same for names that people give. One that begins nothing is handed on: whoever looks for it says what was meant. */
export async function resolveName(
  typed: string,
  known: () => Promise<readonly string[]>,
  meant: Meant,
): Promise<string> {
  const names = (await known()).map((id) => ({ id, about: [] }))
  return names.some(({ id }) => id.startsWith(typed)) ? idMeantBy(typed, names, meant) : typed
}

/**
 * The one id that begins like this, so that nobody has to type all of it. Several are listed, and none of them is chosen:
 * what is done to the wrong one may not be undone.
 */
function idMeantBy(typed: string, known: readonly Named[], { noun, listedBy }: Meant): string {
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
