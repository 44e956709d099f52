import { LIST_APPROVALS } from '#admin-api/approvals'
import { LIST_ALL_CALLS } from '#admin-api/calls'
import { LIST_KEYS } from '#admin-api/keys'
import { LIST_PINS } from '#admin-api/pins'
import { LIST_RULES } from '#admin-api/rules'
import { LIST_SECRETS } from '#admin-api/secrets'
import { LIST_SOURCES } from '#admin-api/sources'
import type { AdminClient } from './admin-client.ts'
import { CommandFailure, EXIT } from './command.ts'
import { renderList } from './output.ts'

/**
 * Resolves the beginning of an id, so that operators need not type whole ids. `operator-command.ts` uses it
 * for positionals that declare an `id`. Invariant: a prefix that matches several ids is refused with a list, because
 * acting on the wrong one may be irreversible.
 */

interface KnownId {
  readonly id: string
  /** Columns that tell the ids apart in a list. */
  readonly about: readonly string[]
}

interface IdKind {
  /** The command that lists the ids: `collet calls`. */
  readonly listedBy: string
  /** Set if the ids are names. A text with which no name begins is sent unchanged, and the server suggests similar names. */
  readonly isName?: true
  find(client: AdminClient, typed: string): Promise<readonly KnownId[]>
}

const MAX_APPROVALS = 1_000
const MAX_CALLS = 20

const KINDS = {
  approval: {
    listedBy: 'collet approvals list --state all',
    async find(client) {
      const { approvals } = await client.ask(LIST_APPROVALS, { query: { limit: MAX_APPROVALS } })
      return approvals.map(({ id, state, tool, principal }) => ({ id, about: [state, tool, principal] }))
    },
  },
  call: {
    listedBy: 'collet calls',
    async find(client, record) {
      const { calls } = await client.ask(LIST_ALL_CALLS, { query: { record, limit: MAX_CALLS } })
      return calls.map(({ record: id, state, tool, principal, created_at: at }) => {
        return { id, about: [state, tool, principal, at] }
      })
    },
  },
  credential: {
    listedBy: 'collet secrets list',
    async find(client) {
      const { secrets } = await client.ask(LIST_SECRETS)
      return secrets.map(({ ref: id, name, principal }) => ({ id, about: [name, principal] }))
    },
  },
  key: {
    listedBy: 'collet keys list',
    async find(client) {
      const { keys } = await client.ask(LIST_KEYS)
      return keys.map(({ key_id: id, tenant, principal, label }) => {
        return { id, about: [tenant, principal, label ?? ''] }
      })
    },
  },
  rule: {
    listedBy: 'collet rules list --all',
    async find(client) {
      const { rules } = await client.ask(LIST_RULES, { query: { state: 'all', limit: MAX_APPROVALS } })
      return rules.map(({ id, state, tool, principal }) => ({ id, about: [state, tool, principal] }))
    },
  },
  source: {
    listedBy: 'collet sources',
    isName: true,
    async find(client) {
      return (await client.ask(LIST_SOURCES)).sources.map(({ key: id }) => ({ id, about: [] }))
    },
  },
  tool: {
    listedBy: 'collet pins list --all',
    isName: true,
    async find(client) {
      return (await client.ask(LIST_PINS)).pins.map(({ tool: id }) => ({ id, about: [] }))
    },
  },
} satisfies Record<string, IdKind>

export type IdNoun = keyof typeof KINDS

const MAX_SHOWN = 10

/** No id is shorter, so a text of this length is a whole id and needs no look-up. */
const MIN_ID_LENGTH = 22

export async function resolveId(noun: IdNoun, typed: string, client: AdminClient): Promise<string> {
  const { find, listedBy, isName }: IdKind = KINDS[noun]
  if (isName !== true && typed.length >= MIN_ID_LENGTH) return typed
  const known = await find(client, typed)
  if (isName === true && !known.some(({ id }) => id.startsWith(typed))) return typed
  return resolvePrefix(typed, known, { noun, listedBy })
}

/** Returns the only id that begins with the typed text. */
export function resolvePrefix(
  typed: string,
  known: readonly KnownId[],
  { noun, listedBy }: { readonly noun: string; readonly listedBy: string },
): string {
  const matches = known.filter(({ id }) => id.startsWith(typed))
  const exact = matches.find(({ id }) => id === typed)
  const [only, ...others] = exact === undefined ? matches : [exact]
  if (only === undefined)
    throw new CommandFailure(
      EXIT.usage,
      `There is no ${noun} whose id is "${typed}" or begins with it. ${listedBy} lists them.`,
    )
  if (others.length === 0) return only.id
  const lines = [
    `The ids of ${matches.length} ${noun}s begin with "${typed}". Type more characters of the one you mean:`,
    ...renderList(matches.slice(0, MAX_SHOWN).map(({ id, about }) => [id, ...about])),
    ...(matches.length > MAX_SHOWN ? [`  and ${matches.length - MAX_SHOWN} more`] : []),
  ]
  throw new CommandFailure(EXIT.usage, lines.join('\n'))
}
