import {
  type AuthorizationChallenge,
  fault,
  type MissingRequirements,
  type ToolError,
} from '#kernel/base/errors'
import { proveUser } from '#kernel/base/hooks'
import { defined } from '#kernel/base/json'
import { isRunAs, subjectOf } from '#kernel/base/principal'
import type { Secret } from '#kernel/base/secret'
import type { MaybePromise } from '#kernel/base/waiting'
import type { KernelOptions } from '#kernel/call/gateway'
import type { IdentifiedCall } from '#kernel/call/look-up'
import { unstarted } from '#kernel/call/resolve'
import type { ChallengeNeed, RequiringCall } from '#kernel/call/stages'
import type { AuthorizationRequirement, Tool } from '#kernel/tool/tool'
import type { ConsentEvents } from '#stages/unstarted-events'
import type { Store } from '#store/collet-store'
import type { VaultOwner } from '#store/vault'
import { type ConsentObstacle, explainObstacle } from './consent-obstacles.ts'
import {
  type CredentialNeeds,
  type CredentialProblem,
  credentialsNotUsed,
  findSecret,
  findToken,
  ownTokenUnavailable,
  unprovenUser,
  userDigest,
  vaultOwner,
} from './credentials.ts'

/**
 * Checks that a call has every credential its tool declares, and lends it those in the vault (OTC-73, OTC-74, OTC-79). The
 * ladder runs it after the input is checked.
 * Credentials that the caller sends take precedence and are never stored. A missing credential is answered with a challenge; no
 * call is recorded (rule 20).
 */

const CHALLENGE_LIFETIME_MS = 10 * 60_000
/** Maximum number of sent credentials: each is searched for in every text of the call. */
const MAX_SENT_CREDENTIALS = 100

interface RequirementNeeds
  extends CredentialNeeds,
    Pick<KernelOptions, 'hooks' | 'newChallengeId' | 'publicUrl'> {
  readonly store: Store
  readonly consents: ConsentEvents
}

interface CredentialRequest extends RequiringCall {
  /** The owner of the vault entries that the call may use. */
  readonly owner: VaultOwner | undefined
  /** The user whose credentials count; `undefined` for the caller's own credentials. */
  readonly userId: string | undefined
}

interface UnmetRequirement {
  readonly need: AuthorizationRequirement
  readonly problem: CredentialProblem
}

/** Returns the call with every credential that its tool declares. */
export function checkRequirements(
  needs: RequirementNeeds,
  requiring: RequiringCall,
): MaybePromise<IdentifiedCall> {
  const { tool, call } = requiring
  const { request } = call
  if (request.tokens.size + request.secrets.size > MAX_SENT_CREDENTIALS)
    throw fault('request_invalid', `A call takes at most ${MAX_SENT_CREDENTIALS} tokens and secrets.`)
  const needsNothing = tool.requirements === undefined && !isGiven(request.userId)
  return needsNothing ? call : meetRequirements(needs, requiring)
}

