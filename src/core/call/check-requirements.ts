import { type Challenge, fault, type MissingRequirements, type ToolError } from '#core/errors'
import type { ChallengeNeed } from '#core/ports/store'
import type { AuthorizationRequirement, Tool } from '#core/tool'
import type { CallServices } from './call-services.ts'
import { checkUser } from './check-user.ts'
import type { IdentifiedCall } from './identified-call.ts'

const CHALLENGE_LIFETIME_MS = 10 * 60_000

/** OTC-73, OTC-74, OTC-79. A missing requirement stores a challenge, not a call (rule 20). */
export async function checkRequirements(
  services: CallServices,
  tool: Tool,
  call: IdentifiedCall,
): Promise<void> {
  const { requirements } = tool
  const { request } = call
  await checkUser(services.hooks, call.principal, request.userId)
  if (requirements === undefined) return
  const needed = requirements.authorization ?? []
  const unauthorized: AuthorizationRequirement[] = []
  for (const need of needed) if (!(await hasToken(services, need, { tool, call }))) unauthorized.push(need)
  const secrets = (requirements.secrets ?? []).filter(({ id }) => !isGiven(request.secrets.get(id)?.reveal()))
  const userId = requirements.userId === true && !isGiven(request.userId)
  for (const need of needed) {
    if (!unauthorized.includes(need)) await completeChallenges(services, need, call)
  }
  if (unauthorized.length === 0 && secrets.length === 0 && !userId) return
  const authorization: Challenge[] = []
  for (const need of unauthorized) authorization.push(await openChallenge(services, need, { tool, call }))
  throw requirementMissing(tool, unauthorized, {
    ...(authorization.length === 0 ? {} : { authorization }),
    ...(secrets.length === 0 ? {} : { secrets: secrets.map(({ id }) => ({ id })) }),
    ...(userId ? { userId: true } : {}),
  })
}

/** T-17: present, not empty, and not known to be bad. */
async function hasToken(
  services: CallServices,
  need: AuthorizationRequirement,
  wanted: { readonly tool: Tool; readonly call: IdentifiedCall },
): Promise<boolean> {
  const { principal, request } = wanted.call
  const token = request.tokens.get(need.id)
  if (token === undefined || !isGiven(token.reveal())) return false
  const { verifyToken } = services.hooks
  if (verifyToken === undefined) return true
  const { userId } = request
  return await verifyToken({ provider: need.id, token, tool: wanted.tool.id, principal, userId })
}

function isGiven(text: string | undefined): boolean {
  return text !== undefined && text !== ''
}

/** One authorization of one caller; a user id is kept as a digest only. */
function needOf(services: CallServices, need: AuthorizationRequirement, call: IdentifiedCall): ChallengeNeed {
  const { userId } = call.request
  return {
    tenant: call.tenant,
    principal: call.principal.id,
    user: userId === undefined ? '' : services.store.digest(`user:${userId}`),
    provider: need.id,
    scopes: [...(need.oauth2?.scopes ?? [])].sort(),
  }
}

/** Whoever polls a challenge learns that the token has arrived by another way, also when it was asked before the user was known. */
async function completeChallenges(
  services: CallServices,
  need: AuthorizationRequirement,
  call: IdentifiedCall,
): Promise<void> {
  const met = needOf(services, need, call)
  const atMs = services.clock.nowMs()
  await services.store.completeChallenge(met, atMs)
  if (met.user !== '') await services.store.completeChallenge({ ...met, user: '' }, atMs)
}

async function openChallenge(
  services: CallServices,
  need: AuthorizationRequirement,
  wanted: { readonly tool: Tool; readonly call: IdentifiedCall },
): Promise<Challenge> {
  const atMs = services.clock.nowMs()
  const { id } = await services.store.openChallenge({
    id: services.newChallengeId(),
    ...needOf(services, need, wanted.call),
    tool: wanted.tool.id,
    atMs,
    expiresAtMs: atMs + CHALLENGE_LIFETIME_MS,
  })
  const url = `${services.publicUrl()}/challenges/${id}`
  return { id, url, checkUrl: `${url}/status` }
}

function requirementMissing(
  tool: Tool,
  unauthorized: readonly AuthorizationRequirement[],
  missing: MissingRequirements,
): ToolError {
  const wants = [
    ...(unauthorized.length === 0
      ? []
      : [`authorization from ${unauthorized.map(({ id }) => id).join(', ')}`]),
    ...(missing.secrets === undefined
      ? []
      : [`the secret ${missing.secrets.map(({ id }) => id).join(', ')}`]),
    ...(missing.userId === true ? ['a user id'] : []),
  ]
  const providers = unauthorized.map(
    ({ id, oauth2 }) => `${id} (scopes: ${(oauth2?.scopes ?? []).join(' ') || 'none'})`,
  )
  return fault('requirement_missing', `${tool.name} needs ${wants.join(' and ')}. Nothing was run.`, {
    missing,
    ...(providers.length === 0
      ? {}
      : { developerMessage: `Send a token in context.authorization for: ${providers.join(', ')}.` }),
  })
}
