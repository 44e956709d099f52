import type { CallRequest } from '#core/call'
import {
  type CredentialNeeds,
  type CredentialProblem,
  findSecret,
  findToken,
  proveUser,
  unprovenUser,
  userDigest,
  vaultOwner,
} from '#core/credentials/credentials'
import { type AuthorizationChallenge, fault, type MissingRequirements, type ToolError } from '#core/errors'
import type { ChallengeNeed, Store } from '#core/ports/store'
import type { VaultOwner } from '#core/ports/vault-store'
import type { ConsentEvents } from '#core/runs/notices'
import type { Hooks, MaybePromise } from '#core/runtime'
import type { Secret } from '#core/secret'
import type { AuthorizationRequirement, Tool } from '#core/tool'
import type { IdentifiedCall } from './look-up.ts'
import { type CallScope, unstarted } from './resolve.ts'

const CHALLENGE_LIFETIME_MS = 10 * 60_000
/** Each is looked for in every text of the call, so nobody may send thousands. */
const MOST_SENT = 100

/** What lending credentials to a call takes. */
export interface RequirementNeeds extends CredentialNeeds {
  readonly store: Store
  readonly hooks: Hooks
  readonly consents: ConsentEvents
  /** Unguessable, URL-safe. */
  newChallengeId(): string
  /** Base of the URLs we hand out, never taken from a request (OTC/T-16). */
  publicUrl(): string
}

/** A call, the tool it is for, and where it belongs. */
interface Requiring {
  readonly tool: Tool
  readonly call: IdentifiedCall
  readonly scope: CallScope
}

interface Wanted extends Requiring {
  /** Whose part of the vault it may use. */
  readonly owner: VaultOwner | undefined
}

interface Unmet {
  readonly need: AuthorizationRequirement
  readonly problem: CredentialProblem
}

/**
 * OTC-73, OTC-74, OTC-79. What the caller sends wins and is never stored; else the vault is asked; else a challenge is
 * stored, and not a call (rule 20). Gives the call with every credential its tool has declared.
 */
export function checkRequirements(
  needs: RequirementNeeds,
  requiring: Requiring,
): MaybePromise<IdentifiedCall> {
  const { tool, call } = requiring
  const { request } = call
  if (request.tokens.size + request.secrets.size > MOST_SENT)
    throw fault('request_invalid', `A call takes at most ${MOST_SENT} tokens and secrets.`)
  const needsNothing = tool.requirements === undefined && !isGiven(request.userId)
  return needsNothing ? call : meetRequirements(needs, requiring)
}

async function meetRequirements(needs: RequirementNeeds, requiring: Requiring): Promise<IdentifiedCall> {
  const { tool } = requiring
  const { requirements } = tool
  const { request, principal } = requiring.call
  const isUserProven = isGiven(request.userId) && (await proveUser(needs.hooks, principal, request.userId))
  const call = isUserProven ? { ...requiring.call, isUserProven } : requiring.call
  if (requirements === undefined) return call
  if (requirements.userId === true && isGiven(request.userId) && !isUserProven) throw unprovenUser(tool)
  const owner = vaultOwner(needs.store, principal, request.userId)
  const wanted: Wanted = { ...requiring, call, owner }
  const held = new LentCredentials(request)
  const unauthorized: Unmet[] = []
  for (const need of requirements.authorization ?? []) {
    const problem = await holdToken(needs, need, wanted, held)
    if (problem === undefined) await completeChallenges(needs, need, requiring, held.tokens.get(need.id)?.ref)
    else unauthorized.push({ need, problem })
  }
  const secrets: string[] = []
  for (const { id } of requirements.secrets ?? []) {
    if (!(await holdSecret(needs, id, wanted, held))) secrets.push(id)
  }
  const userId = needsUser(tool) && !isGiven(request.userId)
  if (unauthorized.length === 0 && secrets.length === 0 && !userId) return held.withCredentials(call)
  const authorization: AuthorizationChallenge[] = []
  const runs: string[] = []
  for (const unmet of unauthorized) {
    const { runId, ...challenge } = await openChallenge(needs, unmet, wanted)
    authorization.push(challenge)
    if (runId !== undefined) runs.push(runId)
  }
  throw requirementMissing(
    tool,
    { unauthorized, runId: runs[0] },
    {
      ...(authorization.length === 0 ? {} : { authorization }),
      ...(secrets.length === 0 ? {} : { secrets: secrets.map((id) => ({ id })) }),
      ...(userId ? { userId: true } : {}),
    },
  )
}

/** Why there is no token, or nothing: then it is held. A token that was sent and is no good is not replaced by another. */
async function holdToken(
  needs: RequirementNeeds,
  need: AuthorizationRequirement,
  wanted: Wanted,
  held: LentCredentials,
): Promise<CredentialProblem | undefined> {
  const sent = wanted.call.request.tokens.get(need.id)
  if (sent !== undefined && isGiven(sent.reveal())) {
    return (await isUsable(needs, need, wanted, sent)) ? undefined : 'credential_required'
  }
  const found = await findToken(needs, wanted.owner, { provider: need.id, scopes: scopesOf(need) })
  if (!found.ok) return found.problem
  if (!(await isUsable(needs, need, wanted, found.value))) return 'credential_required'
  held.tokens.set(need.id, found)
  return undefined
}

async function holdSecret(
  needs: RequirementNeeds,
  id: string,
  { call, owner }: Wanted,
  held: LentCredentials,
): Promise<boolean> {
  if (isGiven(call.request.secrets.get(id)?.reveal())) return true
  const found = await findSecret(needs, owner, id)
  if (found.ok) held.secrets.set(id, found)
  return found.ok
}