async function meetRequirements(needs: RequirementNeeds, requiring: RequiringCall): Promise<IdentifiedCall> {
  const { tool } = requiring
  const { requirements } = tool
  const { request, principal } = requiring.call
  const isUserProven = isGiven(request.userId) && (await proveUser(needs.hooks, principal, request.userId))
  const call = isUserProven ? { ...requiring.call, isUserProven } : requiring.call
  if (requirements === undefined) return call
  if (requirements.userId === true && isGiven(request.userId) && !isUserProven)
    throw unprovenUser(tool, principal, request.userId ?? '')
  const userId = vaultUser(requiring)
  const owner = vaultOwner(needs.store, principal, userId)
  const wanted: CredentialRequest = { ...requiring, call, owner, userId }
  const held = new LentCredentials()
  const unauthorized: UnmetRequirement[] = []
  for (const declared of requirements.authorization ?? []) {
    const need = withScopesFound(needs, declared, tool)
    const problem = await collectToken(needs, need, wanted, held)
    if (problem !== undefined) unauthorized.push({ need, problem })
    // A token that an operator sends is not the caller's consent, and a token of this server itself needs no consent.
    else if (!isRunAs(principal) && !held.own.has(need.id))
      await completeChallenges(needs, need, wanted, held.tokens.get(need.id)?.ref)
  }
  const secrets: string[] = []
  for (const { id } of requirements.secrets ?? []) {
    if (!(await collectSecret(needs, id, wanted, held))) secrets.push(id)
  }
  const lacking = [...unauthorized.map(({ need }) => need.id), ...secrets]
  if (lacking.length > 0 && isRunAs(principal)) throw credentialsNotUsed(principal, lacking)
  const lacksUser = needsUser(tool) && !isGiven(userId)
  if (unauthorized.length === 0 && secrets.length === 0 && !lacksUser) return held.withCredentials(call)
  const authorization: AuthorizationChallenge[] = []
  let runId: string | undefined
  const reasons = new Set<string>()
  for (const unmet of unauthorized) {
    const obstacle = obstacleFor(needs, unmet, wanted)
    if (obstacle !== undefined) reasons.add(reasonFor(obstacle, unmet, wanted))
    const opened = await openChallenge(needs, { ...unmet, canAsk: obstacle === undefined }, wanted)
    const { runId: askedIn, ...challenge } = opened
    authorization.push(challenge)
    runId ??= askedIn
  }
  if (secrets.length > 0 && owner === undefined) reasons.add(reasonFor(noVaultFor(wanted), undefined, wanted))
  const missing = defined({
    authorization: authorization.length === 0 ? undefined : authorization,
    secrets: secrets.length === 0 ? undefined : secrets.map((id) => ({ id })),
    userId: lacksUser ? true : undefined,
  })
  throw requirementMissing(tool, unauthorized, { runId, reasons, missing })
}

/**
 * The user whose credentials count: the one that the call names or, for a tool that needs a user, the subject of the caller's
 * token.
 */
function vaultUser({ tool, call: { request, principal } }: RequiringCall): string | undefined {
  return isGiven(request.userId) || !needsUser(tool) ? request.userId : subjectOf(principal.id)
}

function noVaultFor({ userId }: CredentialRequest): ConsentObstacle {
  return isGiven(userId) ? 'unproven_user' : 'no_vault'
}

/** Why no person can be asked; `undefined` if a person can. */
function obstacleFor(
  { broker }: RequirementNeeds,
  { need }: UnmetRequirement,
  wanted: CredentialRequest,
): ConsentObstacle | undefined {
  const ofProvider = broker.obstacle(need.id, scopesOf(need))
  if (ofProvider !== undefined) return ofProvider
  if (wanted.owner === undefined) return noVaultFor(wanted)
  // A consent of the principal itself would not help a tool that needs a user (rule 24).
  return needsUser(wanted.tool) && !isGiven(wanted.userId) ? 'no_user' : undefined
}

function reasonFor(
  obstacle: ConsentObstacle,
  unmet: UnmetRequirement | undefined,
  { call, userId }: CredentialRequest,
): string {
  const scopes = unmet === undefined ? [] : scopesOf(unmet.need)
  const about = { provider: unmet?.need.id ?? '', scopes, principal: call.principal.id, userId }
  return explainObstacle(obstacle, about).reason
}

