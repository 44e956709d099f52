import { canProveUsers, subjectOf, vaultOwner } from '#core/credentials/credentials'
import type { Store } from '#core/ports/store'
import type { VaultFacts } from '#core/ports/vault-store'
import { ANONYMOUS, type Principal } from '#core/principal'
import type { Tool } from '#core/tool'
import { needsOf } from '#core/tools/facts'
import type { ListedRequirement } from '#core/tools/listing'
import { isOperator } from './access.ts'

/** What a tool needs besides its input. Equal needs of several tools are one. */
export interface ToolNeed extends Pick<ListedRequirement, 'kind' | 'id' | 'scopes'> {
  /** The tool is called for a user, so it is the user's own credential that counts (rule 24). */
  readonly ofUser: boolean
  /** Of a user id: whether it has to be proven. */
  readonly isProven: boolean
}

export function toolNeeds(tool: Pick<Tool, 'requirements'>): readonly ToolNeed[] {
  const { authorization, secrets, userId } = needsOf(tool)
  const of = { ofUser: userId !== false, isProven: userId === true }
  return [
    ...authorization.map(({ id, scopes }) => ({ kind: 'oauth' as const, id, scopes, ...of })),
    ...secrets.map((id) => ({ kind: 'secret' as const, id, scopes: [], ...of })),
    ...(userId === false ? [] : [{ kind: 'user' as const, id: 'user id', scopes: [], ...of }]),
  ]
}

/** More than any installation has of its own; an operator is told what is there, and never a value. */
const MOST_LOOKED_AT = 10_000

/** What one principal finds in the vault: enough to say which needs are met, without reading a value. */
export class HeldCredentials {
  readonly #principal: Principal
  readonly #own: readonly VaultFacts[]
  /** Of the user that the credential itself names; `undefined` where that is for each call to say. */
  readonly #ofUser: readonly VaultFacts[] | undefined

  private constructor(
    principal: Principal,
    own: readonly VaultFacts[],
    ofUser: readonly VaultFacts[] | undefined,
  ) {
    this.#principal = principal
    this.#own = own
    this.#ofUser = ofUser
  }

  /**
   * For an operator it is what anybody has: it does not call, and wants to know what nobody has been given. An anonymous caller has
   * nothing (rule 3).
   */
  static async of(
    store: Pick<Store, 'vault' | 'digest'> | undefined,
    principal: Principal,
  ): Promise<HeldCredentials> {
    if (store === undefined) return new HeldCredentials(principal, [], [])
    if (isOperator(principal)) {
      const all = await store.vault.list({ limit: MOST_LOOKED_AT })
      return new HeldCredentials(principal, all, all)
    }
    const owner = vaultOwner(store, principal, undefined)
    const subject = subjectOf(principal.id)
    const user = subject === undefined ? undefined : vaultOwner(store, principal, subject)
    return new HeldCredentials(
      principal,
      owner === undefined ? [] : await store.vault.listOf(owner),
      user === undefined ? undefined : await store.vault.listOf(user),
    )
  }

  stateOf({ kind, id, scopes, ofUser, isProven }: ToolNeed): ListedRequirement['state'] {
    if (kind === 'user') return !isProven || canProveUsers(this.#principal) ? 'met' : 'missing'
    const held = ofUser ? this.#ofUser : this.#own
    if (held === undefined) return 'per_user'
    const wanted = kind === 'oauth' ? 'token' : 'secret'
    const found = held.filter((facts) => facts.kind === wanted && facts.provider === id)
    if (found.length === 0) return 'missing'
    const good = found.filter(({ isSpent }) => !isSpent)
    if (good.length === 0) return 'spent'
    return good.some((facts) => scopes.every((scope) => facts.scopes.includes(scope))) ? 'met' : 'scopes'
  }
}

interface ConnectParts {
  readonly principal: Principal
  /** Whether people can be sent to the provider from here. */
  canAsk(provider: string, scopes: readonly string[]): boolean
}

/**
 * How a need is met. `consent`: a person gives it on a page that the first call names. `vault`: an operator puts it there. `call`: the
 * caller sends it.
 */
export function howToConnect(
  { kind, id, scopes, isProven, ofUser }: ToolNeed,
  { principal, canAsk }: ConnectParts,
): { how: 'consent' | 'vault' | 'call'; says: string; command: string | null } {
  if (kind === 'user')
    return {
      how: 'call',
      command: null,
      says: isProven
        ? "Call with the user's own token, or name the user with a credential that has the scope users:assert."
        : 'Send the id of the user with the call.',
    }
  if (kind === 'oauth' && canAsk(id, scopes))
    return {
      how: 'consent',
      command: null,
      says: `Call the tool: the answer has a link to ${id}, where access is given.`,
    }
  const owner = isOperator(principal) || principal.id === ANONYMOUS.id ? 'key:NAME' : principal.id
  const words = [
    'collet secrets set',
    id,
    ...(kind === 'oauth' ? ['--token', ...scopes.map((scope) => `--scope ${scope}`)] : []),
    `--principal ${owner}`,
    ...(ofUser ? ['--user ID'] : []),
  ]
  return {
    how: 'vault',
    command: words.join(' '),
    says: 'An operator puts it into the vault, or the caller sends it with each call.',
  }
}