/** OTC/T-17: not known to be bad. */
async function isUsable(
  { hooks }: RequirementNeeds,
  need: AuthorizationRequirement,
  { tool, call }: Wanted,
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

function scopesOf(need: AuthorizationRequirement): readonly string[] {
  return need.oauth2?.scopes ?? []
}

/** One authorization of one caller; a user id is kept as a digest only. */
function needOf(
  needs: RequirementNeeds,
  need: AuthorizationRequirement,
  call: IdentifiedCall,
): ChallengeNeed {
  return {
    tenant: call.tenant,
    principal: call.principal.id,
    user: userDigest(needs.store, call.request.userId),
    provider: need.id,
    scopes: [...scopesOf(need)].sort(),
  }
}

/**
 * Clients that poll a challenge learn that the token has arrived by another way. Of a tool that needs a user also who was
 * asked before the user was known; of any other that is the principal's own question, and stays open (rule 24).
 */
async function completeChallenges(
  needs: RequirementNeeds,
  need: AuthorizationRequirement,
  { tool, call }: Requiring,
  ref: string | undefined,
): Promise<void> {
  const met = needOf(needs, need, call)
  const atMs = needs.clock.nowMs()
  const credential = ref === undefined ? {} : { credential: { ref, scopes: met.scopes } }
  const isUserLate = met.user !== '' && needsUser(tool)
  for (const each of isUserLate ? [met, { ...met, user: '' }] : [met]) {
    await needs.consents.resolve(each, { as: 'completed', ...credential, atMs })
    await needs.store.endChallenge(each, 'completed', atMs)
  }
}

async function openChallenge(
  needs: RequirementNeeds,
  { need, problem }: Unmet,
  wanted: Wanted,
): Promise<AuthorizationChallenge & { readonly runId: string | undefined }> {
  const atMs = needs.clock.nowMs()
  // What the principal itself consents to would be of no use to a tool that needs a user (rule 24).
  const lacksUser = needsUser(wanted.tool) && !isGiven(wanted.call.request.userId)
  const canAsk = wanted.owner !== undefined && !lacksUser && needs.broker.canAsk(need.id, scopesOf(need))
  const challenge = await needs.store.openChallenge({
    id: needs.newChallengeId(),
    ...needOf(needs, need, wanted.call),
    tool: wanted.tool.id,
    atMs,
    expiresAtMs: atMs + CHALLENGE_LIFETIME_MS,
    ...(canAsk ? { consent: true } : {}),
  })
  const { id } = challenge
  const url = `${needs.publicUrl()}/challenges/${id}`
  const hasExpired = problem === 'connector_auth_expired'
  const isAsked = challenge.consent === true
  const runId = isAsked
    ? await needs.consents.ask(unstarted(wanted.call, wanted.tool, wanted.scope), {
        challenge,
        url,
        hasExpired,
      })
    : undefined
  return { id, url, checkUrl: `${url}/status`, provider: need.id, scopes: scopesOf(need), runId }
}

function requirementMissing(
  tool: Tool,
  { unauthorized, runId }: { readonly unauthorized: readonly Unmet[]; readonly runId: string | undefined },
  missing: MissingRequirements,
): ToolError {
  const wants = [
    ...(unauthorized.length === 0
      ? []
      : [`authorization from ${unauthorized.map(({ need }) => need.id).join(', ')}`]),
    ...(missing.secrets === undefined
      ? []
      : [`the secret ${missing.secrets.map(({ id }) => id).join(', ')}`]),
    ...(missing.userId === true ? ['a user id'] : []),
  ]
  const providers = unauthorized.map(
    ({ need, problem }) => `${need.id} (scopes: ${scopesOf(need).join(' ') || 'none'}; ${problem})`,
  )
  return fault('requirement_missing', `${tool.name} needs ${wants.join(' and ')}. Nothing was run.`, {
    missing,
    ...(runId === undefined ? {} : { runId }),
    ...(providers.length === 0
      ? {}
      : { developerMessage: `Send a token in context.authorization for: ${providers.join(', ')}.` }),
  })
}

interface Held {
  readonly ref: string
  readonly value: Secret
}

/** What the vault lends to one call. It lives in this call's memory alone (OWP-74). */
class LentCredentials {
  readonly tokens = new Map<string, Held>()
  readonly secrets = new Map<string, Held>()
  readonly #request: CallRequest

  constructor(request: CallRequest) {
    this.#request = request
  }

  /** The same call; its request is as if the caller had sent these, so they are handed out and cut out of texts alike. */
  withCredentials(call: IdentifiedCall): IdentifiedCall {
    if (this.tokens.size === 0 && this.secrets.size === 0) return call
    const request = {
      ...this.#request,
      tokens: joined(this.#request.tokens, this.tokens),
      secrets: joined(this.#request.secrets, this.secrets),
    }
    const vaultRefs = new Map([...refsOf('authorization', this.tokens), ...refsOf('secrets', this.secrets)])
    return { ...call, request, vaultRefs }
  }
}

function joined(
  sent: ReadonlyMap<string, Secret>,
  lent: ReadonlyMap<string, Held>,
): ReadonlyMap<string, Secret> {
  return new Map([...sent, ...[...lent].map(([id, { value }]) => [id, value] as const)])
}

function refsOf(kind: string, lent: ReadonlyMap<string, Held>): readonly (readonly [string, string])[] {
  return [...lent].map(([id, { ref }]) => [`${kind}:${id}`, ref] as const)
}