/** Adds the token to `held`, or returns why there is none. An invalid token from the caller is not replaced by one from the vault. */
async function collectToken(
  needs: RequirementNeeds,
  need: AuthorizationRequirement,
  wanted: CredentialRequest,
  held: LentCredentials,
): Promise<CredentialProblem | undefined> {
  const sent = wanted.call.request.tokens.get(need.id)
  if (sent !== undefined && isGiven(sent.reveal())) {
    return (await isUsable(needs, need, wanted, sent)) ? undefined : 'credential_required'
  }
  const { tenant, principal } = wanted.call
  const own = needs.broker.obtain?.({
    ...{ provider: need.id, scopes: scopesOf(need) },
    owner: JSON.stringify([tenant, principal.id]),
  })
  if (own !== undefined) {
    const answer = await own
    if (answer.kind !== 'tokens') throw ownTokenUnavailable(need.id, answer.kind)
    held.own.set(need.id, answer.tokens.accessToken)
    return undefined
  }
  const found = await findToken(needs, wanted.owner, { provider: need.id, scopes: scopesOf(need) })
  if (!found.ok) return found.problem
  if (!(await isUsable(needs, need, wanted, found.value))) return 'credential_required'
  held.tokens.set(need.id, found)
  return undefined
}

async function collectSecret(
  needs: RequirementNeeds,
  id: string,
  { call, owner }: CredentialRequest,
  held: LentCredentials,
): Promise<boolean> {
  if (isGiven(call.request.secrets.get(id)?.reveal())) return true
  const found = await findSecret(needs, owner, id)
  if (found.ok) held.secrets.set(id, found)
  return found.ok
}

/** False if the operator's hook knows that the token is invalid (OTC/T-17). */
async function isUsable(
  { hooks }: RequirementNeeds,
  need: AuthorizationRequirement,
  { tool, call }: CredentialRequest,
  token: Secret,
): Promise<boolean> {
  if (hooks.verifyToken === undefined) return true
  const { principal, request } = call
  const { userId } = request
  return await hooks.verifyToken({ provider: need.id, token, tool: tool.id, principal, userId })
}

function isGiven(text: string | undefined): boolean {
  return text !== undefined && text !== ''
}

function needsUser({ requirements }: Pick<Tool, 'requirements'>): boolean {
  return requirements?.userId === true || requirements?.userId === 'claimed'
}

/** If a server refused a tool because a scope was missing, the next call requests that scope too (MCP-160). */
function withScopesFound(
  { broker }: RequirementNeeds,
  need: AuthorizationRequirement,
  tool: Tool,
): AuthorizationRequirement {
  const more = broker.scopesFor?.(need.id, tool.id) ?? []
  if (more.length === 0) return need
  return { ...need, oauth2: { ...need.oauth2, scopes: [...new Set([...scopesOf(need), ...more])] } }
}

function scopesOf(need: AuthorizationRequirement): readonly string[] {
  return need.oauth2?.scopes ?? []
}

/** One authorization of one caller; a user id is stored only as a digest. */
function needOf(
  needs: RequirementNeeds,
  need: AuthorizationRequirement,
  { call, userId }: CredentialRequest,
): ChallengeNeed {
  return {
    tenant: call.tenant,
    principal: call.principal.id,
    user: userDigest(needs.store, userId),
    provider: need.id,
    scopes: [...scopesOf(need)].sort(),
  }
}

/**
 * Completes the challenges of clients that poll, after the token has arrived in another way. For a tool that needs a user this
 * includes the challenge from before the user was known; for any other tool, the challenge without a user is for the principal's
 * own credentials and stays open (rule 24).
 */
async function completeChallenges(
  needs: RequirementNeeds,
  need: AuthorizationRequirement,
  wanted: CredentialRequest,
  ref: string | undefined,
): Promise<void> {
  const met = needOf(needs, need, wanted)
  const atMs = needs.clock.nowMs()
  const credential = ref === undefined ? {} : { credential: { ref, scopes: met.scopes } }
  const isUserLate = met.user !== '' && needsUser(wanted.tool)
  for (const each of isUserLate ? [met, { ...met, user: '' }] : [met]) {
    await needs.consents.resolve(each, { as: 'completed', ...credential, atMs })
    await needs.store.endChallenge(each, 'completed', atMs)
  }
}

