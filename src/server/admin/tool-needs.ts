/**
 * The requirements of tools besides their input (OAuth access, secrets, a user id, scopes): which of them a caller meets, and how to meet
 * the others. The tool list and a tool's page use this module. Values of credentials are never read.
 */
import type { ToolDetails } from '#admin-api/tools'
import { ANONYMOUS, canProveUsers, type Principal, subjectOf } from '#kernel/base/principal'
import type { TokenBroker } from '#kernel/base/token-broker'
import { needsOf } from '#kernel/tool/facts'
import type { ListedRequirement } from '#kernel/tool/listing'
import type { Tool } from '#kernel/tool/tool'
import type { CanHold } from '#server/scope-holders'
import { explainObstacle } from '#stages/credentials/consent-obstacles'
import { sharedBy, vaultOwner } from '#stages/credentials/credentials'
import type { Store } from '#store/collet-store'
import type { VaultFacts } from '#store/vault'
import { isOperator } from './access.ts'

/** One requirement; tools with equal requirements share it. */
export interface ToolNeed extends Pick<ListedRequirement, 'kind' | 'id' | 'scopes'> {
  /** Whether the tool is called for a user, whose own credential is then used (rule 24). */
  readonly ofUser: boolean
  /** Whether the caller's credential must prove the user id. */
  readonly mustProve: boolean
}

/** `withScopes` includes required scopes, for operators, who see tools without holding their scopes. */
export function toolNeeds(
  tool: Pick<Tool, 'requirements' | 'policy'>,
  { withScopes }: { readonly withScopes: boolean },
): readonly ToolNeed[] {
  const { authorization, secrets, userId } = needsOf(tool)
  const userTerms = { ofUser: userId !== false, mustProve: userId === true }
  const need = (kind: ToolNeed['kind'], id: string, scopes: readonly string[] = []): ToolNeed =>
    kind === 'scope'
      ? { kind, id, scopes, ofUser: false, mustProve: false }
      : { kind, id, scopes, ...userTerms }
  return [
    ...authorization.map(({ id, scopes }) => need('oauth', id, scopes)),
    ...secrets.map((id) => need('secret', id)),
    ...(userId === false ? [] : [need('user', 'user id')]),
    ...(withScopes ? tool.policy.scopes : []).map((id) => need('scope', id)),
  ]
}

const MAX_LISTED = 10_000

/** The caller whose credentials a viewer sees: the viewer itself, or for the operator the caller without a credential, if there is one. */
export function callerSeenBy(viewer: Principal, openCaller: Principal | undefined): Principal {
  return isOperator(viewer) ? (openCaller ?? viewer) : viewer
}

/** Reads which credentials a caller has in the vault; returns a function that returns the state of a need. */
export async function readNeedStates(
  store: Pick<Store, 'vault' | 'digest'> | undefined,
  caller: Principal,
  canHold: CanHold,
) {
  const credentials = store === undefined ? NO_CREDENTIALS : await credentialsOf(store, caller)
  return ({ kind, id, scopes, ofUser, mustProve }: ToolNeed): ListedRequirement['state'] => {
    if (kind === 'user') return userState(caller, mustProve)
    if (kind === 'scope') return canHold(id) ? 'met' : 'missing'
    const held = ofUser ? credentials.ofUser : credentials.own
    if (held === undefined) return 'per_user'
    const wanted = kind === 'oauth' ? 'token' : 'secret'
    const found = held.filter((facts) => facts.kind === wanted && facts.provider === id)
    if (found.length === 0) return 'missing'
    const good = found.filter(({ isSpent }) => !isSpent)
    if (good.length === 0) return 'spent'
    return good.some((facts) => scopes.every((scope) => facts.scopes.includes(scope))) ? 'met' : 'scopes'
  }
}

interface Credentials {
  readonly own: readonly VaultFacts[]
  /** Credentials of the user that the caller's credential names; `undefined` if each call names its user. */
  readonly ofUser: readonly VaultFacts[] | undefined
}

const NO_CREDENTIALS: Credentials = { own: [], ofUser: [] }

/** The operator of a server with keys sees the credentials of all callers, to find needs that no caller meets. */
async function credentialsOf(
  store: Pick<Store, 'vault' | 'digest'>,
  caller: Principal,
): Promise<Credentials> {
  const { vault } = store
  if (isOperator(caller)) {
    const all = await vault.list({ limit: MAX_LISTED })
    return { own: all, ofUser: all }
  }
  const owner = vaultOwner(store, caller, undefined)
  const subject = subjectOf(caller.id)
  const user = subject === undefined ? undefined : vaultOwner(store, caller, subject)
  return {
    own:
      owner === undefined ? [] : [...(await vault.listOf(owner)), ...(await vault.listOf(sharedBy(owner)))],
    ofUser: user === undefined ? undefined : await vault.listOf(user),
  }
}

/** The operator of a server with keys makes no calls: whether a credential proves the user then depends on each caller. */
function userState(caller: Principal, mustProve: boolean): ListedRequirement['state'] {
  if (mustProve && isOperator(caller)) return 'per_user'
  return !mustProve || canProveUsers(caller) ? 'met' : 'missing'
}

/**
 * Describes how a need can be met. `key`: with a key that has the scope. `consent`: a person grants access on a page that the first call
 * names. `vault`: an operator stores a credential. `call`: the caller sends it with the call.
 */
export function howToConnect(
  need: ToolNeed,
  caller: Principal,
  obstacle: TokenBroker['obstacle'],
): ToolDetails['requirements'][number]['connect'] {
  const { kind, id, scopes, ofUser } = need
  if (kind === 'scope')
    return {
      how: 'key',
      command: `collet keys create NAME --scope ${id}`,
      says: 'No key, role or issuer grants this scope, so no caller sees the tool. Create a key that has it.',
    }
  if (kind === 'user') return { how: 'call', command: null, says: howToNameUser(need, caller) }
  const ofProvider = kind === 'oauth' ? obstacle(id, scopes) : undefined
  const hasVault = caller.id !== ANONYMOUS.id || caller.isLocal === true
  const found = ofProvider ?? (hasVault ? undefined : 'no_vault')
  if (kind === 'oauth' && found === undefined)
    return {
      how: 'consent',
      command: null,
      says: `Call the tool: the answer has a link to ${id}, where a person grants access.`,
    }
  const request = { provider: id, scopes, principal: caller.id }
  const { reason, operator = '' } = found === undefined ? {} : explainObstacle(found, request)
  const because = reason === undefined ? '' : `${reason} ${operator} `
  if (!hasVault)
    return { how: 'call', command: null, says: `${because}Or send the credential with each call.` }
  const commandParts = [
    'collet secrets set',
    id,
    ...(kind === 'oauth' ? ['--token', ...scopes.map((scope) => `--scope ${scope}`)] : []),
    ...(caller.isLocal === true ? [] : [`--principal ${isOperator(caller) ? 'key:NAME' : caller.id}`]),
    ...(ofUser ? ['--user ID'] : []),
  ]
  return {
    how: 'vault',
    command: commandParts.join(' '),
    says: `${because}An operator stores the credential in the vault, or the caller sends it with each call.`,
  }
}

function howToNameUser({ mustProve }: ToolNeed, caller: Principal): string {
  if (!mustProve || canProveUsers(caller)) return 'Send the id of the user with the call.'
  const otherwise =
    "Call with the user's own token, or name the user with a credential that has the scope users:assert."
  return caller.id === ANONYMOUS.id
    ? `A caller without a key cannot prove whom it acts for. ${otherwise}`
    : otherwise
}
