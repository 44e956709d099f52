import { type Challenge, fault, type MissingRequirements, type ToolError } from '#core/errors'
import type { AuthorizationRequirement, Tool } from '#core/tool'
import type { CallServices } from './call-services.ts'
import type { IdentifiedCall } from './identified-call.ts'

const CHALLENGE_LIFETIME_MS = 10 * 60_000

/** OTC-73, OTC-74, OTC-79. A missing requirement stores a challenge, not a call (rule 20). */
export async function checkRequirements(
  services: CallServices,
  tool: Tool,
  call: IdentifiedCall,
): Promise<void> {
  const { requirements } = tool
  if (requirements === undefined) return
  const { request } = call
  const unauthorized = (requirements.authorization ?? []).filter(
    ({ id }) => !isGiven(request.tokens.get(id)?.reveal()),
  )
  const secrets = (requirements.secrets ?? []).filter(({ id }) => !isGiven(request.secrets.get(id)?.reveal()))
  const userId = requirements.userId === true && !isGiven(request.userId)
  if (unauthorized.length === 0 && secrets.length === 0 && !userId) {
    await completeChallenges(services, requirements.authorization ?? [], call)
    return
  }
  const authorization: Challenge[] = []
  for (const need of unauthorized) authorization.push(await openChallenge(services, need, { tool, call }))
  throw requirementMissing(tool, unauthorized, {
    ...(authorization.length === 0 ? {} : { authorization }),
    ...(secrets.length === 0 ? {} : { secrets: secrets.map(({ id }) => ({ id })) }),
    ...(userId ? { userId: true } : {}),
  })
}

function isGiven(text: string | undefined): boolean {
  return text !== undefined && text !== ''
}

/** Where one authorization of one caller belongs; a user id is kept as a digest only. */
function needOf(services: CallServices, provider: string, { tenant, principal, request }: IdentifiedCall) {
  const user = request.userId === undefined ? '' : services.store.digest(`user:${request.userId}`)
  return { tenant, principal: principal.id, user, provider }
}

/** Whoever polls a challenge learns that the token has arrived by another way. */
async function completeChallenges(
  services: CallServices,
  needs: readonly AuthorizationRequirement[],
  call: IdentifiedCall,
): Promise<void> {
  for (const { id: provider } of needs) {
    const open = services.challenges.take(needOf(services, provider, call))
    if (open !== undefined) await services.store.completeChallenge(open, services.clock.nowMs())
  }
}

async function openChallenge(
  services: CallServices,
  need: AuthorizationRequirement,
  wanted: { readonly tool: Tool; readonly call: IdentifiedCall },
): Promise<Challenge> {
  const atMs = services.clock.nowMs()
  const caller = needOf(services, need.id, wanted.call)
  const { id } = await services.store.openChallenge({
    id: services.newChallengeId(),
    ...caller,
    scopes: [...(need.oauth2?.scopes ?? [])].sort(),
    tool: wanted.tool.id,
    atMs,
    expiresAtMs: atMs + CHALLENGE_LIFETIME_MS,
  })
  services.challenges.note(caller, id)
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