async function openChallenge(
  needs: RequirementNeeds,
  { need, problem, canAsk }: UnmetRequirement & { readonly canAsk: boolean },
  wanted: CredentialRequest,
): Promise<AuthorizationChallenge & { readonly runId: string | undefined }> {
  const atMs = needs.clock.nowMs()
  const challenge = await needs.store.openChallenge({
    id: needs.newChallengeId(),
    ...needOf(needs, need, wanted),
    tool: wanted.tool.id,
    atMs,
    expiresAtMs: atMs + CHALLENGE_LIFETIME_MS,
    ...(canAsk ? { consent: true } : {}),
  })
  const { id } = challenge
  const url = `${needs.publicUrl()}/challenges/${id}`
  const hasExpired = problem === 'connector_auth_expired'
  const isAsked = challenge.consent === true
  const call = unstarted(wanted.call, wanted.tool, wanted.scope)
  const runId = isAsked ? await needs.consents.ask(call, { challenge, url, hasExpired }) : undefined
  return { id, url, checkUrl: `${url}/status`, provider: need.id, scopes: scopesOf(need), runId }
}

/** `reasons` explain why no person can be asked for the missing credentials. */
function requirementMissing(
  tool: Tool,
  unauthorized: readonly UnmetRequirement[],
  { runId, reasons, missing }: MissingFacts,
): ToolError {
  const idsOf = (needed: readonly { readonly id: string }[]) => needed.map(({ id }) => id).join(', ')
  const wants = [
    unauthorized.length > 0 && `authorization from ${idsOf(unauthorized.map(({ need }) => need))}`,
    missing.secrets !== undefined && `the secret ${idsOf(missing.secrets)}`,
    missing.userId === true && 'a user id',
  ].filter((want) => want !== false)
  const providers = unauthorized.map(
    ({ need, problem }) => `${need.id} (scopes: ${scopesOf(need).join(' ') || 'none'}; ${problem})`,
  )
  const asked = `Send a token in context.authorization for: ${providers.join(', ')}.`
  const message = [`${tool.name} needs ${wants.join(' and ')}. Nothing was run.`, ...reasons].join(' ')
  const developerMessage = providers.length === 0 ? undefined : asked
  return fault('requirement_missing', message, { missing, ...defined({ runId, developerMessage }) })
}

interface MissingFacts {
  readonly runId: string | undefined
  readonly reasons: ReadonlySet<string>
  readonly missing: MissingRequirements
}

interface LentCredential {
  readonly ref: string
  readonly value: Secret
}

/** Credentials that the vault lends to one call. They exist only in this call's memory (OWP-74). */
class LentCredentials {
  readonly tokens = new Map<string, LentCredential>()
  readonly secrets = new Map<string, LentCredential>()
  /** Tokens of this server itself, which are not in a vault. */
  readonly own = new Map<string, Secret>()

  /** The call as if the caller had sent these credentials, so that they are passed to the tool and redacted in the same way. */
  withCredentials(call: IdentifiedCall): IdentifiedCall {
    if (this.tokens.size + this.secrets.size + this.own.size === 0) return call
    const { tokens, secrets } = call.request
    const lent = {
      tokens: new Map([...joined(tokens, this.tokens), ...this.own]),
      secrets: joined(secrets, this.secrets),
    }
    const vaultRefs = new Map([...refsOf('authorization', this.tokens), ...refsOf('secrets', this.secrets)])
    return { ...call, request: { ...call.request, ...lent }, vaultRefs }
  }
}

function joined(
  sent: ReadonlyMap<string, Secret>,
  lent: ReadonlyMap<string, LentCredential>,
): ReadonlyMap<string, Secret> {
  return new Map([...sent, ...[...lent].map(([id, { value }]) => [id, value] as const)])
}

function refsOf(
  kind: string,
  lent: ReadonlyMap<string, LentCredential>,
): readonly (readonly [string, string])[] {
  return [...lent].map(([id, { ref }]) => [`${kind}:${id}`, ref] as const)
}
